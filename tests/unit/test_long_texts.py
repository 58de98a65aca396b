"""Texts that are too long are read in parts that end where sentences do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from untrained_models import untrained_generator

from antiphon.inference import engine as writer
from antiphon.inference.generation import Alternative, Generation, join_parts
from antiphon.inference.generator import Generator
from antiphon.inference.inputs import split_sentences
from antiphon.search.sampling import random_stream

LONG = ["a b c d e .", "f e d !", "c b a ?", "a a b b c c d d"]


def words(text: str) -> int:
    return len(text.split())


@settings(max_examples=60)
@given(st.text(alphabet="ab .!?…。\n\t", max_size=60), st.integers(1, 12), st.sampled_from([words, len]))
def test_nothing_is_lost_and_no_part_is_longer_than_it_must_be(
    text: str, longest: int, length: Callable[[str], int]
) -> None:
    parts = split_sentences(text, longest, length)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert length(text) > longest or parts == [text]
    if len(parts) > 1:
        assert all(part.strip() for part in parts)
        assert all(length(part) <= longest or len(split_sentences(part, 0, length)) == 1 for part in parts)
        assert all(length(f"{one} {other}") > longest or length(one) > longest for one, other in pairwise(parts))


@pytest.mark.parametrize(
    ("text", "longest", "parts"),
    [
        ("a b. c d! e", 5, ["a b. c d! e"]),
        ("a b. c d! e", 4, ["a b. c d!", "e"]),
        ("a b. c d! e", 3, ["a b.", "c d! e"]),
        ("a b c d e. f", 3, ["a b c d e.", "f"]),
        ("a b c d e", 3, ["a b c d e"]),
        ("1.5 a.b c", 2, ["1.5 a.b c"]),
        ("a b.  \n c", 2, ["a b.", "c"]),
        ("   ", 2, ["   "]),
    ],
)
def test_parts_on_paper(text: str, longest: int, parts: list[str]) -> None:
    assert split_sentences(text, longest, words) == parts


def test_chinese_sentences_have_no_space_between_them_and_none_at_the_end() -> None:
    assert split_sentences("我们来。你去！", 4, len) == ["我们来。", "你去！"]
    assert split_sentences("我们来。你去！ 他来。", 7, len) == ["我们来。你去！", "他来。"]


@pytest.fixture(scope="module")
def generator() -> Generator:
    return untrained_generator(longest=6)


def test_parts_are_answered_one_by_one_and_joined_in_order(generator: Generator) -> None:
    """Between others, which are short; the last sentence is too long even alone."""
    whole, short = generator.generate([" ".join(LONG), "f"], length_penalty=0.5)
    parts = generator.generate(["a b c d e .", "f e d !", "c b a ?", "a a b b c c d d"], length_penalty=0.5)
    assert whole.text == " ".join(part.text for part in parts if part.text)
    assert whole.tokens == [token for part in parts for token in part.tokens]
    assert whole.log_probs == pytest.approx([value for part in parts for value in part.log_probs], abs=1e-4)
    assert whole.score == pytest.approx(sum(whole.log_probs) / len(whole.tokens) ** 0.5, abs=1e-4)
    assert whole.source_tokens == [token for part in parts for token in part.source_tokens]
    assert whole.weights is None
    assert whole.flags[0] == "split: too long to be read at once; answered in 4 parts"
    assert "truncated: the source has 8 tokens, only the first 6 were read" in whole.flags
    assert len(set(whole.flags)) == len(whole.flags)
    assert short.text == generator.generate("f", length_penalty=0.5).text
    assert not any(flag.startswith("split") for flag in short.flags)


def test_short_sentences_share_a_part(generator: Generator) -> None:
    both = generator.generate("a b . c d . e f .")
    assert both.flags[0] == "split: too long to be read at once; answered in 2 parts"
    assert both.text == " ".join(generator.generate(text).text for text in ("a b . c d .", "e f ."))


def test_a_prefix_is_that_of_the_first_part(generator: Generator) -> None:
    whole, other = generator.generate([" ".join(LONG[:2]), " ".join(LONG[1:3])], prefix=["N N", ""])
    assert whole.text == " ".join([generator.generate(LONG[0], prefix="N N").text, generator.generate(LONG[1]).text])
    assert not other.text.startswith("N N")


def test_the_n_best_join_one_by_one(generator: Generator) -> None:
    whole = generator.generate(" ".join(LONG[:2]), n_best=3)
    one, two = generator.generate(LONG[:2], n_best=3)
    pairs = list(zip(one.alternatives, two.alternatives, strict=True))
    assert [other.text for other in whole.alternatives] == [f"{a.text} {b.text}".strip() for a, b in pairs]
    for other, (a, b) in zip(whole.alternatives, pairs, strict=True):
        assert other.tokens == [*a.tokens, *b.tokens]
        assert other.score == pytest.approx(sum(other.log_probs) / len(other.tokens), abs=1e-4)
    assert (whole.text, whole.score) == (whole.alternatives[0].text, whole.alternatives[0].score)


def test_what_is_drawn_differs_from_part_to_part(generator: Generator) -> None:
    """Each part has random numbers of its own, those of the whole text."""
    same = "a b c d ."
    drawn = generator.generate(" ".join([same] * 6), sample=True, temperature=2.0)
    alone = generator.generate(same, sample=True, temperature=2.0)
    assert drawn.tokens != alone.tokens * 6
    parts = " ".join(drawn.tokens).split("</s>")[:6]
    assert len(set(parts)) > 1, "equal parts, different samples"
    assert drawn.tokens == generator.generate(" ".join([same] * 6), sample=True, temperature=2.0, batch_size=1).tokens


def test_no_two_answers_are_drawn_with_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy reads [1, 2] and [1, 2, 0] as the same seed."""
    seen: list[float] = []
    monkeypatch.setattr(
        writer, "random_stream", lambda *which: seen.append(random_stream(*which)()) or random_stream(*which)
    )
    untrained_generator(longest=6).generate([" ".join([LONG[0]] * 3)] * 2, sample=True, n_best=3)
    assert len(set(seen)) == len(seen) == 18


def test_a_part_without_a_token_takes_no_alternatives_away() -> None:
    """Its tokenizer may read nothing in a text that is not empty."""
    spoken = Generation("K", ["K"], -1.0, [-1.0], ["a"], alternatives=[Alternative("K", ["K"], -1.0, [-1.0])])
    silent = Generation("", [], 0.0, [], [], flags=["empty source"])
    whole = join_parts([spoken, silent, spoken], 0.0)
    assert [other.text for other in whole.alternatives] == [whole.text] == ["K K"]
    assert "empty source" in whole.flags


def test_looks_are_at_one_text(generator: Generator) -> None:
    whole = generator.generate(" ".join(LONG), heads=True)
    assert whole.heads is not None
    assert whole.flags[0] == "truncated: the source has 22 tokens, only the first 6 were read"


def test_100_000_characters_of_sentences() -> None:
    made = untrained_generator(longest=500, characters=True)
    text = "abc def. " * (100_000 // 9)
    answer = made.generate(text, max_length=2, beam=1)
    assert answer.flags[0] == "split: too long to be read at once; answered in 203 parts"
    assert len([token for token in answer.source_tokens if token != "</s>"]) == len(text) - 203
