"""A loaded model that answers: text in, text out, in order, whatever the batch."""
# B sentences, R rows, T target steps, S source steps, V vocabulary

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import overload

import torch
from torch import Tensor

from antiphon.config.schema import Config
from antiphon.decoders.state import RecurrentState
from antiphon.decoding.beam import beam_search
from antiphon.decoding.generation import Alternative, Generation, Scored
from antiphon.decoding.greedy import greedy_search
from antiphon.decoding.hypothesis import Hypothesis
from antiphon.errors import UserError
from antiphon.folder import LoadedModel
from antiphon.model import EncoderDecoder
from antiphon.sequence import Sequence
from antiphon.sources.batches import source_batch
from antiphon.sources.tokens import Tokenizer
from antiphon.sources.vocabulary import EOS, PAD, SOS, UNK

__all__ = ["Generator"]

FORBIDDEN = (PAD, SOS, UNK)


@dataclass(frozen=True)
class _Source:
    """One input: its ids without </s>, and what to say of it."""

    ids: list[int]
    flags: list[str]


@dataclass(frozen=True)
class _Search:
    """The choices of one call."""

    beam: int
    max_length: int
    length_penalty: float


class Generator:
    """The verbs of a trained model."""

    def __init__(self, loaded: LoadedModel, check: Callable[[], None] | None = None) -> None:
        self.config: Config = loaded.config
        self.model: EncoderDecoder = loaded.model
        self.source_tokenizer: Tokenizer = loaded.source_tokenizer
        self.target_tokenizer: Tokenizer = loaded.target_tokenizer
        self.check = check  # called at each step; may raise, to leave at once

    @overload
    def generate(
        self,
        texts: str,
        *,
        beam: int | None = None,
        n_best: int = 1,
        max_length: int | None = None,
        length_penalty: float | None = None,
        batch_size: int | None = None,
        prefix: str = "",
        weights: bool = True,
    ) -> Generation: ...

    @overload
    def generate(
        self,
        texts: list[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        max_length: int | None = None,
        length_penalty: float | None = None,
        batch_size: int | None = None,
        prefix: str | list[str] = "",
        weights: bool = True,
    ) -> list[Generation]: ...

    def generate(
        self,
        texts: str | list[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        max_length: int | None = None,
        length_penalty: float | None = None,
        batch_size: int | None = None,
        prefix: str | list[str] = "",
        weights: bool = True,
    ) -> Generation | list[Generation]:
        """Answers to one text or to many, in order. `weights=False` saves the second look for attention."""
        if isinstance(texts, str):
            return self.generate(
                [texts],
                beam=beam,
                n_best=n_best,
                max_length=max_length,
                length_penalty=length_penalty,
                batch_size=batch_size,
                prefix=prefix,
                weights=weights,
            )[0]
        search = self._search(beam, n_best, max_length, length_penalty)
        sources = [self._source(text) for text in texts]
        prefixes = self._prefixes(prefix, len(texts))
        answers: list[Generation] = [_silence(source.flags) for source in sources]
        for rows in self._batches(sources, batch_size):
            batch, forced = [sources[row] for row in rows], [prefixes[row] for row in rows]
            for row, answer in zip(rows, self._answer(batch, forced, search, n_best, weights), strict=True):
                answers[row] = answer
        return answers

    def score(self, pairs: list[tuple[str, str]], batch_size: int | None = None) -> list[Scored]:
        """log p(y | x) of given targets, teacher-forced."""
        sources = [self._source(source) for source, _ in pairs]
        targets = [self.target_tokenizer.encode(target) for _, target in pairs]
        results: dict[int, Scored] = {}
        for rows in self._batches(sources, batch_size, empty=True):
            scored = self._force([sources[row].ids for row in rows], [[*targets[row], EOS] for row in rows])
            for row, (log_probs, _) in zip(rows, scored, strict=True):
                unknown = _unknown_flag("target", self.target_tokenizer.unknown(pairs[row][1]))
                results[row] = Scored(
                    *pairs[row],
                    log_prob=float(log_probs.double().sum()),
                    tokens=self.target_tokenizer.symbols([*targets[row], EOS]),
                    log_probs=log_probs.tolist(),
                    flags=[*sources[row].flags, *unknown],
                )
        return [results[row] for row in range(len(pairs))]

    def _search(self, beam: int | None, n_best: int, max_length: int | None, length_penalty: float | None) -> _Search:
        chosen = self.config.decoding
        search = _Search(
            beam=chosen.beam if beam is None else beam,
            max_length=chosen.max_length if max_length is None else max_length,
            length_penalty=chosen.length_penalty if length_penalty is None else length_penalty,
        )
        problems = [
            f"{name}: must be at least 1, not {value}"
            for name, value in (("beam", search.beam), ("n_best", n_best), ("max_length", search.max_length))
            if value < 1
        ]
        if search.length_penalty < 0:
            problems.append(f"length_penalty: must not be negative, not {search.length_penalty}")
        if n_best > search.beam:
            problems.append(f"n_best: {n_best} answers need a beam of at least {n_best}, not {search.beam}")
        if problems:
            raise UserError(problems)
        return search

    def _source(self, text: str) -> _Source:
        """Ids, cut at the longest source of the config; nothing is lost in silence."""
        limit = self.config.data.source.max_length
        ids = self.source_tokenizer.encode(text)
        flags = _unknown_flag("source", self.source_tokenizer.unknown(text))
        if len(ids) > limit:
            flags.append(f"truncated: the source has {len(ids)} tokens, only the first {limit} were read")
        if not ids:
            flags.append("empty source")
        return _Source(ids[:limit], flags)

    def _prefixes(self, prefix: str | list[str], count: int) -> list[list[int]]:
        texts = [prefix] * count if isinstance(prefix, str) else prefix
        if len(texts) != count:
            raise UserError(f"prefix: {len(texts)} prefixes for {count} texts; give one, or one for each")
        for text in set(texts):
            unknown = self.target_tokenizer.unknown(text)
            if unknown:
                raise UserError(f"prefix {text!r}: the model does not know {', '.join(map(repr, unknown))}; change it")
        return [self.target_tokenizer.encode(text) for text in texts]

    def _batches(self, sources: list[_Source], size: int | None, empty: bool = False) -> Iterator[list[int]]:
        """Row numbers, like lengths together. An empty source has an empty answer and needs no model."""
        chosen = self.config.decoding.batch_size if size is None else size
        if chosen < 1:
            raise UserError(f"batch_size: must be at least 1, not {chosen}")
        rows = [row for row, source in enumerate(sources) if source.ids or empty]
        rows.sort(key=lambda row: len(sources[row].ids))
        for first in range(0, len(rows), chosen):
            yield rows[first : first + chosen]

    def _answer(
        self, batch: list[_Source], prefixes: list[list[int]], search: _Search, n_best: int, weights: bool
    ) -> list[Generation]:
        found = self._find(source_batch([source.ids for source in batch]), prefixes, search)
        answers = [
            self._generation(source, hypotheses[:n_best]) for source, hypotheses in zip(batch, found, strict=True)
        ]
        if not weights:
            return answers
        forced = self._force([source.ids for source in batch], [list(best.tokens) for best, *_ in found])
        return [
            replace(answer, weights=look[:, : len(source.ids) + 1].numpy())
            for answer, source, (_, look) in zip(answers, batch, forced, strict=True)
        ]

    @torch.inference_mode()
    def _find(self, source: Sequence, prefixes: list[list[int]], search: _Search) -> list[list[Hypothesis]]:
        state, sentences = self.model.start(source), source.values.size(0)
        if search.beam == 1:
            best = greedy_search(
                self._step,
                state,
                sentences=sentences,
                start=SOS,
                end=EOS,
                max_length=search.max_length,
                length_penalty=search.length_penalty,
                prefixes=prefixes,
                forbidden=FORBIDDEN,
                check=self.check,
            )
            return [[hypothesis] for hypothesis in best]
        return beam_search(
            self._step,
            state,
            sentences=sentences,
            start=SOS,
            end=EOS,
            size=search.beam,
            max_length=search.max_length,
            length_penalty=search.length_penalty,
            prefixes=prefixes,
            forbidden=FORBIDDEN,
            check=self.check,
        )

    def _step(self, tokens: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        step = self.model.step(tokens.unsqueeze(1), state)
        return torch.log_softmax(step.logits[:, -1], dim=-1), step.state

    @torch.inference_mode()
    def _force(self, sources: list[list[int]], targets: list[list[int]]) -> list[tuple[Tensor, Tensor]]:
        """Each target teacher-forced: its log probabilities [T] and attention [T, S], without padding."""
        if self.check is not None:
            self.check()
        outputs = Sequence.of_ids(targets, PAD)
        inputs = Sequence.of_ids([[SOS, *target[:-1]] for target in targets], PAD)
        step = self.model(source_batch(sources), inputs.values)
        said = step.logits.gather(2, outputs.values.unsqueeze(2)).squeeze(2)
        log_probs = said - step.logits.logsumexp(dim=-1)  # not log_softmax: a second [B, T, V] may not fit
        return [(log_probs[row, : len(target)], step.weights[row, : len(target)]) for row, target in enumerate(targets)]

    def _generation(self, source: _Source, hypotheses: list[Hypothesis]) -> Generation:
        alternatives = [
            Alternative(
                text=self.target_tokenizer.decode(hypothesis.tokens),
                tokens=self.target_tokenizer.symbols(hypothesis.tokens),
                score=hypothesis.score,
                log_probs=list(hypothesis.log_probs),
            )
            for hypothesis in hypotheses
        ]
        best = alternatives[0]
        flags = list(source.flags)
        if not hypotheses[0].finished:
            flags.append(f"maximum length: stopped after {len(hypotheses[0].tokens)} tokens without an end")
        return Generation(
            text=best.text,
            tokens=best.tokens,
            score=best.score,
            log_probs=best.log_probs,
            source_tokens=self.source_tokenizer.symbols([*source.ids, EOS]),
            flags=flags,
            alternatives=alternatives,
        )


def _unknown_flag(side: str, unknown: list[str]) -> list[str]:
    if not unknown:
        return []
    counts = ", ".join(f"{symbol!r} x {count}" for symbol, count in Counter(unknown).most_common(10))
    return [f"unknown symbols in the {side}: {counts}"]


def _silence(flags: list[str]) -> Generation:
    """The answer to nothing."""
    return Generation(text="", tokens=[], score=0.0, log_probs=[], source_tokens=[], flags=flags)
