"""Sources and tokenizers: built from a configuration, learnt from texts, loaded from a folder, reused from a run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from antiphon.config.load import read_config
from antiphon.config.schema import DataConfig, SourceConfig, TextConfig
from antiphon.config.sources import AudioConfig, FeaturesConfig, FramesConfig, ImageConfig
from antiphon.config.yaml_text import write_value
from antiphon.data.affixes import AffixTokenizer
from antiphon.data.source import FileSource, MultiSourceReader, SingleSource, Source, UnreadableError
from antiphon.data.tokenizers import FORMAT, SYMBOLS, NormalizingTokenizer, TextForm, Tokenizer, damaged, read_json
from antiphon.errors import ConfigError, DataError, ModelFolderError
from antiphon.text import split_at_spaces

__all__ = [
    "SOURCE_TOKENIZER", "TARGET_TOKENIZER", "ReusedTokenizers", "combine_sources", "file_source", "is_file",
    "load_source", "load_tokenizer", "one_text", "reused_tokenizers", "train_tokenizer",
]  # fmt: skip

SOURCE_TOKENIZER, TARGET_TOKENIZER = "tokenizer.source.json", "tokenizer.target.json"

Side = str  # source (of several source[0], source[1], ..) or target
ReusedTokenizers = dict[Side, Tokenizer]


def is_file(config: SourceConfig) -> bool:
    """True if the cells of a source are paths."""
    return not isinstance(config, TextConfig)


def one_text(data: DataConfig) -> bool:
    """True if the only input is one text: the source, or the text of a language model."""
    return data.source is None or isinstance(data.source, TextConfig)


def combine_sources(sources: Sequence[SingleSource]) -> Source:
    """Several sources as one; a single one as it is."""
    return sources[0] if len(sources) == 1 else MultiSourceReader(sources)


def file_source(config: SourceConfig, cells: Iterable[str]) -> FileSource:
    """The source of a column of files; the first of `cells` that can be read gives the width of all vectors."""
    width = _first_width(cells) if isinstance(config, FeaturesConfig) else 0
    return _reader(config, width)


def load_source(path: Path, data: DataConfig) -> Source:
    """The source that `save` wrote."""
    if one_text(data):
        return load_tokenizer(path)
    content = read_json(path)
    with damaged(path):
        written = content["sources"] if isinstance(data.source, list) else [content]
        if len(written) != len(data.sources):
            raise ValueError(f"{len(written)} sources, but config.yaml has {len(data.sources)}")
        return combine_sources([_build_part(*pair) for pair in zip(data.sources, written, strict=True)])


def _build_part(config: SourceConfig, content: dict[str, Any]) -> SingleSource:
    if isinstance(config, TextConfig):
        return build_tokenizer(content)
    if content["kind"] != config.kind:
        raise ValueError(f"of kind {content['kind']}, but config.yaml says {config.kind}")
    return _reader(config, int(content.get("width") or 0))


def _reader(config: SourceConfig, width: int) -> FileSource:
    """The reader of a kind of files; the width of vectors in files is in no configuration."""
    if isinstance(config, FeaturesConfig):
        from antiphon.data.arrays import FeaturesReader

        return FeaturesReader(config, width)
    if isinstance(config, AudioConfig):
        from antiphon.data.audio import AudioReader

        return AudioReader(config)
    if isinstance(config, ImageConfig):
        from antiphon.data.image import ImageReader

        return ImageReader(config)
    if isinstance(config, FramesConfig):
        from antiphon.data.video import FramesReader

        return FramesReader(config)
    raise ModelFolderError(f"{config.kind}: a text has a tokenizer, no reader")


def _first_width(cells: Iterable[str]) -> int:
    from antiphon.data.arrays import FeaturesReader

    for cell in cells:
        try:
            return FeaturesReader.first_width(cell)
        except UnreadableError:
            continue
    return 1  # no file can be read: each is reported later


# Tokenizers.


def train_tokenizer(
    texts: Iterable[str], config: TextConfig, where: str = "tokenizer", always: Sequence[str] = ()
) -> Tokenizer:
    """Learn a vocabulary; the same texts always give the same one. `where` is the path in the config, for errors.

    `always` are symbols that are in the vocabulary however rare they are, in place of the rarest ones.
    """
    form = TextForm(config.lowercase, config.normalization)
    if form == TextForm():
        return _learn_tokens(texts, config, where, always)
    return NormalizingTokenizer(_learn_tokens(map(form, texts), config, where, always), form)


def _learn_tokens(texts: Iterable[str], config: TextConfig, where: str, always: Sequence[str]) -> Tokenizer:
    """The tokenizer of texts in their form."""
    if config.tokens in ("bpe", "unigram"):
        from antiphon.data.subwords import train_subwords

        return train_subwords(texts, config, where)
    split, tokenizer = (split_at_spaces, AffixTokenizer) if config.affixes else SYMBOLS[config.tokens]
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
    return tokenizer(symbols)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer that `save` wrote."""
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise ModelFolderError(f"{path}: not a tokenizer of format {FORMAT}; use the version of Antiphon that wrote it")
    with damaged(path):
        return build_tokenizer(content)


def build_tokenizer(content: dict[str, Any]) -> Tokenizer:
    """The tokenizer of the content of its JSON file."""
    plain = _build_plain(content)
    return NormalizingTokenizer(plain, TextForm(**content["form"])) if "form" in content else plain


