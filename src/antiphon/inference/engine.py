"""What computes behind a Generator: torch, or what a model was exported to."""
# B sentences, R rows, T steps, V vocabulary
# T target steps, S source steps

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.source import Read, Source
from antiphon.data.tokenizers import UNK, Tokenizer, text_source
from antiphon.inference.generation import Copies, Heads
from antiphon.inference.inputs import Question, Wording
from antiphon.inference.options import Capabilities, SearchOptions
from antiphon.inference.rescoring import Looker, Scorer
from antiphon.models.model import SequenceModel
from antiphon.search.beam import PatientBeam, ShrinkingBeam, beam_search
from antiphon.search.constraints import (
    Constraint,
    ForbiddenPhrases,
    ForbiddenTokens,
    MaxLength,
    MinLength,
    NoRepeatNgram,
)
from antiphon.search.diverse import Diversity, diverse_search
from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import Check, Hypothesis, SearchRequest, StepFunction
from antiphon.search.phrases import DynamicBeamAllocation, PhraseConstraint, RequiredPhrases
from antiphon.search.rerank import Reranker
from antiphon.search.sampling import RandomStream, Sampling, random_stream, sample_search
from antiphon.search.trace import Observer
from antiphon.sequence import State

__all__ = ["Engine", "EngineModel", "LoadedModel", "TorchEngine", "Writer", "build_constraints", "run_search"]

# From the options of a search to its rules.


def build_constraints(options: SearchOptions, wording: Wording, batch: list[Question]) -> tuple[Constraint, ...]:
    """What may not be said in answers to these questions."""
    sources = [question.length for question in batch]
    longest = tuple(options.longest(source) for source in sources)
    shortest = tuple(min(options.shortest(source), most) for source, most in zip(sources, longest, strict=True))
    constraints: list[Constraint] = [ForbiddenTokens(never(options, wording))]
    if options.forbid:
        constraints.append(ForbiddenPhrases(options.forbid))
    if options.no_repeat is not None:
        constraints.append(NoRepeatNgram(options.no_repeat))
    if max(shortest, default=1) > 1:
        constraints.append(MinLength(wording.end, shortest))
    if options.max_ratio is not None:
        constraints.append(MaxLength(longest))
    if options.require:
        constraints.append(PhraseConstraint(RequiredPhrases(options.require), wording.end, longest))
    return tuple(constraints)


def never(options: SearchOptions, wording: Wording) -> tuple[int, ...]:
    """Tokens that are no words; <unk> is one if it will be replaced."""
    return tuple(token for token in wording.forbidden if not (options.replace_unknown and token == UNK))


S = TypeVar("S", bound=State)


