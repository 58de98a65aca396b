"""The options of a search, by name: what each does, in any company, and what is refused."""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import numpy as np
import pytest
from tiny_generators import tiny_generator
from untrained_models import TEXTS, LogitBias, untrained_generator, untrained_model

from antiphon.data.pairs import Example
from antiphon.data.tokenizers import LetterTokenizer
from antiphon.errors import UserError
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.inference.generation import Generation
from antiphon.inference.generator import Generator
from antiphon.inference.options import LARGEST_BATCH, OPTIONS

EACH: dict[str, dict[str, Any]] = {
    "min_length": {"min_length": 6},
    "max_ratio": {"max_ratio": 0.5},
    "min_ratio": {"min_ratio": 2.0},
    "patience": {"patience": 3.0},
    "diversity": {"diversity": 2.0},
    "groups": {"diversity": 2.0, "groups": 4},
    "no_repeat": {"no_repeat": 2},
    "forbid": {"forbid": ["L", "M M"]},
    "require": {"require": ["N O", "K"]},
    "coverage": {"coverage": 3.0},
    "length_penalty": {"length_penalty": 0.0},
    "max_length": {"max_length": 3},
    "beam": {"beam": 1, "n_best": 1},
    "sample": {"sample": True, "n_best": 3},
    "temperature": {"sample": True, "n_best": 3, "temperature": 2.0},
    "top_k": {"sample": True, "n_best": 3, "top_k": 2},
    "top_p": {"sample": True, "n_best": 3, "top_p": 0.4},
    "seed": {"sample": True, "n_best": 3, "seed": 2},
    "mbr": {"sample": True, "n_best": 6, "samples": 6, "mbr": "chrf"},
    "samples": {"sample": True, "n_best": 6, "samples": 12, "mbr": "chrf"},
    "several": {"min_length": 4, "no_repeat": 1, "forbid": ["O"], "require": ["N"], "patience": 2.0, "coverage": 0.5},
}


@pytest.fixture(scope="module")
def generator() -> Generator:
    return untrained_generator()


@pytest.fixture(scope="module")
def plain(generator: Generator) -> list[Generation]:
    return generator.generate(TEXTS, n_best=4)


def alternative_texts(answers: list[Generation]) -> list[list[str]]:
    return [[other.text for other in answer.alternatives] for answer in answers]


@pytest.mark.parametrize("name", EACH)
def test_each_changes_the_answers_alike_in_any_company(
    generator: Generator, plain: list[Generation], name: str
) -> None:
    """Batches of 5, of 1 and of 7; what is drawn belongs to the number of a text, so the order matters there."""
    options = {"n_best": 4, **EACH[name]}
    found = alternative_texts(generator.generate(TEXTS, **options, batch_size=5, weights=False))
    assert found != alternative_texts(plain)
    assert alternative_texts(generator.generate(TEXTS, **options, batch_size=1, weights=False)) == found
    if "sample" not in options:
        order = random.Random(len(name)).sample(range(len(TEXTS)), len(TEXTS))
        shuffled = alternative_texts(
            generator.generate([TEXTS[row] for row in order], **options, batch_size=7, weights=False)
        )
        assert shuffled == [found[row] for row in order]


@pytest.mark.parametrize("name", EACH)
def test_empty_lines_stay_where_they_are(generator: Generator, name: str) -> None:
    answers = generator.generate(["", "a b", " ", "c"], **EACH[name])
    assert [bool(answer.tokens) for answer in answers] == [False, True, False, True]
    assert answers[0].flags == answers[2].flags == ["empty source"]
    assert alternative_texts(answers)[1] == alternative_texts(generator.generate(["x", "a b"], **EACH[name]))[1]


