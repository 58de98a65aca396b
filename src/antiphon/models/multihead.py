"""Multi-head attention: several small attentions in parallel, each with its own projections Q, K, V."""
# B sentences, R = B x hypotheses rows, T queries, P past steps, S keys, N heads, d = H / N size of a head

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.models.layers.dropout import dropout

__all__ = ["KeyValues", "MaskedKeyValues", "MultiHeadAttention", "causal_mask"]


def causal_mask(steps: int, past: int = 0, device: torch.device | None = None) -> Tensor:
    """True where step i may look at j ≤ i, itself and all before it [T, P + T]; all past steps are visible."""
    return torch.ones(steps, past + steps, dtype=torch.bool, device=device).tril(past)


@dataclass(frozen=True)
class KeyValues:
    """The keys and values of every head, each [B, N, S, d]."""

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        return self.keys.size(2)

    def select(self, rows: Tensor) -> KeyValues:
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))

    def append(self, later: KeyValues) -> KeyValues:
        if self.length == 0:
            return later
        return KeyValues(torch.cat([self.keys, later.keys], dim=2), torch.cat([self.values, later.values], dim=2))


@dataclass(frozen=True)
class MaskedKeyValues:
    """Keys, values and a mask that broadcasts to [B, N, T, S]: True where a query may attend; None: everywhere."""

    heads: KeyValues
    mask: Tensor | None = None

    @property
    def rows(self) -> int:
        return self.heads.keys.size(0)

    def full_mask(self, steps: int) -> Tensor:
        """The mask expanded to [B, 1, T, S]."""
        mask = self.heads.keys.new_ones((), dtype=torch.bool) if self.mask is None else self.mask
        return mask.expand(self.rows, 1, steps, self.heads.length)


class MultiHeadAttention(nn.Module):
    """head_n = softmax(Q_n K_nᵀ / √d) V_n with Q = W_Q x, K = W_K h, V = W_V h;  o = W_O [head_1; ..; head_N]

    Self-attention when x = h, cross-attention when h comes from the encoder. `forward` uses torch's fused kernel, which
    does not materialise the weights; `weights` is the formula written out, and a test binds them. Training on a CPU
    uses the formula: there the fused kernel has no dropout, and with oneDNN its gradient takes six times as long.
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

    def prepare(self, states: Tensor) -> KeyValues:
        """Keys and values of states [B, S, H]."""
        return KeyValues(self._split(self.W_K(states)), self._split(self.W_V(states)))

    def empty(self, rows: int, like: Tensor) -> KeyValues:
        """Keys and values of 0 steps, with the type and device of `like`."""
        empty = like.new_zeros(rows, self.heads, 0, self.W_K.out_features // self.heads)
        return KeyValues(empty, empty)

    def forward(self, queries: Tensor, *sides: MaskedKeyValues, causal: bool = False) -> Tensor:
        """Queries [R, T, D] → [R, T, H], with one softmax over the keys of all sides.

        Where a side is shared by the hypotheses of a sentence, they are folded into the query axis; its mask must then
        be the same for all queries. `causal` stands for causal_mask(T): without a mask torch may use a faster kernel.
        """
        R, T, _ = queries.shape
        separate = len(sides) > 1 and (T == 1 or any(side.rows != R for side in sides))
        if separate:
            return self._attend_separately(queries, *sides)
        side = sides[0] if len(sides) == 1 else _concat(sides, T)
        if self.training and queries.device.type == "cpu":
            mask = causal_mask(T, device=queries.device) if causal else side.mask
            return self._attend_separately(queries, MaskedKeyValues(side.heads, mask))
        attended = functional.scaled_dot_product_attention(
            _fold(self._split(self.W_Q(queries)), side.rows),
            side.heads.keys,
            side.heads.values,
            attn_mask=None if causal else side.mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal,
        )
        return self._merge(_unfold(attended, R))

    def _attend_separately(self, queries: Tensor, *sides: MaskedKeyValues) -> Tensor:
        """Attend to each side in turn, so that shared keys are not copied for each hypothesis at each step."""
        weights = dropout(self.weights(queries, *sides), self.dropout, self.training)
        parts = torch.split_with_sizes(weights, [side.heads.length for side in sides], dim=-1)
        attended = [
            _unfold(_fold(part, side.rows) @ side.heads.values, queries.size(0))
            for part, side in zip(parts, sides, strict=True)
        ]
        return self._merge(torch.stack(attended).sum(0))

    def weights(self, queries: Tensor, *sides: MaskedKeyValues) -> Tensor:
        """α = softmax(Q Kᵀ / √d) [R, N, T, S] over all sides; the weights of a row with an empty mask are 0."""
        projected = self._split(self.W_Q(queries))
        scored = [_scores(projected, side) for side in sides]
        scores, mask = (torch.cat(parts, dim=-1) for parts in zip(*scored, strict=True))
        lowest = torch.finfo(scores.dtype).min  # not -inf: the softmax of a row of -inf is NaN
        return scores.masked_fill(~mask, lowest).softmax(dim=-1).masked_fill(~mask, 0.0)

    def _split(self, values: Tensor) -> Tensor:
        """[R, T, H] → [R, N, T, d]"""
        R, T, H = values.shape
        return values.view(R, T, self.heads, H // self.heads).transpose(1, 2)

    def _merge(self, heads: Tensor) -> Tensor:
        """[R, N, T, d] → [R, T, H]"""
        merged: Tensor = self.W_O(heads.transpose(1, 2).flatten(2))
        return merged


def _scores(queries: Tensor, side: MaskedKeyValues) -> tuple[Tensor, Tensor]:
    """Q Kᵀ / √d of queries [R, N, T, d] → scores [R, N, T, S] and their mask [R, 1, T, S]."""
    folded = _fold(queries, side.rows)
    scores = folded @ side.heads.keys.transpose(-1, -2) / queries.size(-1) ** 0.5
    return _unfold(scores, queries.size(0)), _unfold(side.full_mask(folded.size(2)), queries.size(0))


def _concat(sides: tuple[MaskedKeyValues, ...], steps: int) -> MaskedKeyValues:
    heads = sides[0].heads
    for side in sides[1:]:
        heads = heads.append(side.heads)
    return MaskedKeyValues(heads, torch.cat([side.full_mask(steps) for side in sides], dim=-1))


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
