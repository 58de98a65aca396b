"""Several batches at once: the same answers, in order; a fault or a stop in one ends all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tiny_generators import MODELS, tiny_folder, tiny_generator

import antiphon
from antiphon.inference.answers import map_in_threads
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel

WORDS = [" ".join("abcdefgh"[(3 * row + place) % 8] for place in range(1 + row % 7)) for row in range(40)]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_jobs_overlap_come_back_in_order_and_leave_the_threads_as_they_were() -> None:
    both = threading.Barrier(2, timeout=20)  # one job alone would wait for ever

    def job(number: int) -> tuple[int, int]:
        both.wait()
        return number, torch.get_num_threads()

    assert list(map_in_threads(job, list(range(6)), 2)) == [(number, 1) for number in range(6)]
    assert torch.get_num_threads() == 2


def test_one_job_keeps_all_threads() -> None:
    assert list(map_in_threads(lambda _: torch.get_num_threads(), [0], 2)) == [2]


def test_what_a_job_raises_is_raised_and_no_later_job_begins() -> None:
    begun: list[int] = []

    def job(number: int) -> int:
        begun.append(number)
        if number == 1:
            raise KeyError("one")
        return number

    with pytest.raises(KeyError, match="one"):
        list(map_in_threads(job, list(range(100)), 2))
    assert len(begun) < 100
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("kind", [kind for kind in MODELS if not kind.endswith("-lm")])
@pytest.mark.parametrize("beam", [1, 3])
def test_the_answers_are_those_of_one_after_the_other(kind: str, beam: int) -> None:
    generator = tiny_generator(kind)
    together = generator.generate(WORDS, beam=beam, batch_size=6)
    torch.set_num_threads(1)
    alone = generator.generate(WORDS, beam=beam, batch_size=6)
    assert [answer.text for answer in together] == [answer.text for answer in alone]
    assert [answer.score for answer in together] == pytest.approx([answer.score for answer in alone], abs=1e-5)


def test_a_stop_in_one_batch_leaves_at_once() -> None:
    class StopError(Exception):
        pass

    calls: list[int] = []

    def check() -> None:
        calls.append(1)
        if len(calls) > 5:
            raise StopError

    made = tiny_generator("transformer")
    loaded = LoadedModel(made.config, made.model, made.source_tokenizer, made.target_tokenizer)
    with pytest.raises(StopError):
        Generator(loaded, check).generate(WORDS, batch_size=2)
    assert len(calls) < 70  # of 140; on a busy machine the others take some steps more


@pytest.mark.parametrize("kind", MODELS)
def test_weights_in_another_order_in_memory_say_the_same(kind: str, tmp_path: Path) -> None:
    """`load` lays dense layers out for use; what it was made from does not."""
    plain = tiny_generator(kind)
    laid = antiphon.load(tiny_folder(kind, tmp_path / "run"), precision="float32")
    turned = [tuple(weight.stride()) for weight in laid.model.parameters() if weight.dim() == 2]
    assert any(first == 1 for first, _ in turned)
    texts = ["K L", "M", "N O"] if kind.endswith("-lm") else WORDS[:9]
    left, right = plain.generate(texts, beam=2), laid.generate(texts, beam=2)
    assert [answer.text for answer in left] == [answer.text for answer in right]
    assert [answer.score for answer in left] == pytest.approx([answer.score for answer in right], abs=1e-5)
