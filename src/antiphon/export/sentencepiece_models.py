"""Turn a sentencepiece model into a tokenizer of `tokenizers` that cuts a text into the same pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers

from antiphon.data.foreign_tokenizers import UNKNOWN
from antiphon.errors import MissingExtraError, ModelFolderError

__all__ = ["convert_sentencepiece", "read_sentencepiece"]

NORMAL, USER_DEFINED, BYTE = 1, 4, 6  # SentencePiece.Type; the other types never occur in a tokenised text
UNIGRAM, BPE = 1, 2  # TrainerSpec.ModelType


def read_sentencepiece(path: Path) -> Any:  # noqa: ANN401 (a protobuf message has no types)
    """The ModelProto in a file such as source.spm."""
    try:
        from google.protobuf.message import DecodeError
        from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined] # made at import
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: sentencepiece and protobuf not installed; pip install 'antiphon[import]' installs them"
        ) from error
    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); copy the whole folder") from error
    except (DecodeError, ValueError) as error:
        raise ModelFolderError(f"{path}: not a sentencepiece model ({error}); copy it again") from error
    if not model.pieces:
        raise ModelFolderError(f"{path}: not a sentencepiece model (it has no pieces); copy it again")
    if problems := _unsupported(model):
        raise ModelFolderError([f"{path}: {problem}, which cannot be imported" for problem in problems])
    return model


def _unsupported(model: Any) -> list[str]:  # noqa: ANN401
    """Properties of a sentencepiece model that `tokenizers` cannot reproduce."""
    kind, problems = model.trainer_spec.model_type, []
    if kind not in (UNIGRAM, BPE):
        problems.append("it cuts into words or characters instead of unigram or BPE pieces")
    if model.trainer_spec.treat_whitespace_as_suffix:
        problems.append("it writes spaces at the end of a piece (treat_whitespace_as_suffix)")
    if kind == BPE and any(piece.type == USER_DEFINED for piece in model.pieces):
        problems.append("it is BPE with pieces that its user defined")
    return problems


def convert_sentencepiece(model: Any) -> tuple[str, Tokenizer]:  # noqa: ANN401
    """Its kind, `unigram` or `bpe`, and the tokenizer. Without a pre-tokenizer, a piece may contain a space."""
    pieces = [piece for piece in model.pieces if piece.type in (NORMAL, USER_DEFINED, BYTE)]
    byte_fallback = any(piece.type == BYTE for piece in pieces)
    unigram = model.trainer_spec.model_type == UNIGRAM
    if unigram:
        vocabulary = [(UNKNOWN, 0.0), *_unigram_scores(pieces)]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=byte_fallback))
    else:
        ids = {UNKNOWN: 0, **{piece.piece: number for number, piece in enumerate(pieces, start=1)}}
        options = {"unk_token": UNKNOWN, "fuse_unk": True, "byte_fallback": byte_fallback}
        tokenizer = Tokenizer(models.BPE(ids, _merges(pieces), **options))
    tokenizer.normalizer = _normalizer(model.normalizer_spec)
    return "unigram" if unigram else "bpe", tokenizer


def _unigram_scores(pieces: list[Any]) -> list[tuple[str, float]]:
    """A user-defined piece beats all others: unigram_model.cc computes its score by this formula."""
    highest = max((piece.score for piece in pieces if piece.type == NORMAL), default=0.0)
    return [
        (piece.piece, len(piece.piece.encode()) * highest - 0.1 if piece.type == USER_DEFINED else piece.score)
        for piece in pieces
    ]


def _merges(pieces: list[Any]) -> list[tuple[str, str]]:
    """Merge rules in order: sentencepiece merges the two neighbours whose concatenation has the highest score."""
    order = {piece.piece: number for number, piece in enumerate(pieces)}
    merges: list[tuple[float, int, int, str, str]] = []
    for piece in pieces:
        splits = ((piece.piece[:cut], piece.piece[cut:]) for cut in range(1, len(piece.piece)))
        known = [(order[left], order[right], left, right) for left, right in splits if left in order and right in order]
        merges += [(-piece.score, *split) for split in sorted(known)]
    return [(left, right) for _, _, _, left, right in sorted(merges, key=lambda merge: merge[0])]


def _normalizer(spec: Any) -> normalizers.Normalizer:  # noqa: ANN401
    charsmap = spec.precompiled_charsmap
    steps: list[normalizers.Normalizer] = [normalizers.Precompiled(charsmap)] if charsmap else []
    if spec.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" +"), " ")]
    if spec.add_dummy_prefix:
        steps.append(normalizers.Prepend("▁"))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
