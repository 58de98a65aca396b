"""Where a model looks while it writes given targets."""
# T target steps, S source steps

from __future__ import annotations

import numpy as np
import torch

from antiphon.config.schema import Config
from antiphon.decoding.ask import Check
from antiphon.decoding.generation import Heads
from antiphon.decoding.wording import Wording
from antiphon.model import SequenceModel
from antiphon.sequence import Sequence
from antiphon.sources.batches import source_batch
from antiphon.sources.vocabulary import PAD

__all__ = ["Looker"]


class Looker:
    """Looks once more, at targets that are known: the decoder's kind tells where its attention to a source is."""

    def __init__(self, config: Config, model: SequenceModel, wording: Wording, check: Check | None) -> None:
        self.model = model
        self.wording = wording
        self.check = check
        kind = config.model.decoder.kind
        self.in_steps = kind in ("bahdanau", "luong")  # each step hands it out
        self.in_heads = kind == "transformer" and config.data.source is not None  # it has to be asked for

    def weights(self, sources: list[list[int]], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The one matrix [T, S] to look at, without padding: a recurrent decoder's weights, the mean of many heads."""
        if self.in_steps:
            return self._of_steps(sources, targets)
        if self.in_heads:
            return [self.look(source, target).mean for source, target in zip(sources, targets, strict=True)]
        return [None] * len(sources)

    @torch.inference_mode()
    def look(self, source: list[int], target: list[int]) -> Heads:
        """Every layer and head; a target alone, so that there is no padding."""
        if self.check is not None:
            self.check()
        looks = self.model.look(source_batch([source]), torch.tensor([[self.wording.start, *target[:-1]]]))
        parts = (looks.cross, looks.own, looks.source)
        cross, own, itself = (None if part is None else part[0].numpy() for part in parts)
        return Heads(cross=cross, own=own, source=itself)

    @torch.inference_mode()
    def _of_steps(self, sources: list[list[int]], targets: list[list[int]]) -> list[np.ndarray | None]:
        if self.check is not None:
            self.check()
        inputs = Sequence.of_ids([[self.wording.start, *target[:-1]] for target in targets], PAD)
        found = self.model(source_batch(sources), inputs.values).weights
        assert found is not None
        return [
            found[row, : len(target), : len(source) + 1].numpy()  # the source's </s> counts
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]
