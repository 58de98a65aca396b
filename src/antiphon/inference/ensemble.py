"""Ensembles: several models that answer as one."""
# R rows, T steps, V vocabulary

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from antiphon.data.source import Read
from antiphon.errors import UserError
from antiphon.inference.engine import EngineModel, LoadedModel, TorchEngine
from antiphon.inference.generation import AttentionHeads
from antiphon.inference.inputs import build_codec
from antiphon.inference.limits import Limits
from antiphon.models.decoders.decoder import Step
from antiphon.models.frontends.frontend import FrontEnd
from antiphon.models.model import SequenceModel
from antiphon.search.hypothesis import Check
from antiphon.sequence import MultiSource, Sequence, State

__all__ = ["Combine", "ensemble_of"]

Combine = Literal["arithmetic", "geometric"]


@dataclass(frozen=True)
class EnsembleState:
    """The states of all members."""

    parts: tuple[Any, ...]

    def select(self, rows: Tensor) -> EnsembleState:
        return EnsembleState(tuple(part.select(rows) for part in self.parts))


class Ensemble(SequenceModel):
    """p(y) = 1/n Σ p_i(y)  (arithmetic),  or  p(y) ∝ (Π p_i(y))^(1/n)  (geometric), at each step"""

    def __init__(self, members: list[SequenceModel], combine: Combine) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.combine = combine

    def start(self, source: Sequence | MultiSource) -> EnsembleState:
        return EnsembleState(tuple(member.start(source) for member in self._models()))

    def step(self, tokens: Tensor, state: State) -> Step[Any]:
        assert isinstance(state, EnsembleState)
        steps = [member.step(tokens, part) for member, part in zip(self._models(), state.parts, strict=True)]
        log_probs = torch.stack([torch.log_softmax(step.logits, dim=-1) for step in steps])  # [members, R, T, V]
        mixed = log_probs.mean(0) if self.combine == "geometric" else log_probs.logsumexp(0) - math.log(len(steps))
        return Step(mixed, EnsembleState(tuple(step.state for step in steps)))

    @property
    def front_ends(self) -> list[FrontEnd]:
        """Those of the first member; all have the same."""
        return self._models()[0].front_ends

    def _models(self) -> list[SequenceModel]:
        return [member for member in self.members if isinstance(member, SequenceModel)]


class EnsembleEngine(TorchEngine):
    """Decodes and scores with the ensemble; attention is that of its members."""

    has_heads = False

    def __init__(self, members: list[LoadedModel], combine: Combine, check: Check | None) -> None:
        first = members[0]
        codec = build_codec(first.config, first.source, first.target_tokenizer, first.model.front_ends)
        super().__init__(first.config, Ensemble([member.model for member in members], combine).eval(), codec, check)
        self.members = [TorchEngine(member.config, member.model, codec, check) for member in members]

    @property
    def has_attention(self) -> bool:
        return any(member.has_attention for member in self.members)

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The mean over the members that attend to the source."""
        found = [member.weights(sources, targets) for member in self.members]
        return [_mean([matrix for matrix in row if matrix is not None]) for row in zip(*found, strict=True)]

    def heads(self, source: Read, target: list[int]) -> AttentionHeads:  # noqa: ARG002 (always an error)
        raise UserError("an ensemble has no layers and heads of its own; explain one of its runs")


def ensemble_of(members: list[LoadedModel], combine: Combine, check: Check | None = None) -> EngineModel:
    """The ensemble of these models; UserError if they do not read and write the same tokens."""
    first, *others = members
    known = get_args(Combine)
    problems = [] if combine in known else [f"combine: must be {' or '.join(known)}, not {combine!r}"]
    problems += [
        f"model {number} {fact}; an ensemble needs the same for all"
        for number, other in enumerate(others, start=2)
        for fact in _differences(first, other)
    ]
    if problems:
        raise UserError(problems)
    engine = EnsembleEngine(members, combine, check)
    rerankers = {name: reranker for member in reversed(members) for name, reranker in member.rerankers.items()}
    return EngineModel(first.config, engine, first.source, first.target_tokenizer, rerankers, first.flag_limits)


def _differences(first: LoadedModel, other: LoadedModel) -> list[str]:
    found = []
    if (first.config.data.source is None) != (other.config.data.source is None):
        return ["is of a different kind (one has a source, one has none)"]
    if (first.config.data.window is None) != (other.config.data.window is None):
        found.append("reads a different kind of text from the first (one a stream, one line by line)")
    if first.config.data.source is not None and first.source.fingerprint != other.source.fingerprint:
        what = "source vocabulary" if first.config.data.text else "kind of source"
        found.append(f"has a different {what} from the first")
    fronts = [getattr(loaded.config.model, "front", None) for loaded in (first, other)]
    if first.config.data.text is None and fronts[0] != fronts[1]:
        found.append("has a different model.front from the first")
    if first.target_tokenizer.fingerprint != other.target_tokenizer.fingerprint:
        found.append("has a different target vocabulary from the first")
    if _limits(first) != _limits(other):
        found.append("has learnt a different number of positions from the first")
    return found


def _limits(loaded: LoadedModel) -> Limits:
    codec = build_codec(loaded.config, loaded.source, loaded.target_tokenizer)
    return Limits.of(loaded.config, codec.context_length)


def _mean(matrices: list[np.ndarray]) -> np.ndarray | None:
    return np.mean(matrices, axis=0) if matrices else None