def test_lengths_are_kept(generator: Generator) -> None:
    for text, short, long, doubled in zip(
        TEXTS,
        generator.generate(TEXTS, max_ratio=0.5, n_best=4),
        generator.generate(TEXTS, min_length=6, n_best=4),
        generator.generate(TEXTS, min_ratio=1.2, n_best=4),
        strict=True,
    ):
        source = len(text.split()) + 1
        assert all(len(other.tokens) <= max(1, source // 2) for other in short.alternatives)
        assert all(len(other.tokens) >= 6 for other in long.alternatives)
        assert all(len(other.tokens) >= 1.2 * source for other in doubled.alternatives)


def test_a_shortest_length_gives_way_to_a_longest(generator: Generator) -> None:
    for answer in generator.generate(TEXTS, min_length=6, max_ratio=0.5):
        assert len(answer.tokens) <= 4


def test_phrases_are_said_or_not(generator: Generator) -> None:
    for answer in generator.generate(TEXTS, n_best=4, forbid=["L", "M M"]):
        assert not any("L" in other.text or "M M" in other.text for other in answer.alternatives)
    for answer in generator.generate(TEXTS, n_best=4, require=["N O", "K"]):
        assert all("N O" in other.text and "K" in other.text for other in answer.alternatives)
        assert not any(flag.startswith("required") for flag in answer.flags)


def test_a_phrase_that_does_not_fit_is_flagged(generator: Generator) -> None:
    answer = generator.generate("a b", require=["N O K"], max_ratio=1.0)
    assert answer.tokens == ["N", "O", "K"]
    cut = generator.generate("a", require=["N O K"], max_ratio=1.0)
    assert (cut.tokens, cut.flags[1]) == (["N", "O"], "required: missing: 'N O K'")


def test_a_prefix_may_say_what_is_forbidden_and_the_answer_says_so(generator: Generator) -> None:
    both, other = generator.generate(["a b", "c"], prefix=["K L", ""], forbid=["L", "N O"])
    assert both.tokens[:2] == ["K", "L"]
    assert both.flags[-1] == "forbidden: in the answer: 'L'"
    assert not any(flag.startswith("forbidden") for flag in other.flags)


def test_rules_that_leave_nothing_to_say_are_not_called_a_maximum_length(generator: Generator) -> None:
    answer = generator.generate("a b", forbid=list("KLMNO"), min_length=3, weights=False)
    assert (answer.tokens, answer.flags) == (
        [],
        ["dead end: stopped after 0 tokens without an end, because no token was possible"],
    )


def test_nothing_twice(generator: Generator) -> None:
    for answer in generator.generate(TEXTS, n_best=4, no_repeat=1):
        assert all(len(set(other.tokens)) == len(other.tokens) for other in answer.alternatives)


def test_patience_finds_what_scores_higher(generator: Generator, plain: list[Generation]) -> None:
    patient = [answer.score for answer in generator.generate(TEXTS, patience=3.0)]
    pairs = list(zip(patient, (answer.score for answer in plain), strict=True))
    assert sum(one > other + 1e-5 for one, other in pairs) > sum(one < other - 1e-5 for one, other in pairs)


def test_groups_begin_in_more_ways(generator: Generator) -> None:
    """Groups of one hypothesis each, whose tokens cost more than any is worth: no two begin alike."""
    for answer in generator.generate(TEXTS, n_best=4, diversity=30.0, groups=4):
        beginnings = [other.tokens[0] for other in answer.alternatives]
        assert len(set(beginnings)) == len(beginnings) == 4
    two, four = (generator.generate(TEXTS, n_best=4, diversity=30.0, groups=groups) for groups in (2, 4))
    assert alternative_texts(two) != alternative_texts(four)


def test_coverage_orders_the_same_answers_anew(generator: Generator, plain: list[Generation]) -> None:
    for one, other in zip(generator.generate(TEXTS, n_best=4, coverage=3.0), plain, strict=True):
        assert {(a.text, a.tokens[-1]) for a in one.alternatives} == {
            (a.text, a.tokens[-1]) for a in other.alternatives
        }
        assert {a.score for a in one.alternatives} == {a.score for a in other.alternatives}


def test_unknown_words_become_what_was_attended_to() -> None:
    """A model that likes to say <unk>; two words of the source are unknown, and written as they are there."""
    made = untrained_generator(LogitBias(unknown=6.0, end=-3.0))
    for text in ("a b", "c Zürich d", "x.y", "f e d c b a"):
        assert "‹" not in "".join(made.generate(text).tokens)
        answer = made.generate(text, replace_unknown=True, n_best=2)
        assert answer.weights is not None
        expected = [
            text.split()[row[:-1].argmax()] if token.startswith("‹") else token
            for token, row in zip(answer.tokens, answer.weights, strict=True)
            if token != "</s>"
        ]
        assert [token.strip("‹›") for token in answer.tokens if token != "</s>"] == expected
        assert "‹" in answer.tokens[0]
        assert answer.text.split() == expected
        assert "<unk>" not in answer.alternatives[1].text
    assert "x.y" in made.generate("x.y", replace_unknown=True).text
    assert made.generate("c Zürich d").source_tokens == ["c", "‹Zürich›", "d", "</s>"]


def test_samples_are_ordered_by_likeness(generator: Generator) -> None:
    drawn = generator.generate(TEXTS, sample=True, n_best=6)
    for utility in ("chrf", "bleu"):
        chosen = generator.generate(TEXTS, sample=True, n_best=6, samples=6, mbr=utility)
        assert [sorted(texts) for texts in alternative_texts(chosen)] == [
            sorted(texts) for texts in alternative_texts(drawn)
        ]
        assert alternative_texts(chosen) != alternative_texts(drawn)
        assert [answer.text for answer in chosen] == [texts[0] for texts in alternative_texts(chosen)]


def problems(generator: Generator, **options: Any) -> list[str]:  # noqa: ANN401 (also what is no option)
    with pytest.raises(UserError) as error:
        generator.generate("a b", **options)
    return error.value.problems


TOO_MANY = f"is more than {LARGEST_BATCH:,} tokens at once; make one of them smaller"
REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"min_length": 0}, ["min_length: must be at least 1, not 0"]),
    ({"no_repeat": 0}, ["no_repeat: must be at least 1, not 0"]),
    ({"max_ratio": 0.0}, ["max_ratio: must be above 0, not 0"]),
    ({"min_ratio": -1.0}, ["min_ratio: must be above 0, not -1"]),
    ({"patience": 0.0}, ["patience: must be above 0 and at most 1000, not 0; leave it out for a beam that shrinks"]),
    ({"diversity": 0.0}, ["diversity: must be above 0 and at most 1000, not 0; leave it out for one beam"]),
    ({"coverage": -1.0}, ["coverage: must be at least 0, not -1"]),
    *[
        ({name: value}, [f"{name}: must be a finite number, not {value:g}"])
        for name in ("max_ratio", "min_ratio", "patience", "diversity", "coverage", "length_penalty")
        for value in (float("nan"), float("inf"))
    ],
    ({"min_length": 11}, ["min_length: 11 is more than max_length 10; change one of them"]),
    (
        {"min_ratio": 2.0, "max_ratio": 1.5},
        ["min_ratio: 2 is more than max_ratio 1.5; change one of them"],
    ),
    *[
        ({name: 1.0, "beam": 1}, [f"{name}: only for a beam of 2 and more; leave it out"])
        for name in ("patience", "coverage")
    ],
    ({"patience": 1.0, "sample": True}, ["patience: only for a beam of 2 and more; leave it out"]),
    ({"diversity": 1.0, "groups": 3}, ["groups: 3 groups cannot share a beam of 4 evenly; give a divisor"]),
    ({"diversity": 1.0, "groups": 1}, ["groups: must be at least 2, not 1"]),
    ({"groups": 2}, ["groups: only with diversity; add diversity, or leave groups out"]),
    ({"beam": 10}, ["beam: 10 is more than the 9 tokens that the model knows; give at most 9"]),
    ({"mbr": "chrf"}, ["mbr: only with sample; add sample, or leave mbr out"]),
    ({"mbr": "chrf", "sample": True, "samples": 1}, ["samples: must be at least 2, not 1"]),
    ({"samples": 4}, ["samples: only with mbr; add mbr, or leave samples out"]),
    ({"sample": True, "top_p": 1.5}, ["top_p: must be above 0 and at most 1, not 1.5"]),
    (
        {"sample": True, "temperature": 0.0},
        ["temperature: must be above 0, not 0; for greedy search leave sample out and set beam to 1"],
    ),
    ({"sample": True, "seed": -1}, ["seed: must be at least 0, not -1"]),
    ({"mbr": "ter", "sample": True, "n_best": 2}, ["mbr: must be chrf or bleu, not 'ter'"]),
    (
        {"sample": True, "beam": 4},
        ["beam: a beam of 4 looks for the most probable answer, sample draws one; leave one out"],
    ),
    *[
        ({name: 1}, [f"{name}: only with sample; add sample, or leave {name} out"])
        for name in ("temperature", "top_k", "top_p", "seed")
    ],
    (
        {"require": ["K"], "sample": True},
        ["require: phrases are worked in by a beam; leave out sample and diversity"],
    ),
    (
        {"require": ["K L M", "N"], "max_length": 4},
        ["require: 5 tokens with </s> do not fit into max_length 4; raise max_length"],
    ),
    (
        {"require": ["K L M"], "forbid": ["L M"]},
        ["forbid: a phrase in it is part of one that require asks for; leave it out of one of them"],
    ),
    ({"require": "K"}, ["require: a value of type str is given; give a list of phrases, such as ['K']"]),
    ({"forbid": ["K", 1]}, ["forbid: a value of type int is given; give a list of phrases"]),
    (
        {"n_best": 4, "patience": 0.5},
        ["n_best: 4 answers, but the search stops when 2 have ended (beam x patience); raise patience"],
    ),
    ({"forbid": [" "]}, ["forbid: an empty phrase; leave it out"]),
    (
        {"require": ["K X", "Y"]},
        [
            "require 'K X': the model does not know 'X'; change it",
            "require 'Y': the model does not know 'Y'; change it",
        ],
    ),
    ({"forbid": ["Z"]}, ["forbid 'Z': the model does not know 'Z'; change it"]),
    ({"min_lenght": 3}, ["min_lenght: there is no such option; did you mean 'min_length'?"]),
    ({"qqqq": 3}, ["qqqq: there is no such option"]),
    (
        {"batch_size": 2_000_000, "beam": 4},
        [f"beam x batch_size x max_length: 4 x 2000000 x 10 {TOO_MANY}"],
    ),
    (
        {"n_best": 100_000, "sample": True, "batch_size": 64},
        [f"n_best x batch_size x max_length: 100000 x 64 x 10 {TOO_MANY}"],
    ),
]


