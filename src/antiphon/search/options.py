"""Which search the options ask for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from antiphon.search.beam import BeamPolicy, PatientBeam, ShrinkingBeam, beam_search
from antiphon.search.diverse import Diversity, diverse_search
from antiphon.search.greedy import greedy_search
from antiphon.search.hypothesis import Hypothesis, SearchRequest, StepFunction
from antiphon.search.phrases import DynamicBeamAllocation, RequiredPhrases, contains
from antiphon.search.sampling import RandomStream, Sampling, sample_search
from antiphon.search.trace import Observer
from antiphon.sequence import State

__all__ = ["MOST", "SearchOptions", "Utility", "search"]

# The choices of one search.

Utility = Literal["chrf", "bleu"]
MOST = 50_000_000  # tokens that a batch may hold on its frontier: beam (or samples) x batch_size x max_length


@dataclass(frozen=True)
class SearchOptions:
    """How answers are searched for: greedily (a beam of 1), with a beam, or by sampling."""

    beam: int
    n_best: int
    max_length: int
    length_penalty: float
    batch_size: int
    sampling: Sampling | None = None
    min_length: int = 1  # of an answer with its </s>
    max_ratio: float | None = None  # longest answer, as a multiple of its source (both with </s>)
    min_ratio: float | None = None  # shortest answer, likewise
    patience: float | None = None  # the beam stays full until beam x patience have ended; None: it shrinks
    diversity: Diversity | None = None
    no_repeat: int | None = None  # no so many tokens twice
    forbid: tuple[tuple[int, ...], ...] = ()  # phrases that are never said
    require: tuple[tuple[int, ...], ...] = ()  # phrases that have to be said
    joint: float = 0.0  # weight of the model's joint n-grams among the answers of a beam
    coverage: float = 0.0  # weight of the coverage penalty among the answers of a beam
    unknown: bool = False  # <unk> may be said, and becomes the source token that was attended to most
    shortlist: bool = False  # only tokens that the model's shortlist has for the source
    mbr: Utility | None = None  # of the samples, the one that is most like the others
    log_probs: bool = True  # of each token; False: an engine may leave out what costs it a second look

    def longest(self, source: int) -> int:
        """Tokens of an answer to a source of so many, both with </s>."""
        return self.max_length if self.max_ratio is None else max(1, min(self.max_length, int(self.max_ratio * source)))

    def shortest(self, source: int) -> int:
        """The least tokens of an answer to a source of so many, both with </s>."""
        return self.min_length if self.min_ratio is None else max(self.min_length, math.ceil(self.min_ratio * source))

    def problems(self) -> list[str]:
        """A sentence for each value that makes no sense, alone or with another."""
        return [*self._numbers(), *self._together(), *self._phrases()]

    def _numbers(self) -> list[str]:
        whole = {
            "beam": self.beam,
            "n_best": self.n_best,
            "max_length": self.max_length,
            "min_length": self.min_length,
            "batch_size": self.batch_size,
            "no_repeat": 1 if self.no_repeat is None else self.no_repeat,
        }
        found = [f"{name}: must be at least 1, not {value}" for name, value in whole.items() if value < 1]
        strength = None if self.diversity is None else self.diversity.strength
        above = {"max_ratio": self.max_ratio, "min_ratio": self.min_ratio, "patience": self.patience,
                 "diversity": strength}  # fmt: skip
        given = {name: value for name, value in above.items() if value is not None}
        found += [f"{name}: must be above 0, not {value:g}" for name, value in given.items() if value <= 0]
        least = {"length_penalty": self.length_penalty, "coverage": self.coverage, "joint": self.joint}
        found += [f"{name}: must not be negative, not {value:g}" for name, value in least.items() if value < 0]
        endless = [(name, value) for name, value in {**given, **least}.items() if not math.isfinite(value)]
        found += [f"{name}: must be a finite number, not {value:g}" for name, value in endless]
        return found if self.sampling is None else [*found, *self.sampling.problems()]

    @property
    def reranking(self) -> dict[str, float]:
        """The weight of each reranker that is in use."""
        return {"joint": self.joint} if self.joint else {}

    @property
    def width(self) -> int:
        """Hypotheses of a sentence that are on their way at once."""
        return self.beam if self.sampling is None else self.n_best

    def _together(self) -> list[str]:
        found = []
        if self.sampling is None and self.n_best > self.beam:
            found.append(f"n_best: {self.n_best} answers need a beam of at least {self.n_best}, not {self.beam}")
        if self.patience is not None and 0 < self.patience < 1 and self.n_best <= self.beam:
            ended = math.ceil(self.beam * self.patience)
            if self.n_best > ended:
                found.append(
                    f"n_best: {self.n_best} answers, but the search stops when {ended} have ended (beam x patience); "
                    "raise patience"
                )
        if self.min_length > self.max_length:
            found.append(f"min_length: {self.min_length} is more than max_length {self.max_length}; change one of them")
        if self.min_ratio is not None and self.max_ratio is not None and self.min_ratio > self.max_ratio:
            found.append(f"min_ratio: {self.min_ratio:g} is more than max_ratio {self.max_ratio:g}; change one of them")
        if self.width * self.batch_size * self.max_length > MOST:
            wide = "beam" if self.sampling is None else "n_best"
            found.append(
                f"{wide} x batch_size x max_length: {self.width} x {self.batch_size} x {self.max_length} is more than "
                f"{MOST:,} tokens at once; make one of them smaller"
            )
        return [*found, *self._kinds()]

    def _kinds(self) -> list[str]:
        """What is for one kind of search only."""
        found = []
        if self.mbr is not None and self.mbr not in get_args(Utility):
            found.append(f"mbr: {self.mbr!r} is none of these; give {' or '.join(get_args(Utility))}")
        if self.mbr is not None and self.sampling is None:
            found.append("mbr: it chooses among samples; add sample, and n_best for how many are drawn")
        elif self.mbr is not None and self.n_best == 1:
            found.append("mbr: of one sample there is nothing to choose; give n_best of 2 and more")
        beams = {"patience": self.patience, "diversity": self.diversity, "coverage": self.coverage or None,
                 "joint": self.joint or None}  # fmt: skip
        if self.sampling is not None or self.beam == 1:
            found += [f"{name}: only for a beam of 2 and more; leave it out" for name, value in beams.items() if value]
        if self.joint and self.coverage:
            found.append("joint: it orders the answers of a beam, and so does coverage; leave out one of them")
        if self.diversity is not None and (self.diversity.groups < 2 or self.beam % self.diversity.groups):
            found.append(
                f"groups: {self.diversity.groups} groups cannot share a beam of {self.beam} evenly; give a divisor"
            )
        return found

    def _phrases(self) -> list[str]:
        found = []
        if self.require and (self.diversity is not None or self.sampling is not None):
            found.append("require: phrases are worked in by a beam; leave out sample and diversity")
        needed = RequiredPhrases(self.require).remaining(()) + 1 if self.require else 1
        if needed > self.max_length:
            found.append(
                f"require: {needed} tokens with </s> do not fit into max_length {self.max_length}; raise max_length"
            )
        for phrase in self.require:
            if any(contains(phrase, never) for never in self.forbid):
                found.append("forbid: a phrase in it is part of one that require asks for; leave it out of one of them")
        return found


S = TypeVar("S", bound=State)


def search(
    step: StepFunction[S],
    state: S,
    request: SearchRequest,
    options: SearchOptions,
    *,
    vocabulary: int,
    random_streams: list[RandomStream],
    observer: Observer | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses per sentence, best first: of a beam all, else one. Sampling needs a random stream per sentence."""
    if options.sampling is not None:
        found = sample_search(step, state, request, sampling=options.sampling, random_streams=random_streams)
        return [[hypothesis] for hypothesis in found]
    if options.beam == 1 and observer is None and not options.require:
        return [[hypothesis] for hypothesis in greedy_search(step, state, request)]
    if options.diversity is not None:
        policy = _policy(options, options.beam // options.diversity.groups)
        return diverse_search(step, state, request, policy=policy, diversity=options.diversity, vocabulary=vocabulary)
    ranking = DynamicBeamAllocation(RequiredPhrases(options.require), options.beam) if options.require else None
    return beam_search(step, state, request, policy=_policy(options, options.beam), ranking=ranking, observer=observer)


def _policy(options: SearchOptions, size: int) -> BeamPolicy:
    return ShrinkingBeam(size) if options.patience is None else PatientBeam(size, options.patience)
