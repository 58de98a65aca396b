"""Tokenizers: learnt from texts, read from a model folder, or taken from another run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.config.load import read_config
from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data.tokenizers import FORMAT, SYMBOLS, Tokenizer, damaged, read_json
from antiphon.errors import ConfigError, DataError, ModelFolderError

__all__ = [
    "SOURCE_TOKENIZER",
    "TARGET_TOKENIZER",
    "ReusedTokenizers",
    "build_tokenizer",
    "load_tokenizer",
    "reused_tokenizers",
    "train_tokenizer",
]


def train_tokenizer(
    texts: Iterable[str], config: TextConfig, where: str = "tokenizer", always: Sequence[str] = ()
) -> Tokenizer:
    """Learn a vocabulary; the same texts always give the same one. `where` is the path in the config, for errors.

    `always` are characters, letters or words that are known however rare they are; they take the places of the rarest.
    """
    if config.tokens in ("bpe", "unigram"):
        from antiphon.data.subwords import train_subwords

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


def load_tokenizer(path: Path) -> Tokenizer:
    """Read what `save` wrote."""
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise ModelFolderError(f"{path}: not a tokenizer of format {FORMAT}; use the version of Antiphon that wrote it")
    with damaged(path):
        return build_tokenizer(content)


def build_tokenizer(content: dict[str, Any]) -> Tokenizer:
    """What a tokenizer says of itself, as a tokenizer."""
    kind = content["kind"]
    if "pieces" in content:
        from antiphon.data.foreign_tokenizers import PieceTokenizer

        model = json.dumps(content["model"])
        return PieceTokenizer(kind, content["pieces"], model, content["lead"], content["silent"])
    if kind in ("bpe", "unigram"):
        from antiphon.data.subwords import SubwordTokenizer

        return SubwordTokenizer(kind, content["characters"], json.dumps(content["model"]))
    _, tokenizer = SYMBOLS[kind]
    symbols = content["symbols"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise ValueError("symbols is not a list of strings")
    return tokenizer(symbols)


# Tokenizers that are not learnt from train but taken from another run: data.source.tokenizer and the target's.

SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"

Side = str  # source (of several source[0], source[1], ..) or target
ReusedTokenizers = dict[Side, Tokenizer]


def reused_tokenizers(data: DataConfig) -> ReusedTokenizers:
    """The tokenizer of each side that names a run; ConfigError with all that does not fit."""
    names = [data.place(number).removeprefix("data.") for number in range(len(data.sources))]
    given: ReusedTokenizers = {}
    problems: list[str] = []
    for side, config in [*zip(names, data.sources, strict=True), ("target", data.target)]:
        if isinstance(config, TextConfig) and config.tokenizer is not None:
            try:
                given[side] = _taken(side, config, config.tokenizer)
            except ConfigError as error:
                problems += error.problems
    problems += [] if problems else [*_two_for_one(data, given), *_no_line_end(data, given)]
    if problems:
        raise ConfigError(problems)
    return given


def _taken(side: Side, config: TextConfig, run: str) -> Tokenizer:
    """The tokenizer of a run: of a language model its only one, else that of the same side."""
    key, folder = f"data.{side}.tokenizer", Path(run)
    if not folder.is_dir():
        raise ConfigError(f"{key}: {run}: no such folder; give a run that has been trained, or null")
    there = _section(key, folder, side)
    try:
        tokenizer = load_tokenizer(folder / (SOURCE_TOKENIZER if there.of_source else TARGET_TOKENIZER))
    except ModelFolderError as error:
        raise ConfigError([f"{key}: {problem}" for problem in error.problems]) from error
    if problems := _at_odds(side, config, tokenizer, there.config):
        raise ConfigError(problems)
    return tokenizer


class There(NamedTuple):
    """How the tokenizer of a run was learnt, and from which side."""

    config: TextConfig
    of_source: bool


def _section(key: str, folder: Path, side: Side) -> There:
    path = folder / "config.yaml"
    try:
        data = read_config(path, notices=False).data
    except ConfigError as error:
        problems = [one.removeprefix(f"{path}: ") for one in error.problems]
        raise ConfigError([f"{key}: {path}: {one}" for one in problems]) from error
    if side != "target" and data.text is not None:
        return There(data.text, of_source=True)
    if side != "target" and data.source is not None:
        raise ConfigError(f"{key}: {folder} reads no single text, so it has no tokenizer for one; give another run")
    return There(data.target, of_source=False)


def _at_odds(side: Side, config: TextConfig, tokenizer: Tokenizer, learnt: TextConfig) -> list[str]:
    """How a tokenizer is learnt has no effect on one that is there: such keys say what it is, or their default."""
    problems = []
    if config.tokens != tokenizer.kind:
        problems.append(
            f"data.{side}.tokens: {config.tokens}, but the tokenizer of {config.tokenizer} is one of {tokenizer.kind}; "
            f"set it to {tokenizer.kind}, or data.{side}.tokenizer to null"
        )
    for key in ("vocabulary", "min_count"):
        value, usual = getattr(config, key), TextConfig.model_fields[key].default
        if value not in (usual, getattr(learnt, key)):
            problems.append(
                f"data.{side}.{key}: {value} is for a tokenizer to be learnt, but that of {config.tokenizer} has its "
                f"{tokenizer.size:,} tokens; set it to {usual} (the default), or data.{side}.tokenizer to null"
            )
    return problems


def _two_for_one(data: DataConfig, given: ReusedTokenizers) -> list[str]:
    """In one vocabulary an id means the same on both sides, though each may cut its texts in its own way."""
    target = given.get("target")
    if not data.shared_vocabulary or target is None:
        return []
    return [
        f"data.shared_vocabulary: the {side}'s tokenizer has {source.size:,} tokens, the target's "
        f"{target.size:,}, and they are not the same ones; set it to false, or name a run that shared its own"
        for side, source in given.items()
        if source.symbols(range(source.size)) != target.symbols(range(target.size))
    ]


def _no_line_end(data: DataConfig, given: ReusedTokenizers) -> list[str]:
    """A stream of characters has line ends in it; a tokenizer learnt from lines has never seen one."""
    target = given.get("target")
    if data.window is None or target is None or not target.spells or not target.unknown("\n"):
        return []
    return [
        f"data.target.tokenizer: that of {data.target.tokenizer} was learnt line by line and has no line end, which a "
        "stream needs; set data.window to null, or name a run that had a window"
    ]
