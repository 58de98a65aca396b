"""Conversations: the latest turns become the next source, as many of them as the model was trained with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Unpack

from antiphon.errors import UserError
from antiphon.inference.options import SearchKeywords

if TYPE_CHECKING:  # the server uses turns without torch
    from antiphon.config.schema import Config
    from antiphon.inference.generation import Generation
    from antiphon.inference.generator import Generator

__all__ = ["Conversation", "Exchange", "TurnFormat"]


@dataclass(frozen=True)
class TurnFormat:
    """The form in which training sources hold a dialogue, the latest turn last. The default: one turn, no more."""

    separator: str = ""  # the text between two turns, with its spaces
    most: int = 1  # turns of a source

    def split(self, source: str) -> list[str]:
        """The turns of a source."""
        mark = self.separator.strip() or self.separator
        turns = [turn.strip() for turn in source.split(mark)] if mark else [source]
        return [turn for turn in turns if turn]

    def source(self, turns: Sequence[str]) -> str:
        """The source for the answer to the last of these turns: as many of the latest as the model was trained with."""
        return self.separator.join([part for turn in turns for part in self.split(turn)][-self.most :])


class Exchange(NamedTuple):
    """A turn and the answer to it."""

    text: str
    answer: Generation


class Conversation:
    """A conversation with a model, which reads the latest turns before each answer: `say`, `undo`, `reset`, `turns`.

    `options` are those of the search. The alternatives of an answer are all of its beam, unless n_best is given.
    """

    def __init__(self, generator: Generator, **options: Unpack[SearchKeywords]) -> None:
        if problem := chat_problem(generator.config):
            raise UserError(problem)
        chosen = generator.search_options(options)
        if options.get("n_best") is None and not chosen.sample:
            options["n_best"] = math.ceil(chosen.beam * min(1.0, chosen.patience or 1.0))
        self.generator, self.options = generator, options
        self.exchanges: list[Exchange] = []
        self._seen: Counter[int] = Counter()  # a turn that is said again gets another sample

    def __repr__(self) -> str:
        return f"Conversation({self.generator!r}, turns={self.turns!r})"

    @property
    def turns(self) -> list[str]:
        """The turns so far: a line, its answer, and so on."""
        return [turn for exchange in self.exchanges for turn in (exchange.text, exchange.answer.text)]

    def source(self, text: str) -> str:
        """The source that the model would read to answer `text`."""
        return self.generator.turns.source([*self.turns, text])

    def say(self, text: str, *, weights: bool = True) -> Generation:
        """The answer to the next turn; an empty one gets an empty answer and is forgotten."""
        if not isinstance(text, str):
            raise UserError(f"text: a value of type {type(text).__name__} is given; give the next turn as one text")
        source = self.source(text) if text.strip() else ""
        answer = self.generator.generate(source, weights=weights, seen=self._seen, **self.options)
        if source:
            self.exchanges.append(Exchange(text, answer))
        return answer

    def undo(self) -> Exchange | None:
        """Take back the last turn and its answer, and return them; None if there are none."""
        return self.exchanges.pop() if self.exchanges else None

    def reset(self) -> None:
        """Forget everything that was said."""
        self.exchanges.clear()


def chat_problem(config: Config) -> str | None:
    """The reason why a model cannot hold a conversation, and what can be done with it."""
    kinds = [source.kind for source in config.data.sources]
    if not kinds:
        return "chat: a language model continues a text and does not answer; `antiphon generate` does that"
    if kinds != ["text"]:
        return f"chat: this model reads {' and '.join(kinds)}, not the turns of a conversation; use `antiphon generate`"
    if config.model.kind == "tagger":
        return "chat: a tagger labels the words of a text and does not answer; `antiphon generate` does that"
    return None
