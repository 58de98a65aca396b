"""Every model that can be built: a step that is worked out by its formulas is the step that the model takes."""
# T decoder inputs, S source steps, V vocabulary

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_cases import CASES
from tiny_models import INPUTS, ROWS, tiny_model

from antiphon.config.networks import ModelConfig
from antiphon.data.batches import source_batch
from antiphon.inference.explain_step import config_line, work_out
from antiphon.inference.step_explanation import StepPart

Parts = dict[str, np.ndarray]


def named(parts: list[StepPart]) -> Parts:
    assert len({part.name for part in parts}) == len(parts)
    return {part.name: part.values for part in parts}


def same(left: np.ndarray, right: np.ndarray) -> None:
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-10)


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max())
    return powers / powers.sum()


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum())


@pytest.mark.parametrize("case", list(CASES.values()), ids=list(CASES))
def test_the_parts_are_the_step(case: ModelConfig) -> None:
    model, row, inputs = tiny_model(case), ROWS[0], INPUTS[:1]
    source = source_batch([row])
    taken = model(source, inputs)
    for step in (0, 2):
        with torch.inference_mode():
            parts = named(work_out(model, source, inputs, step).parts)
        log_probs = torch.log_softmax(taken.logits[0, step], dim=-1).detach().numpy()
        same(parts["mixture"] if "mixture" in parts else log_softmax(parts["logits"]), log_probs)
        if "scores" in parts:
            check_attention(parts, None if taken.weights is None else taken.weights[0, step].detach().numpy())
        for kind in ("own", "cross"):
            if f"{kind}_scores" in parts:
                check_head(parts, kind, step)


def check_attention(parts: Parts, weights: np.ndarray | None) -> None:
    """Scores → softmax (or its largest) → Σ α h, by hand."""
    by_hand = softmax(parts["scores"])
    if "distribution" in parts:
        same(parts["distribution"], by_hand)
        by_hand = np.eye(len(by_hand))[by_hand.argmax()]
    same(parts["weights"], by_hand)
    same(parts["context"], (parts["weights"][:, None] * parts["states"]).sum(axis=0))
    assert weights is not None
    same(parts["weights"], weights)


def check_head(parts: Parts, kind: str, step: int) -> None:
    query, keys, values = (parts[f"{kind}_{name}"] for name in ("query", "keys", "values"))
    scores = np.array([query @ key / len(query) ** 0.5 for key in keys])
    if kind == "own":  # the later inputs are masked
        scores[len(keys) - INPUTS.size(1) + step + 1 :] = -np.inf
    same(parts[f"{kind}_scores"], scores)
    same(parts[f"{kind}_matrix"][step], scores)
    same(parts[f"{kind}_weights"], softmax(scores))
    same(parts[f"{kind}_sum"], softmax(scores) @ values)


def test_the_configuration_makes_the_same_model() -> None:
    assert config_line(CASES["gru_additive-soft_luong-fed-lstm_copying"]) == (
        "model: {context: {kind: attention, score: additive, alignment: soft}, "
        "decoder: {kind: luong, cell: lstm, input_feeding: true, layers: 1}, copy: true}"
    )
