"""Pretext tasks: a source is spoilt, and the model learns to say what it was.

What is drawn depends on (seed, epoch, row) alone: not on the batch a row is in, nor on where training was interrupted.
A source never gets longer, so a plan of batches that counts clean lengths keeps within its budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from antiphon.config.schema import NoiseConfig, TrainingConfig
from antiphon.data.source import Source
from antiphon.data.tokenizers import UNK, Tokenizer

__all__ = [
    "OF_FILES",
    "Noise",
    "NoisyTokenizer",
    "as_read",
    "delete",
    "infill",
    "mask",
    "noise_of",
    "noisy",
    "permute",
    "spoil",
]

Ids = npt.NDArray[np.integer[Any]]
Random = np.random.Generator

MARKS = (".", "!", "?")
# The last word of a seed: no two uses draw the same numbers.
OF_ROWS, OF_TEXTS, OF_FILES = 1, 2, 3


def spoil(ids: Ids, draw: Random, config: NoiseConfig, ends: npt.NDArray[np.bool_]) -> Ids:
    """A source after all that the configuration asks for, in this order; at least one token, and no more than before.

    `ends[id]` says whether a sentence ends after this token.
    """
    if config.permute:
        ids = permute(ids, draw, ends)
    ids = infill(ids, draw, share=config.infill, span=config.span)
    ids = mask(ids, draw, share=config.mask)
    return delete(ids, draw, share=config.delete)


def permute(ids: Ids, draw: Random, ends: npt.NDArray[np.bool_]) -> Ids:
    """The sentences in any order. One ends after its last mark (. ! ?); what follows the last mark counts as one."""
    marks = ends[ids]
    last = marks[:-1] & ~marks[1:]  # "..." ends a sentence once
    sentences = np.split(ids, np.flatnonzero(last) + 1)
    return np.concatenate([sentences[number] for number in draw.permutation(len(sentences))])


def infill(ids: Ids, draw: Random, *, share: float, span: float) -> Ids:
    """Spans of tokens, Poisson(span) long, each become one <unk>; a span of length 0 is an <unk> put in between.

    How many tokens are hidden is drawn from Binomial(n, share); where the spans stand is drawn evenly. An insertion
    for which nothing has made room yet is a span of one, so that a source never gets longer.
    """
    left = hidden = int(draw.binomial(len(ids), share))
    lengths: list[int] = []
    while left > 0:
        room = hidden - left - len(lengths)  # tokens that have gone, less the <unk> that have come
        length = min(int(draw.poisson(span)), left) or int(room == 0)
        lengths.append(length)
        left -= length
    pieces = len(ids) - hidden + len(lengths)  # each token that stays, and each span
    taken = np.ones(pieces, np.int64)
    is_span = np.zeros(pieces, np.bool_)
    is_span[draw.choice(pieces, len(lengths), replace=False)] = True
    taken[is_span] = lengths
    first = np.cumsum(taken) - taken  # where each piece begins
    result = np.full(pieces, UNK, ids.dtype)
    result[~is_span] = ids[first[~is_span]]
    return result


def mask(ids: Ids, draw: Random, *, share: float) -> Ids:
    """Each token becomes <unk> with this probability."""
    return np.where(draw.random(len(ids)) < share, ids.dtype.type(UNK), ids)


def delete(ids: Ids, draw: Random, *, share: float) -> Ids:
    """Each token goes with this probability; if all would, the one with the largest draw stays."""
    drawn = draw.random(len(ids))
    kept: Ids = ids[drawn >= min(share, drawn.max(initial=0.0))]
    return kept


class Noise:
    """The pretext tasks of a run."""

    def __init__(self, config: NoiseConfig, tokenizer: Tokenizer, *, seed: int) -> None:
        symbols = tokenizer.symbols(range(tokenizer.size))
        self.config = config
        self.seed = seed
        self.ends = np.array([symbol.endswith(MARKS) for symbol in symbols])

    def of_epoch(self, epoch: int) -> Callable[[int, Ids], Ids]:
        """What becomes of a row (its number, its ids) in this epoch."""

        def of_row(row: int, ids: Ids) -> Ids:
            return self._spoil(ids, [self.seed, epoch, row, OF_ROWS])

        return of_row

    def of_text(self, text: str, ids: Sequence[int]) -> list[int]:
        """What becomes of a text outside the corpus: always the same."""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        seed = [self.seed, int.from_bytes(digest, "big"), OF_TEXTS]
        return [int(number) for number in self._spoil(np.array(ids, np.int64), seed)]

    def _spoil(self, ids: Ids, seed: list[int]) -> Ids:
        return spoil(ids, np.random.default_rng(seed), self.config, self.ends) if len(ids) else ids


def noise_of(config: NoiseConfig, source: Source, *, seed: int) -> Noise | None:
    """None if nothing is to be spoilt; only a text can be."""
    asked = config.mask or config.delete or config.infill or config.permute
    return Noise(config, source, seed=seed) if asked and isinstance(source, Tokenizer) else None


class NoisyTokenizer(Tokenizer):
    """Spoils what it encodes, each text always in the same way: so dev measures the pretext task.

    For evaluations during training only; it is never saved.
    """

    def __init__(self, inner: Tokenizer, noise: Noise) -> None:
        self.inner = inner
        self.noise = noise
        self.kind = inner.kind
        self.size = inner.size

    def encode(self, text: str) -> list[int]:
        return self.noise.of_text(text, self.inner.encode(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.noise.of_text(text, ids) for text, ids in zip(texts, self.inner.encode_batch(texts), strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        return self.inner.decode(ids)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return self.inner.symbols(ids)

    def unknown(self, text: str) -> list[str]:
        return self.inner.unknown(text)

    def content(self) -> dict[str, Any]:
        return self.inner.content()


def noisy(source: Source, training: TrainingConfig) -> Source:
    """What dev sources are read with while training."""
    noise = noise_of(training.noise, source, seed=training.seed)
    return NoisyTokenizer(source, noise) if noise and isinstance(source, Tokenizer) else source


def as_read(source: Source, text: str) -> str:
    """What a model is asked when it is asked this: the text, or what noise leaves of it."""
    return source.decode(source.encode(text)) if isinstance(source, NoisyTokenizer) else text
