"""The recipe `reverse` learns what it says, looks where it should, and answers the same in any company."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import antiphon
from antiphon.api import read_examples


def test_reverse_gets_there(reverse_run: Path) -> None:
    result = antiphon.evaluate(antiphon.load(reverse_run), "@reverse/test", metrics=["exact_match", "token_accuracy"])
    assert result.examples == 1000
    assert result.values["exact_match"].value >= 98.0
    assert result.values["exact_match"].low <= result.values["exact_match"].value <= result.values["exact_match"].high


def test_its_attention_is_anti_diagonal(reverse_run: Path) -> None:
    """Step i of n reads around letter n - i: the centre of the weights walks from the last letter to the first."""
    answer = antiphon.load(reverse_run).generate("a n t i p h o n s", beam=1)
    assert answer.text == "s n o h p i t n a"
    assert answer.weights is not None
    letters = answer.weights[:9]
    assert np.allclose(letters.sum(axis=1), 1.0, atol=1e-5)
    centres = letters @ np.arange(letters.shape[1])
    assert np.abs(centres - np.arange(8, -1, -1)).max() < 1.0
    assert (np.diff(centres) < 0).all()


@pytest.mark.parametrize("beam", [1, 5])
def test_the_same_answer_in_any_company(reverse_run: Path, beam: int) -> None:
    generator = antiphon.load(reverse_run)
    examples, _ = read_examples(generator, "@reverse/test")
    texts = [example.source for example in examples[: 300 if beam == 1 else 150]]
    alone = generator.generate(texts, beam=beam, batch_size=1, weights=False)
    order = list(range(len(texts)))
    random.Random(1).shuffle(order)
    shuffled = generator.generate([texts[row] for row in order], beam=beam, batch_size=64, weights=False)
    companies = [generator.generate(texts, beam=beam, batch_size=size, weights=False) for size in (7, 256)]
    companies.append([shuffled[order.index(row)] for row in range(len(texts))])
    for company in companies:
        assert [answer.text for answer in company] == [answer.text for answer in alone]
        assert np.allclose([answer.score for answer in company], [answer.score for answer in alone], atol=1e-4)


def test_a_score_is_the_score_of_the_text(reverse_run: Path) -> None:
    generator = antiphon.load(reverse_run)
    answer = generator.generate("q u e s t i o n", beam=4, n_best=3, length_penalty=0.0)
    assert len(answer.alternatives) == 3
    for alternative in answer.alternatives:
        (scored,) = generator.score([("q u e s t i o n", alternative.text)])
        assert scored.log_prob == pytest.approx(alternative.score, abs=1e-4)
        assert scored.log_probs == pytest.approx(alternative.log_probs, abs=1e-4)
