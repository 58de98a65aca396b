"""What computes behind a Generator: torch, or what a model was exported to."""
# T target steps, S source steps

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from antiphon.config.schema import Config
from antiphon.decoding.ask import Check
from antiphon.decoding.generation import Copies, Heads
from antiphon.decoding.hypothesis import Hypothesis
from antiphon.decoding.looker import Looker
from antiphon.decoding.observer import Observer
from antiphon.decoding.options import SearchOptions
from antiphon.decoding.scorer import Scorer
from antiphon.decoding.wording import Question, Wording
from antiphon.decoding.writer import Writer
from antiphon.model import SequenceModel
from antiphon.sources.joint import JointNgrams
from antiphon.sources.shortlist import Shortlist
from antiphon.sources.source import Read, Source
from antiphon.sources.tokens import Tokenizer

__all__ = ["Engine", "ForeignModel", "TorchEngine"]

# With fewer rows a product waits for its weights; with more, what a step works on no longer fits into a core's cache.
BUDGET = 4096


class Engine(Protocol):
    """Reads and writes ids. What it cannot do, it says before anything is computed."""

    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> int:
        """How many batches it is best asked for at once."""
        ...

    @property
    def budget(self) -> int | None:
        """Positions that a batch should have at most: hypotheses x the longest source; None: any number."""
        ...

    def problems(self, options: SearchOptions) -> list[str]:
        """A sentence for each option that this engine does not have."""
        ...

    def write(
        self, batch: list[Question], prefixes: list[list[int]], options: SearchOptions, numbers: list[tuple[int, ...]]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each question, best first; their prompts are equally long. `numbers` count the questions.

        Of a sampling search there are n_best, each with random numbers of its own, in the order they were drawn.
        """
        ...

    def watch(self, question: Question, options: SearchOptions, observer: Observer) -> list[Hypothesis]:
        """The hypotheses of one question; the observer sees the search. UserError where the engine shows nothing."""
        ...

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        """log p of each token of each target; `size` are computed together, which makes no difference."""
        ...

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The one attention matrix [T, S] of each pair to look at, without padding; None where there is none."""
        ...

    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:
        """What of each target was copied from its source; None where the engine does not know, or nothing can be."""
        ...

    def look(self, source: Read, target: list[int]) -> Heads:
        """Every layer and head; UserError where the engine does not hand them out."""
        ...


@dataclass(frozen=True)
class ForeignModel:
    """A model that another engine computes, with all that is needed to use it."""

    config: Config
    engine: Engine
    source: Source
    target_tokenizer: Tokenizer
    joint: JointNgrams | None = None


class TorchEngine:
    """A model whose steps we search with: a run, with or without 8 bits, or ONNX graphs."""

    def __init__(
        self,
        config: Config,
        model: SequenceModel,
        wording: Wording,
        check: Check | None,
        shortlist: Shortlist | None = None,
    ) -> None:
        self.model = model
        self._wording = wording
        self._writer = Writer(model, wording, check, shortlist)
        self._scorer = Scorer(model, wording, check)
        self._looker = Looker(config, model, wording, check)

    @property
    def name(self) -> str:
        return self.model.engine

    @property
    def workers(self) -> int:
        """A core for each batch, where torch computes; other engines divide a batch among theirs."""
        return torch.get_num_threads() if self.name.startswith("torch") else 1

    @property
    def budget(self) -> int | None:
        return BUDGET

    @property
    def looks(self) -> bool:
        """Whether it attends to a source."""
        return self._looker.in_steps or self._looker.in_heads

    def problems(self, options: SearchOptions) -> list[str]:
        wanted = {"coverage": bool(options.coverage), "replace_unknown": options.unknown}
        found = [
            f"{name}: this model does not look at a source while it writes; leave it out"
            for name, asked in wanted.items()
            if asked and not self.looks
        ]
        if options.unknown and not self._wording.one_text:
            found.append("replace_unknown: words are taken from one text, and this model reads no such; leave it out")
        return [*found, *self.shortlist_problems()] if options.shortlist else found

    def shortlist_problems(self) -> list[str]:
        """Why it cannot compute the tokens of a shortlist alone."""
        if self._looker.copies_words:
            return ["shortlist: this model copies, and words of the source may be on no list; leave it out"]
        if self._writer.shortlist is not None and self.name == "torch int8":
            return ["shortlist: the last layer has 8 bits and cannot be cut; leave out int8 or shortlist"]
        if self._writer.shortlist is not None:
            return []
        if self.name not in ("torch", "torch int8"):
            return [f"shortlist: an export to {self.name} has none; leave it out, or use the run it was made from"]
        return ["shortlist: the model has none; `antiphon shortlist RUN` learns one from its training pairs"]

    def write(
        self, batch: list[Question], prefixes: list[list[int]], options: SearchOptions, numbers: list[tuple[int, ...]]
    ) -> list[list[Hypothesis]]:
        return self._writer.write(batch, prefixes, options, numbers)

    def watch(self, question: Question, options: SearchOptions, observer: Observer) -> list[Hypothesis]:
        [found] = self._writer.write([question], [[]], options, [(0,)], observer)
        return found

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        return self._scorer.log_probs(sources, targets, size)

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        return self._looker.weights(sources, targets)

    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:
        return self._looker.copies(sources, targets)

    def look(self, source: Read, target: list[int]) -> Heads:
        return self._looker.look(source, target)
