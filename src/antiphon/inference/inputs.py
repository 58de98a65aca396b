"""From texts to questions, all at once; files are read by threads, and each once."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from collections.abc import Sequence as Items
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from antiphon.config.networks import TransformerDecoderConfig, learnt_positions
from antiphon.config.schema import Config, SourceConfig
from antiphon.data.batches import reader_threads
from antiphon.data.source import Read, Source, UnreadableError, Values, positions
from antiphon.data.tokenizers import EOS, PAD, SOS, UNK, StreamTokenizer, Tokenizer, text_source
from antiphon.errors import DataError
from antiphon.inference.generation import Alternative, Generation, Part, Scored
from antiphon.models.frontends.frontend import FrontEnd
from antiphon.search.hypothesis import Hypothesis

__all__ = [
    "AnswerWording",
    "PairWording",
    "Question",
    "SourceWording",
    "TextWording",
    "UnreadableInputError",
    "Wording",
    "chunk_size",
    "in_parts",
    "questions_of",
    "room_of",
    "unknown_flag",
    "wording_of",
]

# From texts to what a model reads, and from what it writes to texts.

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
    return config.data.window or learnt_positions(decoder)


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


# What a model reads, as questions: one text, files, or several sources; and how it is all named.


class SourceWording(AnswerWording):
    """The source is a file, or there are several; `fronts` know the positions of files, tokenizers those of texts."""

    one_text = False

    def __init__(self, configs: list[SourceConfig], source: Source, target: Tokenizer, fronts: Items[FrontEnd]) -> None:
        self.configs = configs
        self.source = source
        self.target = target
        self.fronts = fronts

    def question(self, text: str) -> Question:
        """Each source is cut at its longest. UnreadableError if a file cannot be read, or a cell is missing."""
        parts: list[Values] = []
        flags: list[str] = []
        rows = zip(self.source.parts, self.configs, self.source.cells(text), strict=True)
        for number, (source, config, cell) in enumerate(rows):
            name = f"source {number + 1}" if len(self.configs) > 1 else "source"
            read = source.read(cell)
            assert not isinstance(read, tuple)
            if isinstance(source, Tokenizer):
                flags += unknown_flag(name, source.unknown(cell))
            if len(read) > config.max_length:
                unit = "tokens" if isinstance(read, list) else "positions"
                only = f"only the first {config.max_length} were read"
                flags.append(f"truncated: the {name} has {len(read)} {unit}, {only}")
            parts.append(read[: config.max_length])
        silent = all(isinstance(part, list) and not part for part in parts)
        flags += ["empty source"] if silent else []
        return Question(text, tuple(parts) if len(parts) > 1 else parts[0], prompt=[], flags=flags, silent=silent)

    def read(self, question: Question) -> list[str]:
        parts = _parts(question.source)
        return [name for number, part in enumerate(parts) for name in self._names(number, part)]

    def remembered(self, source: Read) -> int:
        return sum(self._remembered(number, part) for number, part in enumerate(_parts(source)))

    def pieces(self, question: Question) -> list[Part]:
        found, first = [], 0
        cells = self.source.cells(question.text)
        for number, part in enumerate(_parts(question.source)):
            last = first + self._remembered(number, part) - 1
            grid = self.fronts[number].grid(positions(part))
            found.append(Part(number, self.configs[number].kind, cells[number], first, last, grid))
            first = last + 1
        return found

    def _names(self, number: int, part: Values) -> list[str]:
        source = self.source.parts[number]
        if isinstance(source, Tokenizer) and isinstance(part, list):
            return source.symbols([*part, EOS])
        return self.fronts[number].names(len(part))

    def _remembered(self, number: int, part: Values) -> int:
        return len(self.fronts[number].names(positions(part)))


def _parts(source: Read) -> tuple[Values, ...]:
    return source if isinstance(source, tuple) else (source,)


def wording_of(config: Config, source: Source, target: Tokenizer, fronts: Items[FrontEnd] = ()) -> Wording:
    """How a model reads and writes; only sources that are no single text need the `fronts` of its network."""
    if config.data.source is None:
        return TextWording(target, stream=config.data.window is not None, room=room_of(config))
    if config.data.text is not None:
        return PairWording(text_source(source), target, config.data.text.max_length)
    return SourceWording(config.data.sources, source, target, fronts)


# Long texts in parts that end where sentences do.

SENTENCE_END = re.compile(r"((?<=[.!?…])\s+|(?<=[。！？])\s*)")


def in_parts(text: str, longest: int, length: Callable[[str], int]) -> list[str]:
    """As few parts as hold whole sentences and have at most `longest` tokens; a sentence that is longer stays alone."""
    if length(text) <= longest:
        return [text]
    parts: list[str] = []
    first, *others = SENTENCE_END.split(text)  # then gaps and sentences in turn
    for gap, sentence in [("", first), *zip(others[::2], others[1::2], strict=True)]:
        if not sentence.strip():
            continue
        joined = f"{parts[-1]}{' ' if gap else ''}{sentence}" if parts else sentence
        if parts and length(joined) <= longest:
            parts[-1] = joined
        else:
            parts.append(sentence)
    return parts or [text]


AHEAD = 4  # batches of files that are in memory at once


class UnreadableInputError(DataError):
    """Sources that cannot be read: the number of each (from 1), the text that names it, and the fact."""

    def __init__(self, faults: list[tuple[int, str, str]], file: str = "") -> None:
        self.faults = faults
        place = f"{file}, line" if file else "source"
        remedy = "give files that can be read" if len(faults) > 1 else "give a file that can be read"
        said = [(number, text, fact if ";" in fact else f"{fact}; {remedy}") for number, text, fact in faults]
        super().__init__([f"{place} {number}: {text}: {fact}" for number, text, fact in said])

    def of(self, file: str) -> UnreadableInputError:
        """The same, said of the lines of a file."""
        return UnreadableInputError(self.faults, file)


def questions_of(wording: Wording, texts: list[str], first: int = 0) -> list[Question]:
    """The question of each text; DataError with all that cannot be read, whose numbers count on from `first`."""
    if wording.one_text:
        return [wording.question(text) for text in texts]

    def found(text: str) -> Question | UnreadableError:
        try:
            return wording.question(text)
        except UnreadableError as error:
            return error

    different = list(dict.fromkeys(texts))
    with ThreadPoolExecutor(reader_threads()) as pool:
        read = dict(zip(different, pool.map(found, different), strict=True))
    answers = [read[text] for text in texts]
    faults = [
        (first + row + 1, texts[row].replace("\t", " | "), str(answer))
        for row, answer in enumerate(answers)
        if isinstance(answer, UnreadableError)
    ]
    if faults:
        raise UnreadableInputError(faults)
    return [answer for answer in answers if isinstance(answer, Question)]


def chunk_size(wording: Wording, batch_size: int, count: int) -> int:
    """So many texts are read before any is answered: all, unless they are files, which take memory."""
    return max(1, count) if wording.one_text else AHEAD * batch_size
