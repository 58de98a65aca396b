"""What holds for every model, asked of every recurrent encoder with every context with every decoder."""

from __future__ import annotations

from every_model import test_in_search, test_in_training, test_in_use
from model_cases import CASES as ALL
from model_cases import CELLS

__all__ = ["test_in_search", "test_in_training", "test_in_use"]

CASES = {name: config for name, config in ALL.items() if name.split("_")[0] in CELLS}
