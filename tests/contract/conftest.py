"""Every model of a file's CASES, built once for all tests that look at it."""

from __future__ import annotations

import pytest
from tiny_models import tiny_model

from antiphon.config.networks import ModelConfig
from antiphon.models.model import SequenceModel

pytest.register_assert_rewrite("every_model")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "config" in metafunc.fixturenames:
        cases: dict[str, ModelConfig] = metafunc.module.CASES
        metafunc.parametrize("config", list(cases.values()), ids=list(cases), scope="module")


@pytest.fixture(scope="module")
def model(config: ModelConfig) -> SequenceModel:
    """In use, not in training."""
    return tiny_model(config).requires_grad_(False)
