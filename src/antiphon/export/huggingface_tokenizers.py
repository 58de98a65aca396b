"""The tokenizers of a `transformers` folder, and the row of their embedding tables for each of our ids.

Every vocabulary here begins with <pad>, <s>, </s>, <unk>; in `transformers` they can have any ids. So ids change and
pieces stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as HuggingFaceTokenizer
from tokenizers import models, pre_tokenizers

from antiphon.data.build_source import SOURCE_TOKENIZER, TARGET_TOKENIZER, load_tokenizer
from antiphon.data.foreign_tokenizers import UNKNOWN as NO_PIECE
from antiphon.data.foreign_tokenizers import PieceTokenizer
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.huggingface_architecture import Architecture, read_json
from antiphon.export.sentencepiece_models import convert_sentencepiece, read_sentencepiece

__all__ = ["ImportedTokenizer", "import_tokenizers"]

UNKNOWN, LEAD, MASK = "<unk>", "<s>", "<mask>"
BART_SPECIALS = {LEAD, "<pad>", "</s>", UNKNOWN, MASK}


@dataclass(frozen=True)
class ImportedTokenizer:
    """The tokenizer of the source or the target, and the row of each id in the imported embedding table."""

    tokenizer: Tokenizer
    rows: list[int]
    start_is_copy: bool  # the token that starts their decoder has a second meaning, such as padding


@dataclass(frozen=True)
class _Vocabulary:
    """A tokenizer of `transformers`: `model` (JSON) cuts a text into pieces, `ids` numbers them."""

    kind: str
    ids: dict[str, int]
    model: str
    lead: tuple[str, ...] = ()  # specials in front of every text


def import_tokenizers(
    folder: Path, architecture: Architecture, source_rows: int, target_rows: int
) -> tuple[ImportedTokenizer, ImportedTokenizer]:
    """The tokenizers of source and target, for embedding tables with these numbers of rows."""
    if (folder / SOURCE_TOKENIZER).is_file() and (folder / TARGET_TOKENIZER).is_file():  # an export of Antiphon
        return _own(folder / SOURCE_TOKENIZER, source_rows), _own(folder / TARGET_TOKENIZER, target_rows)
    try:
        source, target = _marian(folder) if architecture.model_type == "marian" else _bart(folder)
        specials = _specials(folder, architecture, target)
        return _renumbered(folder, source, specials, source_rows), _renumbered(folder, target, specials, target_rows)
    except UserError:
        raise
    except Exception as error:  # a file with unexpected content; the Rust side raises plain Exception
        raise ModelFolderError(f"{folder}: its tokenizer cannot be read ({error}); copy the whole folder") from error


def _own(path: Path, rows: int) -> ImportedTokenizer:
    """A tokenizer that Antiphon wrote; its ids stay."""
    tokenizer = load_tokenizer(path)
    if tokenizer.size != rows:
        raise ModelFolderError(
            f"{path}: {tokenizer.size} tokens for a table of {rows} rows; copy the whole folder again"
        )
    return ImportedTokenizer(tokenizer, list(range(rows)), start_is_copy=False)


def _specials(folder: Path, architecture: Architecture, target: _Vocabulary) -> list[str]:
    """Their names of <pad>, <s>, </s> and <unk>; config.json has the ids of the first three."""
    names = {number: piece for piece, number in target.ids.items()}
    ids = (architecture.pad_token_id, architecture.decoder_start_token_id, architecture.eos_token_id)
    if unnamed := [number for number in ids if number not in names]:
        raise ModelFolderError(
            f"{folder}: config.json names the ids {unnamed}, which its vocabulary lacks; copy it again"
        )
    return [*(names[number] for number in ids), UNKNOWN]


def _renumbered(folder: Path, vocabulary: _Vocabulary, specials: list[str], rows: int) -> ImportedTokenizer:
    """The four specials, then all other rows in their order. A row without a name encodes no text."""
    pad, start, end, unknown = specials
    ids, lead = vocabulary.ids, vocabulary.lead
    if missing := [name for name in (pad, end, unknown) if ids.get(name, rows) >= rows]:
        raise ModelFolderError(f"{folder}: its vocabulary of {rows} rows has no {', '.join(missing)}; copy it again")
    if beyond := [name for name, number in ids.items() if number >= rows and name != MASK]:
        raise ModelFolderError(
            f"{folder}: its vocabulary names {len(beyond)} pieces beyond its table of {rows} rows, such as "
            f"{beyond[0]!r}; copy the whole folder again"
        )
    own = [ids[name] for name in (pad, end, unknown)]
    first = ids.get(start, own[0])
    copied = first in own or start in lead
    taken = set(own) if copied else {*own, first}
    others = [number for number in range(rows) if number not in taken]
    names = {number: piece for piece, number in ids.items()}
    pieces = [names.get(number, f"<unused {number}>") for number in others]
    silent = [piece for piece in pieces if piece not in ids or piece in lead or piece == MASK]
    tokenizer = PieceTokenizer(vocabulary.kind, pieces, vocabulary.model, lead, silent)
    return ImportedTokenizer(tokenizer, [own[0], first, own[1], own[2], *others], start_is_copy=copied)


def _marian(folder: Path) -> tuple[_Vocabulary, _Vocabulary]:
    """source.spm and target.spm cut, vocab.json has the ids; with separate_vocabs the target has its own."""
    ids = _ids(folder / "vocab.json")
    target_ids = _ids(folder / "target_vocab.json") if _setting(folder, "separate_vocabs") else ids
    return _sentencepiece(folder / "source.spm", ids), _sentencepiece(folder / "target.spm", target_ids)


def _sentencepiece(path: Path, ids: dict[str, int]) -> _Vocabulary:
    kind, tokenizer = convert_sentencepiece(read_sentencepiece(path))
    return _Vocabulary(kind, ids, tokenizer.to_str())


def _bart(folder: Path) -> tuple[_Vocabulary, _Vocabulary]:
    """Byte-level BPE, from tokenizer.json or from vocab.json and merges.txt."""
    path = folder / "tokenizer.json"
    ids, pieces, merges, prefixed = _tokenizer_json(path) if path.is_file() else _merges_txt(folder)
    bpe = models.BPE({**pieces, NO_PIECE: max(pieces.values()) + 1}, merges, unk_token=NO_PIECE)
    tokenizer = HuggingFaceTokenizer(bpe)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed, use_regex=True)
    vocabulary = _Vocabulary("bpe", ids, tokenizer.to_str(), lead=(LEAD,))
    return vocabulary, vocabulary


def _ids(path: Path) -> dict[str, int]:
    """A vocabulary: piece → id."""
    ids = read_json(path)
    if wrong := [name for name, number in ids.items() if type(number) is not int or number < 0]:
        raise ModelFolderError(f"{path}: the id of {wrong[0]!r} is {ids[wrong[0]]!r}; copy it again")
    return ids


def _setting(folder: Path, key: str) -> bool:
    """A switch in tokenizer_config.json; False without it."""
    path = folder / "tokenizer_config.json"
    return path.is_file() and bool(read_json(path).get(key))


# Ids of all tokens, ids of the pieces alone, merges, and whether a text is given a space in front.
ByteLevelBPE = tuple[dict[str, int], dict[str, int], list[Any], bool]


def _tokenizer_json(path: Path) -> ByteLevelBPE:
    content = read_json(path)
    model, before = content.get("model") or {}, content.get("pre_tokenizer") or {}
    if model.get("type") != "BPE" or before.get("type") != "ByteLevel" or content.get("normalizer"):
        raise ModelFolderError(f"{path}: not the byte-level BPE of BART, which is all that can be imported")
    added = {token["content"]: token["id"] for token in content.get("added_tokens", [])}
    if others := sorted(set(added) - BART_SPECIALS):
        raise ModelFolderError(f"{path}: it has tokens of its own ({', '.join(others)}), which cannot be imported")
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
    return {**model["vocab"], **added}, model["vocab"], merges, bool(before.get("add_prefix_space"))


def _merges_txt(folder: Path) -> ByteLevelBPE:
    ids, path = _ids(folder / "vocab.json"), folder / "merges.txt"
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); copy the whole folder") from error
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    return ids, ids, merges, _setting(folder, "add_prefix_space")
