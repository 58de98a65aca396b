"""What a lane of the server does with a batch: computes it as one, and touches no disk for texts."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_generators import tiny_generator

from antiphon.inference.inputs import EncodedInput
from antiphon.search.hypothesis import Hypothesis
from antiphon.serve.operations import Operations

WORDS = [" ".join("abcdefgh"[: 1 + row % 8]) for row in range(24)]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_batch_is_computed_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generator, sizes = tiny_generator("transformer"), []
    decode = generator.engine.decode

    def counted(batch: list[EncodedInput], *rest: Any) -> list[list[Hypothesis]]:  # noqa: ANN401 (prefixes, options, keys)
        sizes.append(len(batch))
        return decode(batch, *rest)

    monkeypatch.setattr(generator.engine, "decode", counted)
    plan = Operations(generator, 1_000_000, 1000).plan("generate", {"inputs": WORDS}, lambda _name, _data: None)
    found = plan.answer(list(plan.parts[0].work([part.payload for part in plan.parts])))
    assert sizes == [len(WORDS)]  # `generate` cuts it in two, one for each thread
    sizes.clear()
    assert [one["text"] for one in found["outputs"]] == [one.text for one in generator.generate(WORDS, weights=False)]
    assert len(sizes) == 2


def test_texts_need_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    plan = Operations(tiny_generator("bahdanau"), 1_000_000, 1000).plan(
        "generate", {"inputs": ["a b", "c"]}, lambda _name, _data: None
    )
    assert [part.length for part in plan.parts] == [3, 2]
