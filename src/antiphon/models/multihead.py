"""Multi-head attention: several small attentions side by side, each with its own view of queries, keys and values."""
# B sentences, R = B x hypotheses rows, T queries, S keys, N heads, d = H / N size of a head

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["Heads", "MultiHeadAttention", "Seen", "causal_mask"]


def causal_mask(steps: int, past: int = 0, device: torch.device | None = None) -> Tensor:
    """True where step i may look at j ≤ i, itself and all before it [T, P + T]; the past may always be seen."""
    return torch.ones(steps, past + steps, dtype=torch.bool, device=device).tril(past)


@dataclass(frozen=True)
class Heads:
    """The keys and values of every head, each [B, N, S, d]."""

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        return self.keys.size(2)

    def select(self, rows: Tensor) -> Heads:
        return Heads(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def then(self, later: Heads) -> Heads:
        """These, and later ones after them."""
        if self.length == 0:
            return later
        return Heads(torch.cat([self.keys, later.keys], dim=2), torch.cat([self.values, later.values], dim=2))


@dataclass(frozen=True)
class Seen:
    """What is looked at, and who may look at it: a mask that widens to [B, N, T, S], True = may look; None: all."""

    heads: Heads
    mask: Tensor | None = None

    @property
    def rows(self) -> int:
        return self.heads.keys.size(0)

    def allowed(self, steps: int) -> Tensor:
        """The mask, written out for so many queries [B, 1, T, S]."""
        allowed = self.heads.keys.new_ones((), dtype=torch.bool) if self.mask is None else self.mask
        return allowed.expand(self.rows, 1, steps, self.heads.length)


class MultiHeadAttention(nn.Module):
    """head_n = softmax(Q_n K_nᵀ / √d) V_n with Q = W_Q x, K = W_K h, V = W_V h;  o = W_O [head_1; ..; head_N]

    Self-attention when x = h, cross-attention when h is the encoder's. `forward` is the fused path, which makes no
    table of weights (but torch's kernel for the CPU has no dropout: there, training with dropout makes one);
    `weights` is the formula written out. A test binds them.
    """

    def __init__(self, *, query: int, memory: int, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        if size % heads:
            raise ValueError(f"{heads} heads do not divide the size {size}")
        self.heads = heads
        self.dropout = dropout
        self.W_Q = nn.Linear(query, size)
        self.W_K = nn.Linear(memory, size)
        self.W_V = nn.Linear(memory, size)
        self.W_O = nn.Linear(size, size)
        for dense in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.xavier_uniform_(dense.weight)
            nn.init.zeros_(dense.bias)

    def prepare(self, states: Tensor) -> Heads:
        """Keys and values of states [B, S, H], once for all that will look at them."""
        return Heads(self._split(self.W_K(states)), self._split(self.W_V(states)))

    def nothing(self, rows: int, like: Tensor) -> Heads:
        """The keys and values of no states at all, of the type and where `like` is."""
        empty = like.new_zeros(rows, self.heads, 0, self.W_K.out_features // self.heads)
        return Heads(empty, empty)

    def forward(self, queries: Tensor, *sides: Seen, causal: bool = False) -> Tensor:
        """Queries [R, T, D] → [R, T, H], with one softmax over all sides.

        The hypotheses of a sentence are folded into the query axis of what they share, whose mask is then the same for
        all queries. `causal`: query i looks at keys j ≤ i; it stands for causal_mask(T), and without a mask torch may
        take its quickest kernel.
        """
        R, T, _ = queries.shape
        if len(sides) > 1 and (T == 1 or any(side.rows != R for side in sides)):
            return self._apart(queries, *sides)
        seen = sides[0] if len(sides) == 1 else _joined(sides, T)
        found = functional.scaled_dot_product_attention(
            _fold(self._split(self.W_Q(queries)), seen.rows),
            seen.heads.keys,
            seen.heads.values,
            attn_mask=None if causal else seen.mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
        )
        return self._join(_unfold(found, R))

    def _apart(self, queries: Tensor, *sides: Seen) -> Tensor:
        """The sides are not put side by side, so what hypotheses share is not copied for each or at each step."""
        weights = functional.dropout(self.weights(queries, *sides), self.dropout, self.training)
        shares = torch.split_with_sizes(weights, [side.heads.length for side in sides], dim=-1)
        found = [
            _unfold(_fold(share, side.rows) @ side.heads.values, queries.size(0))
            for share, side in zip(shares, sides, strict=True)
        ]
        return self._join(torch.stack(found).sum(0))

    def weights(self, queries: Tensor, *sides: Seen) -> Tensor:
        """α = softmax(Q Kᵀ / √d) [R, N, T, S], of all sides together; a row that may look nowhere has no weights."""
        asked = self._split(self.W_Q(queries))
        scored = [_scores(asked, side) for side in sides]
        scores, allowed = (torch.cat(parts, dim=-1) for parts in zip(*scored, strict=True))
        lowest = torch.finfo(scores.dtype).min  # not -inf: a row of -inf has no softmax
        return scores.masked_fill(~allowed, lowest).softmax(dim=-1).masked_fill(~allowed, 0.0)

    def _split(self, values: Tensor) -> Tensor:
        """[R, T, H] → [R, N, T, d]"""
        R, T, H = values.shape
        return values.view(R, T, self.heads, H // self.heads).transpose(1, 2)

    def _join(self, found: Tensor) -> Tensor:
        """[R, N, T, d] → [R, T, H]"""
        joined: Tensor = self.W_O(found.transpose(1, 2).flatten(2))
        return joined


def _scores(asked: Tensor, side: Seen) -> tuple[Tensor, Tensor]:
    """Q Kᵀ / √d of queries [R, N, T, d] [R, N, T, S], and where it counts [R, 1, T, S]."""
    folded = _fold(asked, side.rows)
    scores = folded @ side.heads.keys.transpose(-1, -2) / asked.size(-1) ** 0.5
    return _unfold(scores, asked.size(0)), _unfold(side.allowed(folded.size(2)), asked.size(0))


def _joined(sides: tuple[Seen, ...], steps: int) -> Seen:
    """All sides as one."""
    heads = sides[0].heads
    for side in sides[1:]:
        heads = heads.then(side.heads)
    return Seen(heads, torch.cat([side.allowed(steps) for side in sides], dim=-1))


def _fold(rows: Tensor, sentences: int) -> Tensor:
    """[R, N, T, x] → [B, N, R/B * T, x]"""
    R, N, T, x = rows.shape
    if sentences == R:
        return rows
    return rows.view(sentences, R // sentences, N, T, x).transpose(1, 2).reshape(sentences, N, R // sentences * T, x)


def _unfold(folded: Tensor, rows: int) -> Tensor:
    """[B, N, R/B * T, x] → [R, N, T, x]"""
    B, N, _, x = folded.shape
    if rows == B:
        return folded
    return folded.view(B, N, rows // B, -1, x).transpose(1, 2).reshape(rows, N, -1, x)
