"""One training step: run the model on a batch with teacher forcing and compute the loss that an update minimises.

A loss is a sum and a count; only the loop divides.
"""
# B batch, T target steps, S source steps, V vocabulary, N real positions

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batch
from antiphon.data.corpus import Corpus, Ragged, read_lengths
from antiphon.errors import ConfigError
from antiphon.models.attention import HardAlignment, SampledAlignment
from antiphon.models.decoders.decoder import Hidden, Step
from antiphon.models.model import EncoderDecoder, SequenceModel
from antiphon.sequence import Sequence, State
from antiphon.training.blockwise_loss import blockwise_cross_entropy
from antiphon.training.numerics import mixed_precision
from antiphon.training.scheduled_sampling import NEVER_SAMPLED, forward_with_sampling

__all__ = ["ctc_length_warnings", "training_step"]

Ints = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Loss:
    """Sums over the real target positions of a batch."""

    total: Tensor  # minimised: with label smoothing and all additional losses
    plain: Tensor  # -Σ log p(y_t), without them and without gradient
    count: int

    def backward(self, scale: float = 1.0) -> None:
        """Add scale · ∂total/∂θ to the gradient of every parameter."""
        torch.autograd.backward(self.total * scale)


@dataclass(frozen=True)
class StepResult:
    """The loss of a batch, and the decoder state after its last position."""

    loss: Loss
    state: Any  # a State, whose class the decoder knows


def training_step(
    model: SequenceModel,
    batch: Batch,
    config: TrainingConfig,
    *,
    sampling: float = 0.0,
    forbidden: tuple[int, ...] = NEVER_SAMPLED,
    state: State | None = None,
) -> StepResult:
    """Run the model on a batch and compute its loss.

    Teacher forcing: the decoder reads the reference token at every step. With scheduled sampling it reads, with
    probability `sampling`, one of its own instead, but none that is `forbidden`. It continues from `state` (of the
    previous window of a stream) if there is one, else it starts from the source.
    """
    with mixed_precision(config.precision):
        return _step(model, batch, config, sampling, forbidden, state)


def _step(
    model: SequenceModel,
    batch: Batch,
    config: TrainingConfig,
    sampling: float,
    forbidden: tuple[int, ...],
    state: State | None,
) -> StepResult:
    state, ctc = _start(model, batch) if state is None else (state, None)
    hidden = model.decoder.hidden(batch.inputs, state) if sampling == 0.0 and not draws_positions(model) else None
    if hidden is not None:
        loss = output_loss(model.decoder.output, hidden.outputs, batch.outputs, config.label_smoothing)
        return _finished(loss, ctc, batch, config, hidden)
    if sampling > 0.0:
        step = forward_with_sampling(model, state, batch.inputs, sampling, forbidden)
    else:
        step = model.step(batch.inputs, state)
    loss = cross_entropy(step.logits, batch.outputs, config.label_smoothing)
    if step.sampled is not None:
        reinforce = reinforce_loss(step.logits, batch.outputs, step.sampled, hard_alignment(model))
        loss = replace(loss, total=loss.total + reinforce)
    return _finished(loss, ctc, batch, config, step)


def _finished(
    loss: Loss, ctc: Tensor | None, batch: Batch, config: TrainingConfig, step: Step[Any] | Hidden[Any]
) -> StepResult:
    """The result of a step, with the losses of its attention and of the encoder."""
    total = loss.total if ctc is None else loss.total + ctc
    if (guided := config.guided_attention) is not None and step.weights is not None:
        source = step.state.source.mask
        total = total + guided.weight * guided_attention_loss(step.weights, batch.outputs.mask, source, guided.width)
    return StepResult(replace(loss, total=total), step.state)


def _start(model: SequenceModel, batch: Batch) -> tuple[State, Tensor | None]:
    """The decoder state after the source, and the CTC loss of the encoder if the model has one."""
    if not isinstance(model, EncoderDecoder) or model.spelling is None:
        return model.start(batch.source), None
    memory = model.encode(batch.source)
    return model.decoder.start(memory), model.spelling.loss(memory, batch.outputs)


def output_loss(layer: nn.Linear, outputs: Tensor, targets: Sequence, smoothing: float) -> Loss:
    """`cross_entropy` of the logits of an output layer [B, T, D] → [B, T, V], computed without a table of them."""
    rows, tokens = outputs[targets.mask], targets.values[targets.mask]
    total, plain = blockwise_cross_entropy(rows, layer.weight, layer.bias, tokens, smoothing)
    return Loss(total, plain, count=len(tokens))


def cross_entropy(logits: Tensor, outputs: Sequence, smoothing: float = 0.0) -> Loss:
    """-Σ_t Σ_v q_t(v) log p_t(v) with q = (1 - ε) [v = y_t] + ε / V, over the real positions only.

    V counts the tokens that are possible there: for a tagger, </s> after the last label and nothing else.
    """
    log_probs = torch.log_softmax(logits[outputs.mask], dim=-1)  # [N, V]
    plain = -log_probs.gather(1, outputs.values[outputs.mask].unsqueeze(1)).sum()
    total = plain if smoothing == 0.0 else (1.0 - smoothing) * plain - smoothing * _mean_log_probs(log_probs).sum()
    return Loss(total=total, plain=plain.detach(), count=log_probs.size(0))


def _mean_log_probs(log_probs: Tensor) -> Tensor:
    """The mean over the possible tokens of each row of [N, V]."""
    impossible = log_probs == -torch.inf
    if not bool(impossible.any()):
        return log_probs.mean(dim=-1)
    return log_probs.masked_fill(impossible, 0.0).sum(dim=-1) / (~impossible).sum(dim=-1)


