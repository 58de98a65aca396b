"""-log p of every token of a long text, read as training reads it: window after window."""
# n tokens, B parts, T columns, V vocabulary

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from antiphon.decoding.generator import Generator
from antiphon.decoding.scorer import said
from antiphon.sequence import State
from antiphon.sources.batches import source_batch

__all__ = ["stream_nats"]

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
