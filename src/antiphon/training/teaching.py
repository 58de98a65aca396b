"""One batch: from the pairs to the loss that an update minimises."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from antiphon.config.schema import TrainingConfig
from antiphon.model import EncoderDecoder, SequenceModel
from antiphon.sequence import State
from antiphon.sources.batches import Batch
from antiphon.training.diagonal import off_diagonal
from antiphon.training.loss import Loss, cross_entropy
from antiphon.training.reinforce import alignment_of, reinforce
from antiphon.training.sampling import UNSAID, own_words

__all__ = ["Taught", "teach"]


@dataclass(frozen=True)
class Taught:
    """What a batch taught: its loss, and the state after its last step."""

    loss: Loss
    state: Any  # a State; which, the decoder knows


def teach(
    model: SequenceModel,
    batch: Batch,
    config: TrainingConfig,
    *,
    share: float = 0.0,
    forbidden: tuple[int, ...] = UNSAID,
    state: State | None = None,
) -> Taught:
    """Teacher forcing: the decoder is given the right word at every step; its own instead in this share of them.

    What is `forbidden` is never one of its own. It goes on from `state` where there is one, else from the source.
    """
    state, spelt = _start(model, batch) if state is None else (state, None)
    step = own_words(model, state, batch.inputs, share, forbidden) if share > 0.0 else model.step(batch.inputs, state)
    loss = cross_entropy(step.logits, batch.outputs, config.label_smoothing)
    total = loss.total if spelt is None else loss.total + spelt
    if step.drawn is not None:
        total = total + reinforce(step.logits, batch.outputs, step.drawn, alignment_of(model))
    if config.diagonal > 0.0 and step.weights is not None:
        source, width = step.state.source.mask, config.diagonal_width
        total = total + config.diagonal * off_diagonal(step.weights, batch.outputs.mask, source, width)
    return Taught(replace(loss, total=total), step.state)


def _start(model: SequenceModel, batch: Batch) -> tuple[State, Tensor | None]:
    """The state after the source; what it costs that the encoder spells the target, if it does."""
    if not isinstance(model, EncoderDecoder) or model.spelling is None:
        return model.start(batch.source), None
    memory = model.remember(batch.source)
    return model.decoder.start(memory), model.spelling.cost(memory, batch.outputs)
