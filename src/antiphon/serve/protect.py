"""Placeholders, tags and glossaries: what must come out as it went in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile

import regex

from antiphon.data.tokenizers import EOS, SPECIALS
from antiphon.inference.answers import AnswerPipeline
from antiphon.inference.generation import Generation
from antiphon.inference.generator import Generator, PreparedText
from antiphon.inference.streaming import WatchedAnswer

__all__ = [
    "Asked", "PieceSearch", "Stripped", "align_words", "glossary_phrases", "lost_phrases", "missing", "pieces",
    "put_back", "strip",
]  # fmt: skip

SHOWN, MOST_FLAGS = 80, 20  # characters of a piece in a flag; pieces that have one
# {name}, {{name}}, ${name} and %{name}, with braces inside; %d, %5.2f, %(name)s and %1$s; <x id="1"></x> as one; other
# tags; entities; addresses without the full stop behind them. Possessive (*+) where two parts match the same: else a
# text of "%000..." takes its length squared.
PIECE = regex.compile(
    r"""[$\#%]?\{(?:[^{}]|\{[^{}]*\})*\}"""
    r"""|%(?:\([^()\s]*\)|\d++\$)?[-+\#0]*+\d*+(?:\.\d++)?(?:hh?|ll?|[zjtL])?[sdifrxXcgGeEuop](?!\w)|%[@%]"""
    r"""|<x\s[^<>]*>\s*</x>|(?P<tag></?[A-Za-z][^<>]*>)|&(?:[A-Za-z]\w*|\#\d+|\#[xX][0-9A-Fa-f]+);"""
    r"""|https?://[^\s<>"]*[^\s<>".,;:!?)\]}']""",
    regex.VERBOSE,
)
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"  # scripts without spaces
LETTER = rf"[\w--[{UNSPACED}]]"  # of a word that ends at a space
WORD = regex.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+", regex.V1)


@dataclass(frozen=True)
class Piece:
    """A placeholder or tag, its place in the text without pieces, and what stood beside it."""

    text: str
    place: int
    tag: bool
    space_before: bool
    space_after: bool
    adjoins: bool  # another piece ends where it begins

    @property
    def attached(self) -> bool:
        """It belongs to the word before it, as a closing tag does."""
        return not self.space_before and (self.is_end or (self.space_after and not self.adjoins))

    @property
    def is_end(self) -> bool:
        return self.tag and self.text.startswith("</")

    @property
    def name(self) -> str:
        """That of a tag."""
        return self.text.strip("</>").split()[0].lower() if self.tag else ""


@dataclass(frozen=True)
class Stripped:
    """A text without its pieces."""

    text: str
    pieces: tuple[Piece, ...]


def pieces(text: str) -> list[str]:
    """The placeholders and tags of a text, in order."""
    return [match[0] for match in PIECE.finditer(text)]


def missing(source: str, answer: str) -> list[str]:
    """The pieces of the source that the answer does not have as often."""
    wanted = Counter(pieces(source))
    return list((wanted - Counter(pieces(answer))).elements()) if wanted else []


def strip(text: str) -> Stripped:
    """Take the pieces out; words that only a piece has separated get a space between them."""
    kept, end, found = "", 0, list[Piece]()
    for match in PIECE.finditer(text):
        first, last = match.span()
        kept = _join(kept, text[end:first], gap=bool(found))
        before, after = text[first - 1 : first], text[last : last + 1]
        spaces = (not before or before.isspace(), not after or after.isspace())
        adjoins = bool(found) and first == end
        found.append(Piece(match[0], len(kept), match["tag"] is not None, *spaces, adjoins))
        end = last
    kept = _join(kept, text[end:], gap=bool(found))
    return Stripped(kept.rstrip() if found else kept, tuple(found))


def _join(kept: str, more: str, *, gap: bool) -> str:
    """Two stretches of a text, between which a piece stood if `gap`."""
    if gap and (not kept or kept[-1].isspace()):
        return kept + more.removeprefix(" ")
    apart = gap and kept[-1:].isalnum() and more[:1].isalnum()
    return f"{kept} {more}" if apart else kept + more


def put_back(stripped: Stripped, answer: str, places: Sequence[float]) -> str:
    """The answer with every piece: a placeholder before the word whose source word followed it, tags around theirs.

    `places` has for each word of the answer the place in the stripped text that it comes from.
    """
    words = [match.span() for match in WORD.finditer(answer)]
    slots = _slots(stripped, places)
    result, end = "", 0
    for slot in range(len(words) + 1):
        start = words[slot][0] if slot < len(words) else len(answer)
        here = slots.get(slot, [])
        left = list(takewhile(lambda piece: piece.attached, here)) if slot else []
        word_end = words[slot - 1][1] if slot else 0
        result += answer[end:word_end] + "".join(piece.text for piece in left) + answer[word_end:start]
        result = _append(result, here[len(left) :], answer[start : start + 1])
        end = start
    return result


