"""A loaded model that answers: text in, text out, in order, whatever the batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import overload

from antiphon.config.schema import Config
from antiphon.decoding.engine import Engine, ForeignModel, TorchEngine
from antiphon.decoding.generation import Generation, Scored
from antiphon.decoding.grouping import alike
from antiphon.decoding.limits import Limits
from antiphon.decoding.options import SearchOptions
from antiphon.decoding.sample import Sampling
from antiphon.decoding.wording import Question, wording_of
from antiphon.errors import UserError
from antiphon.folder import LoadedModel
from antiphon.model import SequenceModel
from antiphon.sources.tokens import Tokenizer

__all__ = ["Generator"]


class Generator:
    """The verbs of a trained model."""

    def __init__(self, loaded: LoadedModel | ForeignModel, check: Callable[[], None] | None = None) -> None:
        self.config: Config = loaded.config
        self.source_tokenizer: Tokenizer = loaded.source_tokenizer
        self.target_tokenizer: Tokenizer = loaded.target_tokenizer
        self.check = check  # called at each step; may raise, to leave at once
        self.wording = wording_of(self.config, self.source_tokenizer, self.target_tokenizer)
        self.engine: Engine = (
            loaded.engine
            if isinstance(loaded, ForeignModel)
            else TorchEngine(self.config, loaded.model, self.wording, check)
        )
        self.limits = Limits.of(self.config, self.wording.room)

    @property
    def model(self) -> SequenceModel:
        """The network itself."""
        if isinstance(self.engine, TorchEngine):
            return self.engine.model
        raise UserError(
            f"an export to {self.engine.name} has no network to look into; use the run that it was made from"
        )

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
        """log p(y | x) of given targets, teacher-forced; of a language model log p(y) of given texts.

        What a Transformer cannot look back on at once is read in windows, as `evaluate` does.
        """
        size = self.config.decoding.batch_size if batch_size is None else batch_size
        if size < 1:
            raise UserError(f"batch_size: must be at least 1, not {size}")
        both = [("", pair) if isinstance(pair, str) else pair for pair in pairs]
        questions = [self.wording.question(source) for source, _ in both]
        texts = [text for _, text in both]
        targets = [self.wording.closed(text) for text in texts]
        if problems := self.limits.of_targets(questions, texts, targets):
            raise UserError(problems)
        found = self.engine.log_probs([question.source for question in questions], targets, size)
        rows = zip(questions, texts, targets, found, strict=True)
        return [self.wording.scored(question, text, ids, log_probs) for question, text, ids, log_probs in rows]

    def _prefixes(self, prefix: str | list[str], count: int) -> list[list[int]]:
        texts = [prefix] * count if isinstance(prefix, str) else prefix
        if len(texts) != count:
            raise UserError(f"prefix: {len(texts)} prefixes for {count} texts; give one, or one for each")
        if self.config.data.source is None and any(texts):
            raise UserError("prefix: a language model goes on where the text itself ends; put the prefix at its end")
        for text in set(texts):
            unknown = self.target_tokenizer.unknown(text)
            if unknown:
                raise UserError(f"prefix {text!r}: the model does not know {', '.join(map(repr, unknown))}; change it")
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
        questions = [self.wording.question(text) for text in texts]
        answers = [_silence(question) for question in questions]
        spoken = [row for row, question in enumerate(questions) if not question.silent]
        limits = self.limits.of_answers([questions[row] for row in spoken], options.max_length, looks=looks)
        if problems := [*options.problems(), *self.engine.problems(options), *limits]:
            raise UserError(problems)
        lengths = [(len(questions[row].prompt), len(questions[row].source)) for row in spoken]
        for places in alike(lengths, options.batch_size):
            rows = [spoken[place] for place in places]
            batch = [questions[row] for row in rows]
            found = self.engine.write(batch, [prefixes[row] for row in rows], options, [first + row for row in rows])
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
        if looks:
            both = zip(batch, targets, strict=True)
            heads = [self.engine.look(question.source, [*question.prompt, *target]) for question, target in both]
            return [
                replace(answer, looks=one, weights=one.mean if weights else None)
                for answer, one in zip(answers, heads, strict=True)
            ]
        if not weights:
            return answers
        seen = self.engine.weights([question.source for question in batch], targets)
        return [replace(answer, weights=one) for answer, one in zip(answers, seen, strict=True)]


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
