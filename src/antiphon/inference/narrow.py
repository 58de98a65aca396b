"""Steps that compute a few hundred tokens instead of all: see ngrams/shortlist.py."""
# K tokens on the lists of a batch, B sentences, R rows, V vocabulary

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from antiphon.models.model import SequenceModel
from antiphon.ngrams.shortlist import Shortlist
from antiphon.search.constraints import IMPOSSIBLE
from antiphon.sequence import State

__all__ = ["NarrowState", "NarrowStep"]


@dataclass(frozen=True)
class NarrowState:
    """Where the model stands, and what each row may say."""

    inner: State
    own: Tensor  # [R, K]

    def select(self, rows: Tensor) -> NarrowState:
        return NarrowState(self.inner.select(rows), self.own[rows.reshape(-1)])


class NarrowStep:
    """log p over the tokens of each sentence's own list; all others are impossible. So company makes no difference."""

    def __init__(
        self, model: SequenceModel, shortlist: Shortlist, sources: list[list[int]], also: list[set[int]]
    ) -> None:
        """What is in `also`, one set for each source, is on its list, too."""
        both = zip(sources, also, strict=True)
        lists = [np.union1d(shortlist.of(source), np.array(sorted(more), dtype=np.int64)) for source, more in both]
        tokens = np.unique(np.concatenate(lists))
        self.tokens = torch.from_numpy(tokens)
        self.own = torch.from_numpy(np.stack([np.isin(tokens, one, assume_unique=True) for one in lists]))
        self.size = model.decoder.output.out_features
        self.model = narrowed(model, self.tokens)

    def begin(self, state: State) -> NarrowState:
        """Of the batch, a row for each sentence."""
        return NarrowState(state, self.own)

    def __call__(self, tokens: Tensor, state: NarrowState) -> tuple[Tensor, NarrowState]:
        step = self.model.step(tokens.unsqueeze(1), state.inner)
        few = torch.log_softmax(step.logits[:, -1].masked_fill(~state.own, IMPOSSIBLE), dim=-1)  # [R, K]
        log_probs = few.new_full((len(few), self.size), IMPOSSIBLE)
        log_probs[:, self.tokens] = few
        return log_probs, NarrowState(step.state, state.own)


def narrowed(model: SequenceModel, tokens: Tensor) -> SequenceModel:
    """The same model, whose logits have a column for each of these tokens only."""
    output = model.decoder.output
    assert isinstance(output, nn.Linear)  # 8 bits are refused before
    few = nn.Linear(output.in_features, len(tokens), bias=output.bias is not None, device="meta")
    few.weight = nn.Parameter(output.weight[tokens], requires_grad=False)
    if output.bias is not None:
        few.bias = nn.Parameter(output.bias[tokens], requires_grad=False)
    found: SequenceModel = _with(model, "decoder", _with(model.decoder, "output", few))
    return found


def _with(module: Any, name: str, part: nn.Module) -> Any:  # noqa: ANN401 (a module of the same class)
    """A copy that shares everything but one part."""
    other = copy.copy(module)
    other._modules = {**module._modules, name: part}
    return other
