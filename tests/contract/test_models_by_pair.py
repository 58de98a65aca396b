"""Properties of every model, for all pairs of encoders, contexts and decoders."""

from __future__ import annotations

from every_model import test_in_search, test_in_training, test_in_use
from model_cases import CROSSED as CASES

__all__ = ["CASES", "test_in_search", "test_in_training", "test_in_use"]
