"""Engines compute hypotheses, log probabilities and attention: torch, or a library that a model was exported to."""
# B sentences, R rows, T target steps, S source steps, V vocabulary

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.source import Read, Source
from antiphon.data.tokenizers import UNK, Tokenizer, text_source
from antiphon.inference.flags import FlagLimits
from antiphon.inference.generation import AttentionHeads, Copies
from antiphon.inference.inputs import Codec, EncodedInput
from antiphon.inference.options import Precision, SearchOptions
from antiphon.inference.rescoring import AttentionReader, TargetScorer
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
from antiphon.search.trace import Observer, ShiftedObserver
from antiphon.sequence import State

__all__ = ["Engine", "EngineModel", "LoadedModel", "TorchEngine"]

# With fewer rows a product waits for its weights; with more, the values of a step no longer fit a core's cache.
BUDGET = 4096


class Engine(Protocol):
    """Computes with ids. Its name and the next three properties decide which options of a search it takes."""

    @property
    def name(self) -> str: ...

    @property
    def has_attention(self) -> bool:
        """The model returns its attention to the source."""
        ...

    @property
    def longest(self) -> int | None:
        """Most tokens of an answer; None: any number."""
        ...

    @property
    def has_shortlist(self) -> bool: ...

    @property
    def workers(self) -> int:
        """The best number of batches to compute at once."""
        ...

    @property
    def budget(self) -> int | None:
        """Positions that a batch should have at most: hypotheses x the longest source; None: any number."""
        ...

    @property
    def has_heads(self) -> bool:
        """`heads` returns the attention of every layer and head, if the model has any."""
        ...

    def decode(
        self,
        batch: list[EncodedInput],
        prefixes: list[list[int]],
        options: SearchOptions,
        keys: list[tuple[int, ...]],
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each input, best first; prompts are equally long.

        Samples come in the order they were drawn; their random numbers depend on the seed and the key of the input.
        """
        ...

    def observe(
        self,
        encoded: EncodedInput,
        prefix: list[int],
        options: SearchOptions,
        key: tuple[int, ...],
        observer: Observer,
    ) -> list[Hypothesis]:
        """The hypotheses of one input; the observer sees the search. UserError if the engine does not show it."""
        ...

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        """log p of each token of each target; `size` are computed together, which makes no difference."""
        ...

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        """One attention matrix [T, S] of each pair, without padding; None where there is none."""
        ...

    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:
        """The tokens of each target that were copied from its source; None if the engine does not know."""
        ...

    def heads(self, source: Read, target: list[int]) -> AttentionHeads:
        """The attention of every layer and head; UserError if the engine does not return it."""
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
    flag_limits: FlagLimits = field(default_factory=FlagLimits)
    precision: Precision = "float32"  # of the weights in its products

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
    flag_limits: FlagLimits = field(default_factory=FlagLimits)


class TorchEngine:
    """Searches with the steps of a model: a trained network, or ONNX graphs."""

    longest = None
    has_shortlist = False
    has_heads = True

    def __init__(self, config: Config, model: SequenceModel, codec: Codec, check: Check | None) -> None:
        self.config = config
        self.model = model
        self.codec = codec
        self.check = check

    @cached_property
    def _scorer(self) -> TargetScorer:
        return TargetScorer(self.model, self.codec, self.check, BUDGET)

    @cached_property
    def _attention(self) -> AttentionReader:
        return AttentionReader(self.config, self.model, self.codec, self.check)

    @property
    def name(self) -> str:
        return self.model.engine

    @property
    def workers(self) -> int:
        """A core for each batch if torch computes; other engines divide a batch among theirs."""
        return torch.get_num_threads() if self.name == "torch" else 1

    @property
    def budget(self) -> int | None:
        return BUDGET

    @property
    def has_attention(self) -> bool:
        """True if the model attends to a source."""
        return self._attention.available

    @torch.inference_mode()
    def decode(
        self,
        batch: list[EncodedInput],
        prefixes: list[list[int]],
        options: SearchOptions,
        keys: list[tuple[int, ...]],
        observer: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        copies = options.width if options.sample else 1
        batch = [encoded for encoded in batch for _ in range(copies)]
        sources = [encoded.source for encoded in batch]
        contexts = [[self.codec.start, *encoded.prompt] for encoded in batch]
        prefixes = [prefix for prefix in prefixes for _ in range(copies)]
        streams = []
        if options.sample:
            streams = [random_stream(options.seed, *key, copy) for key in keys for copy in range(copies)]
        if self.codec.context_length is not None:
            found = self._search_windows(contexts, self.codec.context_length, options, prefixes, streams, observer)
        else:
            constraints = build_constraints(options, self.codec, batch)
            found = self._search(sources, contexts, options, prefixes, constraints, streams, observer)
        if not options.sample:
            return found
        drawn = [hypothesis for [hypothesis] in found]
        return [drawn[first : first + copies] for first in range(0, len(drawn), copies)]

    def observe(
        self,
        encoded: EncodedInput,
        prefix: list[int],
        options: SearchOptions,
        key: tuple[int, ...],
        observer: Observer,
    ) -> list[Hypothesis]:
        [found] = self.decode([encoded], [prefix], options, [key], observer)
        return found

    def _search(
        self,
        sources: list[Read],
        contexts: list[list[int]],
        options: SearchOptions,
        prefixes: list[list[int]],
        constraints: tuple[Constraint, ...],
        random_streams: list[RandomStream],
        observer: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        """Read the sources, and all tokens of the contexts but the last in one step; search begins with the last."""
        state = self.model.start(source_batch(sources))
        if len(contexts[0]) > 1:
            state = self.model.step(torch.tensor([context[:-1] for context in contexts]), state).state
        request = SearchRequest(
            sentences=len(contexts),
            start=[context[-1] for context in contexts],
            end=self.codec.end,
            max_length=options.max_length,
            length_penalty=options.length_penalty,
            prefixes=prefixes,
            constraints=constraints,
            check=self.check,
        )
        size = self.codec.target.size
        return run_search(
            self._step, state, request, options, vocabulary=size, random_streams=random_streams, observer=observer
        )

    def _search_windows(
        self,
        contexts: list[list[int]],
        size: int,
        options: SearchOptions,
        prefixes: list[list[int]],
        random_streams: list[RandomStream],
        observer: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        """Whenever the window is full, its later half is read again as the context of the next window."""
        found: list[list[Hypothesis]] = [[Hypothesis((), (), 0.0, finished=False)] for _ in contexts]
        going, left, kept = list(range(len(contexts))), options.max_length, size
        while going and left > 0:
            recent = [[*contexts[row], *found[row][0].tokens][-kept:] for row in going]
            length = min(left, size - len(recent[0]) + 1)
            streams = [random_streams[row] for row in going] if random_streams else []
            none: list[Read] = [[] for _ in going]
            forced = [prefixes[row][len(found[row][0].tokens) :] for row in going]
            shorter, forbidden = replace(options, max_length=length), (ForbiddenTokens(self.codec.forbidden),)
            watching = observer
            if observer is not None and left < options.max_length:
                before = found[going[0]][0]
                watching = ShiftedObserver(observer, len(before.tokens), before.log_prob, options.length_penalty)
            continuations = self._search(none, recent, shorter, forced, forbidden, streams, watching)
            for row, more in zip(going, continuations, strict=True):
                found[row] = [_concatenate(found[row][0], hypothesis, options.length_penalty) for hypothesis in more]
            full = {row for row, more in zip(going, continuations, strict=True) if len(more[0].tokens) == length}
            going = [row for row in going if row in full and not found[row][0].finished]
            left, kept = left - length, max(1, size // 2)
        return found

    def _step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        step = self.model.step(tokens.unsqueeze(1), state)
        return torch.log_softmax(step.logits[:, -1], dim=-1), step.state

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        return self._scorer.log_probs(sources, targets, size)

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:
        return self._attention.weights(sources, targets)

    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:
        return self._attention.copies(sources, targets)

    def heads(self, source: Read, target: list[int]) -> AttentionHeads:
        return self._attention.heads(source, target)


def build_constraints(options: SearchOptions, codec: Codec, batch: list[EncodedInput]) -> tuple[Constraint, ...]:
    """The constraints of the options on answers to these inputs."""
    sources = [encoded.length for encoded in batch]
    longest = tuple(options.longest(source) for source in sources)
    shortest = tuple(min(options.shortest(source), most) for source, most in zip(sources, longest, strict=True))
    forbidden = tuple(
        token for token in codec.forbidden if not (options.replace_unknown and token == UNK)
    )  # to be replaced
    constraints: list[Constraint] = [ForbiddenTokens(forbidden)]
    if options.forbid:
        constraints.append(ForbiddenPhrases(options.forbid))
    if options.no_repeat is not None:
        constraints.append(NoRepeatNgram(options.no_repeat))
    if max(shortest, default=1) > 1:
        constraints.append(MinLength(codec.end, shortest))
    if options.max_ratio is not None:
        constraints.append(MaxLength(longest))
    if options.require:
        constraints.append(PhraseConstraint(RequiredPhrases(options.require), codec.end, longest))
    return tuple(constraints)


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
        samples = sample_search(
            step, state, request, sampling=sampling, random_streams=random_streams, observer=observer
        )
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


def _concatenate(first: Hypothesis, more: Hypothesis, length_penalty: float) -> Hypothesis:
    tokens, log_probs = [*first.tokens, *more.tokens], [*first.log_probs, *more.log_probs]
    return Hypothesis.of(tokens, log_probs, finished=more.finished, length_penalty=length_penalty)
