"""Codecs: from a text or file to what a model reads, and from the tokens it writes to text."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from collections.abc import Sequence as Items
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby

from antiphon.config.networks import TaggerConfig, TransformerDecoderConfig, learnt_positions
from antiphon.config.schema import Config, SourceConfig
from antiphon.data.batches import reader_threads
from antiphon.data.source import Read, Source, UnreadableError, Values, positions
from antiphon.data.tokenizers import EOS, PAD, SOS, UNK, StreamTokenizer, Tokenizer, text_source
from antiphon.errors import DataError
from antiphon.inference.conversation import TurnFormat
from antiphon.inference.flags import unknown_flags
from antiphon.inference.generation import SourceSpan
from antiphon.models.frontends.frontend import FrontEnd

__all__ = [
    "AnswerCodec", "Codec", "EncodedInput", "UnreadableInputError", "build_codec", "chunk_size", "encode_inputs",
]  # fmt: skip

NO_TOKEN = -1  # the end token of a stream
BATCHES_IN_MEMORY = 4  # of files
SENTENCE_END = re.compile(r"((?<=[.!?…])\s+|(?<=[。！？])\s*)")


@dataclass(frozen=True)
class EncodedInput:
    """One input as a model reads it."""

    text: str
    source: Read  # ids without </s>, vectors, or a tuple of these
    prompt: list[int]  # what a language model continues; others have none
    flags: list[str]
    skip: bool = False  # there is nothing to answer

    @property
    def ids(self) -> list[int]:
        """The ids of a source that is one text."""
        assert isinstance(self.source, list)
        return self.source

    @property
    def empty(self) -> bool:
        """True if there is neither a source nor a prompt."""
        return self.skip or (isinstance(self.source, list) and not self.source and not self.prompt)

    @property
    def length(self) -> int:
        """Source positions, the </s> of each text counted."""
        return positions(self.source)


class Codec(ABC):
    """Encodes the inputs of a model and decodes its outputs; `target` is the tokenizer of what it writes."""

    target: Tokenizer
    start: int  # the token before the first
    end: int  # the token after the last
    forbidden: tuple[int, ...] = (PAD, SOS, UNK)  # never written
    target_name: str  # in messages
    context_length: int | None = None  # tokens that a language model can attend to; None: any number
    single_text: bool = True  # the source is one text
    labels: int | None = None  # of a tagger: most labels of an answer

    @abstractmethod
    def encode(self, text: str) -> EncodedInput:
        """Encode one input; whatever is cut or unknown is flagged."""

    def encode_target(self, text: str) -> list[int]:
        """The ids of a whole target, its end token included."""
        return [*self.target.encode(text), self.end]

    @abstractmethod
    def decode(self, encoded: EncodedInput, tokens: tuple[int, ...], replacements: Items[str] = ()) -> str:
        """The text of an answer; `replacements` stand in place of its <unk>s, one for each."""

    @abstractmethod
    def source_symbols(self, encoded: EncodedInput) -> list[str]:
        """The symbols that were read; an unknown one stands as it was written: ‹word›."""

    def source_words(self, encoded: EncodedInput) -> list[str]:  # noqa: ARG002 (a language model has no source)
        """The text of each source token, to be copied in place of an <unk>."""
        return []

    def spans(self, encoded: EncodedInput) -> list[SourceSpan]:  # noqa: ARG002 (a language model has no source)
        """The positions of each source among the symbols that were read."""
        return []

    def split(self, text: str) -> list[str]:
        """The text in parts that can be read at once."""
        return [text]

    def memory_length(self, source: Read) -> int:
        """Encoder states of a source: one for each position, unless a front end makes fewer of them."""
        return positions(source)


class AnswerCodec(Codec):
    """The codec of a model with a source."""

    start, end, target_name = SOS, EOS, "target"

    def decode(self, encoded: EncodedInput, tokens: tuple[int, ...], replacements: Items[str] = ()) -> str:  # noqa: ARG002 (only a language model repeats its input)
        if not replacements:
            return self.target.decode(tokens)
        words, pieces = iter(replacements), []
        for unknown, group in groupby(tokens, key=lambda token: token == UNK):
            run = list(group)
            pieces += [next(words) for _ in run] if unknown else [self.target.decode(run)]
        return self.target.joined(pieces)


class TextCodec(AnswerCodec):
    """The source is one text."""

    def __init__(self, source: Tokenizer, target: Tokenizer, max_length: int) -> None:
        self.source = source
        self.target = target
        self.max_length = max_length

    def encode(self, text: str) -> EncodedInput:
        """Ids, cut at the maximum source length of the config."""
        ids = self.source.encode(text)
        flags = unknown_flags("source", self.source.unknown(text))
        if len(ids) > self.max_length:
            flags.append(f"truncated: the source has {len(ids)} tokens, only the first {self.max_length} were read")
        if not ids:
            flags.append("empty source")
        return EncodedInput(text, ids[: self.max_length], prompt=[], flags=flags, skip=not ids)

    def source_symbols(self, encoded: EncodedInput) -> list[str]:
        return self.source.written([*encoded.ids, EOS], encoded.text)

    def source_words(self, encoded: EncodedInput) -> list[str]:
        """Unknown words stand as they are in the text."""
        unknown = iter(self.source.unknown(encoded.text))
        return [
            next(unknown, "") if token == UNK or token >= self.source.size else self.source.decode([token])
            for token in encoded.ids
        ]

    def spans(self, encoded: EncodedInput) -> list[SourceSpan]:
        return [SourceSpan(source=0, kind="text", text=encoded.text, first=0, last=encoded.length - 1)]

    def split(self, text: str) -> list[str]:
        return split_sentences(text, self.max_length, lambda part: len(self.source.encode(part)))


class DialogueCodec(TextCodec):
    """The source has the turns of a dialogue; of one that is too long the oldest turns are left out."""

    def __init__(self, source: Tokenizer, target: Tokenizer, max_length: int, turns: TurnFormat) -> None:
        super().__init__(source, target, max_length)
        self.turns = turns

    def encode(self, text: str) -> EncodedInput:
        turns = self.turns.split(text)
        flags = [f"turns: the source has {len(turns)}, the model was trained with at most {self.turns.most}"]
        flags = flags if len(turns) > self.turns.most else []
        if len(turns) < 2 or len(self.source.encode(text)) <= self.max_length:
            encoded = super().encode(text)
            return replace(encoded, flags=[*flags, *encoded.flags])
        fitting = self._fitting(turns)
        flags.append(f"turns: only the last {fitting} of {len(turns)} were read, {self.max_length} tokens at most")
        encoded = super().encode(self.turns.separator.join(turns[-fitting:]))
        return replace(encoded, flags=[*flags, *encoded.flags])

    def _fitting(self, turns: list[str]) -> int:
        """The number of the latest turns that can be read at once, at least 1."""
        length = 0
        for number, turn in enumerate(reversed(turns)):
            length += len(self.source.encode(f"{self.turns.separator if number else ''}{turn}"))
            if length > self.max_length:
                return max(1, number)
        return len(turns)

    def split(self, text: str) -> list[str]:
        """One part: an answer needs the turns before it."""
        return [text]


class LabelCodec(TextCodec):
    """The target has a label for each token of the source."""

    target_name = "labels"

    def __init__(self, source: Tokenizer, target: Tokenizer, max_length: int) -> None:
        super().__init__(source, target, max_length)
        self.labels = max_length


class SourceCodec(AnswerCodec):
    """The source is a file, or there are several; front ends know the positions of files, tokenizers those of texts."""

    single_text = False

    def __init__(
        self, configs: list[SourceConfig], source: Source, target: Tokenizer, front_ends: Items[FrontEnd]
    ) -> None:
        self.configs = configs
        self.source = source
        self.target = target
        self.front_ends = front_ends

    def encode(self, text: str) -> EncodedInput:
        """Each source, cut at its maximum length; UnreadableError if a file cannot be read or a cell is missing."""
        parts: list[Values] = []
        flags: list[str] = []
        rows = zip(self.source.parts, self.configs, self.source.cells(text), strict=True)
        for number, (source, config, cell) in enumerate(rows):
            name = f"source {number + 1}" if len(self.configs) > 1 else "source"
            read = source.read(cell)
            assert not isinstance(read, tuple)
            if isinstance(source, Tokenizer):
                flags += unknown_flags(name, source.unknown(cell))
            if len(read) > config.max_length:
                unit = "tokens" if isinstance(read, list) else "positions"
                only = f"only the first {config.max_length} were read"
                flags.append(f"truncated: the {name} has {len(read)} {unit}, {only}")
            parts.append(read[: config.max_length])
        skip = all(isinstance(part, list) and not part for part in parts)
        flags += ["empty source"] if skip else []
        return EncodedInput(text, tuple(parts) if len(parts) > 1 else parts[0], prompt=[], flags=flags, skip=skip)

    def source_symbols(self, encoded: EncodedInput) -> list[str]:
        rows = zip(_parts(encoded.source), self.source.cells(encoded.text), strict=True)
        return [name for number, (part, cell) in enumerate(rows) for name in self._symbols(number, part, cell)]

    def memory_length(self, source: Read) -> int:
        return sum(self._length(number, part) for number, part in enumerate(_parts(source)))

    def spans(self, encoded: EncodedInput) -> list[SourceSpan]:
        found, first = [], 0
        cells = self.source.cells(encoded.text)
        for number, part in enumerate(_parts(encoded.source)):
            last = first + self._length(number, part) - 1
            grid = self.front_ends[number].grid(positions(part))
            found.append(SourceSpan(number, self.configs[number].kind, cells[number], first, last, grid))
            first = last + 1
        return found

    def _symbols(self, number: int, part: Values, cell: str) -> list[str]:
        source = self.source.parts[number]
        if isinstance(source, Tokenizer) and isinstance(part, list):
            return source.written([*part, EOS], cell)
        return self.front_ends[number].names(len(part))

    def _length(self, number: int, part: Values) -> int:
        return len(self.front_ends[number].names(positions(part)))


def _parts(source: Read) -> tuple[Values, ...]:
    return source if isinstance(source, tuple) else (source,)


class LanguageModelCodec(Codec):
    """A prompt is continued.

    In a stream a text begins after a line end and goes on over line ends, so it has no end of its own.
    """

    start, end, target_name = SOS, EOS, "text"

    def __init__(self, target: Tokenizer, *, stream: bool, context_length: int | None) -> None:
        self.target = target
        self.context_length = context_length
        if stream:
            self.target = StreamTokenizer(target)
            self.start, self.end = self.target.line_end, NO_TOKEN
            self.forbidden = tuple({PAD, SOS, UNK, EOS} - {self.start})

    def encode(self, text: str) -> EncodedInput:
        ids, longest = self.target.encode(text), self.context_length
        flags = unknown_flags("prompt", self.target.unknown(text))
        if longest is not None and len(ids) > longest:
            flags.append(f"truncated: the prompt has {len(ids)} tokens, only the last {longest} were read")
        return EncodedInput(text, source=[], prompt=ids, flags=flags)

    def encode_target(self, text: str) -> list[int]:
        """The end of a line in a stream is its line end."""
        return [*self.target.encode(text), self.start if self.end == NO_TOKEN else self.end]

    def source_symbols(self, encoded: EncodedInput) -> list[str]:
        return self.target.written(encoded.prompt, encoded.text)

    def decode(self, encoded: EncodedInput, tokens: tuple[int, ...], replacements: Items[str] = ()) -> str:  # noqa: ARG002 (there is no source)
        """The prompt as it was given, and its continuation."""
        whole, head = self.target.decode([*encoded.prompt, *tokens]), self.target.decode(encoded.prompt)
        if not whole.startswith(head):  # its first letter belongs to the prompt's last character
            return self.target.joined([encoded.text, self.target.decode(tokens)])
        added = whole[len(head) :]
        if self.target.kind == "words" and encoded.text[-1:].isspace():
            added = added.removeprefix(" ")
        return encoded.text + added


def build_codec(
    config: Config,
    source: Source,
    target: Tokenizer,
    front_ends: Items[FrontEnd] = (),
    turns: TurnFormat | None = None,
) -> Codec:
    """The codec of a model; only sources that are not one text need the front ends of the network."""
    if config.data.source is None:
        stream = config.data.window is not None
        return LanguageModelCodec(target, stream=stream, context_length=_context_length(config))
    if config.data.text is not None and isinstance(config.model, TaggerConfig):
        return LabelCodec(text_source(source), target, config.data.text.max_length)
    if config.data.text is not None and turns is not None:
        return DialogueCodec(text_source(source), target, config.data.text.max_length, turns)
    if config.data.text is not None:
        return TextCodec(text_source(source), target, config.data.text.max_length)
    return SourceCodec(config.data.sources, source, target, front_ends)


def _context_length(config: Config) -> int | None:
    """The training window or learnt positions of a Transformer; a recurrent network has no limit."""
    decoder = config.model.decoder
    if not isinstance(decoder, TransformerDecoderConfig):
        return None
    return config.data.window or learnt_positions(decoder)


def split_sentences(text: str, max_length: int, length: Callable[[str], int]) -> list[str]:
    """As few parts as possible, each of whole sentences and at most `max_length` tokens; a longer sentence is alone."""
    if length(text) <= max_length:
        return [text]
    parts: list[str] = []
    first, *others = SENTENCE_END.split(text)  # then gaps and sentences in turn
    for gap, sentence in [("", first), *zip(others[::2], others[1::2], strict=True)]:
        if not sentence.strip():
            continue
        joined = f"{parts[-1]}{' ' if gap else ''}{sentence}" if parts else sentence
        if parts and length(joined) <= max_length:
            parts[-1] = joined
        else:
            parts.append(sentence)
    return parts or [text]


class UnreadableInputError(DataError):
    """Sources that cannot be read: the number of each (from 1), the text that names it, and the fact."""

    def __init__(self, faults: list[tuple[int, str, str]], file: str = "") -> None:
        self.faults = faults
        place = f"{file}, line" if file else "source"
        remedy = "give files that can be read" if len(faults) > 1 else "give a file that can be read"
        facts = [(number, text, fact if ";" in fact else f"{fact}; {remedy}") for number, text, fact in faults]
        super().__init__([f"{place} {number}: {text}: {fact}" for number, text, fact in facts])

    def of(self, file: str) -> UnreadableInputError:
        """The same error about the lines of a file."""
        return UnreadableInputError(self.faults, file)


def encode_inputs(codec: Codec, texts: list[str], first: int = 0) -> list[EncodedInput]:
    """Encode all texts; files are read by threads, each once.

    UnreadableInputError with all that cannot be read, whose numbers count on from `first`.
    """
    if codec.single_text:
        return [codec.encode(text) for text in texts]

    def encode(text: str) -> EncodedInput | UnreadableError:
        try:
            return codec.encode(text)
        except UnreadableError as error:
            return error

    different = list(dict.fromkeys(texts))
    with ThreadPoolExecutor(reader_threads()) as pool:
        by_text = dict(zip(different, pool.map(encode, different), strict=True))
    results = [(number, text, by_text[text]) for number, text in enumerate(texts, start=first + 1)]
    faults = [
        (number, text.replace("\t", " | "), str(result))
        for number, text, result in results
        if isinstance(result, UnreadableError)
    ]
    if faults:
        raise UnreadableInputError(faults)
    return [result for *_, result in results if isinstance(result, EncodedInput)]


def chunk_size(codec: Codec, batch_size: int, count: int) -> int:
    """Texts that are encoded before any is answered: all, unless they are files, which take memory."""
    return max(1, count) if codec.single_text else BATCHES_IN_MEMORY * batch_size
