"""Learning where to look when the look is drawn at random: REINFORCE, as in Show, Attend and Tell."""
# B batch, T target steps, V vocabulary

from __future__ import annotations

import torch
from torch import Tensor, nn

from antiphon.attention.alignment import Drawn, HardAlignment
from antiphon.sequence import Sequence

__all__ = ["alignment_of", "reinforce"]


def alignment_of(model: nn.Module) -> HardAlignment:
    """The part of a model that draws, with its baseline."""
    [alignment] = [part for part in model.modules() if isinstance(part, HardAlignment)]
    return alignment


def reinforce(logits: Tensor, outputs: Sequence, drawn: Drawn, alignment: HardAlignment) -> Tensor:
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
    alignment.observe(rewards.sum() / real.sum())
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
