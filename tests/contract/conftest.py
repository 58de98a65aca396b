"""Every model of the tables, built once for all tests of a file that look at it."""

from __future__ import annotations

from typing import Any

import pytest
from model_cases import CASES
from tiny_models import INPUTS, ROWS, tiny_model

from antiphon.config.models import ModelConfig
from antiphon.decoders.state import Step
from antiphon.model import SequenceModel
from antiphon.sources.batches import source_batch


@pytest.fixture(scope="module", params=list(CASES.values()), ids=list(CASES))
def config(request: pytest.FixtureRequest) -> ModelConfig:
    config: ModelConfig = request.param
    return config


@pytest.fixture(scope="module")
def model(config: ModelConfig) -> SequenceModel:
    """In use, not in training."""
    return tiny_model(config).requires_grad_(False)


@pytest.fixture(scope="module")
def whole(model: SequenceModel) -> Step[Any]:
    """Teacher forcing: all rows together, all steps at once."""
    return model(source_batch(ROWS), INPUTS)
