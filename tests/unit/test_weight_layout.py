"""Weights laid out for use are the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import fill

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.models.build import build_model
from antiphon.models.weight_layout import pretranspose_weights
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
