"""From questions to answers: searched in batches of like length, put in order, flagged."""
# T target steps, S source steps

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from antiphon.data.tokenizers import UNK
from antiphon.inference.batching import alike, at_once
from antiphon.inference.engine import Engine
from antiphon.inference.generation import Copies, Generation
from antiphon.inference.inputs import Question, Wording
from antiphon.inference.options import SearchOptions
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.phrases import RequiredPhrases, contains
from antiphon.search.rerank import Reranker, by_coverage, by_likeness

__all__ = [
    "Answering",
    "Seen",
    "ending_flags",
    "forbidden_flags",
    "missing_flags",
    "repetition_flags",
    "unattended_flags",
]

# What to beware of in an answer.

LOOP, TIMES, PERIOD = 8, 3, 6  # tokens in all, repetitions, and the longest phrase that is looked for
LITTLE, MANY = 0.1, 0.5  # attention a source token gets in all; share of such tokens


def ending_flags(best: Hypothesis, longest: int) -> list[str]:
    """No </s>: the answer was cut at its longest, or the rules and the model left nothing to go on with."""
    said = len(best.tokens)
    if best.finished:
        return []
    if said >= longest:
        return [f"maximum length: stopped after {said} tokens without an end"]
    return [f"no way on: stopped after {said} tokens without an end, because no token was possible"]


def repetition_flags(tokens: tuple[int, ...]) -> list[str]:
    """A phrase that is said again and again without a break: at least 3 times and 8 tokens in all."""
    for period in range(1, PERIOD + 1):
        run = 0
        for place in range(period, len(tokens)):
            run = run + 1 if tokens[place] == tokens[place - period] else 0
            if run + period >= max(LOOP, TIMES * period):
                return [f"repetition: {'a token' if period == 1 else f'{period} tokens'} again and again"]
    return []


def unattended_flags(weights: np.ndarray, source: list[str]) -> list[str]:
    """Half of the source [S] hardly looked at in all steps of weights [T, S]; its </s> does not count."""
    seen = weights[:, : len(source) - 1].sum(axis=0)
    lost = [symbol for symbol, sum_ in zip(source, seen, strict=False) if sum_ < LITTLE]
    if not len(weights) or len(seen) < 2 or len(lost) < MANY * len(seen):
        return []
    named = " ".join(lost[:10]) + (" …" if len(lost) > 10 else "")
    return [f"source not attended: {len(lost)} of {len(seen)} tokens were hardly looked at ({named})"]


def missing_flags(best: Hypothesis, require: tuple[tuple[int, ...], ...], named: list[str]) -> list[str]:
    """Required phrases that are not in the answer after all."""
    missing = RequiredPhrases(require).missing(best.tokens)
    lost = [name for phrase, name in zip(require, named, strict=True) if phrase in missing]
    return [f"required: not said: {', '.join(map(repr, lost))}"] if lost else []


def forbidden_flags(best: Hypothesis, text: str, forbid: tuple[tuple[int, ...], ...], named: list[str]) -> list[str]:
    """Forbidden phrases that are in the answer after all: in a prefix, or cut into other tokens."""
    words = f" {text} "
    both = zip(forbid, named, strict=True)
    said = [name for phrase, name in both if contains(best.tokens, phrase) or f" {name} " in words]
    return [f"forbidden: said all the same: {', '.join(map(repr, said))}"] if said else []


@dataclass(frozen=True)
class Seen:
    """How much is looked at beside the answer."""

    weights: bool  # where the model looked, one matrix
    looks: bool = False  # every layer and head