def _slots(stripped: Stripped, places: Sequence[float]) -> dict[int, list[Piece]]:
    """The pieces before each word of the answer, in order; those behind the last come under the number of words."""
    found = stripped.pieces
    pairs = _pairs(found)
    slots = [_slot(piece.place, stripped.text, places) for piece in found]
    for start, end in pairs.items():
        inside = [number for number, place in enumerate(places) if found[start].place <= place <= found[end].place]
        if inside:
            slots[start], slots[end] = inside[0], inside[-1] + 1
    ends_first = {end for start, end in pairs.items() if slots[start] < slots[end]}
    order = sorted(range(len(found)), key=lambda number: (slots[number], number not in ends_first, number))
    if not _nested(order, pairs):  # the words of two pairs are mixed: then the tags keep their order
        tags = [number for number, piece in enumerate(found) if piece.tag]
        for number, slot in zip(tags, accumulate((slots[number] for number in tags), max), strict=True):
            slots[number] = slot
        order = sorted(range(len(found)), key=lambda number: (slots[number], number))
    by_slot: dict[int, list[Piece]] = {}
    for number in order:
        by_slot.setdefault(slots[number], []).append(found[number])
    return by_slot


def _pairs(found: Sequence[Piece]) -> dict[int, int]:
    """The numbers of tags that begin and end an element."""
    open_tags, names = list[int](), list[str]()
    pairs = {}
    for number, piece in enumerate(found):
        if piece.is_end and piece.name in names:
            depth = len(names) - 1 - names[::-1].index(piece.name)
            pairs[open_tags[depth]] = number
            del open_tags[depth:], names[depth:]
        elif piece.tag and not piece.is_end:
            open_tags.append(number)
            names.append(piece.name)
    return pairs


def _nested(order: Sequence[int], pairs: Mapping[int, int]) -> bool:
    """In this order every element ends within the one it begins in."""
    expected, ends = list[int](), set(pairs.values())
    for number in order:
        if number in pairs:
            expected.append(pairs[number])
        elif number in ends and (not expected or expected.pop() != number):
            return False
    return True


def _slot(place: int, source: str, places: Sequence[float]) -> int:
    """The number of the word before which a piece from this place belongs."""
    if place == 0 and source:
        return 0
    if place >= len(source):
        return len(places)
    return next((index for index, centre in enumerate(places) if centre >= place), len(places))


def _append(text: str, added: Sequence[Piece], following: str) -> str:
    """The text with pieces behind it; spaces stand where they stood, and around placeholders."""
    for number, piece in enumerate(added):
        close = number > 0 and (piece.adjoins or (piece.tag and added[number - 1].tag))
        apart = (piece.space_before or not piece.tag) and not close
        text += f" {piece.text}" if apart and text and not text[-1].isspace() else piece.text
    if added and following and not following.isspace():
        text += " " if added[-1].space_after or (not added[-1].tag and following.isalnum()) else ""
    return text


def align_words(stripped: Stripped, answer: Generation) -> list[float]:
    """For each word of the answer its place in the stripped text: the middle of the token it attends to most.

    Without attention the n-th share of the answer belongs to the n-th share of the source.
    """
    words, size = [match.span() for match in WORD.finditer(answer.text)], len(stripped.text)
    written, read = _token_spans(answer.tokens, len(answer.text)), _token_spans(answer.source_tokens, size)
    if answer.weights is None or not written or not read:
        return [(start + end) / 2 / len(answer.text) * size for start, end in words]
    found = []
    for start, end in words:
        rows = [row for row, (first, last) in enumerate(written) if first < end and last > start]
        total = answer.weights[rows, : len(read)].sum(axis=0)
        found.append(sum(read[int(total.argmax())]) / 2)
    return found


def _token_spans(symbols: Sequence[str], length: int) -> list[tuple[float, float]]:
    """The stretch of each token but </s> in a text of this length, by the length of its symbol."""
    ends = list(accumulate(len(symbol) for symbol in symbols if symbol != SPECIALS[EOS]))
    scale = length / ends[-1] if ends else 1.0
    return [(first * scale, last * scale) for first, last in pairwise([0, *ends])]


def glossary_phrases(glossary: Mapping[str, str], text: str) -> list[str]:
    """The values of those entries whose key occurs in the text as a word; where keys overlap, the longest counts."""
    keys = sorted(glossary, key=len, reverse=True)
    if not keys:
        return []
    matches = regex.finditer("|".join(map(_as_word, keys)), PIECE.sub("\n", text), regex.V1)
    return list(dict.fromkeys(glossary[match[0]] for match in matches))


