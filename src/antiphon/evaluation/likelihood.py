"""The likelihood of texts under a model: loss, perplexity, bits per character."""
# N pairs, lines or windows; n tokens of a stream, B chunks, T columns

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch

from antiphon.data.batches import source_batch
from antiphon.data.corpus import Ragged
from antiphon.data.pairs import Example
from antiphon.data.tokenizers import StreamTokenizer
from antiphon.evaluation.intervals import Estimate, estimate_value
from antiphon.evaluation.metrics import Statistics, characters, words
from antiphon.inference.generator import Generator
from antiphon.inference.rescoring import token_log_probs
from antiphon.sequence import State

__all__ = [
    "LIKELIHOOD_METRICS", "SIGNATURES", "likelihood", "likelihood_estimate", "likelihood_value", "likelihoods",
    "stream_nats", "unigram_loss",
]  # fmt: skip

# Streams: -log p of every token of a long text, read window after window as in training.

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
MAX_CHUNKS = 16  # side by side; one after the other would take many times as long
MIN_WINDOWS = 8  # of a chunk


@dataclass(frozen=True)
class Chunks:
    """A text of n tokens in chunks of equal length, each preceded by the last `warm` tokens of the one before.

    These warm up the state of the network; they are counted only in their own chunk.
    """

    tokens: int
    count: int
    length: int
    warm: int

    @classmethod
    def of(cls, tokens: int, *, window: int) -> Chunks:
        count = max(1, min(MAX_CHUNKS, tokens // (MIN_WINDOWS * window)))
        warm = window if count > 1 else 0
        return cls(tokens, count, length=-(-(tokens - warm) // (count * window)) * window, warm=warm)

    def window(self, first: int, last: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """The positions in the text of columns first..last - 1, and a mask of those that count [B, T]."""
        chunks, columns = np.arange(self.count)[:, None], np.arange(first, last)
        positions = chunks * self.length + columns
        return positions, (positions < self.tokens) & ((chunks == 0) | (columns >= self.warm))


def stream_nats(generator: Generator, ids: Ints) -> Floats:
    """-log p of each token [n].

    A recurrent network carries its state from window to window; a Transformer sees each window on its own.
    """
    if generator.codec.context_length is None:
        return _carried_nats(generator, ids)
    [log_probs] = generator.engine.log_probs([[]], [ids.tolist()], MAX_CHUNKS)
    return -np.array(log_probs)


@torch.inference_mode()
def _carried_nats(generator: Generator, ids: Ints) -> Floats:
    window = generator.config.data.window or len(ids)
    chunks = Chunks.of(len(ids), window=window)
    previous = np.concatenate([np.array([generator.codec.start]), ids[:-1]])
    inputs, outputs = (np.pad(side, (0, chunks.count * chunks.length)) for side in (previous, ids))
    nats = np.zeros(len(inputs))
    state: State = generator.model.start(source_batch([[]] * chunks.count))
    for first in range(0, chunks.length + chunks.warm, window):
        if generator.check is not None:
            generator.check()
        positions, counted = chunks.window(first, first + window)
        step = generator.model.step(torch.from_numpy(inputs[positions]), state)
        state = step.state
        log_probs = token_log_probs(step.logits, torch.from_numpy(outputs[positions]))
        nats[positions[counted]] = -log_probs.double().numpy()[counted]
    return nats[: len(ids)]


# Statistics of texts and streams, and the metrics computed from their sums.

NATS, TOKENS, WORDS, CHARACTERS = range(4)
AT_ONCE = 1 << 22  # ids that are counted at once


@dataclass(frozen=True)
class Likelihoods:
    """-log p in nats, tokens, words and characters [N, 4]."""

    rows: Statistics  # of every reference, or of every window of a stream
    examples: Statistics  # of every example with all its references, or of every line of a stream


def likelihood(generator: Generator, examples: list[Example], batch_size: int | None = None) -> Statistics:
    """The statistics [N, 4] of every reference, or of every window of a stream."""
    return likelihoods(generator, examples, batch_size).rows


def likelihoods(generator: Generator, examples: list[Example], batch_size: int | None = None) -> Likelihoods:
    """Score the references of all examples.

    Words are separated by white space; a character is a grapheme cluster. </s>, or the line end of a stream, counts as
    a token, a word and a character. (So a word model has word_perplexity = perplexity, and a character model
    bits_per_character = loss / ln 2.)
    """
    if generator.config.data.window is not None:
        return _stream_likelihood(generator, examples)
    pairs = [(example.source, reference) for example in examples for reference in example.references]
    scored = generator.score(pairs, batch_size)
    rows = [[-score.log_prob, len(score.log_probs), *_size(score.target)] for score in scored]
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return Likelihoods(table, _sums(table, [len(example.references) for example in examples]))


def _sums(table: Statistics, counts: Sequence[int] | Ints) -> Statistics:
    """The sums of the next counts[0] rows, counts[1] rows, ...; no count is 0."""
    if not len(counts):
        return table
    return np.add.reduceat(table, np.cumsum([0, *counts[:-1]]))


def _size(text: str) -> tuple[int, int]:
    """The number of words and characters, with the end."""
    return len(words(text)) + 1, len(characters(text)) + 1


def unigram_loss(generator: Generator, examples: list[Example], train: Ragged) -> float:
    """The loss of a model that knows how often each target token and each length is in training, and nothing else.

    An end costs -log p(length), since a network learns lengths long before it looks at the source. One is added to the
    count of each token and each length. A stream has no lengths: its line ends are tokens.
    """
    size, rows = generator.target_tokenizer.size, _target_ids(generator, examples)
    counts = np.ones(size)
    for first in range(0, len(train.ids), AT_ONCE):
        counts += np.bincount(train.ids[first : first + AT_ONCE], minlength=size)
    if generator.config.data.window is not None:
        return float(_frequency_nats(counts)[_joined(rows)].mean())
    lengths = [len(row) - 1 for row in rows]
    seen = np.bincount(np.diff(train.offsets), minlength=max(lengths) + 1).astype(np.float64)
    of_lengths = _frequency_nats(1.0 + seen)
    nats = _frequency_nats(counts)[_joined(row[:-1] for row in rows)].sum() + of_lengths[lengths].sum()
    return float(nats / sum(map(len, rows)))


def _frequency_nats(counts: Floats) -> Floats:
    """-log of the share of each count."""
    return np.asarray(np.log(counts.sum()) - np.log(counts))


def _joined(rows: Iterable[list[int]]) -> Ints:
    return np.fromiter(chain.from_iterable(rows), np.int64)


def _target_ids(generator: Generator, examples: list[Example]) -> list[list[int]]:
    """The ids of every reference, or of every line of a stream, with their ends."""
    if generator.config.data.window is None:
        return [generator.codec.encode_target(reference) for example in examples for reference in example.references]
    lines = [f"{example.references[0]}\n" for example in examples]
    return StreamTokenizer(generator.target_tokenizer).encode_batch(lines)


def _stream_likelihood(generator: Generator, examples: list[Example]) -> Likelihoods:
    """Sums over windows and over lines; the words and characters of a line are spread evenly over its tokens."""
    window = generator.config.data.window
    assert window is not None
    rows = _target_ids(generator, examples)
    lengths = np.array([len(row) for row in rows])
    sizes = np.array([_size(example.references[0]) for example in examples], dtype=np.float64).reshape(-1, 2)
    ids = _joined(rows)
    spread = np.repeat(sizes / lengths[:, None], lengths, axis=0)  # [n, 2]
    table = np.column_stack([stream_nats(generator, ids), np.ones(len(ids)), spread])
    return Likelihoods(np.add.reduceat(table, np.arange(0, len(ids), window)), _sums(table, lengths))


def _nats_per(count: int, then: Callable[[Statistics], Statistics]) -> Callable[[Statistics], Statistics]:
    def value(sums: Statistics) -> Statistics:
        return then(sums[..., NATS] / np.maximum(sums[..., count], 1.0))

    return value


def _exp(nats: Statistics) -> Statistics:
    with np.errstate(over="ignore"):  # an overflow is infinity
        return np.asarray(np.exp(nats))


LIKELIHOOD_METRICS: dict[str, Callable[[Statistics], Statistics]] = {
    "loss": _nats_per(TOKENS, np.asarray),
    "perplexity": _nats_per(TOKENS, _exp),
    "word_perplexity": _nats_per(WORDS, _exp),
    "bits_per_character": _nats_per(CHARACTERS, lambda nats: np.asarray(nats / np.log(2.0))),
}
"""Summed statistics [..., 4] → nats per token; exp(nats / tokens); exp(nats / words); nats / ln 2 / characters."""

SIGNATURES = {
    "word_perplexity": "exp(nats / words between white space); an end of a text or line is a word",
    "bits_per_character": "nats / ln 2 / grapheme clusters; an end of a text or line is a character",
}


def likelihood_value(statistics: Statistics, name: str) -> float:
    """The value of one of LIKELIHOOD_METRICS."""
    return float(LIKELIHOOD_METRICS[name](statistics.sum(axis=0)))


def likelihood_estimate(statistics: Statistics, name: str, samples: int) -> Estimate:
    """The value with its interval over pairs or lines, or over the windows of a stream."""
    return estimate_value(statistics, LIKELIHOOD_METRICS[name], samples=samples)
