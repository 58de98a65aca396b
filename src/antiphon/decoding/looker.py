"""Where a model looks while it writes given targets."""
# T target steps, S source steps

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from antiphon.config.models import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.decoding.ask import Check
from antiphon.decoding.generation import Copies, Heads
from antiphon.decoding.scorer import said
from antiphon.decoding.wording import Wording
from antiphon.model import SequenceModel
from antiphon.sequence import Sequence
from antiphon.sources.batches import source_batch
from antiphon.sources.source import Read
from antiphon.sources.vocabulary import PAD

__all__ = ["Looker"]

TOGETHER = 16  # sentences whose weights of all layers and heads are in memory at once


class Looker:
    """Looks once more, at targets that are known: the decoder's kind tells where its attention to a source is."""

    def __init__(self, config: Config, model: SequenceModel, wording: Wording, check: Check | None) -> None:
        self.model = model
        self.wording = wording
        self.check = check
        kind = config.model.decoder.kind
        self.in_steps = kind in ("bahdanau", "luong")  # each step hands it out
        self.in_heads = kind == "transformer" and config.data.source is not None  # it has to be asked for
        self.copies_words = isinstance(config.model, EncoderDecoderConfig) and config.model.copying

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The one matrix [T, S] to look at, without padding: a recurrent decoder's weights, the mean of many heads."""
        if self.in_steps:
            return self._of_steps(sources, targets)
        if self.in_heads:
            groups = range(0, len(sources), TOGETHER)
            return [one for g in groups for one in self._of_heads(sources[g : g + TOGETHER], targets[g : g + TOGETHER])]
        return [None] * len(sources)

    @torch.inference_mode()
    def look(self, source: Read, target: list[int]) -> Heads:
        """Every layer and head; a target alone, so that there is no padding."""
        if self.check is not None:
            self.check()
        looks = self.model.look(source_batch([source]), torch.tensor([[self.wording.start, *target[:-1]]]))
        parts = (looks.cross, looks.own, looks.source)
        cross, own, itself = (None if part is None else part[0].numpy() for part in parts)
        return Heads(cross=cross, own=own, source=itself)

    @torch.inference_mode()
    def _of_heads(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The mean over layers and heads."""
        if self.check is not None:
            self.check()
        cross = self.model.look(source_batch(sources), self._inputs(targets)).cross  # [R, L, N, T, S]
        assert cross is not None
        return self._cropped(cross.mean((1, 2)), sources, targets)

    @torch.inference_mode()
    def _of_steps(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        if self.check is not None:
            self.check()
        found = self.model(source_batch(sources), self._inputs(targets)).weights
        assert found is not None
        return self._cropped(found, sources, targets)

    def _cropped(self, weights: Tensor, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """[R, T, S] without padding."""
        return [
            weights[row, : len(target), : self.wording.remembered(source)].numpy()
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]

    @torch.inference_mode()
    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:
        """What was copied: p(copied from j, y) / p(y) of every token y; None where nothing can be."""
        if not self.copies_words:
            return [None] * len(sources)
        if self.check is not None:
            self.check()
        outputs = Sequence.of_ids(targets, PAD).values
        step = self.model(source_batch(sources), self._inputs(targets))
        if step.copied is None:  # an ensemble says no more than p
            return [None] * len(sources)
        found = step.copied.of(outputs)  # [R, T, S]
        shares = (found.sum(dim=-1) / said(step.logits, outputs).exp()).clamp(max=1.0)
        rows = zip(targets, shares.tolist(), found.argmax(dim=-1).tolist(), strict=True)
        return [Copies(share[: len(target)], places[: len(target)]) for target, share, places in rows]

    def _inputs(self, targets: list[list[int]]) -> Tensor:
        """What a decoder is given to say these [R, T]."""
        return Sequence.of_ids([[self.wording.start, *target[:-1]] for target in targets], PAD).values