@pytest.mark.parametrize(("options", "sentences"), REFUSED, ids=str)
def test_what_makes_no_sense_gets_its_sentence(
    generator: Generator, options: dict[str, Any], sentences: list[str]
) -> None:
    assert problems(generator, **options) == sentences


@pytest.mark.parametrize("name", OPTIONS)
def test_a_value_of_another_type_gets_a_sentence(generator: Generator, name: str) -> None:
    [problem] = problems(generator, **{name: {}})
    assert problem.startswith(f"{name}: a value of type dict is given; give ")
    if OPTIONS[name].kind in (int, float):
        assert problems(generator, **{name: True})[0].startswith(f"{name}: a value of type bool is given; give a")


def test_numbers_of_numpy_are_numbers(generator: Generator) -> None:
    plain = generator.generate("a b", beam=2, length_penalty=0.5)
    assert generator.generate("a b", beam=np.int64(2), length_penalty=np.float32(0.5)).text == plain.text
    assert problems(generator, beam=np.float64(2.0)) == ["beam: a value of type float64 is given; give a whole number"]


def test_all_at_once(generator: Generator) -> None:
    found = problems(generator, min_length=0, max_ratio=-1.0, seed=1, groups=2, forbid=["Z"], beam=99, n_bset=1)
    for name in ("min_length", "max_ratio", "seed", "groups", "forbid 'Z'", "beam", "n_bset"):
        assert sum(sentence.startswith(f"{name}:") for sentence in found) == 1


