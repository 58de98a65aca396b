"""The copy mechanism (pointer-generator; See et al. 2017): words of the source can be said as they stand there."""
# B sentences, R = B x hypotheses rows, T steps, Q = R/B x T queries of a sentence, S source steps, V vocabulary

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.sequence import NO_COPY

__all__ = ["Copied", "Copying", "mixed"]

LINEAR = 60.0  # from here on log(1 + e^x) is x, even to double precision; torch's own 20 is for single


@dataclass(frozen=True)
class Copied:
    """How probable it is that a step copies, and from where."""

    shares: Tensor  # [R, T, S]: (1 - g) a_j; 0 where nothing can be copied
    copies: Tensor  # [B, S]: the target token that each position is

    @property
    def share(self) -> Tensor:
        """The probability of copying, whatever is copied [R, T]."""
        return self.shares.sum(dim=-1)

    def of(self, tokens: Tensor) -> Tensor:
        """p(copied from j, y) of tokens y [R, T]: the share of each position that is this token [R, T, S]."""
        copies = self.copies.repeat_interleave(tokens.size(0) // self.copies.size(0), dim=0)  # [R, S]
        return self.shares * (copies.unsqueeze(1) == tokens.unsqueeze(2))


class Copying(nn.Module):
    """p(y) = g P(y) + (1 - g) Σ_{j: x_j = y} a_j  with the gate g = σ(w · q + b)

    Not every position can be copied: </s> cannot, nor can what is no text. What (1 - g) gives to those goes back to P.
    So p sums to 1 whatever the weights are; without a position to copy it is P; and nothing is divided by the weight of
    the others, which may be 0.
    """

    def __init__(self, *, query: int) -> None:
        super().__init__()
        self.gate = nn.Linear(query, 1)

    def forward(self, logits: Tensor, query: Tensor, weights: Tensor, copies: Tensor) -> tuple[Tensor, Copied]:
        """Logits of P [R, T, V], queries q [R, T, D], weights a [R, T, S] and what is copied [B, S] → log p [R, T, V].

        The hypotheses of a sentence are folded into the query axis of what they share.
        """
        R, T, V = logits.shape
        B, S = copies.shape
        looked, opened = weights.reshape(B, -1, S), self.gate(query).reshape(B, -1, 1)
        can = (copies != NO_COPY).unsqueeze(1)  # [B, 1, S]
        shares = torch.sigmoid(-opened) * looked  # [B, Q, S]
        own = torch.sigmoid(opened) + (shares * ~can).sum(dim=-1, keepdim=True)  # [B, Q, 1]
        shares = shares * can
        log_own = torch.log_softmax(logits, dim=-1).reshape(B, -1, V) + _log(own)
        log_p = _with_copies(log_own, shares, copies)
        return log_p.reshape(R, T, V), Copied(shares.reshape(R, T, S), copies)


def mixed(
    copying: Copying | None, logits: Tensor, query: tuple[Tensor, ...], weights: Tensor, copies: Tensor | None
) -> tuple[Tensor, Copied | None]:
    """What a decoder says: log p of the mixture, for which the parts of q [R, T, ..] are joined; or P as it is."""
    if copying is None:
        return logits, None
    assert copies is not None  # a memory that can be copied from says what its positions are
    log_p, copied = copying(logits, torch.cat(query, dim=-1), weights, copies)
    return log_p, copied


def _with_copies(log_own: Tensor, shares: Tensor, copies: Tensor) -> Tensor:
    """log(own + copied) of every token [B, Q, V].

    Only tokens of the source differ from log own, by log(1 + copied / own), so only these are computed. A token that
    stands n times in the source is copied with the sum of its shares, and each of its places adds the n-th part.
    """
    same = (copies.unsqueeze(1) == copies.unsqueeze(2)).to(shares.dtype)  # [B, S, S]
    tokens = copies.clamp(min=0).unsqueeze(1).expand_as(shares)
    ratio = _log(shares @ same) - log_own.gather(-1, tokens)
    more = functional.softplus(ratio, threshold=LINEAR) / same.sum(dim=1, keepdim=True)
    return log_own.scatter_add(-1, tokens, more * (copies != NO_COPY).unsqueeze(1))


def _log(p: Tensor) -> Tensor:
    """log p; of 0 a finite one, without gradient."""
    return p.clamp(min=torch.finfo(p.dtype).tiny).log()
