"""Loss, perplexity, word perplexity and bits per character: of pairs, of lines, of a stream."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_language_model import LETTERS, Ones, make
from tiny_generators import tiny_generator

from antiphon.data.pairs import Example
from antiphon.data.tokenizers import Tokenizer, WordTokenizer
from antiphon.errors import UserError
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.evaluation.likelihood import (
    LIKELIHOOD_METRICS,
    Chunks,
    likelihood,
    likelihood_estimate,
    likelihood_value,
    stream_nats,
)

TEXTS = ["ab cd", "fed", "a  b c", "cab"]


def examples(texts: list[str]) -> list[Example]:
    return [Example((), (text,), number) for number, text in enumerate(texts, 1)]


def value(*sums: float) -> Callable[[str], float]:
    return lambda name: likelihood_value(np.array([sums]), name)


def test_the_figures_by_hand() -> None:
    figure = value(60.0, 30.0, 6.0, 24.0)
    assert figure("loss") == 2.0
    assert figure("perplexity") == pytest.approx(math.exp(2))
    assert figure("word_perplexity") == pytest.approx(math.exp(10))
    assert figure("bits_per_character") == pytest.approx(2.5 / math.log(2))
    assert value(1e6, 1.0, 1.0, 1.0)("perplexity") == math.inf


def test_sums_are_divided_not_quotients_averaged() -> None:
    found = likelihood_estimate(np.array([[2.0, 1, 1, 1], [30.0, 3, 3, 3]]), "loss", samples=500)
    assert (found.value, found.low, found.high) == (8.0, 2.0, 10.0)


def test_lines_count_their_end_as_token_word_and_character() -> None:
    generator = make()
    found = likelihood(generator, examples(TEXTS), batch_size=3)
    scored = generator.score(TEXTS)
    assert found[:, 0] == pytest.approx([-one.log_prob for one in scored])
    assert found[:, 1:].tolist() == [[6, 3, 6], [4, 2, 4], [7, 4, 7], [4, 2, 4]]
    assert likelihood_value(found, "bits_per_character") == pytest.approx(likelihood_value(found, "loss") / math.log(2))


def test_a_model_of_words_has_one_perplexity() -> None:
    words = WordTokenizer(["ab", "cd", "fed", "a", "b", "c"])
    for window in (None, 4):
        found = likelihood(make(tokenizer=words, window=window), examples(TEXTS))
        assert likelihood_value(found, "word_perplexity") == pytest.approx(likelihood_value(found, "perplexity"))
        assert found[:, 2].sum() == 7 + 4
        assert found[:, 3].sum() == pytest.approx(sum(map(len, TEXTS)) + 4)


def test_a_grapheme_cluster_is_one_character() -> None:
    assert likelihood(make(), examples(["e\u0301f"]))[0, 3] == 3


@pytest.mark.parametrize("lines", [TEXTS, ["", "ab", "", ""], ["a" * 50]])
def test_a_stream_is_one_long_forward(lines: list[str]) -> None:
    generator = make(window=5)
    text = "".join(f"{line}\n" for line in lines)
    ids = LETTERS.encode(text)
    found = likelihood(generator, examples(lines))
    with torch.no_grad():
        logits = generator.model(Ones(), torch.tensor([[generator.codec.start, *ids[:-1]]])).logits[0]  # type: ignore[arg-type]
    own = -torch.log_softmax(logits, -1)[range(len(ids)), ids]
    assert len(found) == math.ceil(len(ids) / 5), "a row for each window"
    assert found[:, 0].sum() == pytest.approx(float(own.sum()), abs=1e-3)
    assert found[0, 0] == pytest.approx(float(own[:5].sum()), abs=1e-4)
    assert found[:, 1].sum() == len(text)
    assert found[:, 2].sum() == pytest.approx(sum(len(line.split()) + 1 for line in lines))
    assert found[:, 3] == pytest.approx(found[:, 1]), "a model of characters counts them"


def test_a_transformer_sees_each_window_on_its_own() -> None:
    generator = make("transformer", window=5)
    ids = np.array(LETTERS.encode("abcabcfedabcabcabbb"))
    inputs = [generator.codec.start, *ids[:-1]]
    for first in range(0, len(ids), 5):
        with torch.no_grad():
            logits = generator.model(Ones(), torch.tensor([inputs[first : first + 5]])).logits[0]  # type: ignore[arg-type]
        own = -torch.log_softmax(logits, -1)[range(len(ids[first : first + 5])), ids[first : first + 5]]
        assert stream_nats(generator, ids)[first : first + 5] == pytest.approx(own.numpy(), abs=1e-4)


@pytest.mark.parametrize("more", [{}, {"positions": {"kind": "learnt", "longest": 13}}])
@pytest.mark.parametrize("tokenizer", [LETTERS, WordTokenizer(list("abcdef"))])
def test_a_score_is_what_an_evaluation_says(tokenizer: Tokenizer, more: dict[str, Any]) -> None:
    """A Transformer that learnt a stream sees each window of a text on its own in both."""
    generator = make("transformer", window=4, tokenizer=tokenizer, **more)
    text = ("" if tokenizer is LETTERS else " ").join("abcabcfedabcabcabbbf")
    [scored] = generator.score([text])
    ids = generator.codec.encode_target(text)
    inputs, own = [generator.codec.start, *ids[:-1]], np.zeros(0)
    for first in range(0, len(ids), 4):
        with torch.no_grad():
            logits = generator.model(Ones(), torch.tensor([inputs[first : first + 4]])).logits[0]  # type: ignore[arg-type]
        window = ids[first : first + 4]
        own = np.append(own, torch.log_softmax(logits, -1)[range(len(window)), window].numpy())
    assert scored.log_probs == pytest.approx(own.tolist(), abs=1e-4)
    assert stream_nats(generator, np.array(ids)) == pytest.approx(-own, abs=1e-4)
    assert -scored.log_prob == pytest.approx(float(likelihood(generator, examples([text]))[:, 0].sum()), abs=1e-3)
    assert scored.flags == ["windows: the text has 21 tokens, 4 were read at a time"]
    in_company = generator.score(["a", text, "b"], batch_size=2)
    assert in_company[1].log_probs == pytest.approx(scored.log_probs, abs=1e-4)
    assert in_company[0].flags == []


@given(tokens=st.integers(1, 3000), window=st.integers(1, 12))
def test_every_token_counts_once(tokens: int, window: int) -> None:
    chunks = Chunks.of(tokens, window=window)
    counted: list[int] = []
    for first in range(0, chunks.length + chunks.warm, window):
        places, real = chunks.window(first, first + window)
        counted += places[real].tolist()
    assert sorted(counted) == list(range(tokens))
    assert chunks.warm == (window if chunks.count > 1 else 0)
    assert chunks.count > 1 or tokens < 16 * window


def test_parts_of_a_long_text_begin_with_the_window_before() -> None:
    """Each part alone, in one long forward from one window before it, says the same."""
    generator = make(window=4)
    ids = np.array(LETTERS.encode("".join("abcdef"[n * n % 6] for n in range(16 * 40))))
    chunks = Chunks.of(len(ids), window=4)
    assert chunks.count == 16
    nats = stream_nats(generator, ids)
    inputs = np.concatenate([[generator.codec.start], ids[:-1]])
    for part in (0, 1, 9, 15):
        first = part * chunks.length
        span = slice(first, min(first + chunks.length + chunks.warm, len(ids)))
        with torch.no_grad():
            logits = generator.model(Ones(), torch.tensor(inputs[None, span])).logits[0]  # type: ignore[arg-type]
        own = -torch.log_softmax(logits, -1)[range(len(ids[span])), ids[span]].numpy()
        skipped = chunks.warm if part else 0
        assert nats[span][skipped:] == pytest.approx(own[skipped:], abs=1e-4)


def test_an_evaluation_of_lines_and_of_a_stream() -> None:
    metrics = list(LIKELIHOOD_METRICS)
    lines = evaluate_examples(make(), examples([*TEXTS, "xa"]), metrics=metrics)
    assert (lines.examples, lines.unit, lines.flagged, lines.outputs) == (5, "texts", 3, []), "spaces and x are unknown"
    stream = evaluate_examples(make(window=4), examples(TEXTS * 9), metrics=metrics)
    assert (stream.examples, stream.unit) == (math.ceil(9 * 21 / 4), "windows of 4 tokens")
    for found in (lines, stream):
        assert list(found.values) == metrics
        assert all(one.low < one.value < one.high for one in found.values.values())
        assert list(found.signatures) == ["word_perplexity", "bits_per_character"]
    with pytest.raises(UserError, match="bleu compares answers with references, and a language model has none"):
        evaluate_examples(make(), examples(TEXTS), metrics=["loss", "bleu"])


@pytest.mark.parametrize(("kind", "metrics"), [("rnn-lm", ["loss", "perplexity"]), ("bahdanau", ["loss"])])
def test_a_beam_is_refused_where_nothing_is_decoded(kind: str, metrics: list[str]) -> None:
    pairs = [Example(() if kind == "rnn-lm" else ("a b",), ("K L",), 1)]
    with pytest.raises(UserError) as caught:
        evaluate_examples(tiny_generator(kind), pairs, metrics=metrics, beam=-7)
    assert caught.value.problems == [f"beam: nothing is decoded for {', '.join(metrics)}; leave it out"]
    assert evaluate_examples(tiny_generator(kind), pairs, metrics=metrics, resamples=0).values["loss"].value > 0
