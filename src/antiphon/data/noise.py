"""Pretext tasks: the source is corrupted, and the model learns to restore it (a denoising autoencoder).

The noise of a row depends on (seed, epoch, row) alone: not on its batch, nor on where training was interrupted.
A source never gets longer, so a plan of batches that counts clean lengths keeps within its budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from antiphon.config.schema import NoiseConfig
from antiphon.data.source import Ints, Random
from antiphon.data.tokenizers import UNK, Tokenizer, WrappedTokenizer

__all__ = ["Noise"]

MARKS = (".", "!", "?")
ROWS_STREAM, TEXTS_STREAM = 1, 2  # last word of the seed, so that no two uses draw the same numbers


def corrupt(ids: Ints, draw: Random, config: NoiseConfig, ends: npt.NDArray[np.bool_]) -> Ints:
    """A source after all tasks of the configuration, in this order; at least one token, and no more than before.

    `ends[id]` is true if a sentence ends after this token.
    """
    if config.permute:
        ids = permute(ids, draw, ends)
    if config.shuffle:
        ids = shuffle(ids, draw, most=config.shuffle)
    if config.infill:
        ids = infill(ids, draw, share=config.infill.share, span=config.infill.span)
    ids = mask(ids, draw, share=config.mask)
    return delete(ids, draw, share=config.delete)


def permute(ids: Ints, draw: Random, ends: npt.NDArray[np.bool_]) -> Ints:
    """The sentences in random order. One ends after its last mark (. ! ?); the rest counts as one."""
    sentences = split_sentences(ids, ends)
    return np.concatenate([sentences[number] for number in draw.permutation(len(sentences))])


def split_sentences(ids: Ints, ends: npt.NDArray[np.bool_]) -> list[Ints]:
    """The sentences of a source: "..." ends one once."""
    known = np.where(ids < len(ends), ids, UNK)  # unknown words with affixes have ids above those of all symbols
    marks = ends[known]
    return np.split(ids, np.flatnonzero(marks[:-1] & ~marks[1:]) + 1)


def shuffle(ids: Ints, draw: Random, *, most: int) -> Ints:
    """The tokens in the order of i + U(0, most + 1), so that each moves by at most `most` (Lample et al. 2018)."""
    shuffled: Ints = ids[np.argsort(np.arange(len(ids)) + draw.uniform(0, most + 1, len(ids)), kind="stable")]
    return shuffled


def infill(ids: Ints, draw: Random, *, share: float, span: float) -> Ints:
    """Spans of tokens, Poisson(span) long, each become one <unk>; a span of length 0 inserts an <unk>.

    The number of hidden tokens is drawn from Binomial(n, share), the places of the spans evenly. An insertion before
    any token has gone becomes a span of one, so that a source never gets longer.
    """
    left = hidden = int(draw.binomial(len(ids), share))
    lengths: list[int] = []
    while left > 0:
        shorter = hidden - left - len(lengths)  # tokens that have gone, less the <unk> inserted
        length = min(int(draw.poisson(span)), left) or int(shorter == 0)
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


def mask(ids: Ints, draw: Random, *, share: float) -> Ints:
    """Each token becomes <unk> with this probability."""
    return np.where(draw.random(len(ids)) < share, ids.dtype.type(UNK), ids)


def delete(ids: Ints, draw: Random, *, share: float) -> Ints:
    """Each token is deleted with this probability; if all would be, the one with the largest draw stays."""
    drawn = draw.random(len(ids))
    kept: Ints = ids[drawn >= min(share, drawn.max(initial=0.0))]
    return kept


class Noise:
    """The pretext tasks of a run."""

    def __init__(self, config: NoiseConfig, tokenizer: Tokenizer, *, seed: int) -> None:
        symbols = tokenizer.symbols(range(tokenizer.size))
        self.config = config
        self.tokenizer = tokenizer
        self.seed = seed
        self.ends = np.array([symbol.endswith(MARKS) for symbol in symbols])

    def warnings(self, rows: Sequence[Ints]) -> list[str]:
        """A sentence if `permute` leaves more than half of these sources as they are."""
        if not self.config.permute:
            return []
        several = sum(len(split_sentences(ids, self.ends)) > 1 for ids in rows)
        if 2 * several >= len(rows):
            return []
        return [
            f"training.noise.permute: only {several} of the first {len(rows)} training sources have more than one "
            "sentence (each ends with . ! or ?), and the others stay as they are; use training.noise.shuffle instead"
        ]

    def of_epoch(self, epoch: int) -> Callable[[int, Ints], Ints]:
        """The function of this epoch from the number of a row and its ids to the ids with noise."""
        return lambda row, ids: self._corrupt(ids, [self.seed, epoch, row, ROWS_STREAM])

    def of_text(self, text: str, ids: Sequence[int]) -> list[int]:
        """The ids of a text outside the corpus with noise, always the same."""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        seed = [self.seed, int.from_bytes(digest, "big"), TEXTS_STREAM]
        return [int(number) for number in self._corrupt(np.array(ids, np.int64), seed)]

    def reader(self) -> NoisyTokenizer:
        """A tokenizer that adds this noise."""
        return NoisyTokenizer(self)

    def _corrupt(self, ids: Ints, seed: list[int]) -> Ints:
        return corrupt(ids, np.random.default_rng(seed), self.config, self.ends) if len(ids) else ids


class NoisyTokenizer(WrappedTokenizer):
    """Adds noise to what it encodes, to each text always the same, so that dev measures the pretext task.

    For evaluations during training only.
    """

    def __init__(self, noise: Noise) -> None:
        super().__init__(noise.tokenizer)
        self.noise = noise

    def written(self, ids: Sequence[int], text: str) -> list[str]:  # noqa: ARG002
        """The symbols: <unk> is a word that the task hides."""
        return self.symbols(ids)

    def shown(self, line: str) -> str:
        return self.decode(self.encode(line))

    def encode(self, text: str) -> list[int]:
        return self.noise.of_text(text, self.inner.encode(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.noise.of_text(text, ids) for text, ids in zip(texts, self.inner.encode_batch(texts), strict=True)]