def run_search(
    step: StepFunction[S],
    state: S,
    request: SearchRequest,
    options: SearchOptions,
    *,
    vocabulary: int,
    random_streams: list[RandomStream],
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses per sentence, best first, by the search that the options name; sampling needs a stream for each."""
    if options.sample:
        sampling = Sampling(options.temperature, options.top_k, options.top_p, options.seed)
        samples = sample_search(step, state, request, sampling=sampling, random_streams=random_streams)
        return [[hypothesis] for hypothesis in samples]
    if options.beam == 1 and observer is None and not options.require:
        return [[hypothesis] for hypothesis in greedy_search(step, state, request)]
    size = options.beam if options.diversity is None else options.beam // options.groups
    policy = ShrinkingBeam(size) if options.patience is None else PatientBeam(size, options.patience)
    if options.diversity is not None:
        diversity = Diversity(options.groups, options.diversity)
        return diverse_search(step, state, request, policy=policy, diversity=diversity, vocabulary=vocabulary)
    ranking = DynamicBeamAllocation(RequiredPhrases(options.require), options.beam) if options.require else None
    return beam_search(step, state, request, policy=policy, ranking=ranking, observer=observer)


# From questions to hypotheses: a model reads what it is given at once, and search writes what follows.


class Writer:
    """Writes with a model, in its words."""

    def __init__(self, model: SequenceModel, wording: Wording, check: Check | None) -> None:
        self.model = model
        self.wording = wording
        self.check = check

    def write(
        self,
        batch: list[Question],
        prefixes: list[list[int]],
        options: SearchOptions,
        numbers: list[tuple[int, ...]],
        observer: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each question; their prompts are equally long. `numbers` are those of the questions.

        Samples have random numbers of their own each, and come in the order they were drawn.
        """
        if not options.sample:
            return self._answers(batch, prefixes, options, [], observer)
        copies, seed = options.width, options.seed
        found = self._answers(
            [question for question in batch for _ in range(copies)],
            [prefix for prefix in prefixes for _ in range(copies)],
            options,
            [random_stream(seed, *number, copy) for number in numbers for copy in range(copies)],
            observer,
        )
        drawn = [hypothesis for [hypothesis] in found]
        return [drawn[first : first + copies] for first in range(0, len(drawn), copies)]

    @torch.inference_mode()
    def _answers(
        self,
        batch: list[Question],
        prefixes: list[list[int]],
        options: SearchOptions,
        random_streams: list[RandomStream],
        observer: Observer | None,
    ) -> list[list[Hypothesis]]:
        contexts = [[self.wording.start, *question.prompt] for question in batch]
        if self.wording.room is not None:
            return self._in_pieces(contexts, self.wording.room, options, random_streams)
        state = self.model.start(source_batch([question.source for question in batch]))
        request = self._request(contexts, options, prefixes, build_constraints(options, self.wording, batch))
        return self._go_on(state, contexts, request, options, random_streams, observer)

    def _request(
        self,
        contexts: list[list[int]],
        options: SearchOptions,
        prefixes: list[list[int]],
        constraints: tuple[Constraint, ...],
    ) -> SearchRequest:
        return SearchRequest(
            sentences=len(contexts),
            start=[context[-1] for context in contexts],
            end=self.wording.end,
            max_length=options.max_length,
            length_penalty=options.length_penalty,
            prefixes=prefixes,
            constraints=constraints,
            check=self.check,
        )

    def _go_on(
        self,
        state: State,
        contexts: list[list[int]],
        request: SearchRequest,
        options: SearchOptions,
        random_streams: list[RandomStream],
        observer: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        """All tokens of the contexts but the last are read with one step; search begins with the last."""
        if len(contexts[0]) > 1:
            state = self.model.step(torch.tensor([context[:-1] for context in contexts]), state).state
        size = self.wording.target.size
        return run_search(
            self._step, state, request, options, vocabulary=size, random_streams=random_streams, observer=observer
        )

    def _in_pieces(
        self, contexts: list[list[int]], room: int, options: SearchOptions, random_streams: list[RandomStream]
    ) -> list[list[Hypothesis]]:
        """Whenever the room is full, the later half of what is in it is read again, and there is room for more."""
        found: list[list[Hypothesis]] = [[Hypothesis((), (), 0.0, finished=False)] for _ in contexts]
        going, left, kept = list(range(len(contexts))), options.max_length, room
        while going and left > 0:
            recent = [[*contexts[row], *found[row][0].tokens][-kept:] for row in going]
            piece = min(left, room - len(recent[0]) + 1)
            state = self.model.start(source_batch([[]] * len(going)))
            chosen = [random_streams[row] for row in going] if random_streams else []
            shorter = replace(options, max_length=piece)
            request = self._request(recent, shorter, [[]] * len(going), (ForbiddenTokens(self.wording.forbidden),))
            parts = self._go_on(state, recent, request, shorter, chosen)
            for row, part in zip(going, parts, strict=True):
                found[row] = [_joined(found[row][0], more, options.length_penalty) for more in part]
            full = {row for row, part in zip(going, parts, strict=True) if len(part[0].tokens) == piece}
            going = [row for row in going if row in full and not found[row][0].finished]
            left, kept = left - piece, max(1, room // 2)
        return found

    def _step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        step = self.model.step(tokens.unsqueeze(1), state)
        return torch.log_softmax(step.logits[:, -1], dim=-1), step.state


def _joined(first: Hypothesis, more: Hypothesis, length_penalty: float) -> Hypothesis:
    tokens, log_probs = [*first.tokens, *more.tokens], [*first.log_probs, *more.log_probs]
    return Hypothesis.of(tokens, log_probs, finished=more.finished, length_penalty=length_penalty)


# With fewer rows a product waits for its weights; with more, what a step works on no longer fits into a core's cache.
BUDGET = 4096


class Engine(Capabilities, Protocol):
    """Reads and writes ids. What it cannot do, it says before anything is computed."""

    @property
    def workers(self) -> int:
        """How many batches it is best asked for at once."""
        ...

    @property
    def budget(self) -> int | None:
        """Positions that a batch should have at most: hypotheses x the longest source; None: any number."""
        ...

    def write(
        self, batch: list[Question], prefixes: list[list[int]], options: SearchOptions, numbers: list[tuple[int, ...]]
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each question, best first; their prompts are equally long. `numbers` count the questions.

        Samples have random numbers of their own each, and come in the order they were drawn.
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
class LoadedModel:
    """A network of ours with all that is needed to use it; TorchEngine computes it."""

    config: Config
    model: SequenceModel
    source: Source
    target_tokenizer: Tokenizer
    rerankers: Mapping[str, Reranker] = field(default_factory=dict)  # by the option that gives their weight
    folder: Path | None = None  # it was read from

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of the only source, which is a text; UserError for all others."""
        return text_source(self.source)


@dataclass(frozen=True)
class EngineModel:
    """A model that brings its own engine, an export or an ensemble, with all that is needed to use it."""

    config: Config
    engine: Engine
    source: Source
    target_tokenizer: Tokenizer
    rerankers: Mapping[str, Reranker] = field(default_factory=dict)


class TorchEngine:
    """A model whose steps we search with: a run, or ONNX graphs."""

    longest = None
    has_shortlist = False

    def __init__(self, config: Config, model: SequenceModel, wording: Wording, check: Check | None) -> None:
        self.model = model
        self._wording = wording
        self._writer = Writer(model, wording, check)
        self._scorer = Scorer(model, wording, check)
        self._looker = Looker(config, model, wording, check)

    @property
    def name(self) -> str:
        return self.model.engine

    @property
    def workers(self) -> int:
        """A core for each batch, where torch computes; other engines divide a batch among theirs."""
        return torch.get_num_threads() if self.name == "torch" else 1

    @property
    def budget(self) -> int | None:
        return BUDGET

    @property
    def attends(self) -> bool:
        """The model attends to a source."""
        return self._looker.in_steps or self._looker.in_heads

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