def test_a_language_model_has_no_source() -> None:
    made = tiny_generator("rnn-lm")
    names = ("max_ratio", "min_ratio", "coverage", "replace_unknown")
    with pytest.raises(UserError) as error:
        made.generate("K L", beam=4, max_ratio=2.0, min_ratio=1.0, coverage=1.0, replace_unknown=True)
    assert error.value.problems == [f"{name}: a language model has no source; leave it out" for name in names]
    answer = made.generate("K L", beam=4, min_length=4, forbid=["L"], no_repeat=1)
    assert len(answer.tokens) >= 4
    assert "L" not in answer.tokens
    windowed = tiny_generator("transformer-lm", window=4)
    with pytest.raises(UserError) as error:
        windowed.generate("K L", min_length=4, no_repeat=2)
    sentence = "this language model writes in windows and forgets what is before; leave it out"
    assert error.value.problems == [f"{name}: {sentence}" for name in ("min_length", "no_repeat")]


def test_a_stream_has_no_shortest_answer_to_wait_for() -> None:
    """It has no </s>, and the last token of its vocabulary must not be taken for one."""
    made = tiny_generator("rnn-lm", window=4)
    free = made.generate("K L", max_length=80)
    assert "O" in free.tokens
    assert made.generate("K L", max_length=80, min_length=80).tokens == free.tokens


def test_a_text_of_100_000_characters_is_answered_and_flagged() -> None:
    made = untrained_generator(characters=True)
    [endless] = made.generate(["ab" * 50_000], max_length=4)
    assert "truncated: the source has 100000 tokens, only the first 12 were read" in endless.flags
    assert endless.tokens
    assert made.generate("ab" * 6, max_length=4).text == endless.text


def test_letters_are_compared_as_they_are_read_not_as_they_are_stored() -> None:
    """An answer of letters is composed; a reference that is stored decomposed is the same text."""
    made = Generator(untrained_model(target=LetterTokenizer([*"aeiou", "\u0301", "\u0300"])))
    texts = list(dict.fromkeys(TEXTS))
    stored = [unicodedata.normalize("NFD", answer.text) for answer in made.generate(texts, beam=1)]
    assert any(unicodedata.normalize("NFC", text) != text for text in stored)
    examples = [Example((text,), (answer,), 1) for text, answer in zip(texts, stored, strict=True)]
    found = evaluate_examples(made, examples, metrics=["exact_match"], beam=1, resamples=0)
    assert found.values["exact_match"].value == 100.0
