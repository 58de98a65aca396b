"""What holds for every model, asked of all others: convolutions, Transformers, one network alone, and all options."""

from __future__ import annotations

import test_crossed_models
from every_model import test_in_search, test_in_training, test_in_use
from model_cases import CASES as ALL

__all__ = ["test_in_search", "test_in_training", "test_in_use"]

CASES = {name: config for name, config in ALL.items() if name not in test_crossed_models.CASES}
