"""Text in, text out: order, batches, n best, prefixes, flags, scores."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import fill

from antiphon.config.networks import BahdanauConfig, EncoderDecoderConfig, RecurrentEncoderConfig
from antiphon.config.schema import Config, DataConfig, DecodingConfig, TextConfig
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import EOS, SOS, CharacterTokenizer, WordTokenizer
from antiphon.errors import UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel
from antiphon.models.build import build_model

SOURCE, TARGET = CharacterTokenizer("abcdef"), WordTokenizer(["K", "L", "M", "N", "O"])
TEXTS = ["".join(letters) for length in (1, 2, 4) for letters in product("abcdef", repeat=length)][::9][:90]


def make(
    decoding: DecodingConfig, max_length: int = 8, end: float = 1.5, check: Callable[[], None] | None = None
) -> Generator:
    """A model that has learnt nothing but answers each source in its own way; `end` makes </s> likelier."""
    config = Config(
        data=DataConfig(train="pairs.tsv", source=TextConfig(max_length=max_length)),
        model=EncoderDecoderConfig(
            encoder=RecurrentEncoderConfig(kind="gru", embedding=8, size=8),
            decoder=BahdanauConfig(cell="gru", embedding=8, size=8),
        ),
        decoding=decoding,
    )
    model = build_model(config.model, source_tokens=SOURCE.size, target_tokens=TARGET.size).eval()
    fill(model, scale=1.1)
    with torch.no_grad():
        model.decoder.output.bias[EOS] += end
    return Generator(LoadedModel(config, model, SOURCE, TARGET), check)


@pytest.fixture(scope="module")
def generator() -> Generator:
    return make(DecodingConfig(beam=4, max_length=10))


def test_answers_differ_in_text_and_length(generator: Generator) -> None:
    """Else the tests below could not fail."""
    answers = generator.generate(TEXTS)
    assert len({answer.text for answer in answers}) > 10
    assert len({len(answer.tokens) for answer in answers}) > 3
    assert sum(answer.tokens[-1] == "</s>" for answer in answers) > len(answers) / 2


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("size", [1, 7, 256])
def test_same_answer_in_any_company(generator: Generator, beam: int, size: int) -> None:
    """Texts, scores and attention do not depend on the batch or on the order."""
    expected = dict(zip(TEXTS, generator.generate(TEXTS, beam=beam, n_best=beam, batch_size=5), strict=True))
    shuffled = random.Random(size).sample(TEXTS, len(TEXTS))
    for text, answer in zip(
        shuffled, generator.generate(shuffled, beam=beam, n_best=beam, batch_size=size), strict=True
    ):
        wanted = expected[text]
        assert answer.text == wanted.text
        assert answer.tokens == wanted.tokens
        assert answer.source_tokens == [*text, "</s>"]
        assert answer.score == pytest.approx(wanted.score, abs=1e-4)
        assert answer.log_probs == pytest.approx(wanted.log_probs, abs=1e-4)
        assert [other.text for other in answer.alternatives] == [other.text for other in wanted.alternatives]
        assert answer.weights is not None
        assert wanted.weights is not None
        assert answer.weights == pytest.approx(wanted.weights, abs=1e-4)


def test_one_text_is_a_list_of_one(generator: Generator) -> None:
    one, [many] = generator.generate("abc"), generator.generate(["abc"])
    assert (one.text, one.tokens, one.score) == (many.text, many.tokens, many.score)
    assert generator.generate([]) == []


def test_score_is_that_of_the_answer(generator: Generator) -> None:
    """The score of a search equals the score by teacher forcing."""
    answers = [
        (text, answer)
        for text, answer in zip(TEXTS, generator.generate(TEXTS, length_penalty=0.7), strict=True)
        if not answer.flags
    ]
    scored = generator.score([(text, answer.text) for text, answer in answers])
    for (_, answer), score in zip(answers, scored, strict=True):
        assert score.tokens == answer.tokens
        assert score.log_probs == pytest.approx(answer.log_probs, abs=1e-4)
        assert score.log_prob == pytest.approx(sum(score.log_probs), abs=1e-4)
        assert answer.score == pytest.approx(score.log_prob / len(answer.tokens) ** 0.7, abs=1e-4)


@pytest.mark.parametrize("size", [1, 7, 256])
def test_score_in_any_company(generator: Generator, size: int) -> None:
    pairs = [(text, target) for text in TEXTS[::3] for target in ("", "K", "L M N O K")]
    for one, other in zip(generator.score(pairs, 4), generator.score(pairs, size), strict=True):
        assert (one.source, one.target) == (other.source, other.target)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


@pytest.mark.parametrize("pairs", ["ab", ("a", "b"), [("a",)], [("a", 1)], 5])
def test_score_takes_pairs_only(generator: Generator, pairs: Any) -> None:  # noqa: ANN401
    with pytest.raises(UserError, match=r"pairs: .*; give a list of pairs \(source, target\)"):
        generator.score(pairs)
    with pytest.raises(UserError, match="position: a value of type str is given; give a whole number"):
        generator.alternatives("abc", "0")  # type: ignore[arg-type]


def test_score_is_the_models_own_probability(generator: Generator) -> None:
    words = ["", *"KLMNO"]
    first = [np.exp(scored.log_probs[0]) for scored in generator.score([("abc", word) for word in words])]
    logits = generator.model(source_batch([SOURCE.encode("abc")]), torch.tensor([[SOS]])).logits
    p = torch.softmax(logits[0, 0], dim=-1).tolist()
    assert first == pytest.approx([p[EOS], *p[4:]], abs=1e-5)


def test_weights_are_one_row_a_token_without_padding(generator: Generator) -> None:
    for text, answer in zip(TEXTS, generator.generate(TEXTS), strict=True):
        assert answer.weights is not None
        assert answer.weights.shape == (len(answer.tokens), len(text) + 1)
        assert answer.weights.sum(axis=1) == pytest.approx(np.ones(len(answer.tokens)), abs=1e-5)
    assert all(answer.weights is None for answer in generator.generate(TEXTS[:3], weights=False))


def test_order_is_kept_and_an_empty_line_has_an_empty_answer(generator: Generator) -> None:
    texts = ["abcd", "", "a", "", "fe"]
    answers = generator.generate(texts, batch_size=2)
    assert [bool(answer.tokens) for answer in answers] == [True, False, True, False, True]
    for text, answer in zip(texts, answers, strict=True):
        if text:
            assert answer.source_tokens[:-1] == list(text)
        else:
            assert (answer.text, answer.score, answer.weights, answer.alternatives) == ("", 0.0, None, [])
            assert answer.flags == ["empty source"]


def test_n_best_are_different_and_in_order(generator: Generator) -> None:
    for answer in generator.generate(TEXTS, beam=4, n_best=4):
        texts = [(other.text, tuple(other.tokens)) for other in answer.alternatives]
        assert len(set(texts)) == len(texts) == 4
        assert (answer.text, tuple(answer.tokens)) == texts[0]
        assert answer.score == answer.alternatives[0].score
        finished = [other.score for other in answer.alternatives if other.tokens[-1] == "</s>"]
        assert finished == sorted(finished, reverse=True)
        for other in answer.alternatives:
            assert other.score == pytest.approx(sum(other.log_probs) / len(other.tokens), abs=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_prefix_is_said_and_its_probability_counts(generator: Generator, beam: int) -> None:
    prefixes = ["N N", "", "K", "O L"]
    answers = generator.generate(["abc", "abc", "d", "efab"], beam=beam, prefix=prefixes)
    for answer, prefix in zip(answers, prefixes, strict=True):
        assert answer.text.split()[: len(prefix.split())] == prefix.split()
    assert answers[1].text == generator.generate("abc", beam=beam).text
    assert generator.generate("abc", beam=beam, prefix="N N").text == answers[0].text
    [scored] = generator.score([("abc", answers[0].text)])
    shared = len(answers[0].text.split())
    assert answers[0].log_probs[:shared] == pytest.approx(scored.log_probs[:shared], abs=1e-4)


def test_specials_are_never_said(generator: Generator) -> None:
    for answer in generator.generate(TEXTS, beam=4, n_best=4):
        for other in answer.alternatives:
            assert not {"<pad>", "<s>", "<unk>"} & set(other.tokens)
            assert "</s>" not in other.tokens[:-1]


def test_flags_of_the_source(generator: Generator) -> None:
    long, short = generator.generate(["abcdefabcdef", "abcdefab"])
    assert long.flags[0] == "truncated: the source has 12 tokens, only the first 8 were read"
    assert (long.text, long.source_tokens) == (short.text, short.source_tokens)
    assert not any("truncated" in flag for flag in short.flags)
    assert "unknown symbols in the source: 'z' x 2, 'é' x 1" in generator.generate("azézb").flags


def test_flag_of_the_maximum_length() -> None:
    endless = make(DecodingConfig(beam=3, max_length=10), end=-100.0)
    for beam in (1, 3):
        answer = endless.generate("abc", beam=beam, max_length=4)
        assert len(answer.tokens) == 4
        assert "</s>" not in answer.tokens
        assert answer.flags == ["maximum length: stopped after 4 tokens without an end"]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_of_no_numbers_says_nothing_and_says_so(beam: int) -> None:
    broken = make(DecodingConfig(max_length=5))
    with torch.no_grad():
        broken.model.decoder.output.bias.fill_(float("nan"))
    answers = broken.generate(["abc", "d"], beam=beam)
    assert [answer.text for answer in answers] == ["", ""]
    assert answers[0].flags == ["dead end: stopped after 0 tokens without an end, because no token was possible"]


def test_a_prefix_longer_than_the_answer_may_be_is_cut_and_flagged(generator: Generator) -> None:
    for beam in (1, 3):
        answer = generator.generate("abc", beam=beam, prefix="K L M N", max_length=2)
        assert answer.tokens == ["K", "L"]
        assert answer.flags == ["maximum length: stopped after 2 tokens without an end"]


def test_flags_of_a_score(generator: Generator) -> None:
    [scored] = generator.score([("az", "K X")])
    assert scored.tokens == ["K", "<unk>", "</s>"]
    assert scored.flags == ["unknown symbols in the source: 'z' x 1", "unknown symbols in the target: 'X' x 1"]
    [empty] = generator.score([("", "K")])
    assert empty.flags == ["empty source"]
    assert empty.log_prob < 0


def test_check_is_called_at_each_step_and_may_leave() -> None:
    calls: list[int] = []
    generator = make(DecodingConfig(beam=2, max_length=10), end=-100.0, check=lambda: calls.append(1))
    generator.generate("abc", weights=False, max_length=6)
    assert len(calls) == 6

    def leave() -> None:
        raise KeyboardInterrupt

    generator = make(DecodingConfig(beam=2, max_length=10), end=-100.0, check=leave)
    for beam in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            generator.generate("abc", beam=beam)
    with pytest.raises(KeyboardInterrupt):
        generator.score([("a", "K")])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_best": 5}, "n_best: 5 answers need a beam of at least 5, not 4"),
        ({"n_best": 2, "beam": 1}, "n_best: 2 answers need a beam of at least 2, not 1"),
        ({"n_best": 0}, "n_best: must be at least 1, not 0"),
        ({"beam": 0}, "beam: must be at least 1, not 0"),
        ({"max_length": 0}, "max_length: must be at least 1, not 0"),
        ({"length_penalty": -0.5}, "length_penalty: must be at least 0 and at most 10, not -0.5"),
        ({"batch_size": 0}, "batch_size: must be at least 1, not 0"),
        ({"prefix": ["K"]}, "prefix: 1 prefixes for 2 texts; give one, or one for each"),
        ({"prefix": "K X"}, "prefix 'K X': the model does not know 'X'; change it"),
    ],
)
def test_bad_requests_get_a_sentence(generator: Generator, options: dict, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        generator.generate(["a", "b"], **options)
    assert sentence in str(error.value)


def test_all_problems_at_once(generator: Generator) -> None:
    with pytest.raises(UserError) as error:
        generator.generate("a", beam=0, n_best=2, max_length=-1, length_penalty=-1.0)
    for name in ("beam", "n_best", "max_length", "length_penalty"):
        assert name in str(error.value)
