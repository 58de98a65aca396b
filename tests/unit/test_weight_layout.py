"""Weights laid out for use are the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_generators import tiny_folder
from tiny_models import fill
from torch import nn

import antiphon
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.errors import UserError
from antiphon.models import weight_layout
from antiphon.models.build import build_model
from antiphon.models.weight_layout import HalfLinear, half_is_faster, lay_out_weights, pretranspose_weights
from antiphon.sequence import Sequence

RECURRENT: dict[str, Any] = {
    "encoder": {"kind": "lstm", "layers": 2, "size": 8},
    "decoder": {"embedding": 8, "size": 8},
}
BLOCKS: dict[str, Any] = {"kind": "transformer", "layers": 1, "size": 8, "heads": 2, "feedforward": 8}


@pytest.mark.parametrize("tie", ["none", "output"])
@pytest.mark.parametrize("parts", [RECURRENT, {"encoder": BLOCKS, "decoder": BLOCKS}], ids=["lstm", "transformer"])
def test_another_order_in_memory_and_the_same_answer(parts: dict[str, Any], tie: str) -> None:
    model = build_model(EncoderDecoderConfig.model_validate({**parts, "tie": tie}), source_tokens=9, target_tokens=9)
    fill(model.eval())
    source, inputs = Sequence.of_ids([[5, 6, 7], [8]], 0), torch.tensor([[1, 5, 6], [1, 7, 8]])
    with torch.no_grad():
        before = model(source, inputs).logits
        after = pretranspose_weights(model)(source, inputs).logits
    assert torch.allclose(before, after, atol=1e-6)
    assert model.decoder.output.weight.stride() == (1, 9)
    assert model.decoder.embedding.table.weight.is_contiguous()


def dense() -> nn.Linear:
    return nn.Linear(64, 48).requires_grad_(False)


@torch.inference_mode()
def test_a_row_is_the_same_alone_and_in_any_batch() -> None:
    if not half_is_faster():  # such as an ARM processor: no such products exist
        return
    plain, rows = dense(), torch.randn(65, 64)
    half = lay_out_weights(nn.Sequential(plain), half=True)
    whole = half(rows)
    assert all(torch.allclose(half(rows[:size]), whole[:size], atol=1e-6) for size in range(1, 66))
    assert torch.allclose(half(rows[0]), whole[0], atol=1e-6)  # a single vector
    assert not torch.equal(whole, plain(rows))
    rounded = torch.nn.functional.linear(rows, plain.weight.half().float(), plain.bias)
    assert torch.allclose(whole, rounded, atol=1e-5)  # only the weights are rounded


def test_gradients_and_other_types_take_the_plain_weights() -> None:
    if not half_is_faster():
        return
    plain, rows = dense(), torch.randn(3, 64)
    half = HalfLinear(plain)
    assert torch.equal(half(rows), plain(rows))  # gradients are wanted here
    with torch.no_grad():
        assert torch.equal(half.double()(rows.double()), plain.double()(rows.double()))


@pytest.mark.parametrize("weight", [7e4, float("nan"), float("-inf")])
def test_a_weight_that_half_precision_cannot_hold_keeps_its_layer_in_float32(weight: float) -> None:
    plain, rows = dense(), torch.randn(3, 64)
    plain.weight[5, 7] = weight
    with torch.no_grad():
        assert torch.allclose(HalfLinear(plain)(rows), plain(rows), atol=1e-5, equal_nan=True)


def test_a_machine_that_is_not_faster_keeps_float32_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder("transformer", tmp_path / "run")
    monkeypatch.setattr(weight_layout, "PROBE_ROUNDS", 0)  # neither way has a best time, so none is faster
    half_is_faster.cache_clear()
    try:
        with pytest.warns(UserWarning, match="float16-weights on this processor; the weights stay float32"):
            assert antiphon.load(folder, precision="float16-weights").precision == "float32"
        assert antiphon.load(folder).precision == "float32"
    finally:
        half_is_faster.cache_clear()


@pytest.mark.parametrize("kind", ["transformer", "bahdanau", "transformer-lm", "transformer-concatenated"])
def test_the_precision_changes_scores_by_its_rounding_alone(kind: str, tmp_path: Path) -> None:
    folder = tiny_folder(kind, tmp_path / "run")
    plain, half = (antiphon.load(folder, precision=precision) for precision in ("float32", "float16-weights"))
    one, other = plain.generate("a b c", beam=3), half.generate("a b c", beam=3)
    assert (plain.precision, half.precision) == ("float32", "float16-weights" if half_is_faster() else "float32")
    assert one.token_ids == other.token_ids
    assert one.score == pytest.approx(other.score, abs=5e-3)
    assert (one.score == other.score) == (half.precision == "float32")
    assert antiphon.load(folder).precision == half.precision


def test_a_precision_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="precision: 'half'; choose float32, float16-weights"):
        antiphon.load(tiny_folder("transformer", tmp_path / "run"), precision="half")  # type: ignore[arg-type]
