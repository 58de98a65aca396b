"""The best of many, in an order that nothing but the numbers decides."""
# B rows, N candidates

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.decoding.constraints import IMPOSSIBLE

__all__ = ["best_candidates"]

BLOCK = 32


def best_candidates(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest of each row of scores [B, N], highest first, and their places; ties: the lower place.

    torch.topk leaves the order of equal values open, so ties are settled here. NaN counts as -inf, and the places of
    -inf values mean nothing.
    """
    wanted = min(count + 1, scores.size(1))  # one more shows whether a tie was cut in two
    values, places = _highest(scores, wanted)
    if bool(values.isnan().any()):  # to topk, NaN is the highest
        scores = scores.masked_fill(scores.isnan(), IMPOSSIBLE)
        values, places = _highest(scores, wanted)
    equal = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > IMPOSSIBLE)
    rows = equal.any(dim=1).nonzero().squeeze(1)
    if rows.numel():  # rare, so only these rows are sorted whole
        ordered, order = scores[rows].sort(dim=1, descending=True, stable=True)
        values[rows], places[rows] = ordered[:, :wanted], order[:, :wanted]
    return values[:, :count], places[:, :count]


def _highest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """topk, for long rows in two steps: the highest stand in the blocks whose own highest are the highest.

    Half the time of torch.topk for a vocabulary of some thousands; a test binds them.
    """
    B, N = scores.shape
    blocks = N // BLOCK
    if blocks < 4 * count:
        values, places = scores.topk(count, dim=1)
        return values, places
    whole = scores[:, : blocks * BLOCK].reshape(B, blocks, BLOCK)
    rest = scores[:, blocks * BLOCK :]
    chosen = whole.amax(dim=2).topk(count, dim=1).indices  # [B, count]
    inside = whole.gather(1, chosen.unsqueeze(2).expand(-1, -1, BLOCK))  # [B, count, BLOCK]
    values, few = torch.cat([inside.flatten(1), rest], dim=1).topk(count, dim=1)
    at, offset = few // BLOCK, few % BLOCK
    block = chosen.gather(1, at.clamp(max=count - 1)) * BLOCK + offset
    return values, torch.where(at < count, block, few - count * BLOCK + blocks * BLOCK)
