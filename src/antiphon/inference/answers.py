"""Answers to encoded inputs: decoded in batches, reranked, turned into text, flagged."""
# T target steps, S source steps

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch

from antiphon.data.batches import batch_by_length
from antiphon.data.tokenizers import UNK, mark_unknown
from antiphon.inference.engine import Engine
from antiphon.inference.flags import (
    FlagLimits,
    empty_flags,
    ending_flags,
    forbidden_flags,
    missing_flags,
    repetition_flags,
    unattended_flags,
)
from antiphon.inference.generation import Alternative, Copies, Generation
from antiphon.inference.inputs import Codec, EncodedInput
from antiphon.inference.options import SearchOptions
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.rerank import Reranker, by_coverage, by_expected_utility

__all__ = ["AnswerPipeline"]

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True)
class AnswerPipeline:
    """Answers encoded inputs with an engine and the options of a search."""

    engine: Engine
    codec: Codec
    rerankers: Mapping[str, Reranker]
    options: SearchOptions
    flag_limits: FlagLimits
    weights: bool = True  # add one attention matrix to each answer
    heads: bool = False  # add the attention of every layer and head
    workers: int | None = None  # batches computed at once; None: the engine's best number

    def run(
        self, inputs: list[EncodedInput], prefixes: list[list[int]], keys: list[tuple[int, ...]]
    ) -> list[Generation]:
        """The answers in order; the random numbers of an answer depend on its key."""
        workers = self.engine.workers if self.workers is None else self.workers
        rows = [row for row, encoded in enumerate(inputs) if not encoded.skip]
        batches = [
            [rows[index] for index in batch]
            for batch in batch_by_length(
                [(len(inputs[row].prompt), inputs[row].length) for row in rows],
                self.options.batch_size,
                beam=self.options.width,
                budget=self.engine.budget,
                min_batches=workers,
            )
        ]

        def answer(batch: list[int]) -> list[Generation]:
            chosen = [inputs[row] for row in batch]
            hypotheses = self.engine.decode(
                chosen, [prefixes[row] for row in batch], self.options, [keys[row] for row in batch]
            )
            return self._build(chosen, hypotheses)

        found = {row: self.skipped(encoded) for row, encoded in enumerate(inputs) if encoded.skip}
        for batch, answers in zip(batches, map_in_threads(answer, batches, workers), strict=True):
            found |= zip(batch, answers, strict=True)
        return [found[row] for row in range(len(inputs))]

    @staticmethod
    def skipped(encoded: EncodedInput) -> Generation:
        """The empty answer to an input in which there is nothing to answer."""
        return Generation(text="", tokens=[], score=0.0, log_probs=[], source_tokens=[], flags=encoded.flags)

    def build(self, encoded: EncodedInput, hypotheses: list[Hypothesis]) -> Generation:
        """The answer from the hypotheses of one input."""
        [answer] = self._build([encoded], [hypotheses])
        return answer

    def _build(self, batch: list[EncodedInput], hypotheses: list[list[Hypothesis]]) -> list[Generation]:
        rows = zip(batch, hypotheses, strict=True)
        count = self.options.n_best if self.options.mbr is None else self.options.width
        n_best = [self.rerank(encoded, found)[:count] for encoded, found in rows]
        answers = [self._decode(encoded, found) for encoded, found in zip(batch, n_best, strict=True)]
        best = [found[0] for found in n_best]
        if self.weights or self.heads:
            answers = self._add_attention(batch, best, answers)
        return [self._add_flags(*row) for row in zip(batch, best, answers, strict=True)]

    def rerank(self, encoded: EncodedInput, found: list[Hypothesis]) -> list[Hypothesis]:
        """By a reranker, coverage or minimum Bayes risk, if the options say so."""
        options = self.options
        if len(found) > 1:
            for name, weight in options.reranking.items():
                penalty = options.length_penalty
                found = self.rerankers[name].rerank(encoded.ids, found, weight=weight, length_penalty=penalty)
        if options.coverage and len(found) > 1:
            targets = [list(hypothesis.tokens) for hypothesis in found]
            weights = self.engine.weights([encoded.source] * len(found), targets)
            known = [matrix for matrix in weights if matrix is not None]
            return by_coverage(found, known, options.coverage) if len(known) == len(found) else found
        if options.mbr is not None:
            texts = [self.codec.decode(encoded, hypothesis.tokens) for hypothesis in found]
            return [found[index] for index in by_expected_utility(texts, options.mbr)]
        return found

    def alternatives(self, encoded: EncodedInput, n_best: list[Hypothesis]) -> list[Alternative]:
        """The n best hypotheses as text."""
        replacements = self._replacements(encoded, n_best) if self.options.replace_unknown else [[] for _ in n_best]
        return [
            Alternative(
                text=self.codec.decode(encoded, hypothesis.tokens, words),
                tokens=mark_unknown(hypothesis.tokens, self.codec.target.symbols(hypothesis.tokens), words),
                score=hypothesis.score,
                log_probs=list(hypothesis.log_probs),
                token_ids=list(hypothesis.tokens),
            )
            for hypothesis, words in zip(n_best, replacements, strict=True)
        ]

    def _decode(self, encoded: EncodedInput, n_best: list[Hypothesis]) -> Generation:
        """The n best hypotheses, the first of them as the answer."""
        best, *_ = alternatives = self.alternatives(encoded, n_best)
        return Generation(
            text=best.text,
            tokens=best.tokens,
            score=best.score,
            log_probs=best.log_probs,
            source_tokens=self.codec.source_symbols(encoded),
            spans=self.codec.spans(encoded),
            flags=list(encoded.flags),
            alternatives=alternatives,
            token_ids=best.token_ids,
        )

    def _replacements(self, encoded: EncodedInput, n_best: list[Hypothesis]) -> list[list[str]]:
        """For each <unk> of each hypothesis the source token that was copied, or else attended to most.

        The </s> of the source does not count.
        """
        words = self.codec.source_words(encoded)
        if not words or not any(UNK in hypothesis.tokens for hypothesis in n_best):
            return [[] for _ in n_best]
        sources, targets = [encoded.source] * len(n_best), [list(hypothesis.tokens) for hypothesis in n_best]
        rows = zip(targets, self.engine.weights(sources, targets), self.engine.copies(sources, targets), strict=True)
        return [
            []
            if weights is None
            else [words[_origin(step, weights, copies)] for step, token in enumerate(target) if token == UNK]
            for target, weights, copies in rows
        ]

    def _add_attention(
        self, batch: list[EncodedInput], best: list[Hypothesis], answers: list[Generation]
    ) -> list[Generation]:
        """Add the attention of the model to its answers, teacher-forced."""
        sources, targets = [encoded.source for encoded in batch], [list(hypothesis.tokens) for hypothesis in best]
        copies = zip(answers, self.engine.copies(sources, targets), strict=True)
        answers = [answer if copied is None else replace(answer, copied=copied.shares) for answer, copied in copies]
        if not self.heads:
            matrices = zip(answers, self.engine.weights(sources, targets), strict=True)
            return [replace(answer, weights=matrix) for answer, matrix in matrices]
        rows = zip(batch, targets, strict=True)
        all_heads = [self.engine.heads(encoded.source, [*encoded.prompt, *target]) for encoded, target in rows]
        return [
            replace(answer, heads=heads, weights=heads.mean if self.weights else None)
            for answer, heads in zip(answers, all_heads, strict=True)
        ]

    def _add_flags(self, encoded: EncodedInput, best: Hypothesis, answer: Generation) -> Generation:
        options, target = self.options, self.codec.target
        endless = self.codec.end < 0  # a stream
        flags = [] if endless else ending_flags(best, options.longest(encoded.length))
        if best.finished:  # an answer that was cut has a flag for that
            given = encoded.text if self.codec.target_name == "text" else ""
            flags += empty_flags(answer.text.strip().removeprefix(given.strip()))
        if self.codec.labels is None:  # labels recur
            flags += repetition_flags(best.tokens, self.flag_limits)
        if options.require:
            flags += missing_flags(best, options.require, target)
        if options.forbid:
            flags += forbidden_flags(best, options.forbid, target)
        if answer.weights is not None and self.codec.single_text:  # much of an image may be left unattended
            flags += unattended_flags(answer.weights, answer.source_tokens)
        return replace(answer, flags=[*answer.flags, *flags])


def _origin(step: int, weights: np.ndarray, copies: Copies | None) -> int:
    """The source position that a token was copied from, or else attended to most, by weights [T, S]."""
    if copies is not None and copies.shares[step] > 0.0:
        return copies.positions[step]
    return int(weights[step, :-1].argmax())


def map_in_threads(work: Callable[[Job], Result], jobs: list[Job], workers: int) -> Iterator[Result]:
    """work(job) for each job, in order, by `workers` threads for which torch uses one core each.

    A step of a search is dozens of small products. Two threads that share each product wait for one another at each;
    two that have a batch each do not (decision 0018).
    """
    if workers == 1 or len(jobs) == 1:
        yield from map(work, jobs)
        return
    cores = torch.get_num_threads()
    threads = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from threads.map(work, jobs)
    finally:
        threads.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)  # new threads inherit the number that was set last, by any thread
