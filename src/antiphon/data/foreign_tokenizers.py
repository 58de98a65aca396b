"""Tokenizers of other toolkits: sentencepiece models and byte-level BPE, with a separate vocabulary.

An inner tokenizer (Hugging Face `tokenizers`) splits a text, and the names of the pieces give the ids. So two inner
tokenizers, one for each side, can share one vocabulary, as they do in OPUS-MT.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Encoding

from antiphon.data.subwords import group_pieces, load_inner, piece_bytes, readable, whole_characters
from antiphon.data.tokenizers import SILENT, SPECIALS, UNK, Tokenizer

__all__ = ["UNKNOWN", "PieceTokenizer"]

FIRST = len(SPECIALS)
UNKNOWN = "\0unknown"  # what an inner tokenizer calls a piece that it does not know; no text spells it
BYTE = re.compile(r"<0x([0-9A-F]{2})>")
CODE = re.compile(r">>.*?<<")  # the language to translate into: >>fra<<


class PieceTokenizer(Tokenizer):
    """`pieces` are the names of the ids from 4 on.

    `silent` are special pieces, which are never encoded from or decoded to text; `lead` are those of them that stand
    before every text but the empty one: every text of BART begins with <s>.
    """

    def __init__(
        self, kind: str, pieces: Sequence[str], model: str, lead: Sequence[str], silent: Sequence[str]
    ) -> None:
        self.kind = kind
        self._pieces, self._lead, self._silent = list(pieces), list(lead), list(silent)
        self._inner = load_inner(model)
        self._alphabet = _Alphabet.of(json.loads(model))
        numbers = {piece: number for number, piece in enumerate(pieces, start=FIRST)}
        self._before = [numbers[piece] for piece in lead]
        hidden = set(silent)
        self._unspoken = {*SILENT, *(numbers[piece] for piece in hidden)}
        self._ids = {piece: number for piece, number in numbers.items() if number not in self._unspoken}
        self._has_codes = any(CODE.fullmatch(piece) for piece in pieces)
        self._bytes = [special.encode() for special in SPECIALS]
        self._bytes += [piece.encode() if piece in hidden else self._alphabet.bytes_of(piece) for piece in pieces]
        self.size = len(self._bytes)

    def encode(self, text: str) -> list[int]:
        return self._to_ids(self._pieces_of(text))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        parts = [self._split_code(text) for text in texts]
        encodings = self._inner.encode_batch([rest for _, rest in parts])
        rows = zip(parts, encodings, strict=True)
        return [self._to_ids([*code, *_names(encoding, rest)]) for (code, rest), encoding in rows]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the pieces; bytes that are not UTF-8 become U+FFFD."""
        spoken = b"".join(self._bytes[number] for number in ids if number not in self._unspoken)
        return self._alphabet.trimmed(spoken.decode("utf-8", "replace"))

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return [readable(self._bytes[number]) for number in ids]

    def words(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        special = {*self._unspoken, UNK}
        return group_pieces([None if number in special else self._bytes[number] for number in ids])

    def unknown(self, text: str) -> list[str]:
        """The parts of the text that are no piece."""
        return [piece for piece in self._pieces_of(text) if piece not in self._ids]

    def content(self) -> dict[str, Any]:
        model = json.loads(self._inner.to_str())
        return {"pieces": self._pieces, "lead": self._lead, "silent": self._silent, "model": model}

    def _to_ids(self, pieces: Iterable[str]) -> list[int]:
        ids = [self._ids.get(piece, UNK) for piece in pieces]
        return [*self._before, *ids] if ids else []

    def _pieces_of(self, text: str) -> list[str]:
        code, rest = self._split_code(text)
        return [*code, *_names(self._inner.encode(rest), rest)]

    def _split_code(self, text: str) -> tuple[list[str], str]:
        """The language code in front of a text, if the model has several target languages, and the rest."""
        whole = whole_characters(text)
        code = CODE.match(whole) if self._has_codes else None
        return ([code[0]], whole[code.end() :]) if code else ([], whole)


class _Alphabet:
    """The spelling of pieces: bytes as characters (GPT-2, BART), or ▁ for a space (sentencepiece)."""

    def __init__(self, *, bytewise: bool, prefixed: bool, fallback: bool) -> None:
        self.bytewise = bytewise
        self.prefixed = prefixed  # a text gets a space in front
        self.fallback = fallback  # <0x0A> is a byte

    @classmethod
    def of(cls, content: dict[str, Any]) -> _Alphabet:
        """The alphabet of an inner tokenizer, from its JSON."""
        before = content.get("pre_tokenizer") or {}
        return cls(
            bytewise=before.get("type") == "ByteLevel",
            prefixed=bool(before.get("add_prefix_space")),
            fallback=bool(content["model"].get("byte_fallback")),
        )

    def bytes_of(self, piece: str) -> bytes:
        if self.bytewise:
            return piece_bytes(piece)
        byte = BYTE.fullmatch(piece) if self.fallback else None
        return bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()

    def trimmed(self, text: str) -> str:
        """The text without the spaces that encoding has added."""
        if not self.bytewise:
            return text.strip(" ")
        return text.removeprefix(" ") if self.prefixed else text


def _names(encoding: Encoding, text: str) -> list[str]:
    """The names of the pieces. One unknown to the inner tokenizer is its text: the other side may know it."""
    named = zip(encoding.tokens, encoding.offsets, strict=True)
    return [text[start:end] if piece == UNKNOWN else piece for piece, (start, end) in named]
