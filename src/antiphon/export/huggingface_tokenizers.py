"""The tokenizers of a folder of `transformers`, and which of their rows each of our ids is.

Here every vocabulary begins with <pad>, <s>, </s>, <unk>; there they stand anywhere. So ids change and pieces stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Inner
from tokenizers import models, pre_tokenizers

from antiphon.data.build_tokenizer import SOURCE_TOKENIZER, TARGET_TOKENIZER, load_tokenizer
from antiphon.data.foreign_tokenizers import UNKNOWN as NO_PIECE
from antiphon.data.foreign_tokenizers import PieceTokenizer
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.huggingface_architecture import Architecture, read_json
from antiphon.export.sentencepiece_models import inner_tokenizer, read_spm

__all__ = ["Side", "sides_of"]

UNKNOWN, LEAD, MASK = "<unk>", "<s>", "<mask>"
OF_BART = {LEAD, "<pad>", "</s>", UNKNOWN, MASK}


@dataclass(frozen=True)
class Side:
    """One side of the pairs: its tokenizer here, and for each id the row that it has in their tables."""

    tokenizer: Tokenizer
    rows: list[int]
    start_is_copy: bool  # their decoder starts with a token that means something else, too


@dataclass(frozen=True)
class Cut:
    """How one side is cut there."""

    kind: str
    names: dict[str, int]  # piece → id
    model: str
    lead: tuple[str, ...] = ()


def sides_of(folder: Path, facts: Architecture, source_rows: int, target_rows: int) -> tuple[Side, Side]:
    """Source and target; their tables of vectors have so many rows."""
    if (folder / SOURCE_TOKENIZER).is_file() and (folder / TARGET_TOKENIZER).is_file():  # an export of Antiphon
        return _kept(folder / SOURCE_TOKENIZER, source_rows), _kept(folder / TARGET_TOKENIZER, target_rows)
    try:
        cuts = _marian(folder) if facts.model_type == "marian" else _bart(folder)
        return _sides(folder, facts, cuts, (source_rows, target_rows))
    except UserError:
        raise
    except Exception as error:  # of a file with other things in it; the Rust side raises plain Exception
        raise ModelFolderError(f"{folder}: its tokenizer cannot be read ({error}); copy the whole folder") from error


def _sides(folder: Path, facts: Architecture, cuts: tuple[Cut, Cut], rows: tuple[int, int]) -> tuple[Side, Side]:
    """Their specials have any names and ids; config.json says which they are."""
    called = {number: piece for piece, number in cuts[1].names.items()}
    ids = (facts.pad_token_id, facts.decoder_start_token_id, facts.eos_token_id)
    if unnamed := [number for number in ids if number not in called]:
        raise ModelFolderError(
            f"{folder}: config.json names the ids {unnamed}, which its vocabulary lacks; copy it again"
        )
    specials = [*(called[number] for number in ids), UNKNOWN]
    return _side(folder, cuts[0], specials, rows[0]), _side(folder, cuts[1], specials, rows[1])


def _kept(path: Path, rows: int) -> Side:
    """A tokenizer of our own, whose ids stay."""
    tokenizer = load_tokenizer(path)
    if tokenizer.size != rows:
        raise ModelFolderError(
            f"{path}: {tokenizer.size} tokens for a table of {rows} rows; copy the whole folder again"
        )
    return Side(tokenizer, list(range(rows)), start_is_copy=False)


def _side(folder: Path, cut: Cut, specials: list[str], rows: int) -> Side:
    """The four specials, then all other rows in their order; a row without a name is one that no text becomes."""
    pad, start, end, unknown = specials
    missing = [name for name in (pad, end, unknown) if cut.names.get(name, rows) >= rows]
    if missing:
        raise ModelFolderError(f"{folder}: its vocabulary of {rows} rows has no {', '.join(missing)}; copy it again")
    if beyond := [name for name, number in cut.names.items() if number >= rows and name != MASK]:
        raise ModelFolderError(
            f"{folder}: its vocabulary names {len(beyond)} pieces beyond its table of {rows} rows, such as "
            f"{beyond[0]!r}; copy the whole folder again"
        )
    own = [cut.names[name] for name in (pad, end, unknown)]
    first = cut.names.get(start, own[0])
    copied = first in own or start in cut.lead
    taken = set(own) if copied else {*own, first}
    others = [number for number in range(rows) if number not in taken]
    called = {number: piece for piece, number in cut.names.items()}
    names = [called.get(number, f"<unused {number}>") for number in others]
    silent = [name for name in names if name not in cut.names or name in cut.lead or name == MASK]
    tokenizer = PieceTokenizer(cut.kind, names, cut.model, cut.lead, silent)
    return Side(tokenizer, [own[0], first, own[1], own[2], *others], start_is_copy=copied)


def _marian(folder: Path) -> tuple[Cut, Cut]:
    """source.spm and target.spm cut, vocab.json has the ids; with separate_vocabs the target has its own."""
    settings = folder / "tokenizer_config.json"
    apart = settings.is_file() and bool(read_json(settings).get("separate_vocabs"))
    names = _ids(folder / "vocab.json")
    target_names = _ids(folder / "target_vocab.json") if apart else names
    source, target = read_spm(folder / "source.spm"), read_spm(folder / "target.spm")
    return (
        Cut(source.name, names, inner_tokenizer(source).to_str()),
        Cut(target.name, target_names, inner_tokenizer(target).to_str()),
    )


def _bart(folder: Path) -> tuple[Cut, Cut]:
    """Byte-level BPE, from tokenizer.json or from vocab.json and merges.txt."""
    path = folder / "tokenizer.json"
    if path.is_file():
        names, model, prefixed = _from_tokenizer_json(path)
    else:
        names, model, prefixed = _from_merges(folder)
    vocabulary = {**model["vocab"], NO_PIECE: max(model["vocab"].values()) + 1}
    inner = Inner(models.BPE(vocabulary, model["merges"], unk_token=NO_PIECE))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed, use_regex=True)
    cut = Cut("bpe", names, inner.to_str(), lead=(LEAD,))
    return cut, cut


def _ids(path: Path) -> dict[str, int]:
    """A vocabulary: piece → id."""
    names = read_json(path)
    if wrong := [name for name, number in names.items() if type(number) is not int or number < 0]:
        raise ModelFolderError(f"{path}: the id of {wrong[0]!r} is {names[wrong[0]]!r}; copy it again")
    return names


def _from_tokenizer_json(path: Path) -> tuple[dict[str, int], dict[str, Any], bool]:
    content = read_json(path)
    model, before = content.get("model") or {}, content.get("pre_tokenizer") or {}
    if model.get("type") != "BPE" or before.get("type") != "ByteLevel" or content.get("normalizer"):
        raise ModelFolderError(f"{path}: not the byte-level BPE of BART, which is all that can be imported")
    added = {one["content"]: one["id"] for one in content.get("added_tokens", [])}
    if others := sorted(set(added) - OF_BART):
        raise ModelFolderError(f"{path}: it has tokens of its own ({', '.join(others)}), which cannot be imported")
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"]]
    return (
        {**model["vocab"], **added},
        {"vocab": model["vocab"], "merges": merges},
        bool(before.get("add_prefix_space")),
    )


def _from_merges(folder: Path) -> tuple[dict[str, int], dict[str, Any], bool]:
    names, path = _ids(folder / "vocab.json"), folder / "merges.txt"
    try:
        lines = path.read_text("utf-8").split("\n")
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); copy the whole folder") from error
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    settings = folder / "tokenizer_config.json"
    prefixed = settings.is_file() and bool(read_json(settings).get("add_prefix_space"))
    return names, {"vocab": names, "merges": merges}, prefixed
