"""A loaded model that answers: text in, text out, in order, whatever the batch."""
# B sentences, R rows, T target steps, S source steps, V vocabulary

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import groupby
from typing import overload

import numpy as np
import torch
from torch import Tensor

from antiphon.config.schema import Config
from antiphon.decoding.generation import Generation, Heads, Scored
from antiphon.decoding.options import SearchOptions
from antiphon.decoding.sample import Sampling
from antiphon.decoding.wording import Question, wording_of
from antiphon.decoding.writer import Writer
from antiphon.errors import UserError
from antiphon.folder import LoadedModel
from antiphon.model import SequenceModel
from antiphon.sequence import Sequence
from antiphon.sources.batches import source_batch
from antiphon.sources.tokens import Tokenizer
from antiphon.sources.vocabulary import PAD

__all__ = ["Generator"]


class Generator:
    """The verbs of a trained model."""

    def __init__(self, loaded: LoadedModel, check: Callable[[], None] | None = None) -> None:
        self.config: Config = loaded.config
        self.model: SequenceModel = loaded.model
        self.source_tokenizer: Tokenizer = loaded.source_tokenizer
        self.target_tokenizer: Tokenizer = loaded.target_tokenizer
        self.check = check  # called at each step; may raise, to leave at once
        self.wording = wording_of(self.config, self.source_tokenizer, self.target_tokenizer)

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
        sample: bool = False,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        first: int = 0,
        weights: bool = True,
        looks: bool = False,
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
        sample: bool = False,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        first: int = 0,
        weights: bool = True,
        looks: bool = False,
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
        sample: bool = False,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        first: int = 0,
        weights: bool = True,
        looks: bool = False,
    ) -> Generation | list[Generation]:
        """Answers to one text or to many, in order; a language model goes on where each text ends.

        `sample=True` draws the tokens (`temperature`, `top_k`, `top_p`): the same for the same `seed` and the number
        of a text, which counts from `first`. `weights=False` saves the second look for attention; `looks=True` looks
        with every layer and head.
        """
        many = [texts] if isinstance(texts, str) else texts
        usual, sampling = self.config.decoding, _sampling(sample, temperature, top_k, top_p, seed, beam)
        options = SearchOptions(
            beam=usual.beam if beam is None else beam,
            n_best=n_best,
            max_length=usual.max_length if max_length is None else max_length,
            length_penalty=usual.length_penalty if length_penalty is None else length_penalty,
            batch_size=usual.batch_size if batch_size is None else batch_size,
            sampling=sampling,
        )
        answers = self._answers(many, self._prefixes(prefix, len(many)), options, first, weights, looks)
        return answers[0] if isinstance(texts, str) else answers

    def score(self, pairs: list[tuple[str, str]] | list[str], batch_size: int | None = None) -> list[Scored]:
        """log p(y | x) of given targets, teacher-forced; of a language model log p(y) of given texts."""
        both = [("", pair) if isinstance(pair, str) else pair for pair in pairs]
        wording = self.wording
        questions = [wording.question(source) for source, _ in both]
        targets = [wording.closed(target) for _, target in both]
        results: dict[int, Scored] = {}
        size = self.config.decoding.batch_size if batch_size is None else batch_size
        lengths = [(0, len(one.source), len(ids)) for one, ids in zip(questions, targets, strict=True)]
        for rows in _batches(lengths, size):
            forced = self._force([questions[row].source for row in rows], [targets[row] for row in rows])
            for row, (log_probs, _) in zip(rows, forced, strict=True):
                results[row] = wording.scored(questions[row], both[row][1], targets[row], log_probs.tolist())
        return [results[row] for row in range(len(both))]

    def _prefixes(self, prefix: str | list[str], count: int) -> list[list[int]]:
        texts = [prefix] * count if isinstance(prefix, str) else prefix
        if len(texts) != count:
            raise UserError(f"prefix: {len(texts)} prefixes for {count} texts; give one, or one for each")
        for text in set(texts):
            unknown = self.target_tokenizer.unknown(text)
            if unknown:
                raise UserError(f"prefix {text!r}: the model does not know {', '.join(map(repr, unknown))}; change it")
        if self.config.data.source is None and any(texts):
            raise UserError("prefix: a language model goes on where the text itself ends; put the prefix at its end")
        return [self.target_tokenizer.encode(text) if text else [] for text in texts]

    def _answers(
        self,
        texts: list[str],
        prefixes: list[list[int]],
        options: SearchOptions,
        first: int,
        weights: bool,
        looks: bool,
    ) -> list[Generation]:
        if problems := options.problems():
            raise UserError(problems)
        questions = [self.wording.question(text) for text in texts]
        answers = [_silence(question) for question in questions]
        spoken = [row for row, question in enumerate(questions) if not question.silent]
        writer = Writer(self.model, self.wording, self.check)
        lengths = [(len(questions[row].prompt), len(questions[row].source)) for row in spoken]
        for places in _batches(lengths, options.batch_size):
            rows = [spoken[place] for place in places]
            batch = [questions[row] for row in rows]
            found = writer.write(batch, [prefixes[row] for row in rows], options, [first + row for row in rows])
            made = [
                self.wording.generation(question, hypotheses[: options.n_best])
                for question, hypotheses in zip(batch, found, strict=True)
            ]
            targets = [list(best.tokens) for best, *_ in found]
            for row, answer in zip(rows, self._seen(batch, targets, made, weights, looks), strict=True):
                answers[row] = answer
        return answers

    def _seen(
        self, batch: list[Question], targets: list[list[int]], answers: list[Generation], weights: bool, looks: bool
    ) -> list[Generation]:
        """The answers with where the model looked while it wrote them, as far as asked for."""
        sources = [question.source for question in batch]
        if weights and self.config.data.source is not None:
            seen = self._weights(sources, targets)
            answers = [replace(answer, weights=one) for answer, one in zip(answers, seen, strict=True)]
        if looks:
            said = [[*question.prompt, *target] for question, target in zip(batch, targets, strict=True)]
            heads = [self._look(source, target) for source, target in zip(sources, said, strict=True)]
            answers = [replace(answer, looks=one) for answer, one in zip(answers, heads, strict=True)]
        return answers

    @torch.inference_mode()
    def _force(self, sources: list[list[int]], targets: list[list[int]]) -> list[tuple[Tensor, Tensor | None]]:
        """Each target teacher-forced: its log probabilities [T] and, where it costs nothing, its attention [T, S]."""
        if self.check is not None:
            self.check()
        outputs = Sequence.of_ids(targets, PAD)
        inputs = Sequence.of_ids([[self.wording.start, *target[:-1]] for target in targets], PAD)
        step = self.model(source_batch(sources), inputs.values)
        said = step.logits.gather(2, outputs.values.unsqueeze(2)).squeeze(2)
        log_probs = said - step.logits.logsumexp(dim=-1)  # not log_softmax: a second [B, T, V] may not fit
        return [
            (log_probs[row, : len(target)], None if step.weights is None else step.weights[row, : len(target)])
            for row, target in enumerate(targets)
        ]

    def _weights(self, sources: list[list[int]], targets: list[list[int]]) -> list[np.ndarray | None]:
        """The one matrix [T, S] to look at, without padding: a recurrent decoder's weights, the mean of many heads."""
        forced = self._force(sources, targets)
        if forced[0][1] is None and self._look(sources[0], targets[0]).cross is None:
            return [None] * len(sources)  # nobody else has any either
        return [
            self._look(source, target).mean if look is None else look[:, : len(source) + 1].numpy()
            for source, target, (_, look) in zip(sources, targets, forced, strict=True)
        ]

    @torch.inference_mode()
    def _look(self, source: list[int], target: list[int]) -> Heads:
        """Where the model looks while it writes a target; alone, so that there is no padding."""
        looks = self.model.look(source_batch([source]), torch.tensor([[self.wording.start, *target[:-1]]]))
        parts = (looks.cross, looks.own, looks.source)
        cross, own, itself = (None if part is None else part[0].numpy() for part in parts)
        return Heads(cross=cross, own=own, source=itself)


