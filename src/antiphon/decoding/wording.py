"""From texts to what a model reads, and from what it writes to texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass

from antiphon.config.models import TransformerDecoderConfig
from antiphon.config.schema import Config
from antiphon.decoding.generation import Alternative, Generation, Part, Scored
from antiphon.decoding.hypothesis import Hypothesis
from antiphon.decoding.splitting import in_parts
from antiphon.sources.source import Read, positions
from antiphon.sources.streams import StreamTokenizer
from antiphon.sources.tokens import Tokenizer
from antiphon.sources.vocabulary import EOS, PAD, SOS, UNK

__all__ = ["AnswerWording", "PairWording", "Question", "TextWording", "Wording", "room_of", "unknown_flag"]

NEVER = -1  # the id of no token


@dataclass(frozen=True)
class Question:
    """One input as ids, and what to say of it."""

    text: str
    source: Read  # ids without </s>, vectors, or a tuple of these
    prompt: list[int]  # what has been said already; only a language model has one
    flags: list[str]
    silent: bool = False  # there is nothing to answer

    @property
    def ids(self) -> list[int]:
        """The source that is one text."""
        assert isinstance(self.source, list)
        return self.source

    @property
    def empty(self) -> bool:
        """Nothing was given."""
        return self.silent or (isinstance(self.source, list) and not self.source and not self.prompt)

    @property
    def length(self) -> int:
        """Positions of the source that are read, with the </s> of each text."""
        return positions(self.source)


class Wording(ABC):
    """The words of a model: `target` cuts and joins what it writes."""

    target: Tokenizer
    start: int  # what stands before the first token
    end: int  # what stands after the last
    forbidden: tuple[int, ...] = (PAD, SOS, UNK)  # what is never written
    side: str  # what it is called
    room: int | None = None  # how many tokens the model can look back on; None: all of them
    one_text: bool = True  # what is read is a text, and nothing else

    def remembered(self, source: Read) -> int:
        """States that a memory has of a source: one for each position, unless a front makes fewer of them."""
        return positions(source)

    def pieces(self, question: Question) -> list[Part]:  # noqa: ARG002 (a language model has no source)
        """Where each source stands among the positions that are named."""
        return []

    @abstractmethod
    def question(self, text: str) -> Question:
        """A text to answer; nothing is lost in silence."""

    def parts(self, text: str) -> list[str]:
        """The text as it is read: at once, or part by part if it is too long."""
        return [text]

    @abstractmethod
    def read(self, question: Question) -> list[str]:
        """The symbols that were read."""

    def words(self, question: Question) -> list[str]:  # noqa: ARG002 (a language model has no source)
        """The texts of the source's tokens, to write them again."""
        return []

    @abstractmethod
    def said(self, question: Question, tokens: tuple[int, ...], unknown: list[str] | None = None) -> str:
        """The text of an answer; `unknown` stands in place of its <unk>s, one for each."""

    def closed(self, text: str) -> list[int]:
        """The ids of a text that was said, to its end."""
        return [*self.target.encode(text), self.end]

    def generation(self, question: Question, hypotheses: list[Hypothesis], unknown: list[list[str]]) -> Generation:
        """Hypotheses as an answer, the first being the one; `unknown` are the words in place of each one's <unk>s."""
        words = unknown or [[] for _ in hypotheses]
        alternatives = [
            Alternative(
                text=self.said(question, hypothesis.tokens, replaced),
                tokens=self.target.symbols(hypothesis.tokens),
                score=hypothesis.score,
                log_probs=list(hypothesis.log_probs),
            )
            for hypothesis, replaced in zip(hypotheses, words, strict=True)
        ]
        best = alternatives[0]
        return Generation(
            text=best.text,
            tokens=best.tokens,
            score=best.score,
            log_probs=best.log_probs,
            source_tokens=self.read(question),
            parts=self.pieces(question),
            flags=list(question.flags),
            alternatives=alternatives,
        )

    def scored(self, question: Question, target: str, ids: list[int], log_probs: list[float]) -> Scored:
        """A given target and its log probabilities."""
        flags = [*question.flags, *unknown_flag(self.side, self.target.unknown(target))]
        if self.room is not None and len(ids) > self.room:
            flags.append(f"windows: the {self.side} has {len(ids)} tokens, {self.room} were read at a time")
        return Scored(
            source=question.text,
            target=target,
            log_prob=sum(log_probs),
            tokens=self.target.symbols(ids),
            log_probs=log_probs,
            flags=flags,
        )


