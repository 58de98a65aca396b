"""Reads a sentencepiece model, and makes a tokenizer of `tokenizers` that cuts as it does.

The file is a protobuf message, ModelProto of sentencepiece_model.proto; only its few fields that matter are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tokenizers import Regex, Tokenizer, models, normalizers

from antiphon.data.foreign_tokenizers import UNKNOWN
from antiphon.errors import ModelFolderError

__all__ = ["Piece", "SentencePieceModel", "inner_tokenizer", "read_spm"]

NORMAL, USER_DEFINED, BYTE = 1, 4, 6  # SentencePiece.Type; the others are never cut from a text
UNIGRAM, BPE = 1, 2  # TrainerSpec.ModelType
VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5  # wire types
BITS = 64  # of the largest number


class Piece(NamedTuple):
    text: str
    score: float
    kind: int


@dataclass(frozen=True)
class SentencePieceModel:
    """What decides how a text is cut."""

    pieces: list[Piece]
    kind: int  # UNIGRAM or BPE
    charsmap: bytes  # the compiled table of the normaliser; empty: none
    dummy_prefix: bool  # a text begins with a space
    trims: bool  # no space before or after a text, and never two

    @property
    def name(self) -> str:
        return {UNIGRAM: "unigram", BPE: "bpe"}[self.kind]


def read_spm(path: Path) -> SentencePieceModel:
    """A file such as source.spm."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); copy the whole folder") from error
    try:
        model = _model(content)
        problems = _problems(model, content)
    except (ValueError, IndexError, TypeError, struct.error) as error:
        raise ModelFolderError(f"{path}: not a sentencepiece model ({error}); copy it again") from error
    if problems:
        raise ModelFolderError([f"{path}: {problem}, which cannot be imported" for problem in problems])
    return model


def inner_tokenizer(model: SentencePieceModel) -> Tokenizer:
    """Cuts a text into the same pieces. The text is one word to it: a piece may have a space inside."""
    spoken = [piece for piece in model.pieces if piece.kind in (NORMAL, USER_DEFINED, BYTE)]
    fallback = any(piece.kind == BYTE for piece in spoken)
    inner: Tokenizer
    if model.kind == UNIGRAM:
        highest = max((piece.score for piece in spoken if piece.kind == NORMAL), default=0.0)
        scores = [(piece.text, _score(piece, highest)) for piece in spoken]
        inner = Tokenizer(models.Unigram([(UNKNOWN, 0.0), *scores], unk_id=0, byte_fallback=fallback))
    else:
        names = {piece.text: number for number, piece in enumerate(spoken, start=1)}
        inner = Tokenizer(
            models.BPE({UNKNOWN: 0, **names}, _merges(spoken), unk_token=UNKNOWN, fuse_unk=True, byte_fallback=fallback)
        )
    inner.normalizer = _normalizer(model)
    return inner


def _score(piece: Piece, highest: float) -> float:
    """A piece that the user named beats all others: unigram_model.cc gives it this score."""
    return len(piece.text.encode()) * highest - 0.1 if piece.kind == USER_DEFINED else piece.score


def _merges(pieces: list[Piece]) -> list[tuple[str, str]]:
    """sentencepiece merges the two neighbours whose sum has the highest score; `tokenizers` wants them as a list."""
    order = {piece.text: number for number, piece in enumerate(pieces)}
    found = []
    for piece in pieces:
        halves = ((piece.text[:cut], piece.text[cut:]) for cut in range(1, len(piece.text)))
        known = [(order[left], order[right], left, right) for left, right in halves if left in order and right in order]
        found += [(-piece.score, *one) for one in sorted(known)]
    return [(left, right) for _, _, _, left, right in sorted(found, key=lambda one: one[0])]


def _normalizer(model: SentencePieceModel) -> normalizers.Normalizer:
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.trims:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" +"), " ")]
    if model.dummy_prefix:
        steps.append(normalizers.Prepend("▁"))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])


def _model(content: bytes) -> SentencePieceModel:
    pieces, kind, charsmap, prefix, trims = [], UNIGRAM, b"", True, True
    for field, value in _fields(content):
        if field == 1:  # pieces
            pieces.append(_piece(_bytes(value)))
        elif field == 2:  # trainer_spec
            kind = next((int(one) for number, one in _fields(_bytes(value)) if number == 3), UNIGRAM)
        elif field == 3:  # normalizer_spec
            spec = dict(_fields(_bytes(value)))
            charsmap, prefix, trims = _bytes(spec.get(2, b"")), bool(spec.get(3, 1)), bool(spec.get(4, 1))
    if not pieces:
        raise ValueError("it has no pieces")
    return SentencePieceModel(pieces, kind, charsmap, dummy_prefix=prefix, trims=trims)


def _piece(content: bytes) -> Piece:
    fields = dict(_fields(content))
    [score] = struct.unpack("<f", _bytes(fields.get(2, b"\0\0\0\0")))
    return Piece(_bytes(fields.get(1, b"")).decode("utf-8"), score, int(fields.get(3, NORMAL)))


def _problems(model: SentencePieceModel, content: bytes) -> list[str]:
    """What `tokenizers` cannot do."""
    problems = []
    trainer = dict(_fields(_bytes(dict(_fields(content)).get(2, b""))))
    if model.kind not in (UNIGRAM, BPE):
        problems.append("it cuts into words or characters instead of unigram or BPE pieces")
    if trainer.get(24):
        problems.append("it writes spaces at the end of a piece (treat_whitespace_as_suffix)")
    if model.kind == BPE and any(piece.kind == USER_DEFINED for piece in model.pieces):
        problems.append("it is BPE with pieces that its user defined")
    return problems


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a number stands where a text should")
    return value


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a message: a number, or the bytes of anything else."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        field, wire = key >> 3, key & 7
        if wire == VARINT:
            number, place = _varint(content, place)
            yield field, number
            continue
        if wire not in (FIXED_64, LENGTH, FIXED_32):
            raise ValueError(f"there is no wire type {wire}")
        length, place = _varint(content, place) if wire == LENGTH else ({FIXED_64: 8, FIXED_32: 4}[wire], place)
        if place + length > len(content):
            raise ValueError("it ends too early")
        yield field, content[place : place + length]
        place += length


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    number = 0
    for shift in range(0, BITS, 7):
        byte = content[place]
        number, place = number | (byte & 0x7F) << shift, place + 1
        if byte < 0x80:
            return number, place
    raise ValueError(f"a number has more than {BITS} bits")
