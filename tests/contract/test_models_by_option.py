"""Properties of every model, for all options of every part."""

from __future__ import annotations

from every_model import test_in_search, test_in_training, test_in_use
from model_cases import OPTIONS as CASES

__all__ = ["CASES", "test_in_search", "test_in_training", "test_in_use"]
