"""The copy mechanism (pointer-generator; See et al. 2017): tokens of the source can be copied into the target."""
# B sentences, R = B x hypotheses rows, T steps, Q = R/B x T queries of a sentence, S source steps, V vocabulary

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.sequence import NO_COPY

__all__ = ["CopyInputs", "CopyMechanism", "CopyProbabilities"]

LINEAR = 60.0  # from here on log(1 + e^x) = x in double precision; torch's default of 20 is for single


@dataclass(frozen=True)
class CopyProbabilities:
    """The probability of copying from each source position."""

    shares: Tensor  # [R, T, S]: (1 - g) a_j; 0 where nothing can be copied
    copies: Tensor  # [B, S]: each position as a target token

    @property
    def share(self) -> Tensor:
        """The probability of copying any token [R, T]."""
        return self.shares.sum(dim=-1)

    def of(self, tokens: Tensor) -> Tensor:
        """p(y copied from j) of tokens y [R, T]: the shares of the positions that hold y [R, T, S]."""
        copies = self.copies.repeat_interleave(tokens.size(0) // self.copies.size(0), dim=0)  # [R, S]
        return self.shares * (copies.unsqueeze(1) == tokens.unsqueeze(2))


@dataclass(frozen=True)
class CopyInputs:
    """The inputs of the copy mechanism beside the logits."""

    query: Tensor  # [R, T, D], for the gate
    weights: Tensor  # [R, T, S]
    copies: Tensor | None  # [B, S]: each source position as a target token


class CopyMechanism(nn.Module):
    """p(y) = g P(y) + (1 - g) Σ_{j: x_j = y} a_j  with the gate g = σ(w · q + b)

    </s> and sources that are no texts cannot be copied: their share of (1 - g) goes back to P. So p sums to 1 for any
    weights, equals P where nothing can be copied, and needs no division by a sum of weights that may be 0.
    """

    def __init__(self, *, query: int) -> None:
        super().__init__()
        self.gate = nn.Linear(query, 1)

    def forward(
        self, logits: Tensor, query: Tensor, weights: Tensor, copies: Tensor | None
    ) -> tuple[Tensor, CopyProbabilities]:
        """Logits of P [R, T, V], queries q [R, T, D], weights a [R, T, S] and copies [B, S] → log p [R, T, V].

        The hypotheses of a sentence are folded into the query axis.
        """
        assert copies is not None  # the front end of a model that copies provides them
        R, T, V = logits.shape
        B, S = copies.shape
        weights, gate = weights.reshape(B, -1, S), self.gate(query).reshape(B, -1, 1)
        copyable = (copies != NO_COPY).unsqueeze(1)  # [B, 1, S]
        shares = torch.sigmoid(-gate) * weights  # [B, Q, S]
        generate = torch.sigmoid(gate) + (shares * ~copyable).sum(dim=-1, keepdim=True)  # [B, Q, 1]
        shares = shares * copyable
        log_generated = torch.log_softmax(logits, dim=-1).reshape(B, -1, V) + _log(generate)
        log_p = _add_copies(log_generated, shares, copies)
        return log_p.reshape(R, T, V), CopyProbabilities(shares.reshape(R, T, S), copies)


def _add_copies(log_generated: Tensor, shares: Tensor, copies: Tensor) -> Tensor:
    """log(generated + copied) of every token [B, Q, V].

    Only tokens of the source differ from log generated, by log(1 + copied / generated), so only these are computed. A
    token that occurs n times in the source is copied with the sum of its shares; each occurrence adds 1/n of the term.
    """
    same = (copies.unsqueeze(1) == copies.unsqueeze(2)).to(shares.dtype)  # [B, S, S]
    tokens = copies.clamp(min=0).unsqueeze(1).expand_as(shares)
    ratio = _log(shares @ same) - log_generated.gather(-1, tokens)
    added = functional.softplus(ratio, threshold=LINEAR) / same.sum(dim=1, keepdim=True)
    return log_generated.scatter_add(-1, tokens, added * (copies != NO_COPY).unsqueeze(1))


def _log(p: Tensor) -> Tensor:
    """log p; finite and without gradient at p = 0."""
    return p.clamp(min=torch.finfo(p.dtype).tiny).log()
