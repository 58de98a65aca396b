"""One training step: from a batch to the loss that an update minimises."""
# S states of a source, T tokens of a target
# B batch, T target steps, V vocabulary, N real positions
# B batch, T target steps, S source steps
# B batch, T target steps, V vocabulary

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from antiphon.config.schema import Config, DataConfig, TrainingConfig
from antiphon.data.batches import AheadBatches, Batch, Batches, PairBatches, StreamBatches
from antiphon.data.build_source import is_file
from antiphon.data.corpus import Corpus, Ragged, read_lengths
from antiphon.data.noise import noise_of
from antiphon.data.prepare import Prepared
from antiphon.data.tokenizers import Tokenizer, line_end
from antiphon.errors import ConfigError
from antiphon.models.attention import HardAlignment, SampledAlignment
from antiphon.models.decoders.plain import PlainState
from antiphon.models.model import EncoderDecoder, SequenceModel
from antiphon.sequence import Sequence, State
from antiphon.training.scheduled_sampling import NEVER_SAMPLED, forward_with_sampling

__all__ = [
    "Loss",
    "StepResult",
    "build_batches",
    "carried_state",
    "cross_entropy",
    "ctc_length_warnings",
    "describe_data",
    "guided_attention_loss",
    "hard_alignment",
    "reinforce_loss",
    "training_step",
]


def build_batches(config: Config, prepared: Prepared) -> Batches:
    """Pairs or lines, or windows of a stream; a recurrent network carries its state from window to window."""
    training, window = config.training, config.data.window
    if window is None:
        noise = noise_of(training.noise, prepared.source, seed=training.seed)
        pairs = PairBatches(prepared.train, budget=training.batch_tokens, seed=training.seed, noise=noise)
        return AheadBatches(pairs) if any(map(is_file, config.data.sources)) else pairs
    return StreamBatches.of(
        prepared.train.target.ids,
        window=window,
        budget=training.batch_tokens,
        start=line_end(prepared.target_tokenizer),
        seed=training.seed,
        carries=config.model.decoder.kind == "plain",
    )


def describe_data(data: DataConfig, prepared: Prepared) -> str:
    """What there is to learn from, in a sentence."""
    train, dev, size = prepared.train, len(prepared.dev), prepared.target_tokenizer.size
    if data.window is not None:
        return f"a stream of {len(train.target.ids):,} training tokens, {dev:,} dev lines, {size:,} different tokens"
    if data.source is None:
        return f"{len(train):,} training texts, {dev:,} dev texts, {size:,} different tokens"
    if not isinstance(prepared.source, Tokenizer):
        kinds = " + ".join(source.kind for source in data.sources)
        return f"{len(train):,} training pairs, {dev:,} dev sources, {kinds} → {size:,} tokens"
    sizes = f"{prepared.source.size:,} → {size:,} tokens"
    return f"{len(train):,} training pairs, {dev:,} dev sources, {sizes}"


def carried_state(tensors: dict[str, Tensor]) -> PlainState | None:
    """The state that a checkpoint holds; none at the start of an epoch, or if nothing is carried."""
    return PlainState.of(tensors) if tensors else None


# Whether the encoder has states enough to spell its targets (model.ctc).

Ints = npt.NDArray[np.integer[Any]]
REMEDY = "let the front keep more of the width or of the time (front.wide, fewer stages, kind linear), or set it to 0"


def ctc_length_warnings(model: SequenceModel, train: Corpus) -> list[str]:
    """How many examples teach the encoder nothing by model.ctc; ConfigError if none does."""
    if not isinstance(model, EncoderDecoder) or model.spelling is None:
        return []
    lacking = int((_states(model, train) < _needed(train.target)).sum())
    fact = f"model.ctc: {lacking:,} of {len(train):,} training pairs have fewer states than it takes to spell them"
    if lacking == len(train):
        raise ConfigError(f"{fact}, so it does nothing; {REMEDY}")
    return [f"{fact}, and teach the encoder nothing by it; {REMEDY}"] if lacking else []


def _states(model: EncoderDecoder, train: Corpus) -> Ints:
    """S of each source, behind its front."""
    lengths, places = np.unique(read_lengths(train.source), return_inverse=True)
    [front] = model.front_ends
    return np.array([len(front.names(int(length))) for length in lengths])[places]


def _needed(target: Ragged) -> Ints:
    """A state for each of T tokens, and one between two that are equal."""
    equal = np.zeros(len(target.ids) + 1, dtype=np.int64)  # how many of the first pairs of neighbours are
    equal[2:] = np.cumsum(target.ids[1:] == target.ids[:-1])
    starts, ends = target.offsets[:-1], target.offsets[1:]
    return np.asarray(target.lengths + equal[ends] - equal[np.minimum(starts + 1, ends)])


# The loss: a sum and a count; only the loop divides.


@dataclass(frozen=True)
class Loss:
    """Summed over real target positions."""

    total: Tensor  # what is minimised, with label smoothing
    plain: Tensor  # -Σ log p(y_t), without it and without gradient
    count: int

    def backward(self, scale: float = 1.0) -> None:
        """Adds the gradient of scale x total to every parameter."""
        torch.autograd.backward(self.total * scale)


def cross_entropy(logits: Tensor, outputs: Sequence, smoothing: float = 0.0) -> Loss:
    """-Σ_t Σ_v q_t(v) log p_t(v) with q = (1 - ε) [v = y_t] + ε / V, over the real positions only."""
    log_probs = torch.log_softmax(logits[outputs.mask], dim=-1)  # [N, V]
    plain = -log_probs.gather(1, outputs.values[outputs.mask].unsqueeze(1)).sum()
    total = plain if smoothing == 0.0 else (1.0 - smoothing) * plain - smoothing * log_probs.mean(dim=-1).sum()
    return Loss(total=total, plain=plain.detach(), count=log_probs.size(0))


