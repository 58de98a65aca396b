"""Text to ids and back: characters, letters, words; texts as one stream; the target token of a copied one.

The first four ids are the specials; no text, not even one that spells "</s>", ever becomes one of them.
"""
# N source tokens

from __future__ import annotations

import json
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import regex
import torch
from torch import Tensor

from antiphon.data.source import Random, SingleSource, Source
from antiphon.errors import ModelFolderError, UserError
from antiphon.sequence import NO_COPY

__all__ = [
    "EOS", "FORMAT", "LINE_END", "PAD", "SILENT", "SOS", "SPECIALS", "SYMBOLS", "UNK", "NormalizingTokenizer",
    "StreamTokenizer", "TextForm", "Tokenizer", "WordTokenizer", "WrappedTokenizer", "by_number", "by_symbol",
    "damaged", "line_end", "mark_unknown", "read_json", "text_source",
]  # fmt: skip

PAD, SOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
FORMAT = 1  # of the JSON file
SILENT = (PAD, SOS, EOS)
CLUSTER = regex.compile(r"\X")


class Tokenizer(SingleSource):
    """Splits one side of the pairs into tokens. Ids count from 0; the specials are the first four."""

    spells = False  # tokens are joined without a space, and a line end is one of them

    def read(self, cell: str, chance: Random | None = None) -> list[int]:  # noqa: ARG002 (noise.py has its own)
        return self.encode(cell)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text, without <s> and </s>; UNK for what is unknown."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids: padding, <s> and </s> are skipped, an unknown token reads <unk>."""

    @abstractmethod
    def symbols(self, ids: Sequence[int]) -> list[str]:
        """One readable string for each id, for pictures; a space is shown as ▁."""

    @abstractmethod
    def unknown(self, text: str) -> list[str]:
        """The symbols of the text that are not in the vocabulary (never seen, or too rare), in order."""

    def written(self, ids: Sequence[int], text: str) -> list[str]:
        """The symbols of the ids of a text, or of its beginning; an unknown one as it is written: ‹word›."""
        symbols = self.symbols(ids)
        if UNK not in ids:
            return symbols
        words = self.unknown(text)
        return mark_unknown(ids, symbols, words if len(words) == self.encode(text).count(UNK) else [])

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """The values of this kind of tokenizer, for JSON."""

    def words(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The first and last index of each word; only pieces of words are joined, other tokens stand alone."""
        return [(index, index) for index in range(len(ids))]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts."""
        return [self.encode(text) for text in texts]

    def normalize(self, text: str) -> str:
        """The text in the form in which this tokenizer writes it, to compare references with answers."""
        return text

    def joined(self, pieces: Sequence[str]) -> str:
        """Pieces of text that were decoded separately as one text; words get a space between them."""
        return ("" if self.spells else " ").join(piece for piece in pieces if piece)

    def json(self) -> str:
        """The whole tokenizer as JSON."""
        return json.dumps({"format": FORMAT, "kind": self.kind, **self.content()}, ensure_ascii=False, indent=1)


def mark_unknown(ids: Sequence[int], symbols: Sequence[str], words: Sequence[str]) -> list[str]:
    """The symbols with ‹word› for each <unk>; without words they stay as they are."""
    left = iter(words if ids.count(UNK) <= len(words) else [])
    marked = (next(left, None) if number == UNK else None for number in ids)
    return [symbol if word is None else f"‹{word}›" for symbol, word in zip(symbols, marked, strict=True)]


class SymbolTokenizer(Tokenizer):
    """A fixed list of symbols, the most frequent first."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self._symbols = [*SPECIALS, *symbols]
        self._ids = {symbol: number for number, symbol in enumerate(symbols, start=len(SPECIALS))}
        self.size = len(self._symbols)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return [self._symbols[number].replace(" ", "▁") for number in ids]

    def content(self) -> dict[str, Any]:
        return {"symbols": self._symbols[len(SPECIALS) :]}

    def _visible_symbols(self, ids: Sequence[int]) -> list[str]:
        return [self._symbols[number] for number in ids if number not in SILENT]


def text_source(source: Source) -> Tokenizer:
    """The tokenizer of a source that is one text; UserError for all others."""
    if isinstance(source, Tokenizer):
        return source
    raise UserError(f"data.source: this is for models that read one text, and the source here is of kind {source.kind}")


class CharacterTokenizer(SymbolTokenizer):
    """Extended grapheme clusters: what a reader calls a character, so "é" is one however it is stored.

    A cluster that was never seen is spelt by its code points if all of them are known.
    """

    kind = "characters"
    spells = True

    def encode(self, text: str) -> list[int]:
        known = self._ids
        ids: list[int] = []
        for cluster in split_characters(text):
            number = known.get(cluster)
            if number is None:
                ids.extend(self._code_points(cluster))
            else:
                ids.append(number)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._visible_symbols(ids))

    def unknown(self, text: str) -> list[str]:
        unseen = [cluster for cluster in split_characters(text) if cluster not in self._ids]
        return [cluster for cluster in unseen if self._code_points(cluster) == [UNK]]

    def _code_points(self, cluster: str) -> list[int]:
        if all(point in self._ids for point in cluster):
            return [self._ids[point] for point in cluster]
        return [UNK]


class LetterTokenizer(SymbolTokenizer):
    """Code points of the decomposed text (NFD): "é" is an e and an accent, "한" its three letters.

    Decoding composes again (NFC), so a text comes back as the same characters, however they were stored.
    """

    kind = "letters"
    spells = True

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(letter, UNK) for letter in split_letters(text)]

    def decode(self, ids: Sequence[int]) -> str:
        return unicodedata.normalize("NFC", "".join(self._visible_symbols(ids)))

    def normalize(self, text: str) -> str:
        return unicodedata.normalize("NFC", text)

    def joined(self, pieces: Sequence[str]) -> str:
        """The first letter of a piece may belong to the last character of the piece before it."""
        return unicodedata.normalize("NFC", "".join(pieces))

    def unknown(self, text: str) -> list[str]:
        return [letter for letter in split_letters(text) if letter not in self._ids]


class WordTokenizer(SymbolTokenizer):
    """Words between white space; decoding joins them by one space."""

    kind = "words"

    def encode(self, text: str) -> list[int]:
        known = self._ids
        return [known.get(word, UNK) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self._visible_symbols(ids))

    def unknown(self, text: str) -> list[str]:
        return [word for word in text.split() if word not in self._ids]


def split_characters(text: str) -> list[str]:
    """The grapheme clusters of a text. In ASCII only \\r\\n is more than one code point."""
    if text.isascii() and "\r" not in text:
        return list(text)
    clusters: list[str] = CLUSTER.findall(text)
    return clusters


def split_letters(text: str) -> list[str]:
    """The code points of a text in NFD."""
    return list(unicodedata.normalize("NFD", text))


# The function that splits a text into symbols, and the class of the tokenizer.
SYMBOLS: dict[str, tuple[Callable[[str], list[str]], type[SymbolTokenizer]]] = {
    "characters": (split_characters, CharacterTokenizer),
    "letters": (split_letters, LetterTokenizer),
    "words": (str.split, WordTokenizer),
}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a model folder; an empty one for any other value."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFolderError(f"{path}: no such file; copy the whole model folder") from error
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path}: damaged ({error}); copy the model folder again") from error
    return content if isinstance(content, dict) else {}


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turns a missing key or a wrong type into a ModelFolderError."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFolderError(f"{path}: damaged ({error}); copy the model folder again") from error


LINE_END = "\n"


def line_end(tokenizer: Tokenizer) -> int:
    """The id of a line end: that of the character "\\n", or </s> for words and sub-words."""
    return tokenizer.encode(LINE_END)[0] if tokenizer.spells else EOS


class WrappedTokenizer(Tokenizer):
    """A tokenizer that encodes differently from the one inside it."""

    def __init__(self, inner: Tokenizer) -> None:
        self.inner = inner
        self.kind, self.spells, self.size = inner.kind, inner.spells, inner.size

    def decode(self, ids: Sequence[int]) -> str:
        return self.inner.decode(ids)

    def normalize(self, text: str) -> str:
        return self.inner.normalize(text)

    def joined(self, pieces: Sequence[str]) -> str:
        return self.inner.joined(pieces)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return self.inner.symbols(ids)

    def words(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return self.inner.words(ids)

    def unknown(self, text: str) -> list[str]:
        return self.inner.unknown(text)

    def content(self) -> dict[str, Any]:
        return self.inner.content()


@dataclass(frozen=True)
class TextForm:
    """Lower case and Unicode normalisation of a text, before it is split into tokens."""

    lowercase: bool = False
    normalization: Literal["nfc", "nfkc"] | None = None

    def __call__(self, text: str) -> str:
        normal = self._normalized(text)
        return self._normalized(normal.lower()) if self.lowercase else normal

    def _normalized(self, text: str) -> str:
        if self.normalization is None:
            return text
        return unicodedata.normalize("NFC" if self.normalization == "nfc" else "NFKC", text)


class NormalizingTokenizer(WrappedTokenizer):
    """A tokenizer that reads all texts in one form; its file says which."""

    def __init__(self, inner: Tokenizer, form: TextForm) -> None:
        super().__init__(inner)
        self.form = form

    def normalize(self, text: str) -> str:
        return self.inner.normalize(self.form(text))

    def encode(self, text: str) -> list[int]:
        return self.inner.encode(self.form(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self.inner.encode_batch([self.form(text) for text in texts])

    def unknown(self, text: str) -> list[str]:
        return self.inner.unknown(self.form(text))

    def content(self) -> dict[str, Any]:
        return {**self.inner.content(), "form": asdict(self.form)}


class StreamTokenizer(WrappedTokenizer):
    """Texts of any number of lines as one stream, in which a line end is a token."""

    def __init__(self, inner: Tokenizer) -> None:
        super().__init__(inner)
        self.line_end = line_end(inner)

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        if self.spells:
            return self.inner.encode_batch(texts)
        split = [text.split(LINE_END) for text in texts]
        rows = iter(self.inner.encode_batch(list(chain.from_iterable(split))))
        return [self._join_lines(lines, islice(rows, len(lines))) for lines in split]

    def _join_lines(self, lines: list[str], rows: islice[list[int]]) -> list[int]:
        """An empty line has no tokens but its end, whatever a sub-word tokenizer makes of nothing."""
        ids: list[int] = []
        for number, (line, row) in enumerate(zip(lines, rows, strict=True)):
            ids += [self.line_end] if number else []
            ids += row if line else []
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        if self.spells:
            return self.inner.decode(ids)
        lines: list[list[int]] = [[]]
        for number in ids:
            if number == self.line_end:
                lines.append([])
            else:
                lines[-1].append(number)
        return LINE_END.join(self.inner.decode(line) for line in lines)

    def unknown(self, text: str) -> list[str]:
        return self.inner.unknown(text if self.spells else text.replace(LINE_END, " "))


# The target token of each source token, for a decoder that copies.


def by_symbol(source: Source, target: Tokenizer) -> Tensor | None:
    """The target token with the same symbol [N], or <unk>, which the search may replace by the word itself.

    None for a source that is no text.
    """
    if not isinstance(source, Tokenizer):
        return None
    known = {symbol: token for token, symbol in reversed(_symbols(target))}  # of two equal ones the more frequent
    return _with_specials(torch.tensor([known.get(symbol, UNK) for _, symbol in _symbols(source)]))


def by_number(tokens: int, target_tokens: int) -> Tensor:
    """The same number in the target [N], for two vocabularies that begin with the same tokens."""
    numbers = torch.arange(tokens)
    return _with_specials(numbers.masked_fill(numbers >= target_tokens, UNK)[len(SPECIALS) :])


def _symbols(tokenizer: Tokenizer) -> list[tuple[int, str]]:
    """All tokens but the specials, with their symbols."""
    numbers = range(len(SPECIALS), tokenizer.size)
    return list(zip(numbers, tokenizer.symbols(numbers), strict=True))


def _with_specials(others: Tensor) -> Tensor:
    """The table with the specials in front: <unk> is <unk>, the others are never copied."""
    specials = torch.full((len(SPECIALS),), NO_COPY)
    specials[UNK] = UNK
    return torch.cat([specials, others])
