"""Text to ids and back: characters, letters, words; a text as one stream; which target token a copied one is."""
# N source tokens

from __future__ import annotations

import json
import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import regex
import torch
from torch import Tensor

from antiphon.data.source import Random, Source
from antiphon.errors import ModelFolderError
from antiphon.sequence import NO_COPY

__all__ = [
    "EOS",
    "FORMAT",
    "LINE_END",
    "PAD",
    "SILENT",
    "SOS",
    "SPECIALS",
    "SYMBOLS",
    "UNK",
    "CharacterTokenizer",
    "LetterTokenizer",
    "StreamTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "by_number",
    "by_symbol",
    "damaged",
    "line_end",
    "read_json",
]

PAD, SOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")


# Text to ids and back: characters, letters, words, BPE and unigram, each one JSON file.
#
# The first four ids are the specials; no text, not even one that spells "</s>", ever becomes one of them.

FORMAT = 1
SILENT = (PAD, SOS, EOS)
CLUSTER = regex.compile(r"\X")


class Tokenizer(Source):
    """Cuts one side of the pairs into tokens. Ids count from 0; the specials are the first four."""

    size: int
    spells = False  # tokens stand side by side without a space, and a line end is one of them

    @property
    def sizes(self) -> list[int]:
        return [self.size]

    @property
    def parts(self) -> Sequence[Source]:
        return [self]

    def read(self, text: str, chance: Random | None = None) -> list[int]:  # noqa: ARG002 (noise.py has its own)
        return self.encode(text)

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
        """The symbols of the text that training did not know (never seen, or too rare), in order."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """What is particular to the kind, as plain values."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts."""
        return [self.encode(text) for text in texts]

    def joined(self, pieces: Sequence[str]) -> str:
        """Pieces of text that were decoded one by one, as one; between words is a space."""
        return ("" if self.spells else " ").join(piece for piece in pieces if piece)

    def json(self) -> str:
        """The whole tokenizer as JSON."""
        return json.dumps({"format": FORMAT, "kind": self.kind, **self.content()}, ensure_ascii=False, indent=1)


class SymbolTokenizer(Tokenizer):
    """A closed list of symbols, the most frequent first."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self._symbols = [*SPECIALS, *symbols]
        self._ids = {symbol: number for number, symbol in enumerate(symbols, start=len(SPECIALS))}
        self.size = len(self._symbols)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        """One readable string for each id; a space is shown as ▁."""
        return [self._symbols[number].replace(" ", "▁") for number in ids]

    def content(self) -> dict[str, Any]:
        """The symbols, without the specials."""
        return {"symbols": self._symbols[len(SPECIALS) :]}

    def _spoken(self, ids: Sequence[int]) -> list[str]:
        return [self._symbols[number] for number in ids if number not in SILENT]


class CharacterTokenizer(SymbolTokenizer):
    """Extended grapheme clusters: what a reader calls a character, so "é" is one however it is stored.

    A cluster that was never seen is spelt by its code points if all of them are known.
    """

    kind = "characters"
    spells = True

    def encode(self, text: str) -> list[int]:
        """The ids of the clusters; UNK for an unknown one."""
        known = self._ids
        ids: list[int] = []
        for cluster in split_characters(text):
            number = known.get(cluster)
            if number is None:
                ids.extend(self._spelt(cluster))
            else:
                ids.append(number)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The clusters, one after the other."""
        return "".join(self._spoken(ids))

    def unknown(self, text: str) -> list[str]:
        """The clusters that encode to UNK."""
        return [
            cluster for cluster in split_characters(text) if cluster not in self._ids and self._spelt(cluster) == [UNK]
        ]

    def _spelt(self, cluster: str) -> list[int]:
        if all(point in self._ids for point in cluster):
            return [self._ids[point] for point in cluster]
        return [UNK]


