"""How probable a text is to a model, and the figures that follow from it: loss, perplexity, bits per character."""
# n tokens, B parts, T columns, V vocabulary
# N pairs, lines or windows; n tokens of a stream; B parts, W window, V vocabulary

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from antiphon.data.batches import source_batch
from antiphon.data.pairs import Example
from antiphon.data.tokenizers import StreamTokenizer
from antiphon.evaluation.edit import Statistics, characters, words
from antiphon.evaluation.intervals import Estimate, estimate_value
from antiphon.inference.generator import Generator
from antiphon.inference.rescoring import said
from antiphon.sequence import State

__all__ = ["LIKELIHOOD_METRICS", "SIGNATURES", "likelihood", "likelihood_estimate", "likelihood_value", "stream_nats"]

# -log p of every token of a long text, read as training reads it: window after window.

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
PARTS = 16  # side by side; one after the other would take many times as long
SHORTEST = 8  # windows of a part, at least


@dataclass(frozen=True)
class Parts:
    """A text of n tokens in parts of equal length, each with the last `warm` tokens of the one before in front.

    Those are read, so that a part does not begin with an empty mind, but counted only where they belong.
    """

    tokens: int
    count: int
    length: int
    warm: int

    @classmethod
    def of(cls, tokens: int, *, window: int) -> Parts:
        count = max(1, min(PARTS, tokens // (SHORTEST * window)))
        warm = window if count > 1 else 0
        return cls(tokens, count, length=-(-(tokens - warm) // (count * window)) * window, warm=warm)

    def window(self, first: int, last: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """The places of columns first..last - 1 in the text, and which of them count [B, T]."""
        parts, columns = np.arange(self.count)[:, None], np.arange(first, last)
        places = parts * self.length + columns
        return places, (places < self.tokens) & ((parts == 0) | (columns >= self.warm))


def stream_nats(generator: Generator, ids: Ints) -> Floats:
    """[n]: -log p of each token, once; the batch size makes no difference.

    A recurrent network carries its state from window to window; a Transformer sees each window on its own.
    """
    if generator.wording.room is None:
        return _carried_nats(generator, ids)
    [log_probs] = generator.engine.log_probs([[]], [ids.tolist()], PARTS)
    return -np.array(log_probs)


@torch.inference_mode()
def _carried_nats(generator: Generator, ids: Ints) -> Floats:
    window = generator.config.data.window or len(ids)
    parts = Parts.of(len(ids), window=window)
    inputs, outputs = (np.pad(side, (0, parts.count * parts.length)) for side in (_before(generator, ids), ids))
    nats = np.zeros(len(inputs))
    state: State = generator.model.start(source_batch([[]] * parts.count))
    for first in range(0, parts.length + parts.warm, window):
        if generator.check is not None:
            generator.check()
        places, counted = parts.window(first, first + window)
        step = generator.model.step(torch.from_numpy(inputs[places]), state)
        state = step.state
        log_probs = said(step.logits, torch.from_numpy(outputs[places]))
        nats[places[counted]] = -log_probs.double().numpy()[counted]
    return nats[: len(ids)]


def _before(generator: Generator, ids: Ints) -> Ints:
    """The input at each place: the token before it."""
    return np.concatenate([np.array([generator.wording.start]), ids[:-1]])


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


LIKELIHOOD_METRICS: dict[str, Callable[[Statistics], Statistics]] = {
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
    return float(LIKELIHOOD_METRICS[name](statistics.sum(axis=0)))


def likelihood_estimate(statistics: Statistics, name: str, samples: int) -> Estimate:
    """The same with its interval: over pairs or lines, or over the windows of a stream."""
    return estimate_value(statistics, LIKELIHOOD_METRICS[name], samples=samples)