class AnswerWording(Wording):
    """A source is read, an answer is written."""

    start, end, side = SOS, EOS, "target"

    def said(self, question: Question, tokens: tuple[int, ...], unknown: list[str] | None = None) -> str:  # noqa: ARG002 (the answer is all there is)
        if not unknown:
            return self.target.decode(tokens)
        words = iter(unknown)
        pieces = [
            next(words) if known is None else self.target.decode(known) for known in _around_unknown(list(tokens))
        ]
        return self.target.joined(pieces)


class PairWording(AnswerWording):
    """The source is one text."""

    def __init__(self, source: Tokenizer, target: Tokenizer, longest: int) -> None:
        self.source = source
        self.target = target
        self.longest = longest

    def question(self, text: str) -> Question:
        """Ids, cut at the longest source of the config."""
        ids = self.source.encode(text)
        flags = unknown_flag("source", self.source.unknown(text))
        if len(ids) > self.longest:
            flags.append(f"truncated: the source has {len(ids)} tokens, only the first {self.longest} were read")
        if not ids:
            flags.append("empty source")
        return Question(text, ids[: self.longest], prompt=[], flags=flags, silent=not ids)

    def read(self, question: Question) -> list[str]:
        return self.source.symbols([*question.ids, EOS])

    def pieces(self, question: Question) -> list[Part]:
        return [Part(source=0, kind="text", text=question.text, first=0, last=question.length - 1)]

    def words(self, question: Question) -> list[str]:
        """What training did not know stands as it is in the text."""
        unknown = iter(self.source.unknown(question.text))
        return [next(unknown, "") if token == UNK else self.source.decode([token]) for token in question.ids]

    def parts(self, text: str) -> list[str]:
        return in_parts(text, self.longest, lambda part: len(self.source.encode(part)))


class TextWording(Wording):
    """A prompt is read and continued: a language model.

    In a stream a text begins after a line end and goes on over line ends, so it has no end of its own.
    """

    start, end, side = SOS, EOS, "text"

    def __init__(self, target: Tokenizer, *, stream: bool, room: int | None) -> None:
        self.target = target
        self.room = room
        if stream:
            self.target = StreamTokenizer(target)
            self.start, self.end = self.target.line_end, NEVER
            self.forbidden = tuple({PAD, SOS, UNK, EOS} - {self.start})

    def question(self, text: str) -> Question:
        ids = self.target.encode(text)
        flags = unknown_flag("prompt", self.target.unknown(text))
        if self.room is not None and len(ids) > self.room:
            flags.append(f"truncated: the prompt has {len(ids)} tokens, only the last {self.room} were read")
        return Question(text, source=[], prompt=ids, flags=flags)

    def read(self, question: Question) -> list[str]:
        return self.target.symbols(question.prompt)

    def said(self, question: Question, tokens: tuple[int, ...], unknown: list[str] | None = None) -> str:  # noqa: ARG002 (there is no source to take them from)
        """The prompt as it was given, and what follows it."""
        whole, head = self.target.decode([*question.prompt, *tokens]), self.target.decode(question.prompt)
        if not whole.startswith(head):  # its first letter belongs to the prompt's last character
            return self.target.joined([question.text, self.target.decode(tokens)])
        added = whole[len(head) :]
        if self.target.kind == "words" and question.text[-1:].isspace():
            added = added.removeprefix(" ")
        return question.text + added

    def closed(self, text: str) -> list[int]:
        """The end of a line in a stream is its line end."""
        return [*self.target.encode(text), self.start if self.end == NEVER else self.end]


def room_of(config: Config) -> int | None:
    """A Transformer looks back as far as it was taught to, or has positions; a recurrent network has no limit."""
    decoder = config.model.decoder
    if not isinstance(decoder, TransformerDecoderConfig):
        return None
    return config.data.window or (decoder.longest if decoder.positions == "learnt" else None)


def _around_unknown(tokens: list[int]) -> list[list[int] | None]:
    """Tokens in pieces between <unk>s, each of which is None."""
    pieces: list[list[int] | None] = [[]]
    for token in tokens:
        last = pieces[-1]
        if token == UNK:
            pieces.append(None)
        elif last is None:
            pieces.append([token])
        else:
            last.append(token)
    return pieces


def unknown_flag(side: str, unknown: list[str]) -> list[str]:
    """What to say of symbols that training did not know."""
    if not unknown:
        return []
    counts = ", ".join(f"{symbol!r} x {count}" for symbol, count in Counter(unknown).most_common(10))
    return [f"unknown symbols in the {side}: {counts}"]