class LetterTokenizer(SymbolTokenizer):
    """Code points of the decomposed text (NFD): "é" is an e and an accent, "한" its three letters.

    What is decoded is composed again (NFC), so a text comes back as the same characters, however they were stored.
    """

    kind = "letters"
    spells = True

    def encode(self, text: str) -> list[int]:
        """The ids of the letters; UNK for an unknown one."""
        return [self._ids.get(letter, UNK) for letter in split_letters(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """The letters, joined to characters."""
        return unicodedata.normalize("NFC", "".join(self._spoken(ids)))

    def joined(self, pieces: Sequence[str]) -> str:
        """A letter at the beginning of one may belong to the character at the end of another."""
        return unicodedata.normalize("NFC", "".join(pieces))

    def unknown(self, text: str) -> list[str]:
        """The letters that encode to UNK."""
        return [letter for letter in split_letters(text) if letter not in self._ids]


class WordTokenizer(SymbolTokenizer):
    """Words between white space; decoding joins them by one space."""

    kind = "words"

    def encode(self, text: str) -> list[int]:
        """The ids of the words; UNK for an unknown one."""
        known = self._ids
        return [known.get(word, UNK) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """The words with a space between them."""
        return " ".join(self._spoken(ids))

    def unknown(self, text: str) -> list[str]:
        """The words that encode to UNK."""
        return [word for word in text.split() if word not in self._ids]


def split_characters(text: str) -> list[str]:
    """The grapheme clusters of a text. In ASCII only \\r\\n is more than one code point."""
    if text.isascii() and "\r" not in text:
        return list(text)
    clusters: list[str] = CLUSTER.findall(text)
    return clusters


def split_letters(text: str) -> list[str]:
    """The code points of a text, characters taken apart as far as they can be."""
    return list(unicodedata.normalize("NFD", text))


# How a text is cut into symbols, and what keeps them.
SYMBOLS: dict[str, tuple[Callable[[str], list[str]], type[SymbolTokenizer]]] = {
    "characters": (split_characters, CharacterTokenizer),
    "letters": (split_letters, LetterTokenizer),
    "words": (str.split, WordTokenizer),
}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file of a model folder; an empty one if there is another value."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFolderError(f"{path}: no such file; copy the whole model folder") from error
    except (OSError, ValueError) as error:
        raise ModelFolderError(f"{path}: damaged ({error}); copy the model folder again") from error
    return content if isinstance(content, dict) else {}


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """What is missing in a file, or of another type, becomes a sentence."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFolderError(f"{path}: damaged ({error}); copy the model folder again") from error


# A text as one stream of tokens, in which a line end is a token like any other.

LINE_END = "\n"


def line_end(tokenizer: Tokenizer) -> int:
    """The id of a line end: "\\n" is a character; to words and sub-words it is </s>."""
    return tokenizer.encode(LINE_END)[0] if tokenizer.spells else EOS


class StreamTokenizer(Tokenizer):
    """Texts of any number of lines, by the tokenizer of their lines; it is never saved."""

    def __init__(self, lines: Tokenizer) -> None:
        self.lines = lines
        self.kind, self.spells = lines.kind, lines.spells
        self.size = lines.size
        self.line_end = line_end(lines)

    def encode(self, text: str) -> list[int]:
        """The ids of the lines, with a line end between them."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts."""
        if self.spells:
            return self.lines.encode_batch(texts)
        split = [text.split(LINE_END) for text in texts]
        rows = iter(self.lines.encode_batch(list(chain.from_iterable(split))))
        return [self._joined(lines, islice(rows, len(lines))) for lines in split]

    def _joined(self, lines: list[str], rows: islice[list[int]]) -> list[int]:
        """An empty line has no tokens but its end, whatever a sub-word tokenizer makes of nothing."""
        ids: list[int] = []
        for number, (line, row) in enumerate(zip(lines, rows, strict=True)):
            ids += [self.line_end] if number else []
            ids += row if line else []
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text, line by line."""
        if self.spells:
            return self.lines.decode(ids)
        lines: list[list[int]] = [[]]
        for number in ids:
            if number == self.line_end:
                lines.append([])
            else:
                lines[-1].append(number)
        return LINE_END.join(self.lines.decode(line) for line in lines)

    def joined(self, pieces: Sequence[str]) -> str:
        return self.lines.joined(pieces)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return self.lines.symbols(ids)

    def unknown(self, text: str) -> list[str]:
        """Line ends are known."""
        return self.lines.unknown(text if self.spells else text.replace(LINE_END, " "))

    def content(self) -> dict[str, Any]:
        return self.lines.content()


# Which target token a source token is, for a decoder that copies.


def by_symbol(source: Source, target: Tokenizer) -> Tensor | None:
    """The target token that is written alike [N], or else <unk>, for which a search may put the word itself.

    None for a source that is no text.
    """
    if not isinstance(source, Tokenizer):
        return None
    known = {symbol: token for token, symbol in reversed(_symbols(target))}  # of two alike the more frequent counts
    return _without_specials(torch.tensor([known.get(symbol, UNK) for _, symbol in _symbols(source)]))


def by_number(tokens: int, target_tokens: int) -> Tensor:
    """Of two vocabularies that begin alike: every token is itself, as far as the target goes [N]."""
    numbers = torch.arange(tokens)
    return _without_specials(numbers.masked_fill(numbers >= target_tokens, UNK)[len(SPECIALS) :])


def _symbols(tokenizer: Tokenizer) -> list[tuple[int, str]]:
    """Every token but the specials, and how it is written."""
    numbers = range(len(SPECIALS), tokenizer.size)
    return list(zip(numbers, tokenizer.symbols(numbers), strict=True))


def _without_specials(others: Tensor) -> Tensor:
    """<unk> is <unk>; no other special is ever copied."""
    specials = torch.full((len(SPECIALS),), NO_COPY)
    specials[UNK] = UNK
    return torch.cat([specials, others])