# Guided attention: a source that is read in order is looked at along the diagonal.


def guided_attention_loss(weights: Tensor, target: Tensor, source: Tensor, width: float) -> Tensor:
    """Σ_t Σ_j α_tj (1 - exp(-(x_j - y_t)² / 2g²)) with g the width, over the real positions (Tachibana et al. 2018)

    How far along they are: x_j = (j - 1) / (n - 1) and y_t = (t - 1) / (m - 1), from 0 to 1. `weights` [B, T, S]; the
    masks `target` [B, T] and `source` [B, S] are of m and n real positions.
    """
    away = _places(source).unsqueeze(1) - _places(target).unsqueeze(2)  # [B, T, S]
    costs = 1.0 - torch.exp(-0.5 * (away / width).square())
    return (weights * costs * target.unsqueeze(2)).sum()


def _places(mask: Tensor) -> Tensor:
    """How far along each position is: the first real one 0, the last 1 [B, S]."""
    steps = torch.arange(mask.size(1), device=mask.device)
    return steps / (mask.sum(1, keepdim=True) - 1).clamp_min(1)


# Learning where to look when the look is drawn at random: REINFORCE, as in Show, Attend and Tell.


def hard_alignment(model: nn.Module) -> HardAlignment:
    """The part of a model that draws, with its baseline."""
    [alignment] = [part for part in model.modules() if isinstance(part, HardAlignment)]
    return alignment


def reinforce_loss(logits: Tensor, outputs: Sequence, drawn: SampledAlignment, alignment: HardAlignment) -> Tensor:
    """-Σ_t (R_t - b n_t) log π(a_t) - λ Σ_t H_t, over the real positions; moves the baseline b afterwards.

    Together with -Σ_t log p(y_t) this has, on average over the draws, the gradient of the expected log likelihood:

        ∇ E[Σ_t log p(y_t)] = E[Σ_t ∇ log p(y_t)] + E[Σ_t R_t ∇ log π(a_t)],    R_t = Σ_{u≥t} log p(y_u)

    The reward to go R_t leaves out what was said before the draw: a_t has no influence on it, and a reward that does
    not depend on a_t adds nothing on average, for Σ_a π(a) ∇ log π(a) = ∇ Σ_a π(a) = ∇ 1 = 0. It would only add
    noise. For the same reason b n_t may be taken off: n_t tokens are to come, and b is the moving average of log p
    of one. H_t, the entropy of what a_t is drawn from, keeps the drawing from freezing too early. (Its gradient is
    taken at the draws made; that earlier draws change H_t as well is not followed.)
    """
    rewards = _log_likelihood(logits, outputs)  # [B, T]
    real = outputs.mask.to(rewards.dtype)
    advantage = _to_go(rewards) - alignment.baseline * _to_go(real)
    alignment.update_baseline(rewards.sum() / real.sum())
    gain = advantage * drawn.log_probs + alignment.entropy_weight * drawn.entropy
    return -gain[outputs.mask].sum()


@torch.no_grad()
def _log_likelihood(logits: Tensor, outputs: Sequence) -> Tensor:
    """log p(y_t) of every real position, 0 for padding [B, T]: a reward is a number, nothing to differentiate."""
    log_probs = torch.log_softmax(logits, dim=-1).gather(2, outputs.values.unsqueeze(2)).squeeze(2)
    return log_probs.masked_fill(~outputs.mask, 0.0)


def _to_go(values: Tensor) -> Tensor:
    """Σ_{u≥t} values_u"""
    return values.flip(1).cumsum(1).flip(1)


# One batch: from the pairs to the loss that an update minimises.


@dataclass(frozen=True)
class StepResult:
    """What a batch taught: its loss, and the state after its last step."""

    loss: Loss
    state: Any  # a State; which, the decoder knows


def training_step(
    model: SequenceModel,
    batch: Batch,
    config: TrainingConfig,
    *,
    share: float = 0.0,
    forbidden: tuple[int, ...] = NEVER_SAMPLED,
    state: State | None = None,
) -> StepResult:
    """Teacher forcing: the decoder is given the right word at every step; its own instead in this share of them.

    What is `forbidden` is never one of its own. It goes on from `state` where there is one, else from the source.
    """
    state, spelt = _start(model, batch) if state is None else (state, None)
    step = (
        forward_with_sampling(model, state, batch.inputs, share, forbidden)
        if share > 0.0
        else model.step(batch.inputs, state)
    )
    loss = cross_entropy(step.logits, batch.outputs, config.label_smoothing)
    total = loss.total if spelt is None else loss.total + spelt
    if step.sampled is not None:
        total = total + reinforce_loss(step.logits, batch.outputs, step.sampled, hard_alignment(model))
    if config.diagonal > 0.0 and step.weights is not None:
        source, width = step.state.source.mask, config.diagonal_width
        total = total + config.diagonal * guided_attention_loss(step.weights, batch.outputs.mask, source, width)
    return StepResult(replace(loss, total=total), step.state)


def _start(model: SequenceModel, batch: Batch) -> tuple[State, Tensor | None]:
    """The state after the source; what it costs that the encoder spells the target, if it does."""
    if not isinstance(model, EncoderDecoder) or model.spelling is None:
        return model.start(batch.source), None
    memory = model.encode(batch.source)
    return model.decoder.start(memory), model.spelling.loss(memory, batch.outputs)
