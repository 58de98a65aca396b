"""A loaded model that answers: text in, text out, in order, whatever the batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Unpack, cast, overload

from antiphon.config.schema import Config
from antiphon.data.source import Source
from antiphon.data.tokenizers import Tokenizer, text_source
from antiphon.errors import UserError
from antiphon.inference.answers import Answering, Seen
from antiphon.inference.engine import Engine, EngineModel, LoadedModel, TorchEngine
from antiphon.inference.generation import Choice, Generation, Scored, TokenTree, joined
from antiphon.inference.inputs import Question, chunk_size, questions_of, wording_of
from antiphon.inference.limits import Limits
from antiphon.inference.options import OPTIONS, SearchKeywords, SearchOptions, search_options
from antiphon.models.frontends.frontend import FrontEnd
from antiphon.models.model import SequenceModel
from antiphon.search.trace import SearchTree, TraceRecorder

__all__ = ["Generator"]


class Generator:
    """The verbs of a trained model."""

    def __init__(self, loaded: LoadedModel | EngineModel, check: Callable[[], None] | None = None) -> None:
        self.config: Config = loaded.config
        self.source: Source = loaded.source
        self.target_tokenizer: Tokenizer = loaded.target_tokenizer
        self.check = check  # called at each step; may raise, to leave at once
        self.wording = wording_of(self.config, self.source, self.target_tokenizer, _fronts(loaded))
        self.engine: Engine = (
            loaded.engine
            if isinstance(loaded, EngineModel)
            else TorchEngine(self.config, loaded.model, self.wording, check)
        )
        self.rerankers = loaded.rerankers
        self.limits = Limits.of(self.config, self.wording.room)

    @property
    def model(self) -> SequenceModel:
        """The network itself."""
        if isinstance(self.engine, TorchEngine):
            return self.engine.model
        raise UserError(
            f"an export to {self.engine.name} has no network to look into; use the run that it was made from"
        )

    @property
    def source_tokenizer(self) -> Tokenizer:
        """That of the only source, which is a text; UserError for all others."""
        return text_source(self.source)

    @overload
    def generate(
        self,
        texts: str,
        *,
        prefix: str = "",
        first: int = 0,
        weights: bool = True,
        looks: bool = False,
        **options: Unpack[SearchKeywords],
    ) -> Generation: ...

    @overload
    def generate(
        self,
        texts: list[str],
        *,
        prefix: str | list[str] = "",
        first: int = 0,
        weights: bool = True,
        looks: bool = False,
        **options: Unpack[SearchKeywords],
    ) -> list[Generation]: ...

    def generate(
        self,
        texts: str | list[str],
        *,
        prefix: str | list[str] = "",
        first: int = 0,
        weights: bool = True,
        looks: bool = False,
        **options: Unpack[SearchKeywords],
    ) -> Generation | list[Generation]:
        """Answers to one text or to many, in order; a language model goes on where each text ends.

        A source that is a file is given by its path; several sources have a tab between them.

        `options` are those of the search, such as beam=4 or sample=True: see `SearchOptions`. A sample depends on
        `seed` and on the number of its text alone, which counts from `first`. A text that is too long is read in
        parts that end where sentences do. `weights=False` saves the second look for attention; `looks=True` looks with
        every layer and head, and reads no text in parts.
        """
        many = [texts] if isinstance(texts, str) else texts
        chosen = self.search_options(options)
        parts = [[text] if looks else self.wording.parts(text) for text in many]
        prefixes, size = self._prefixes(prefix, len(many)), chunk_size(self.wording, chosen.batch_size, len(many))
        found: list[Generation] = []
        for start in range(0, len(many), size):
            here = slice(start, start + size)
            found += self._answers(parts[here], prefixes[here], chosen, first + start, Seen(weights, looks))
        return found[0] if isinstance(texts, str) else found

    def alternatives(self, text: str, position: int, count: int = 5, answer: str | None = None) -> list[Choice]:
        """What else could stand at a position (from 0) of the answer, or of a given one, most probable first.

        Each with how the answer would go on from there.
        """
        question, size = self._searchable(text), self.target_tokenizer.size
        if not 1 <= count <= size:
            raise UserError(f"count: must be from 1 to the {size} tokens of the model, not {count}")
        options = self.search_options({"beam": 1})
        told = self._prefixes(answer or "", 1)
        [[best]] = self.engine.write([question], told, options, [(0,)])
        said = list(best.tokens)
        if not 0 <= position < len(said):
            raise UserError(f"position: the answer has {len(said)} tokens; choose one of them")
        here = replace(options, beam=count, max_length=position + 1)
        [others] = self.engine.write([question], [said[:position]], here, [(0,)])
        ways = [list(other.tokens) for other in others if len(other.tokens) == position + 1]
        on = self.engine.write([question] * len(ways), ways, options, [(0,)] * len(ways))
        chosen = [
            Choice(
                token=self.target_tokenizer.symbols([way[position]])[0],
                probability=math.exp(rest.log_probs[position]),
                text=self.wording.said(question, rest.tokens),
            )
            for way, [rest, *_] in zip(ways, on, strict=True)
        ]
        return sorted(chosen, key=lambda choice: -choice.probability)

    def tree(self, text: str, *, pruned: int = 3, **options: Unpack[SearchKeywords]) -> TokenTree:
        """The tree of a beam search for one text, with so many pruned candidates a step."""
        chosen = self.search_options(options)
        if pruned < 0:
            raise UserError(f"pruned: must be at least 0, not {pruned}")
        if chosen.sample or chosen.diversity is not None:
            raise UserError("tree: it is that of one beam; leave out sample and diversity")
        after = [name for name, option in OPTIONS.items() if option.reranker or name == "coverage"]
        if given := [name for name in after if cast("dict[str, float]", options).get(name)]:
            raise UserError(f"tree: {given[0]} orders answers when the search is over; leave it out")
        question = self._searchable(text, chosen.max_length)
        recorder = TraceRecorder(pruned)
        [best, *_] = self.engine.watch(question, chosen, recorder)
        tree = SearchTree.from_trace(recorder.steps, best)
        symbols = self.target_tokenizer.symbols([branch.token for branch in tree.nodes])
        return TokenTree(tree, symbols, list(chosen.reranking))

    def score(self, pairs: list[tuple[str, str]] | list[str], batch_size: int | None = None) -> list[Scored]:
        """log p(y | x) of given targets, teacher-forced; of a language model log p(y) of given texts.

        What a Transformer cannot look back on at once is read in windows, as `evaluate` does.
        """
        size = self.config.decoding.batch_size if batch_size is None else batch_size
        if size < 1:
            raise UserError(f"batch_size: must be at least 1, not {size}")
        both = [("", pair) if isinstance(pair, str) else pair for pair in pairs]
        step = chunk_size(self.wording, size, len(both))
        found = [self._scored(both[first : first + step], size, first) for first in range(0, len(both), step)]
        return [one for chunk in found for one in chunk]

    def _scored(self, both: list[tuple[str, str]], size: int, first: int) -> list[Scored]:
        questions = questions_of(self.wording, [source for source, _ in both], first)
        texts = [text for _, text in both]
        targets = [self.wording.closed(text) for text in texts]
        _refuse(self.limits.of_targets(questions, texts, targets))
        found = self.engine.log_probs([question.source for question in questions], targets, size)
        rows = zip(questions, texts, targets, found, strict=True)
        return [self.wording.scored(question, text, ids, log_probs) for question, text, ids, log_probs in rows]

    def _searchable(self, text: str, max_length: int | None = None) -> Question:
        """A text whose search can be looked into."""
        [question], usual = questions_of(self.wording, [text]), self.config.decoding.max_length
        if question.silent:
            raise UserError(f"{text!r}: {', '.join(question.flags)}; there is nothing to search for")
        if self.wording.room is not None:
            raise UserError(
                "this language model writes in windows, each with a search of its own; there is no one search"
            )
        _refuse(self.limits.of_answers([question], max_length or usual, looks=False))
        return question

    def search_options(self, keywords: SearchKeywords) -> SearchOptions:
        """The options of a search in this model, with its defaults; UserError with every problem."""
        return search_options(keywords, self.config.decoding, self.wording, self.engine, self.rerankers)

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
        self, texts: list[list[str]], prefixes: list[list[int]], options: SearchOptions, first: int, seen: Seen
    ) -> list[Generation]:
        """Answers to texts in parts; a prefix is that of the first part."""
        places = [(row, part) for row, parts in enumerate(texts) for part in range(len(parts))]
        questions = questions_of(self.wording, [texts[row][part] for row, part in places], first)
        spoken = [question for question in questions if not question.silent]
        limits = self.limits.of_answers(spoken, options.max_length, looks=seen.looks)
        _refuse(limits)
        told = [prefixes[row] if part == 0 else [] for row, part in places]
        numbers: list[tuple[int, ...]] = [(first + row, part) for row, part in places]
        found = iter(
            Answering(self.engine, self.wording, self.rerankers).answers(questions, told, options, numbers, seen)
        )
        answers = [[next(found) for _ in parts] for parts in texts]
        return [joined(parts, options.length_penalty) for parts in answers]


def _fronts(loaded: LoadedModel | EngineModel) -> list[FrontEnd]:
    """Those of a network; another engine reads one text."""
    if isinstance(loaded, LoadedModel):
        return loaded.model.front_ends
    return loaded.engine.model.front_ends if isinstance(loaded.engine, TorchEngine) else []


def _refuse(problems: list[str]) -> None:
    if problems:
        raise UserError(problems)
