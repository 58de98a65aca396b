"""Rescoring: log probabilities and attention of given targets, teacher-forced."""
# B windows, R rows, T target steps, S source steps, V vocabulary, L layers, N heads

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.data.batches import batch_by_length, source_batch
from antiphon.data.source import Read, positions
from antiphon.data.tokenizers import PAD
from antiphon.inference.generation import AttentionHeads, Copies
from antiphon.inference.inputs import Codec
from antiphon.models.model import SequenceModel
from antiphon.search.hypothesis import Check
from antiphon.sequence import Sequence

__all__ = ["AttentionReader", "TargetScorer", "token_log_probs"]

HEADS_BATCH = 16  # sentences whose weights of all layers and heads are in memory at once


def token_log_probs(logits: Tensor, tokens: Tensor) -> Tensor:
    """log p of tokens [B, T], of logits [B, T, V]; not log_softmax, because a second [B, T, V] may not fit."""
    return logits.gather(2, tokens.unsqueeze(2)).squeeze(2) - logits.logsumexp(dim=-1)


@dataclass(frozen=True)
class Window:
    """The tokens of a target that are read at once: all, or as many as the model can attend to."""

    row: int
    source: Read
    before: int  # the token before the first
    tokens: list[int]


class TargetScorer:
    """Computes log p(y | x) of given targets."""

    def __init__(self, model: SequenceModel, codec: Codec, check: Check | None, budget: int) -> None:
        """`budget` is the number of positions that are computed together."""
        self.model = model
        self.codec = codec
        self.check = check
        self.budget = budget

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        """log p of each token of each target; `size` windows are computed together, which makes no difference."""
        pairs = enumerate(zip(sources, targets, strict=True))
        windows = [window for row, (source, target) in pairs for window in self._windows(row, source, target)]
        found: dict[int, list[float]] = {}
        both = [(positions(window.source), len(window.tokens)) for window in windows]
        lengths = [(0, max(read, written), read, written) for read, written in both]
        for batch in batch_by_length(lengths, size, budget=self.budget):
            found |= zip(batch, self._force([windows[index] for index in batch]), strict=True)
        results: list[list[float]] = [[] for _ in targets]
        for index, window in enumerate(windows):
            results[window.row] += found[index]
        return results

    def _windows(self, row: int, source: Read, target: list[int]) -> list[Window]:
        """A Transformer sees each window of a stream on its own, here as in training."""
        size = self.codec.context_length or len(target)
        before = [self.codec.start, *target]
        return [
            Window(row, source, before[first], target[first : first + size]) for first in range(0, len(target), size)
        ]

    @torch.inference_mode()
    def _force(self, windows: list[Window]) -> list[list[float]]:
        if self.check is not None:
            self.check()
        outputs = Sequence.of_ids([window.tokens for window in windows], PAD)
        inputs = Sequence.of_ids([[window.before, *window.tokens[:-1]] for window in windows], PAD)
        step = self.model(source_batch([window.source for window in windows]), inputs.values)
        rows = token_log_probs(step.logits, outputs.values).tolist()
        return [row[: len(window.tokens)] for row, window in zip(rows, windows, strict=True)]


class AttentionReader:
    """Reads the attention of a model to given targets; the kind of its decoder tells where it is."""

    def __init__(self, config: Config, model: SequenceModel, codec: Codec, check: Check | None) -> None:
        self.model = model
        self.codec = codec
        self.check = check
        kind = config.model.decoder.kind
        self.in_steps = kind in ("bahdanau", "luong")  # every step returns its weights
        self.in_heads = kind == "transformer" and config.data.source is not None  # computed on demand
        self.copying = isinstance(config.model, EncoderDecoderConfig) and config.model.copying

    @property
    def available(self) -> bool:
        """True if the model attends to a source."""
        return self.in_steps or self.in_heads

    @torch.inference_mode()
    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """One matrix [T, S] of each pair, without padding: a recurrent decoder's weights, or the mean of all heads."""
        if not self.available:
            return [None] * len(sources)
        size = len(sources) if self.in_steps else HEADS_BATCH
        found: list[np.ndarray | None] = []
        for first in range(0, len(sources), max(1, size)):
            found += self._matrices(sources[first : first + size], targets[first : first + size])
        return found

    def _matrices(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray]:
        if self.check is not None:
            self.check()
        batch, inputs = source_batch(sources), self._inputs(targets)
        if self.in_steps:
            weights = self.model(batch, inputs).weights  # [R, T, S]
        else:
            cross = self.model.attention_weights(batch, inputs).cross  # [R, L, N, T, S]
            weights = None if cross is None else cross.mean((1, 2))
        assert weights is not None
        return [
            weights[row, : len(target), : self.codec.memory_length(source)].numpy()
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    @torch.inference_mode()
    def heads(self, source: Read, target: list[int]) -> AttentionHeads:
        """Every layer and head; one target alone, so that there is no padding."""
        if self.check is not None:
            self.check()
        found = self.model.attention_weights(source_batch([source]), self._inputs([target]))
        parts = (found.cross, found.own, found.source)
        cross, own, itself = (None if part is None else part[0].numpy() for part in parts)
        return AttentionHeads(cross=cross, own=own, source=itself)

    @torch.inference_mode()
    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:
        """p(copied from j, y) / p(y) of every token y; None for a model that does not copy."""
        if not self.copying:
            return [None] * len(sources)
        if self.check is not None:
            self.check()
        outputs = Sequence.of_ids(targets, PAD).values
        step = self.model(source_batch(sources), self._inputs(targets))
        if step.copied is None:  # an ensemble has p only
            return [None] * len(sources)
        found = step.copied.of(outputs)  # [R, T, S]
        shares = (found.sum(dim=-1) / token_log_probs(step.logits, outputs).exp()).clamp(max=1.0)
        rows = zip(targets, shares.tolist(), found.argmax(dim=-1).tolist(), strict=True)
        return [Copies(share[: len(target)], indices[: len(target)]) for target, share, indices in rows]

    def _inputs(self, targets: list[list[int]]) -> Tensor:
        """The decoder inputs of these targets [R, T]."""
        return Sequence.of_ids([[self.codec.start, *target[:-1]] for target in targets], PAD).values