def _batches(lengths: Items[tuple[int, ...]], size: int) -> Iterator[list[int]]:
    """Row numbers, like lengths together; in one batch the first lengths (those of the prompts) are equal."""
    if size < 1:
        raise UserError(f"batch_size: must be at least 1, not {size}")
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    for _, group in groupby(order, key=lambda row: lengths[row][0]):
        rows = list(group)
        for first in range(0, len(rows), size):
            yield rows[first : first + size]


def _sampling(
    sample: bool,
    temperature: float | None,
    top_k: int | None,
    top_p: float | None,
    seed: int | None,
    beam: int | None,
) -> Sampling | None:
    """How tokens are drawn, if they are; UserError where one option speaks against another."""
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    asked = [name for name, value in given.items() if value is not None]
    if not sample and asked:
        raise UserError([f"{name}: only for sampling; add sample, or leave it out" for name in asked])
    if sample and beam is not None:
        raise UserError(f"beam: a beam of {beam} looks for the most probable answer, sample draws one; leave one out")
    if not sample:
        return None
    usual = Sampling()
    return Sampling(
        temperature=usual.temperature if temperature is None else temperature,
        top_k=top_k,
        top_p=top_p,
        seed=usual.seed if seed is None else seed,
    )


def _silence(question: Question) -> Generation:
    """The answer to nothing."""
    return Generation(text="", tokens=[], score=0.0, log_probs=[], source_tokens=[], flags=question.flags)
