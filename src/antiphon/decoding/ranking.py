"""The best of many, in an order that nothing but the numbers decides."""
# B rows, N candidates

from __future__ import annotations

from torch import Tensor

from antiphon.decoding.constraints import IMPOSSIBLE

__all__ = ["best_candidates"]


def best_candidates(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest of each row of scores [B, N], highest first, and their places; ties: the lower place.

    torch.topk leaves the order of equal values open, so ties are settled here. NaN counts as -inf, and the places of
    -inf values mean nothing.
    """
    wanted = min(count + 1, scores.size(1))  # one more shows whether a tie was cut in two
    values, places = scores.topk(wanted, dim=1)
    if bool(values.isnan().any()):  # to topk, NaN is the highest
        scores = scores.masked_fill(scores.isnan(), IMPOSSIBLE)
        values, places = scores.topk(wanted, dim=1)
    equal = (values[:, 1:] == values[:, :-1]) & (values[:, 1:] > IMPOSSIBLE)
    rows = equal.any(dim=1).nonzero().squeeze(1)
    if rows.numel():  # rare, so only these rows are sorted whole
        ordered, order = scores[rows].sort(dim=1, descending=True, stable=True)
        values[rows], places[rows] = ordered[:, :wanted], order[:, :wanted]
    return values[:, :count], places[:, :count]
