"""Placeholders, tags and glossaries: what must come out as it went in."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from antiphon.serve.frames import Message

__all__ = ["Stripped", "glossary_phrases", "missing", "pieces", "put_back", "strip"]

# <x id="1"></x> as one piece, other tags, entities, {name} and {{name}}, %d and %(name)s, ${name}, URLs
PIECE = re.compile(
    r"""<x\s[^<>]*>\s*</x>|</?[A-Za-z][^<>]*>|&(?:[a-z]+|\#\d+);|\{\{[^{}]*\}\}|\$?\{[^{}]*\}"""
    r"""|%(?:\([^()\s]*\))?(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?[sdifrxcgeu@]\b|https?://[^\s<>"]+""",
    re.VERBOSE,
)
TAG = re.compile(r"</?[A-Za-z]")


@dataclass(frozen=True)
class Stripped:
    """A text without its pieces, and each piece with its place in the text."""

    text: str
    pieces: tuple[tuple[int, str], ...]


def pieces(text: str) -> list[str]:
    """The placeholders and tags of a text, in order."""
    return PIECE.findall(text)


def missing(source: str, answer: str) -> list[str]:
    """The pieces of the source that the answer does not have as often."""
    wanted, found = Counter(pieces(source)), Counter(pieces(answer))
    return list((wanted - found).elements())


def strip(text: str) -> Stripped:
    """Take the pieces out; where one stood between two spaces one of them goes, too."""
    kept: list[str] = []
    taken: list[tuple[int, str]] = []
    length = end = 0
    for match in PIECE.finditer(text):
        before = text[end : match.start()]
        if kept and kept[-1].endswith(" ") and before.startswith(" "):
            before = before[1:]
        kept.append(before)
        length += len(before)
        taken.append((length, match[0]))
        end = match.end()
    rest = text[end:]
    if (not length or "".join(kept).endswith(" ")) and taken:
        rest = rest.removeprefix(" ")
    return Stripped("".join([*kept, rest]), tuple(taken))


def put_back(source: str, stripped: Stripped, answer: str, attention: Message | None) -> str:
    """The answer with every piece, each before the word whose source word followed it.

    Words of the answer belong to those source words that they attend to most; without attention the n-th share of the
    answer belongs to the n-th share of the source.
    """
    words = [(match.start(), match.end()) for match in re.finditer(r"\S+", answer)]
    centres = _centres(stripped.text, answer, words, attention)
    here: dict[int, list[Neighbours]] = {}
    for (place, piece), neighbours in zip(stripped.pieces, _neighbours(source), strict=True):
        assert piece == neighbours.piece
        here.setdefault(_word_after(place, stripped.text, words, centres), []).append(neighbours)
    result, end = [], 0
    for index in range(len(words) + 1):
        last = index == len(words)
        start = len(answer) if last else words[index][0]
        result += [one.piece for one in here.get(index, []) if one.ends_word]
        result.append(answer[end:start])
        result += [one.spaced(last=last) for one in here.get(index, []) if not one.ends_word]
        end = start
    return re.sub(r" {2,}", " ", "".join(result)).strip()


@dataclass(frozen=True)
class Neighbours:
    """A piece, and whether there were spaces on its sides."""

    piece: str
    space_before: bool
    space_after: bool

    @property
    def ends_word(self) -> bool:
        """It belongs to the word before it, as a closing tag does."""
        return not self.space_before and (self.space_after or self.piece.startswith("</"))

    def spaced(self, *, last: bool) -> str:
        """The piece with a space where it had one; a placeholder is a word of its own."""
        word = not TAG.match(self.piece)
        before = " " if last and (word or self.space_before) else ""
        return f"{before}{self.piece}{' ' if self.space_after or word else ''}"


def _neighbours(source: str) -> list[Neighbours]:
    found = []
    for match in PIECE.finditer(source):
        before, after = source[: match.start()], source[match.end() :]
        found.append(Neighbours(match[0], not before or before[-1].isspace(), not after or after[0].isspace()))
    return found


def _centres(source: str, answer: str, words: list[tuple[int, int]], attention: Message | None) -> list[float]:
    """For each word of the answer a place in the source, from 0 to its length."""
    shares = [(start + end) / 2 / max(1, len(answer)) * len(source) for start, end in words]
    weights = attention and attention.get("weights")
    if not weights or len(weights) < 2:
        return shares
    rows, columns = len(weights) - 1, len(weights[0]) - 1  # without </s>
    if columns < 1:
        return shares
    found = []
    for start, end in words:
        row = min(rows - 1, int((start + end) / 2 / len(answer) * rows))
        best = max(range(columns), key=lambda column: weights[row][column])
        found.append((best + 0.5) / columns * len(source))
    return found


def _word_after(place: int, source: str, words: list[tuple[int, int]], centres: list[float]) -> int:
    """The index of the word before which a piece from this place belongs."""
    if place == 0 and source:
        return 0
    if place >= len(source.rstrip()):
        return len(words)
    after = [index for index, centre in enumerate(centres) if centre >= place]
    return min(after, default=len(words))


def glossary_phrases(glossary: dict[str, str], text: str) -> list[str]:
    """The values of those entries whose key occurs in the text as a word."""
    return list(
        dict.fromkeys(
            value for key, value in glossary.items() if key and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", text)
        )
    )