@dataclass(frozen=True)
class Answering:
    """An engine and its words."""

    engine: Engine
    wording: Wording
    rerankers: Mapping[str, Reranker]

    def answers(
        self,
        questions: list[Question],
        prefixes: list[list[int]],
        options: SearchOptions,
        numbers: list[tuple[int, ...]],
        seen: Seen,
    ) -> list[Generation]:
        """In order. `numbers` are what the random numbers of a question depend on."""
        found: dict[int, Generation] = {}
        spoken = [row for row, question in enumerate(questions) if not question.silent]
        lengths = [(len(questions[row].prompt), questions[row].length) for row in spoken]
        workers = self.engine.workers
        batches = [
            [spoken[place] for place in places]
            for places in alike(
                lengths, options.batch_size, beam=options.width, budget=self.engine.budget, least=workers
            )
        ]

        def answered(rows: list[int]) -> list[Generation]:
            batch = [questions[row] for row in rows]
            told = [prefixes[row] for row in rows]
            hypotheses = self.engine.write(batch, told, options, [numbers[row] for row in rows])
            return self._made(batch, hypotheses, options, seen)

        for rows, answers in zip(batches, at_once(answered, batches, workers), strict=True):
            found |= zip(rows, answers, strict=True)
        return [found[row] if row in found else _silence(question) for row, question in enumerate(questions)]

    def _made(
        self, batch: list[Question], found: list[list[Hypothesis]], options: SearchOptions, seen: Seen
    ) -> list[Generation]:
        count = options.n_best if options.mbr is None else options.width
        found = [self._ordered(*pair, options)[:count] for pair in zip(batch, found, strict=True)]
        answers = [
            self.wording.generation(
                question, answers, self._unknown(question, answers) if options.replace_unknown else []
            )
            for question, answers in zip(batch, found, strict=True)
        ]
        best = [answers[0] for answers in found]
        answers = self._seen(batch, best, answers, seen)
        return [self._flagged(*row, options) for row in zip(batch, answers, best, strict=True)]

    def _ordered(self, question: Question, found: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
        """By a reranker, coverage or likeness, if that is wished."""
        if len(found) > 1:
            for name, weight in options.reranking.items():
                penalty = options.length_penalty
                found = self.rerankers[name].rerank(question.ids, found, weight=weight, length_penalty=penalty)
        if options.coverage and len(found) > 1:
            weights = self.engine.weights([question.source] * len(found), [list(one.tokens) for one in found])
            known = [one for one in weights if one is not None]
            return by_coverage(found, known, options.coverage) if len(known) == len(found) else found
        if options.mbr is not None:
            texts = [self.wording.said(question, one.tokens) for one in found]
            return [found[place] for place in by_likeness(texts, options.mbr)]
        return found

    def _unknown(self, question: Question, found: list[Hypothesis]) -> list[list[str]]:
        """For each <unk> of each answer the source token that was copied, or else attended to most.

        The </s> of the source does not count.
        """
        if not any(UNK in one.tokens for one in found) or not self.wording.words(question):
            return [[] for _ in found]
        read, sources = self.wording.words(question), [question.source] * len(found)
        targets = [list(one.tokens) for one in found]
        rows = zip(found, self.engine.weights(sources, targets), self.engine.copies(sources, targets), strict=True)
        return [
            []
            if seen is None
            else [read[_place(row, seen, copies)] for row, token in enumerate(one.tokens) if token == UNK]
            for one, seen, copies in rows
        ]

    def _seen(
        self, batch: list[Question], best: list[Hypothesis], answers: list[Generation], seen: Seen
    ) -> list[Generation]:
        """The answers with where the model looked while it wrote them, as far as asked for."""
        targets = [list(one.tokens) for one in best]
        if not seen.weights and not seen.looks:
            return answers
        sources = [question.source for question in batch]
        copied = zip(answers, self.engine.copies(sources, targets), strict=True)
        answers = [answer if one is None else replace(answer, copied=one.shares) for answer, one in copied]
        if seen.looks:
            both = zip(batch, targets, strict=True)
            heads = [self.engine.look(question.source, [*question.prompt, *target]) for question, target in both]
            return [
                replace(answer, looks=one, weights=one.mean if seen.weights else None)
                for answer, one in zip(answers, heads, strict=True)
            ]
        matrices = self.engine.weights(sources, targets)
        return [replace(answer, weights=one) for answer, one in zip(answers, matrices, strict=True)]

    def _flagged(self, question: Question, answer: Generation, best: Hypothesis, options: SearchOptions) -> Generation:
        endless = self.wording.end < 0  # a stream
        more = [] if endless else ending_flags(best, options.longest(question.length))
        more += repetition_flags(best.tokens)
        more += missing_flags(best, options.require, self._named(options.require))
        more += forbidden_flags(
            best, self.wording.target.decode(best.tokens), options.forbid, self._named(options.forbid)
        )
        if answer.weights is not None and self.wording.one_text:  # of a picture much may be left unseen
            more += unattended_flags(answer.weights, answer.source_tokens)
        return replace(answer, flags=[*answer.flags, *more])

    def _named(self, phrases: tuple[tuple[int, ...], ...]) -> list[str]:
        return [self.wording.target.decode(phrase) for phrase in phrases]


def _place(row: int, weights: np.ndarray, copies: Copies | None) -> int:
    """The position of the source that a token comes from, by weights [T, S] if it was not copied."""
    if copies is not None and copies.shares[row] > 0.0:
        return copies.positions[row]
    return int(weights[row, :-1].argmax())


def _silence(question: Question) -> Generation:
    """The answer to nothing."""
    return Generation(text="", tokens=[], score=0.0, log_probs=[], source_tokens=[], flags=question.flags)
