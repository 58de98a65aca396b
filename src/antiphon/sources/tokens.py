"""Text to ids and back: characters, letters, words, BPE and unigram, each one JSON file.

The first four ids are the specials; no text, not even one that spells "</s>", ever becomes one of them.
"""

from __future__ import annotations

import json
import unicodedata
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import regex

from antiphon.config.schema import TextConfig
from antiphon.errors import DataError, ModelFolderError
from antiphon.sources.reading import Random
from antiphon.sources.source import Source
from antiphon.sources.vocabulary import EOS, PAD, SOS, SPECIALS, UNK

__all__ = [
    "SILENT",
    "CharacterTokenizer",
    "LetterTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "build_tokenizer",
    "damaged",
    "load_tokenizer",
    "read_json",
    "train_tokenizer",
]

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


def train_tokenizer(
    texts: Iterable[str], config: TextConfig, where: str = "tokenizer", always: Sequence[str] = ()
) -> Tokenizer:
    """Learn a vocabulary; the same texts always give the same one. `where` is the path in the config, for errors.

    `always` are characters, letters or words that are known however rare they are; they take the places of the rarest.
    """
    if config.tokens in ("bpe", "unigram"):
        from antiphon.sources.subwords import train_subwords

        return train_subwords(texts, config, where)
    split, made = SYMBOLS[config.tokens]
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(split(text))
    frequent = [(-count, symbol) for symbol, count in counts.items() if count >= config.min_count]
    symbols = [symbol for _, symbol in sorted(frequent)[: config.vocabulary]]
    if not symbols:
        raise DataError(
            f"{where}.min_count: none of the {config.tokens} is seen {config.min_count} times; lower it or add examples"
        )
    missing = [symbol for symbol in always if symbol not in symbols]
    symbols = [*symbols[: max(0, config.vocabulary - len(missing))], *missing]
    return made(symbols)


# How a text is cut into symbols, and what keeps them.
SYMBOLS: dict[str, tuple[Callable[[str], list[str]], type[SymbolTokenizer]]] = {
    "characters": (split_characters, CharacterTokenizer),
    "letters": (split_letters, LetterTokenizer),
    "words": (str.split, WordTokenizer),
}


def load_tokenizer(path: Path) -> Tokenizer:
    """Read what `save` wrote."""
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise ModelFolderError(f"{path}: not a tokenizer of format {FORMAT}; use the version of Antiphon that wrote it")
    with damaged(path):
        return build_tokenizer(content)


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


def build_tokenizer(content: dict[str, Any]) -> Tokenizer:
    """What a tokenizer says of itself, as a tokenizer."""
    kind = content["kind"]
    if "pieces" in content:
        from antiphon.sources.pieces import PieceTokenizer

        model = json.dumps(content["model"])
        return PieceTokenizer(kind, content["pieces"], model, content["lead"], content["silent"])
    if kind in ("bpe", "unigram"):
        from antiphon.sources.subwords import SubwordTokenizer

        return SubwordTokenizer(kind, content["characters"], json.dumps(content["model"]))
    _, tokenizer = SYMBOLS[kind]
    symbols = content["symbols"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise ValueError("symbols is not a list of strings")
    return tokenizer(symbols)
