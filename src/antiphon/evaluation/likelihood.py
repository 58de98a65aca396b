"""How probable a text is to a model, and the figures that follow from it: loss, perplexity, bits per character."""
# N pairs, lines or windows; n tokens of a stream; B parts, W window, V vocabulary

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from antiphon.decoding.generator import Generator
from antiphon.evaluation.bootstrap import Estimate, estimate_value
from antiphon.evaluation.edit import Statistics, characters, words
from antiphon.evaluation.streams import stream_nats
from antiphon.sources.pairs import Example
from antiphon.sources.streams import StreamTokenizer

__all__ = ["OF_LOSS", "SIGNATURES", "likelihood", "likelihood_estimate", "likelihood_value"]

NATS, TOKENS, WORDS, CHARACTERS = range(4)


def likelihood(generator: Generator, examples: list[Example], batch_size: int | None = None) -> Statistics:
    """[N, 4] for every reference of the examples, or every window of a stream.

    -log p in nats; tokens, words and characters. A word is what stands between white space, a character is a grapheme
    cluster. </s>, or the line end that a stream has instead of it, is one token, one word and one character: it is
    said, so it counts. (So a model of words has word_perplexity = perplexity, and one of characters
    bits_per_character = loss / ln 2.)
    """
    if generator.config.data.window is not None:
        return _of_stream(generator, [example.references[0] for example in examples])
    pairs = [(example.source, reference) for example in examples for reference in example.references]
    scored = generator.score(pairs, batch_size)
    rows = [[-one.log_prob, len(one.log_probs), *_size(one.target)] for one in scored]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def _size(text: str) -> tuple[int, int]:
    """Words and characters, with the end."""
    return len(words(text)) + 1, len(characters(text)) + 1


def _of_stream(generator: Generator, lines: list[str]) -> Statistics:
    """The words and characters of a line are spread evenly over its tokens; windows are summed up."""
    window = generator.config.data.window
    assert window is not None
    rows = StreamTokenizer(generator.target_tokenizer).encode_batch([f"{line}\n" for line in lines])
    lengths = np.array([len(row) for row in rows])
    sizes = np.array([_size(line) for line in lines], dtype=np.float64).reshape(-1, 2)
    ids = np.concatenate([np.array(row, dtype=np.int64) for row in rows])
    spread = np.repeat(sizes / lengths[:, None], lengths, axis=0)  # [n, 2]
    table = np.column_stack([stream_nats(generator, ids), np.ones(len(ids)), spread])
    return np.add.reduceat(table, np.arange(0, len(ids), window))


def _per(count: int, then: Callable[[Statistics], Statistics]) -> Callable[[Statistics], Statistics]:
    def value(sums: Statistics) -> Statistics:
        return then(sums[..., NATS] / np.maximum(sums[..., count], 1.0))

    return value


def _exp(nats: Statistics) -> Statistics:
    with np.errstate(over="ignore"):  # too large for a number is infinite
        return np.asarray(np.exp(nats))


OF_LOSS: dict[str, Callable[[Statistics], Statistics]] = {
    "loss": _per(TOKENS, np.asarray),
    "perplexity": _per(TOKENS, _exp),
    "word_perplexity": _per(WORDS, _exp),
    "bits_per_character": _per(CHARACTERS, lambda nats: np.asarray(nats / np.log(2.0))),
}
"""Summed statistics [..., 4] → nats per token; exp(nats / tokens); exp(nats / words); nats / ln 2 / characters."""

SIGNATURES = {
    "word_perplexity": "exp(nats / words between white space); an end of a text or line is a word",
    "bits_per_character": "nats / ln 2 / grapheme clusters; an end of a text or line is a character",
}


def likelihood_value(statistics: Statistics, name: str) -> float:
    """One of OF_LOSS over all."""
    return float(OF_LOSS[name](statistics.sum(axis=0)))


def likelihood_estimate(statistics: Statistics, name: str, samples: int) -> Estimate:
    """The same with its interval: over pairs or lines, or over the windows of a stream."""
    return estimate_value(statistics, OF_LOSS[name], samples=samples)