# Guided attention: a source that is read in order is attended along the diagonal.


def guided_attention_loss(weights: Tensor, target: Tensor, source: Tensor, width: float) -> Tensor:
    """Σ_t Σ_j α_tj (1 - exp(-(x_j - y_t)² / 2g²)) with g the width, over the real positions (Tachibana et al. 2018)

    Relative positions run from 0 to 1: x_j = (j - 1) / (n - 1) and y_t = (t - 1) / (m - 1). `weights` is [B, T, S];
    the masks `target` [B, T] and `source` [B, S] have m and n real positions.
    """
    distance = _relative_positions(source).unsqueeze(1) - _relative_positions(target).unsqueeze(2)  # [B, T, S]
    penalty = 1.0 - torch.exp(-0.5 * (distance / width).square())
    return (weights * penalty * target.unsqueeze(2)).sum()


def _relative_positions(mask: Tensor) -> Tensor:
    """Positions scaled so that the first real one is 0 and the last is 1 [B, S]."""
    steps = torch.arange(mask.size(1), device=mask.device)
    return steps / (mask.sum(1, keepdim=True) - 1).clamp_min(1)


# Hard attention: the position to attend to is drawn at random, and REINFORCE teaches where (Show, Attend and Tell).


def draws_positions(model: nn.Module) -> bool:
    """True if the model draws the positions that it attends to."""
    return model.training and any(isinstance(part, HardAlignment) for part in model.modules())


def hard_alignment(model: nn.Module) -> HardAlignment:
    """The part of a model that draws positions, with its baseline."""
    [alignment] = [part for part in model.modules() if isinstance(part, HardAlignment)]
    return alignment


def reinforce_loss(logits: Tensor, outputs: Sequence, sampled: SampledAlignment, alignment: HardAlignment) -> Tensor:
    """-Σ_t (R_t - b n_t) log π(a_t) - λ Σ_t H_t, over the real positions; updates the baseline b afterwards.

    Together with -Σ_t log p(y_t) this has, on average over the draws, the gradient of the expected log likelihood:

        ∇ E[Σ_t log p(y_t)] = E[Σ_t ∇ log p(y_t)] + E[Σ_t R_t ∇ log π(a_t)],    R_t = Σ_{u≥t} log p(y_u)

    The reward to go R_t leaves out the tokens before the draw: a_t has no influence on them, and a reward that does
    not depend on a_t adds nothing on average, for Σ_a π(a) ∇ log π(a) = ∇ Σ_a π(a) = ∇ 1 = 0. It would only add
    noise. For the same reason the baseline b n_t may be subtracted: n_t tokens are still to come, and b is the moving
    average of log p per token. The entropy H_t of the distribution that a_t is drawn from keeps it from collapsing too
    early. (Its gradient is taken at the draws made; the effect of earlier draws on H_t is ignored.)
    """
    rewards = _log_likelihood(logits, outputs)  # [B, T]
    real = outputs.mask.to(rewards.dtype)
    advantage = _to_go(rewards) - alignment.baseline * _to_go(real)
    alignment.update_baseline(rewards.sum() / real.sum())
    gain = advantage * sampled.log_probs + alignment.entropy_weight * sampled.entropy
    return -gain[outputs.mask].sum()


@torch.no_grad()
def _log_likelihood(logits: Tensor, outputs: Sequence) -> Tensor:
    """log p(y_t) at every real position, 0 at padding [B, T]; a reward has no gradient."""
    log_probs = torch.log_softmax(logits, dim=-1).gather(2, outputs.values.unsqueeze(2)).squeeze(2)
    return log_probs.masked_fill(~outputs.mask, 0.0)


def _to_go(values: Tensor) -> Tensor:
    """Σ_{u≥t} values_u"""
    return values.flip(1).cumsum(1).flip(1)


# CTC: the length of the encoder's output must suffice for the target.

CTC_REMEDY = "let the front end keep more of the width or time (front.wide, fewer stages, kind linear), or set it to 0"


def ctc_length_warnings(model: SequenceModel, train: Corpus) -> list[str]:
    """Warn of training pairs whose source has too few states for CTC; raise ConfigError if all are of that kind."""
    if not isinstance(model, EncoderDecoder) or model.spelling is None:
        return []
    lacking = int((_encoder_lengths(model, train) < _required_lengths(train.target)).sum())
    fact = f"model.ctc: {lacking:,} of {len(train):,} training pairs have fewer encoder states than CTC needs"
    if lacking == len(train):
        raise ConfigError(f"{fact}, so it has no effect; {CTC_REMEDY}")
    return [f"{fact}, so it learns nothing from them; {CTC_REMEDY}"] if lacking else []


def _encoder_lengths(model: EncoderDecoder, train: Corpus) -> Ints:
    """The number of states S of each source, behind its front end."""
    lengths, inverse = np.unique(read_lengths(train.source), return_inverse=True)
    [front] = model.front_ends
    return np.array([len(front.names(int(length))) for length in lengths])[inverse]


def _required_lengths(target: Ragged) -> Ints:
    """A state for each of T tokens, and a blank between two that are equal."""
    equal = np.zeros(len(target.ids) + 1, dtype=np.int64)  # cumulative count of neighbours that are equal
    equal[2:] = np.cumsum(target.ids[1:] == target.ids[:-1])
    starts, ends = target.offsets[:-1], target.offsets[1:]
    return np.asarray(target.lengths + equal[ends] - equal[np.minimum(starts + 1, ends)])
