"""Tokens that may not be said, and tokens that must."""
# B sentences, W hypotheses of each, V vocabulary, P longest prefix

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["IMPOSSIBLE", "Constraints"]

FREE = -1
IMPOSSIBLE = float("-inf")


class Constraints:
    """Forbidden tokens get -inf; at a forced position every other token does.

    A forced token keeps its own log probability, even if it is forbidden elsewhere.
    """

    def __init__(self, sentences: int, prefixes: list[list[int]] | None, forbidden: tuple[int, ...]) -> None:
        prefixes = prefixes if prefixes is not None else [[]] * sentences
        if len(prefixes) != sentences:
            raise ValueError(f"{len(prefixes)} prefixes for {sentences} sentences; give one (or an empty one) for each")
        self.longest = max((len(prefix) for prefix in prefixes), default=0)
        self.forced = torch.full((sentences, self.longest), FREE, dtype=torch.long)  # [sentences, P]
        for row, prefix in zip(self.forced, prefixes, strict=True):
            row[: len(prefix)] = torch.tensor(prefix, dtype=torch.long)
        self.forbidden = list(forbidden)

    def apply(self, scores: Tensor, sentences: Tensor, position: int) -> None:
        """Writes -inf into scores [B, W, V] of these sentences [B], in place."""
        if position >= self.longest:
            scores[:, :, self.forbidden] = IMPOSSIBLE
            return
        forced = self.forced.to(scores.device)[sentences, position]  # [B]
        rows = (forced != FREE).nonzero().squeeze(1)
        tokens = forced[rows]
        own = scores[rows, :, tokens]  # [rows, W]
        scores[:, :, self.forbidden] = IMPOSSIBLE
        scores[rows] = IMPOSSIBLE
        scores[rows, :, tokens] = own