def _build_plain(content: dict[str, Any]) -> Tokenizer:
    """The tokenizer of texts as they are."""
    kind = content["kind"]
    if "pieces" in content:
        from antiphon.data.foreign_tokenizers import PieceTokenizer

        model = json.dumps(content["model"])
        return PieceTokenizer(kind, content["pieces"], model, content["lead"], content["silent"])
    if kind in ("bpe", "unigram"):
        from antiphon.data.subwords import SubwordTokenizer

        return SubwordTokenizer(kind, content["characters"], json.dumps(content["model"]))
    tokenizer = AffixTokenizer if content.get("affixes") else SYMBOLS[kind][1]
    symbols = content["symbols"]
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise ValueError("symbols is not a list of strings")
    return tokenizer(symbols)


# Tokenizers of other runs: data.source.tokenizer and data.target.tokenizer.


def reused_tokenizers(data: DataConfig) -> ReusedTokenizers:
    """The tokenizer of each side that names a run; ConfigError with everything that does not fit."""
    names = [data.place(number).removeprefix("data.") for number in range(len(data.sources))]
    reused: ReusedTokenizers = {}
    problems: list[str] = []
    for side, config in [*zip(names, data.sources, strict=True), ("target", data.target)]:
        if isinstance(config, TextConfig) and config.tokenizer is not None:
            try:
                reused[side] = _load_from_run(side, config, config.tokenizer)
            except ConfigError as error:
                problems += error.problems
    problems += [] if problems else [*_unequal_vocabularies(data, reused), *_no_line_end(data, reused)]
    if problems:
        raise ConfigError(problems)
    return reused


def _load_from_run(side: Side, config: TextConfig, run: str) -> Tokenizer:
    """The tokenizer of a run: that of the same side; a language model has only one."""
    key, folder = f"data.{side}.tokenizer", Path(run)
    if not folder.is_dir():
        raise ConfigError(f"{key}: {run}: no such folder; give a run that has been trained, or null")
    section, file = _section(key, folder, side)
    try:
        tokenizer = load_tokenizer(folder / file)
    except ModelFolderError as error:
        raise ConfigError([f"{key}: {problem}" for problem in error.problems]) from error
    if problems := _contradictions(side, config, tokenizer, section):
        raise ConfigError(problems)
    return tokenizer


def _section(key: str, folder: Path, side: Side) -> tuple[TextConfig, str]:
    """The section of the run from which its tokenizer was learnt, and the file of the tokenizer."""
    path = folder / "config.yaml"
    try:
        data = read_config(path, notices=False).data
    except ConfigError as error:
        problems = [problem.removeprefix(f"{path}: ") for problem in error.problems]
        raise ConfigError([f"{key}: {path}: {problem}" for problem in problems]) from error
    if side != "target" and data.text is not None:
        return data.text, SOURCE_TOKENIZER
    if side != "target" and data.source is not None:
        raise ConfigError(f"{key}: {folder} reads no single text, so it has no tokenizer for one; give another run")
    return data.target, TARGET_TOKENIZER


def _contradictions(side: Side, config: TextConfig, tokenizer: Tokenizer, learnt: TextConfig) -> list[str]:
    """Keys about learning that contradict the reused tokenizer: they must agree with it, or have their default."""
    problems = []
    if config.tokens != tokenizer.kind:
        problems.append(
            f"data.{side}.tokens: {config.tokens}, but the tokenizer of {config.tokenizer} is one of {tokenizer.kind}; "
            f"set it to {tokenizer.kind}, or data.{side}.tokenizer to null"
        )
    if config.affixes != learnt.affixes:
        fact = f"{write_value(config.affixes)}, but the tokenizer of {config.tokenizer} has the other value"
        problems.append(f"data.{side}.affixes: {fact}; set it to {write_value(learnt.affixes)}")
    for key in ("vocabulary", "min_count", "lowercase", "normalization"):
        value, default = getattr(config, key), TextConfig.model_fields[key].default
        if value not in (default, getattr(learnt, key)):
            problems.append(
                f"data.{side}.{key}: {write_value(value)} is for a tokenizer to be learnt, but that of "
                f"{config.tokenizer} has its {tokenizer.size:,} tokens; "
                f"set it to {write_value(default)} (the default), or data.{side}.tokenizer to null"
            )
    return problems


def _unequal_vocabularies(data: DataConfig, reused: ReusedTokenizers) -> list[str]:
    """Problems of a shared vocabulary: an id must be the same token on both sides, however each splits its texts."""
    target = reused.get("target")
    if not data.shared_vocabulary or target is None:
        return []
    return [
        f"data.shared_vocabulary: the {side}'s tokenizer has {source.size:,} tokens, the target's "
        f"{target.size:,}, and they are not the same ones; set it to false, or name a run that shared its own"
        for side, source in reused.items()
        if source.symbols(range(source.size)) != target.symbols(range(target.size))
    ]


def _no_line_end(data: DataConfig, reused: ReusedTokenizers) -> list[str]:
    """A stream of characters has line ends in it; a tokenizer learnt from lines has never seen one."""
    target = reused.get("target")
    if data.window is None or target is None or not target.spells or not target.unknown("\n"):
        return []
    return [
        f"data.target.tokenizer: that of {data.target.tokenizer} was learnt line by line and has no line end, which a "
        "stream needs; set data.window to null, or name a run that had a window"
    ]
