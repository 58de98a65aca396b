"""CTranslate2 behind a Generator."""
# T target steps, S source steps

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import Any

import numpy as np
import torch
from ctranslate2 import GenerationStepResult, Translator

from antiphon.data.source import Read
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.base import ExportFolder
from antiphon.export.ctranslate2_write import names
from antiphon.inference.engine import EngineModel
from antiphon.inference.generation import Copies, Heads
from antiphon.inference.inputs import Question, Wording, wording_of
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.options import SearchOptions
from antiphon.search.trace import Observer

__all__ = ["CTranslate2Engine", "Translators", "load"]

# Threads for CTranslate2: all of them for one sentence, or one for each of several batches.


class Translators:
    """One model, read for one sentence at a time or for several batches at once.

    Threads that share each small product wait for one another at each. Batches do better with a thread each; a
    sentence alone has no other use for them, unless its products are of int8: those are slower with two threads than
    with one (decision 0018). Each way holds the weights; the second is read when it is first asked for.
    """

    def __init__(self, path: str, *, threads: int, int8: bool) -> None:
        self.threads = threads
        self._path = path
        self._apart = threads == 1 or int8
        self._read = Lock()
        self._alone: Translator | None = None
        self._many: Translator | None = None
        self.of(1)  # what cannot be read is said at once

    def of(self, sentences: int) -> Translator:
        """The translator for a batch of so many."""
        with self._read:
            if sentences > 1 or self._apart:
                if self._many is None:
                    self._many = self._opened(at_once=self.threads, threads=1)
                return self._many
            if self._alone is None:
                self._alone = self._opened(at_once=1, threads=self.threads)
            return self._alone

    def _opened(self, *, at_once: int, threads: int) -> Translator:
        try:
            return Translator(self._path, inter_threads=at_once, intra_threads=threads)
        except (RuntimeError, ValueError) as error:
            fact = str(error).strip().split("\n")[0]
            raise ModelFolderError(
                f"{self._path}: CTranslate2 cannot read it ({fact}); update ctranslate2, or export the model again"
            ) from error


# Loads a CTranslate2 export.


def load(export: ExportFolder) -> EngineModel:
    """It takes as many threads as torch would."""
    positions = export.facts.get("positions")
    if not isinstance(positions, int):
        raise ModelFolderError(f"{export.path}: export.json lacks the number of positions; export the model again")
    int8 = export.facts.get("int8") is True
    translators = Translators(str(export.path), threads=torch.get_num_threads(), int8=int8)
    wording = wording_of(export.config, export.source, export.target)
    sizes, short = (export.source.size, export.target.size), export.facts.get("shortlist") is True
    engine = CTranslate2Engine(translators, wording, tokens=sizes, longest=positions, shortlist=short)
    return EngineModel(export.config, engine, export.source, export.target)


# What this engine has; every other option must have its default value.
HAS = {"beam", "n_best", "max_length", "length_penalty", "batch_size", "patience", "log_probs", "shortlist", "joint"}
WHY = {
    "sampling": "CTranslate2 draws random numbers for a batch, so an answer would depend on its company",
    **dict.fromkeys(
        ("min_length", "min_ratio", "no_repeat", "forbid"),
        "CTranslate2 takes a token out before its softmax and ranks what is left by other numbers",
    ),
}
CALLED = {"sampling": "sample", "unknown": "replace_unknown"}  # elsewhere the option has the name of its field
OTHERWISE = "leave it out, or use the run that the export was made from"
NAMED = 5  # targets that are too long; the others are counted
# With no penalty at all CTranslate2 stops early, at answers that are not always the n best; length ^ 1e-30 is 1.
NONE = 1e-30


@dataclass(frozen=True)
class Asked:
    """Sources and prefixes as CTranslate2 reads them, and the options of their search."""

    sources: list[list[str]]
    prefixes: list[list[str]]
    options: SearchOptions

    def only(self, rows: list[int]) -> Asked:
        return replace(self, sources=[self.sources[row] for row in rows], prefixes=[self.prefixes[row] for row in rows])


@dataclass(frozen=True)
class Answer:
    """What CTranslate2 said, and what it told of it; None: not in our meaning."""

    tokens: list[int]
    score: float | None
    log_probs: list[float] | None


