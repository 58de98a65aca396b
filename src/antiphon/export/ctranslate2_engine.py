"""The engine of a Generator that computes with CTranslate2."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import torch
from ctranslate2 import GenerationStepResult, Translator

from antiphon.data.source import Read
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.base import ExportFolder
from antiphon.export.ctranslate2_write import token_names
from antiphon.inference.engine import EngineModel
from antiphon.inference.generation import AttentionHeads, Copies
from antiphon.inference.inputs import Codec, EncodedInput, build_codec
from antiphon.inference.options import SearchOptions
from antiphon.search.hypothesis import Hypothesis
from antiphon.search.trace import Observer

__all__ = ["CTranslate2Engine", "TranslatorPool", "load"]


class TranslatorPool:
    """Translators of CTranslate2: for a single sentence, where all threads share each matrix product, and for batches.

    Threads that share small products wait for one another, so batches run in parallel with one thread each. A single
    sentence uses all threads, unless its products are int8: those are slower with two threads than with one (decision
    0018). Each Translator holds the weights; it is opened when it is first needed.
    """

    def __init__(self, path: str, *, threads: int, int8: bool) -> None:
        self.threads = threads
        self._path = path
        self._always_parallel = threads == 1 or int8
        self._lock = Lock()
        self._opened: dict[bool, Translator] = {}  # by whether batches run in parallel
        self.translator(1)  # an unreadable folder fails here

    def translator(self, sentences: int) -> Translator:
        """The Translator for a batch of this size."""
        parallel = sentences > 1 or self._always_parallel
        with self._lock:
            if parallel not in self._opened:
                self._opened[parallel] = self._open(*((self.threads, 1) if parallel else (1, self.threads)))
            return self._opened[parallel]

    def _open(self, batches: int, threads: int) -> Translator:
        try:
            return Translator(self._path, inter_threads=batches, intra_threads=threads)
        except (RuntimeError, ValueError) as error:
            fact = str(error).strip().split("\n")[0]
            raise ModelFolderError(
                f"{self._path}: CTranslate2 cannot read it ({fact}); update ctranslate2, or export the model again"
            ) from error


def load(export: ExportFolder) -> EngineModel:
    """Load an export; it gets as many threads as torch has."""
    positions = export.facts.get("positions")
    if not isinstance(positions, int):
        raise ModelFolderError(f"{export.path}: export.json lacks the number of positions; export the model again")
    int8, shortlist = (export.facts.get(name) is True for name in ("int8", "shortlist"))
    pool = TranslatorPool(str(export.path), threads=torch.get_num_threads(), int8=int8)
    codec, sizes = build_codec(export.config, export.source, export.target), (export.source.size, export.target.size)
    engine = CTranslate2Engine(pool, codec, tokens=sizes, longest=positions, shortlist=shortlist)
    return EngineModel(export.config, engine, export.source, export.target)


INSTEAD = "use the run that the export was made from"
LISTED = 5  # targets named in a message; the others are counted
# Without a length penalty CTranslate2 stops early, before it has the n best; length ^ 1e-30 is 1.
NO_PENALTY = 1e-30


@dataclass(frozen=True)
class TranslationRequest:
    """Sources and target prefixes as tokens of CTranslate2, and the search options."""

    sources: list[list[str]]
    prefixes: list[list[str]]
    options: SearchOptions

    def select(self, rows: list[int]) -> TranslationRequest:
        """The request for some of its sentences."""
        return replace(self, sources=[self.sources[row] for row in rows], prefixes=[self.prefixes[row] for row in rows])


@dataclass(frozen=True)
class Translation:
    """A hypothesis of CTranslate2. The score or log_probs are None if they are not those of our definition."""

    tokens: list[int]
    score: float | None
    log_probs: list[float] | None


class CTranslate2Engine:
    """A Transformer computed by CTranslate2: greedy search or a beam.

    Its beam stays full: `beam` hypotheses continue beside those that have ended, until beam x patience have. A run does
    the same if `patience` is given; here its default is 1. With a beam wider than 1, three things more differ:
    - tokens that are never generated (<unk>, …) are removed before the softmax, so renormalised probabilities rank the
      hypotheses. For a trained model the difference is small; with log_probs the scores are those of the model.
    - hypotheses truncated by max_length compete with those that have ended
    - right after a prefix, only the best hypothesis may end

    A shortlist is the union over the batch, so an answer can depend on the rest of its batch. Scores are normalised
    over the shortlist, unless they are computed again (beams with log_probs, answers after a prefix).
    """

    name = "ctranslate2"
    budget = None
    has_attention = False
    has_heads = False

    def __init__(
        self, pool: TranslatorPool, codec: Codec, *, tokens: tuple[int, int], longest: int, shortlist: bool
    ) -> None:
        """`tokens`: vocabulary sizes of source and target. `longest`: positions of the decoder."""
        self.pool = pool
        self.workers = pool.threads + 1  # while one more batch is converted to text
        self.has_shortlist = shortlist
        self.longest = longest
        self._source, self._target = (token_names(size) for size in tokens)
        self._ids = {name: number for number, name in enumerate(self._target)}
        self._end = codec.end
        self._forbidden = frozenset(codec.forbidden)
        self._suppressed = [[self._target[token]] for token in codec.forbidden]

    def decode(
        self,
        batch: list[EncodedInput],
        prefixes: list[list[int]],
        options: SearchOptions,
        keys: list[tuple[int, ...]],  # noqa: ARG002 (for sampling)
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each input; in a beam only the n best have log_probs, which cost a second pass."""
        request = TranslationRequest(
            sources=[[self._source[token] for token in encoded.ids] for encoded in batch],
            prefixes=[[self._target[token] for token in prefix] for prefix in prefixes],
            options=options,
        )
        answers = self._greedy(request) if options.beam == 1 else self._beam(request)
        return self._hypotheses(request, answers)

    def observe(
        self,
        encoded: EncodedInput,  # noqa: ARG002 (the same signature for all engines)
        prefix: list[int],  # noqa: ARG002
        options: SearchOptions,  # noqa: ARG002
        key: tuple[int, ...],  # noqa: ARG002
        observer: Observer,  # noqa: ARG002
    ) -> list[Hypothesis]:
        raise UserError(f"tree: CTranslate2 does not show the steps of its search; {INSTEAD}")

    def log_probs(self, sources: list[Read], targets: list[list[int]], size: int) -> list[list[float]]:
        if long := [row for row, target in enumerate(targets) if len(target) > self.longest]:
            problems = [
                f"target {row + 1}: {len(targets[row])} tokens with </s>, but the export has {self.longest} positions; "
                "shorten it, or use the run"
                for row in long[:LISTED]
            ]
            more = [f"and {len(long) - LISTED} more that are too long"] if len(long) > LISTED else []
            raise UserError([*problems, *more])
        texts = [[self._source[token] for token in source] for source in sources if isinstance(source, list)]
        return self._forced(texts, targets, size)

    def weights(self, sources: list[Read], targets: list[list[int]]) -> list[np.ndarray | None]:  # noqa: ARG002
        """None: CTranslate2 returns the attention of one layer, and a run shows the mean of all."""
        return [None] * len(sources)

    def copies(self, sources: list[Read], targets: list[list[int]]) -> list[Copies | None]:  # noqa: ARG002
        """None: a model that copies is not exported."""
        return [None] * len(sources)

    def heads(self, source: Read, target: list[int]) -> AttentionHeads:  # noqa: ARG002
        raise UserError(f"attention: CTranslate2 does not return every layer and head; {INSTEAD}")

    def _greedy(self, request: TranslationRequest) -> list[list[Translation]]:
        """Greedy answers. Only those with a forbidden token are computed again with forbidden tokens suppressed.

        So the others have log p of the full softmax. CTranslate2 leaves a prefix out of its scores.
        """
        answers = self._greedy_pass(request, suppressed=None)
        wrong = [row for row, answer in enumerate(answers) if not self._forbidden.isdisjoint(answer.tokens)]
        again = self._greedy_pass(request.select(wrong), suppressed=self._suppressed) if wrong else []
        for row, answer in zip(wrong, again, strict=True):
            answers[row] = Translation(answer.tokens, None, None)
        both = zip(answers, request.prefixes, strict=True)
        return [[Translation(answer.tokens, None, None) if prefix else answer] for answer, prefix in both]

    def _greedy_pass(self, request: TranslationRequest, *, suppressed: list[list[str]] | None) -> list[Translation]:
        log_probs: list[list[float]] = [[] for _ in request.sources]

        def record(step: GenerationStepResult) -> bool:
            log_probs[step.batch_id].append(step.log_prob)
            return False

        wanted = request.options.log_probs
        results = self._translate(request, suppressed=suppressed, finished=1, callback=record if wanted else None)
        return [
            Translation([self._ids[token] for token in result.hypotheses[0]], result.scores[0], row if wanted else None)
            for result, row in zip(results, log_probs, strict=True)
        ]

    def _beam(self, request: TranslationRequest) -> list[list[Translation]]:
        """At most `beam` answers for each source; those that have ended come first."""
        answers, options = [], request.options
        finished = math.ceil(options.beam * (1.0 if options.patience is None else options.patience))  # as PatientBeam
        results = self._translate(request, suppressed=self._suppressed, finished=finished)
        for result, prefix in zip(results, request.prefixes, strict=True):
            hypotheses = ([self._ids[token] for token in hypothesis] for hypothesis in result.hypotheses)
            allowed = [
                Translation(tokens, None if prefix else score, None)
                for tokens, score in zip(hypotheses, result.scores, strict=True)
                if self._forbidden.isdisjoint(tokens)  # they fill a beam that has no other continuation
            ]
            answers.append(sorted(allowed, key=lambda answer: not self._ended(answer.tokens)))
        return answers

    def _translate(
        self,
        request: TranslationRequest,
        *,
        suppressed: list[list[str]] | None,
        finished: int,
        callback: Callable[[GenerationStepResult], bool] | None = None,
    ) -> list[Any]:
        """Search until `finished` hypotheses have ended; `suppressed` sequences are never generated."""
        options = request.options
        results: list[Any] = self.pool.translator(len(request.sources)).translate_batch(
            request.sources,
            target_prefix=request.prefixes if any(request.prefixes) else None,
            beam_size=options.beam,
            patience=finished / options.beam,
            num_hypotheses=min(options.beam, finished),
            length_penalty=options.length_penalty or NO_PENALTY,
            suppress_sequences=suppressed,
            max_decoding_length=options.max_length,
            min_decoding_length=0,
            max_input_length=0,
            use_vmap=options.shortlist,
            return_scores=True,
            return_end_token=True,
            callback=callback,
        )
        return results

    def _hypotheses(self, request: TranslationRequest, answers: list[list[Translation]]) -> list[list[Hypothesis]]:
        """Hypotheses with our scores. Those after a prefix are ranked again, because our scores include it."""
        results, penalty = [], request.options.length_penalty
        for row, prefix in zip(self._with_log_probs(request, answers), request.prefixes, strict=True):
            hypotheses = [self._hypothesis(answer, penalty) for answer in row]
            if prefix:
                hypotheses.sort(key=lambda hypothesis: (not hypothesis.finished, -hypothesis.score))
            results.append(hypotheses)
        return results

    def _with_log_probs(self, request: TranslationRequest, answers: list[list[Translation]]) -> list[list[Translation]]:
        """The same answers, rescored where log_probs or the score are missing.

        log_probs are computed for the n best only; for the whole beam if a reranker chooses them.
        """
        options = request.options
        wanted = (options.beam if options.reranking else options.n_best) if options.log_probs else 0
        missing = [
            (row, rank)
            for row, ranked in enumerate(answers)
            for rank, answer in enumerate(ranked)
            if answer.score is None or (rank < wanted and answer.log_probs is None)
        ]
        targets = [answers[row][rank].tokens for row, rank in missing]
        rescored = self._forced([request.sources[row] for row, _ in missing], targets, options.batch_size)
        known = dict(zip(missing, rescored, strict=True))
        return [
            [replace(answer, log_probs=known.get((row, rank), answer.log_probs)) for rank, answer in enumerate(ranked)]
            for row, ranked in enumerate(answers)
        ]

    def _hypothesis(self, answer: Translation, length_penalty: float) -> Hypothesis:
        finished = self._ended(answer.tokens)
        if answer.log_probs is not None:
            return Hypothesis.of(answer.tokens, answer.log_probs, finished=finished, length_penalty=length_penalty)
        assert answer.score is not None
        return Hypothesis(tuple(answer.tokens), (), answer.score, finished)  # divided by length ^ length_penalty

    def _forced(self, sources: list[list[str]], targets: list[list[int]], size: int) -> list[list[float]]:
        """log p of given targets. CTranslate2 appends </s> to each; it is dropped from targets that lack it."""
        if not targets:
            return []
        bare = [target[:-1] if self._ended(target) else target for target in targets]
        texts = [[self._target[token] for token in target] for target in bare]
        translator = self.pool.translator(len(sources))
        results = translator.score_batch(sources, texts, max_batch_size=size, max_input_length=0)
        return [result.log_probs[: len(target)] for result, target in zip(results, targets, strict=True)]

    def _ended(self, tokens: list[int]) -> bool:
        return tokens[-1:] == [self._end]
