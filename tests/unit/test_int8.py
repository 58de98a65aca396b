"""Dense layers with 8 bits: near the others, for every kind of model, and refused where it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_generators import MODELS, tiny_folder, tiny_generator
from torch import nn

import antiphon
from antiphon.errors import UserError
from antiphon.inference.int8 import Int8Linear, with_int8


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_near_what_it_was(bias: bool) -> None:
    torch.manual_seed(1)
    dense, values = nn.Linear(40, 30, bias=bias), torch.randn(5, 3, 40)
    with torch.no_grad():
        dense.weight[3] *= 100.0  # a row has its own scale
        dense.weight[4] = 0.0
        found, expected = Int8Linear(dense)(values), dense(values)
    assert found.shape == expected.shape
    error = (found - expected).abs().amax(dim=(0, 1)) / dense.weight.detach().norm(dim=1).clamp(min=1.0)
    assert float(error.max()) < 0.1
    assert not torch.equal(found, expected)


@pytest.mark.parametrize("kind", MODELS)
def test_every_kind_of_model_can(kind: str) -> None:
    usual, small = tiny_generator(kind), tiny_generator(kind)
    with_int8(small.model)
    assert small.engine.name == "torch int8"
    assert not any(type(part) is nn.Linear for part in small.model.decoder.children())
    pairs = ["K L M"] if kind.endswith("-lm") else [("a b c", "K L M")]
    [expected], [found] = usual.score(pairs), small.score(pairs)
    assert found.log_probs == pytest.approx(expected.log_probs, abs=0.3)
    small.generate(["a b", "c d e"] if not kind.endswith("-lm") else ["K", "L"], weights=False)


def test_load_asks_for_it(tmp_path: Path) -> None:
    folder = tiny_folder("transformer", tmp_path / "model")
    assert antiphon.load(folder, int8=True).engine.name == "torch int8"
    assert antiphon.load([folder, folder], int8=True).generate("a b").text is not None
    export = antiphon.export_model(folder, "ctranslate2", tmp_path / "export", int8=True)
    with pytest.raises(UserError, match=r"int8: .*export is an export, whose weights are as they are"):
        antiphon.load(export, int8=True)
