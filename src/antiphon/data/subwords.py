"""BPE and unigram over bytes, through Hugging Face `tokenizers`.

Text gets one space in front, so that a word has the same tokens at the start as elsewhere; decoding removes exactly
one space. With all 256 bytes in the vocabulary every text comes back unchanged.
Ids are those of the inner tokenizer + 4: the specials are not registered with it, so no text can spell them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import regex
from tokenizers import Tokenizer as Inner
from tokenizers import models, normalizers, pre_tokenizers, trainers

from antiphon.config.schema import TextConfig
from antiphon.data.tokenizers import SILENT, SPECIALS, Tokenizer
from antiphon.errors import DataError

__all__ = [
    "SubwordTokenizer", "group_pieces", "load_inner", "piece_bytes", "readable", "train_subwords", "whole_characters",
]  # fmt: skip

FIRST = len(SPECIALS)
BYTES = 256
CHARACTER = 4  # bytes of the longest in UTF-8
# How the unigram trainer marks the bytes it never kept: the lowest score plus 0.0001 for each, in random order.
FILLER_STEP = 0.0001


class SubwordTokenizer(Tokenizer):
    """Pieces of words; `characters` are those training saw often enough."""

    def __init__(self, kind: str, characters: str, model: str) -> None:
        self.kind = kind
        self._characters = frozenset(characters)
        self._inner = load_inner(model)
        pieces = sorted(self._inner.get_vocab().items(), key=lambda item: item[1])
        self._bytes = [special.encode() for special in SPECIALS] + [piece_bytes(piece) for piece, _ in pieces]
        self.size = len(self._bytes)

    def encode(self, text: str) -> list[int]:
        return [number + FIRST for number in self._inner.encode(whole_characters(text)).ids]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._inner.encode_batch_fast([whole_characters(text) for text in texts])
        return [[number + FIRST for number in encoding.ids] for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the pieces; bytes that are not UTF-8 become U+FFFD."""
        text = b"".join(self._bytes[number] for number in ids if number not in SILENT).decode("utf-8", "replace")
        return text.removeprefix(" ")

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return [readable(self._bytes[number]) for number in ids]

    def words(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        return group_pieces([None if number < FIRST else self._bytes[number] for number in ids])

    def unknown(self, text: str) -> list[str]:
        """The characters (code points) that training did not see, or too rarely."""
        return [character for character in whole_characters(text) if character not in self._characters]

    def content(self) -> dict[str, Any]:
        return {"characters": "".join(sorted(self._characters)), "model": json.loads(self._inner.to_str())}


def load_inner(model: str) -> Inner:
    """The inner tokenizer of its JSON; ValueError if it is damaged."""
    try:
        return Inner.from_str(model)
    except Exception as error:  # the Rust side raises plain Exception
        raise ValueError(f"tokenizers cannot read the model: {error}") from error


def readable(piece: bytes) -> str:
    """A piece for people: spaces as ▁, parts of a character in hex (\\xe2)."""
    return piece.decode("utf-8", "backslashreplace").replace(" ", "▁")


# Letters, digits and what stands inside a word; scripts that write no spaces between words.
IN_WORD = regex.compile(r"[\p{L}\p{M}\p{N}'’_-]")
UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


def group_pieces(pieces: Sequence[bytes | None]) -> list[tuple[int, int]]:
    """The first and last index of each word of a text in pieces; None is a special token, which stands alone.

    A word ends before a space and beside punctuation. Pieces of scripts without spaces stand alone, but the bytes of
    one character never do.
    """
    groups: list[tuple[int, int]] = []
    before = b""
    for index, piece in enumerate(pieces):
        after = b"".join(follower or b" " for follower in pieces[index : index + CHARACTER])
        if piece and before and _within_word(before, after):
            groups[-1] = (groups[-1][0], index)
        else:
            groups.append((index, index))
        before = (before + piece)[-CHARACTER:] if piece else b""
    return groups


def _within_word(before: bytes, after: bytes) -> bool:
    """True if no word ends between the bytes of a piece and those behind it."""
    if after[0] & 0xC0 == 0x80:  # in the middle of a character
        return True
    left, right = before.decode("utf-8", "replace")[-1], after.decode("utf-8", "replace")[0]
    if left == " " or right == " ":
        return right != " "
    if UNSPACED.match(left) and UNSPACED.match(right):
        return False
    return bool(IN_WORD.match(left) and IN_WORD.match(right))


def train_subwords(texts: Iterable[str], config: TextConfig, where: str) -> SubwordTokenizer:
    """Learn config.vocabulary pieces, and remember the characters seen at least config.min_count times."""
    if config.vocabulary <= BYTES:
        raise DataError(
            f"{where}.vocabulary: {config.vocabulary} is too small for {config.tokens}, which begins with all "
            f"{BYTES} bytes; set it to more than {BYTES}, or choose tokens: characters"
        )
    characters: Counter[str] = Counter()
    inner = _train(_count_characters(texts, characters), config)
    if not characters:
        raise DataError(f"{where}: no text to learn {config.tokens} from; add examples")
    frequent = (character for character, count in characters.items() if count >= config.min_count)
    model = inner.to_str() if config.tokens == "bpe" else _deterministic(inner.to_str())
    return SubwordTokenizer(config.tokens, "".join(sorted(frequent)), model)


def whole_characters(text: str) -> str:
    """The text with halves of surrogate pairs (which no UTF-8 can hold) as U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _count_characters(texts: Iterable[str], characters: Counter[str]) -> Iterator[str]:
    for text in texts:
        characters.update(text)
        yield text


def _train(texts: Iterator[str], config: TextConfig) -> Inner:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer: trainers.Trainer
    if config.tokens == "bpe":
        inner = Inner(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=config.vocabulary,
            min_frequency=config.min_count,
            initial_alphabet=alphabet,
            show_progress=False,
        )
    else:
        inner = Inner(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=config.vocabulary, initial_alphabet=alphabet, show_progress=False)
    inner.normalizer = normalizers.Prepend(" ")
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    inner.train_from_iterator(texts, trainer=trainer)
    return inner


def _deterministic(model: str) -> str:
    """A unigram model without the random order of its trainer's hash tables: the same texts give the same file.

    The filler scores of bytes become equal, scores are rounded, and pieces with equal scores are sorted.
    """
    content = json.loads(model)
    pieces: list[tuple[str, float]] = [(piece, score) for piece, score in content["model"]["vocab"]]
    lowest = min(score for _, score in pieces)
    filler = lowest + FILLER_STEP * (BYTES + 1)
    equal = [(piece, lowest if len(piece) == 1 and score < filler else score) for piece, score in pieces]
    rounded = [(piece, round(score, 6)) for piece, score in equal]
    content["model"]["vocab"] = sorted(rounded, key=lambda item: (-item[1], item[0]))
    return json.dumps(content, ensure_ascii=False)


def _byte_table() -> dict[str, int]:
    """The byte-level alphabet: printable bytes stand for themselves, the others for characters from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(BYTES) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(BYTES + number): byte for number, byte in enumerate(others)}


BYTE_OF = _byte_table()


def piece_bytes(piece: str) -> bytes:
    """The bytes of a piece in the byte-level alphabet."""
    return bytes(BYTE_OF[character] for character in piece)