class CTranslate2Engine:
    """A Transformer as CTranslate2 computes it: greedily, or with a beam.

    Its beam is not the one of the lectures. It stays full: `beam` hypotheses go on beside those that have ended, until
    beam x patience have. A run does that, too, if `patience` is given; here it is 1 unless given. Three things more
    differ where a beam is wider than 1:
    - tokens that are never said (<unk>, ..) leave before the softmax, so hypotheses compete with log p of what is
      left; in a trained model that is nearly the same, and if log_probs are asked for, scores are those of the model
    - those that max_length cuts compete with those that have ended
    - right after a prefix, only the best hypothesis may end

    With a shortlist, a sentence may say what the lists of all sentences of its batch have: there an answer can depend
    on its company. Its score is of what is left, unless it is read once more (beams with log_probs, answers after a
    prefix): that is of the whole vocabulary.
    """

    name = "ctranslate2"
    budget = None

    def __init__(
        self, translators: Translators, wording: Wording, *, tokens: tuple[int, int], longest: int, shortlist: bool
    ) -> None:
        """`tokens`: how many each side has. `longest`: positions of the decoder. `shortlist`: the folder has one."""
        self.translators = translators
        self.workers = translators.threads + 1  # one batch more: its answers become text
        self.shortlist = shortlist
        self.longest = longest
        self._source, self._target = (names(size) for size in tokens)
        self._ids = {name: number for number, name in enumerate(self._target)}
        self._end = wording.end
        self._forbidden = frozenset(wording.forbidden)
        self._never = [[self._target[token]] for token in wording.forbidden]

    def problems(self, options: SearchOptions) -> list[str]:
        lacking = [field.name for field in fields(options) if field.name not in HAS]
        usual = {field.name: field.default for field in fields(options)}
        found = [
            f"{CALLED.get(name, name)}: {WHY.get(name, 'CTranslate2 does not have it')}; {OTHERWISE}"
            for name in lacking
            if getattr(options, name) != usual[name]
        ]
        if options.max_length > self.longest:
            found.append(
                f"max_length: {options.max_length}, but the export has {self.longest} positions; give at most that, "
                "or raise decoding.max_length or data.target.max_length in the config of the run and export it again"
            )
        if options.shortlist and not self.shortlist:
            found.append(
                "shortlist: the export has none; `antiphon shortlist RUN` learns one, then export the run again"
            )
        return found

    def write(
        self,
        batch: list[Question],
        prefixes: list[list[int]],
        options: SearchOptions,
        numbers: list[tuple[int, ...]],  # noqa: ARG002 (for sampling)
    ) -> list[list[Hypothesis]]:
        """Of a beam, what comes after the n best has no log_probs: CTranslate2 would have to read it once more."""
        asked = Asked(
            sources=[[self._source[token] for token in question.ids] for question in batch],
            prefixes=[[self._target[token] for token in prefix] for prefix in prefixes],
            options=options,
        )
        found = self._greedy(asked) if options.beam == 1 else self._beam(asked)
        return self._hypotheses(asked, found)

    def watch(self, question: Question, options: SearchOptions, observer: Observer) -> list[Hypothesis]:  # noqa: ARG002
        raise UserError(
            "watch: CTranslate2 does not show the steps of its search; use the run that the export was made from"
        )

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        long = [row for row, target in enumerate(targets) if len(target) > self.longest]
        if long:
            problems = [
                f"target {row + 1}: {len(targets[row])} tokens with </s>, but the export has {self.longest} positions; "
                "shorten it, or use the run"
                for row in long[:NAMED]
            ]
            more = len(long) - NAMED
            raise UserError(problems if more <= 0 else [*problems, f"and {more} more that are too long"])
        read = [[self._source[token] for token in source] for source in sources if isinstance(source, list)]
        return self._forced(read, targets, size)

    def weights(
        self,
        sources: list[Read],
        targets: list[list[int]],  # noqa: ARG002
    ) -> list[np.ndarray | None]:
        """None: CTranslate2 hands out one layer, and a run shows the mean of all."""
        return [None] * len(sources)

    def copies(
        self,
        sources: list[Read],
        targets: list[list[int]],  # noqa: ARG002
    ) -> list[Copies | None]:
        """None: a model that copies is not exported."""
        return [None] * len(sources)

    def look(self, source: Read, target: list[int]) -> Heads:  # noqa: ARG002
        raise UserError(
            "attention: CTranslate2 does not hand out every layer and head; use the run that the export was made from"
        )

    def _greedy(self, asked: Asked) -> list[list[Answer]]:
        """Where a token is said that must not be, once more without it; elsewhere it makes no difference.

        So log p is not that of what is left when forbidden tokens are out. Nor does a prefix count to CTranslate2.
        """
        answers = self._walk(asked, never=None)
        wrong = [row for row, answer in enumerate(answers) if not self._forbidden.isdisjoint(answer.tokens)]
        again = self._walk(asked.only(wrong), never=self._never) if wrong else []
        for row, answer in zip(wrong, again, strict=True):
            answers[row] = Answer(answer.tokens, None, None)
        both = zip(answers, asked.prefixes, strict=True)
        return [[Answer(answer.tokens, None, None) if prefix else answer] for answer, prefix in both]

    def _walk(self, asked: Asked, *, never: list[list[str]] | None) -> list[Answer]:
        seen: list[list[float]] = [[] for _ in asked.sources]

        def watch(step: GenerationStepResult) -> bool:
            seen[step.batch_id].append(step.log_prob)
            return False

        told = asked.options.log_probs
        results = self._translate(asked, never=never, kept=1, watch=watch if told else None)
        return [
            Answer([self._ids[token] for token in result.hypotheses[0]], result.scores[0], row if told else None)
            for result, row in zip(results, seen, strict=True)
        ]

    def _beam(self, asked: Asked) -> list[list[Answer]]:
        """As many answers as the beam is wide, or as there are; those that have ended first."""
        found = []
        results = self._translate(asked, never=self._never, kept=_kept(asked.options), watch=None)
        for result, prefix in zip(results, asked.prefixes, strict=True):
            said = ([self._ids[token] for token in hypothesis] for hypothesis in result.hypotheses)
            answers = [
                Answer(tokens, None if prefix else score, None)
                for tokens, score in zip(said, result.scores, strict=True)
                if self._forbidden.isdisjoint(tokens)  # it fills the beam up with them if there is nothing else
            ]
            found.append(sorted(answers, key=lambda answer: not self._ended(answer.tokens)))
        return found

    def _translate(
        self,
        asked: Asked,
        *,
        never: list[list[str]] | None,
        kept: int,
        watch: Callable[[GenerationStepResult], bool] | None,
    ) -> list[Any]:
        """`never` are sequences that are not said; `kept` answers have to end."""
        options = asked.options
        results: list[Any] = self.translators.of(len(asked.sources)).translate_batch(
            asked.sources,
            target_prefix=asked.prefixes if any(asked.prefixes) else None,
            beam_size=options.beam,
            patience=kept / options.beam,
            num_hypotheses=min(options.beam, kept),
            length_penalty=options.length_penalty or NONE,
            suppress_sequences=never,
            max_decoding_length=options.max_length,
            min_decoding_length=0,
            max_input_length=0,
            use_vmap=options.shortlist,
            return_scores=True,
            return_end_token=True,
            callback=watch,
        )
        return results

    def _hypotheses(self, asked: Asked, found: list[list[Answer]]) -> list[list[Hypothesis]]:
        """Answers with scores of our meaning. Those after a prefix are ranked anew, because to us it counts."""
        results, penalty = [], asked.options.length_penalty
        for answers, prefix in zip(self._scored(asked, found), asked.prefixes, strict=True):
            hypotheses = [self._hypothesis(answer, penalty) for answer in answers]
            if prefix:
                hypotheses.sort(key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
            results.append(hypotheses)
        return results

    def _scored(self, asked: Asked, found: list[list[Answer]]) -> list[list[Answer]]:
        """The same answers; what was asked for and not told is read once more.

        Only the n best are asked about; of the whole beam, if a reranker will choose these.
        """
        places = [(row, place) for row, answers in enumerate(found) for place in range(len(answers))]
        best = asked.options.beam if asked.options.reranking else asked.options.n_best
        wanted = best if asked.options.log_probs else 0
        lacking = [
            (row, place)
            for row, place in places
            if found[row][place].score is None or (place < wanted and found[row][place].log_probs is None)
        ]
        targets = [found[row][place].tokens for row, place in lacking]
        read = self._forced([asked.sources[row] for row, _ in lacking], targets, asked.options.batch_size)
        known = dict(zip(lacking, read, strict=True))
        return [
            [
                replace(answer, log_probs=known.get((row, place), answer.log_probs))
                for place, answer in enumerate(answers)
            ]
            for row, answers in enumerate(found)
        ]

    def _hypothesis(self, answer: Answer, length_penalty: float) -> Hypothesis:
        finished = self._ended(answer.tokens)
        if answer.log_probs is not None:
            return Hypothesis.of(answer.tokens, answer.log_probs, finished=finished, length_penalty=length_penalty)
        assert answer.score is not None
        return Hypothesis(tuple(answer.tokens), (), answer.score, finished)  # length ^ length_penalty is in it

    def _forced(self, sources: list[list[str]], targets: list[list[int]], size: int) -> list[list[float]]:
        """log p of given targets. CTranslate2 puts </s> behind each, which counts where it was there."""
        if not targets:
            return []
        bare = [target[:-1] if self._ended(target) else target for target in targets]
        said = [[self._target[token] for token in target] for target in bare]
        results = self.translators.of(len(sources)).score_batch(sources, said, max_batch_size=size, max_input_length=0)
        return [result.log_probs[: len(target)] for result, target in zip(results, targets, strict=True)]

    def _ended(self, tokens: list[int]) -> bool:
        return tokens[-1:] == [self._end]


def _kept(options: SearchOptions) -> int:
    """So many answers have to end: rounded up, as PatientBeam does. CTranslate2 gets a patience that makes it whole."""
    return math.ceil(options.beam * (1.0 if options.patience is None else options.patience))