def lost_phrases(phrases: Sequence[str], answer: str) -> list[str]:
    """The phrases that do not occur in the answer as words."""
    return [phrase for phrase in phrases if not regex.search(_as_word(phrase), answer, regex.V1)]


def _as_word(phrase: str) -> str:
    """The pattern of a phrase that is not a part of longer words."""
    before = rf"(?<!{LETTER})" if regex.match(LETTER, phrase[0], regex.V1) else ""
    after = rf"(?!{LETTER})" if regex.match(LETTER, phrase[-1], regex.V1) else ""
    return f"{before}{regex.escape(phrase)}{after}"


@dataclass(frozen=True)
class Asked:
    """An input, and the terms that its answer must have."""

    given: str  # as the client has sent it; empty if its pieces do not belong into the answer
    text: PreparedText
    phrases: list[str]


Search = Callable[[list[PreparedText], AnswerPipeline], list[WatchedAnswer]]


@dataclass(frozen=True)
class PieceSearch:
    """Answers whose flags say which placeholders, tags and terms of a glossary they lack.

    With `restore` an answer that lacks one is replaced by the answer to the text without all of them, into which they
    are put back.
    """

    generator: Generator
    pipeline: AnswerPipeline
    search: Search
    restore: bool

    def run(self, asked: list[Asked]) -> list[tuple[WatchedAnswer, PreparedText]]:
        """The answers in order, each with the text that it answers."""
        texts = [one.text for one in asked]
        found = self.search(texts, self.pipeline)
        lost = {row: missing(one.given, found[row].answer.text) for row, one in enumerate(asked)}
        again = [row for row, texts in lost.items() if texts and self.restore]
        for row, (restored, text) in zip(again, self._restored([asked[row] for row in again]), strict=True):
            found[row], texts[row] = restored, text
            lost[row] = missing(asked[row].given, restored.answer.text)
        for row, one in enumerate(asked):
            flags = _flags(lost[row], "is not in the answer")
            terms = lost_phrases(one.phrases, found[row].answer.text)
            flags += [f"glossary: {term!r} is not in the answer" for term in terms]
            found[row] = with_flags(found[row], flags)
        return list(zip(found, texts, strict=True))

    def _restored(self, asked: list[Asked]) -> list[tuple[WatchedAnswer, PreparedText]]:
        """Answers to the texts without their pieces, which are put back where the attention says."""
        if not asked:
            return []
        texts = [strip(one.given) for one in asked]
        pipeline = replace(self.pipeline, weights=self.generator.engine.has_attention)
        prefixes = [one.text.prefix for one in asked]
        fresh = self.generator.prepare([text.text for text in texts], prefixes, pipeline)
        # What is drawn depends on the whole text, not on others that are alike without their pieces.
        prepared = [replace(text, key=one.text.key) for text, one in zip(fresh, asked, strict=True)]
        rows = zip(texts, self.search(prepared, pipeline), prepared, strict=True)
        return [(_with_pieces(text, found), without) for text, found, without in rows]


def _with_pieces(text: Stripped, found: WatchedAnswer) -> WatchedAnswer:
    """An answer and its alternatives with the pieces, and a flag for each; attention is known for the first alone."""
    answer = found.answer
    unknown = [replace(answer, text=other.text, weights=None) for other in answer.alternatives[1:]]
    others = [
        replace(other, text=put_back(text, other.text, align_words(text, like)))
        for other, like in zip(answer.alternatives[1:], unknown, strict=True)
    ]
    whole = put_back(text, answer.text, align_words(text, answer))
    first = [replace(best, text=whole) for best in answer.alternatives[:1]]
    made = replace(found, answer=replace(answer, text=whole, alternatives=[*first, *others]))
    return with_flags(made, _flags([piece.text for piece in text.pieces], "was put back by its place"))


def _flags(found: list[str], fact: str) -> list[str]:
    """A flag for each different piece; beyond the first some, their number."""
    different = list(dict.fromkeys(found))
    flags = [f"placeholder: {piece[:SHOWN]} {fact}" for piece in different[:MOST_FLAGS]]
    more = len(different) - MOST_FLAGS
    return [*flags, f"placeholder: the same of {more:,} more"] if more > 0 else flags


def with_flags(found: WatchedAnswer, flags: list[str]) -> WatchedAnswer:
    """The answer with more flags."""
    return replace(found, answer=replace(found.answer, flags=[*found.answer.flags, *flags])) if flags else found
