"""A configuration for data nobody has described, and the reason for each choice."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.autoconfig.columns import find_columns, is_text
from antiphon.autoconfig.guess_files import FileTable, file_config, find_files
from antiphon.autoconfig.text_profile import Cut, Side, between, cut, metrics_for, round_up, vocabulary
from antiphon.config.networks import (
    AttentionConfig,
    BahdanauConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    PlainConfig,
    RecurrentEncoderConfig,
)
from antiphon.config.schema import Config, DataConfig, DecodingConfig, EvaluationConfig, TextConfig, TrainingConfig
from antiphon.config.yaml_text import write_value
from antiphon.data.encode import part_of
from antiphon.data.lines import read_lines
from antiphon.data.pairs import Dropped, Pair, file_paths, read_pairs
from antiphon.errors import DataError
from antiphon.text import amount, by_reason

__all__ = ["Guess", "guess_config", "text_config"]

# A language model for a plain text that nobody has described.

WINDOW = 128
LETTERS = 5_000_000  # so many letters and more teach sub-words; fewer only characters


def text_config(data: DataConfig, side: Side, total: int, reasons: list[str]) -> Config:
    """Short strings are learnt line by line, running text as one stream of characters or, if long, of sub-words."""
    found = cut(side)
    letters = round(side.mean_letters * total)
    if found.tokens == "bpe":
        data, tokens = stream_section(data, side, letters, total, reasons)
    else:
        data, tokens = line_section(data, found, total, reasons)
    training = text_training_section(data, tokens, reasons)
    longest = 300 if data.window else between(20, 2 * found.longest, 500)
    what = "some lines" if data.window else f"twice the longest line seen ({found.longest}), 20 to 500"
    reasons.append(f"decoding.max_length {longest}: {what}")
    return Config(
        data=data,
        model=text_model_section(data, letters, reasons),
        training=training,
        decoding=DecodingConfig(beam=1, max_length=longest),
        evaluation=EvaluationConfig(metrics=["perplexity", "bits_per_character"]),
    )


def stream_section(
    data: DataConfig, side: Side, letters: int, total: int, reasons: list[str]
) -> tuple[DataConfig, float]:
    """Running text, and how many tokens it has."""
    few = letters < LETTERS
    reason = f"about {letters:,} letters, {'too few for' if few else 'enough for'} sub-words"
    target = data.target.model_copy(
        update={"tokens": "characters"} if few else {"tokens": "bpe", "vocabulary": vocabulary("bpe", total)}
    )
    reasons.append(f"data.target.tokens {target.tokens}: {reason}")
    reasons.append(
        f"data.window {WINDOW}: running text ({side.mean_words:.0f} words a line on average), learnt as one stream; "
        "null learns it line by line"
    )
    return data.model_copy(update={"target": target, "window": WINDOW}), letters if few else letters / 4


def line_section(data: DataConfig, found: Cut, total: int, reasons: list[str]) -> tuple[DataConfig, float]:
    """Short strings, and how many tokens they have."""
    longest = between(20, round_up(1.5 * found.longest, 10), 400)
    target = data.target.model_copy(update={"tokens": found.tokens, "max_length": longest})
    reasons.append(f"data.target.tokens {found.tokens}: {found.reason}")
    reasons.append(f"data.target.max_length {longest}: the longest seen has {found.longest} tokens")
    reasons.append("data.window null: each line is a text of its own")
    return data.model_copy(update={"target": target}), total * (found.mean + 1)


def text_model_section(data: DataConfig, letters: int, reasons: list[str]) -> LanguageModelConfig:
    """As large as the text can fill."""
    size = next((size for limit, size in ((100_000, 128), (2_000_000, 256)) if letters < limit), 512)
    embedding = size if data.target.tokens == "bpe" else max(32, size // 4)
    dropout = 0.3 if letters < 2_000_000 else 0.1
    reasons.append(f"model size {size}, embeddings {embedding}, dropout {dropout}: for about {letters:,} letters")
    return LanguageModelConfig(decoder=PlainConfig(cell="lstm", embedding=embedding, size=size, dropout=dropout))


def text_training_section(data: DataConfig, tokens: float, reasons: list[str]) -> TrainingConfig:
    """Batches so that an epoch has some dozens of updates, epochs for some thousands of them."""
    least = data.window or 256
    batch = between(least, 2 ** round(math.log2(max(1.0, tokens / 200))), 4096)
    updates = max(1, math.ceil(tokens / batch))
    epochs = between(5, math.ceil(5_000 / updates), 50)
    reasons.append(f"training.batch_tokens {batch}: about {amount(updates, 'updates')} an epoch")
    reasons.append(f"training.epochs {epochs}, patience 4: it stops when the loss has not got better 4 times")
    reasons.append("training.metric loss: a language model has no answers to compare")
    return TrainingConfig(
        batch_tokens=batch, epochs=epochs, warmup=between(50, updates, 400), learning_rate=2e-3, patience=4
    )


SAMPLE = 20_000  # pairs looked at
DEV_NAMES = ("dev", "valid", "val", "validation")


@dataclass(frozen=True)
class Guess:
    """A configuration and why it is so."""

    config: Config
    reasons: list[str]


def guess_config(files: list[str]) -> Guess:
    """Look at the first pairs of one file of pairs or two parallel files, or at the first lines of plain text."""
    if len(files) == 1 and is_text(file_paths(files[0])[0][1]):
        return guess_texts(files[0])
    if len(files) == 1 and (table := find_files(file_paths(files[0])[0][1], files[0])):
        return guess_files(files[0], table)
    train = files[0] if len(files) == 1 else files
    reasons: list[str] = []
    data = columns_of(files, train, reasons)
    dropped = Dropped()
    pairs = list(itertools.islice(read_pairs(train, data, dropped), SAMPLE))
    if not pairs:
        why = by_reason(dropped.reasons) or "no lines"
        raise DataError(f"{files[0]}: no usable pair ({why}); put source TAB target on each line")
    total = total_pairs(files, pairs)
    about = "" if total == len(pairs) else f"about {total:,}, the first "
    unusable = f", {amount(dropped.total, 'lines')} unusable" if dropped.total else ""
    reasons.append(f"pairs: {about}{len(pairs):,} looked at{unusable}")
    left, right = Side.of([pair.source for pair in pairs]), Side.of([pair.target for pair in pairs])
    source, target = cut(left), cut(right)
    data = data_section(data, left, right, source, target, total, reasons)
    config = Config(
        data=data,
        model=model_section(data, total, reasons),
        training=training_section(source, target, total, reasons),
        decoding=DecodingConfig(max_length=between(20, 2 * target.longest, 500)),
        evaluation=EvaluationConfig(metrics=metrics_for(target)),
    )
    longest = config.decoding.max_length
    reasons.append(f"decoding.max_length {longest}: twice the longest target seen ({target.longest}), 20 to 500")
    return Guess(config, reasons)


def guess_files(file: str, table: FileTable) -> Guess:
    """A column of paths, maybe with texts beside it."""
    reasons = [table.reason]
    source: dict[str, Any] = {"kind": table.kind, "column": table.column}
    several = [source, *({"kind": "text", "column": column} for column in table.texts)]
    target = {"column": table.target}
    data = DataConfig.model_validate(
        {"train": file, "dev": dev_beside([file]), "source": several if table.texts else source, "target": target}
    )
    dropped = Dropped()
    pairs = list(itertools.islice(read_pairs(file, data, dropped), SAMPLE))
    if not pairs:
        raise DataError(f"{file}: no usable row ({by_reason(dropped.reasons) or 'no lines'}); check its columns")
    total = total_pairs([file], pairs)
    data = data.model_copy(update={"hold_out": hold_out(total)})
    config = file_config(table, data, total, pairs, reasons)
    say_dev(config.data, reasons)
    return Guess(config, reasons)


def guess_texts(file: str) -> Guess:
    """Plain text in one column: a language model."""
    reasons = ["plain text in one column: a language model; for pairs put source TAB target on each line"]
    data = DataConfig(train=file, dev=dev_beside([file]), source=None, target=TextConfig(column=0))
    pairs = list(itertools.islice(read_pairs(file, data, Dropped()), SAMPLE))
    total = total_pairs([file], pairs)
    reasons.append(f"texts: {'' if total == len(pairs) else f'about {total:,}, the first '}{len(pairs):,} looked at")
    data = data.model_copy(update={"hold_out": hold_out(total)})
    config = text_config(data, Side.of([pair.target for pair in pairs]), total, reasons)
    say_dev(config.data, reasons)
    return Guess(config, reasons)


def columns_of(files: list[str], train: str | list[str], reasons: list[str]) -> DataConfig:
    """The files and their columns."""
    dev = dev_beside(files)
    if len(files) == 2:
        reasons.append(f"two parallel files: {files[0]} is the source, {files[1]} the target")
        return DataConfig(train=train, dev=dev)
    [(name, path)] = file_paths(files[0])
    columns = find_columns(path, name)
    reasons.append(columns.reason)
    return DataConfig(
        train=train, dev=dev, source=TextConfig(column=columns.source), target=TextConfig(column=columns.target)
    )


def dev_beside(files: list[str]) -> str | list[str] | None:
    """The development set that stands beside the training set: dev.tsv beside train.tsv."""
    for word in DEV_NAMES:
        names = []
        for file in files:
            folder, slash, name = file.rpartition("/")
            names.append(f"{folder}{slash}{name.replace('train', word)}")
        there = [name for name, file in zip(names, files, strict=True) if name != file and exists(name)]
        if len(there) == len(files):
            return names[0] if len(files) == 1 else names
    return None


def exists(name: str) -> bool:
    """Whether a name is a file or a split of a data set that comes with Antiphon."""
    return name.endswith("/dev") if name.startswith("@") else Path(name).is_file()


def total_pairs(files: list[str], pairs: list[Pair]) -> int:
    """How many pairs there are: counted in a small file, told by the size of a large one."""
    if len(pairs) < SAMPLE:
        return len(pairs)
    [(_, path), *_] = file_paths(files if len(files) == 2 else files[0])
    lines = itertools.islice(read_lines(path), pairs[-1].line)
    taken = sum(len(line.text.encode()) + 1 for line in lines)
    packed = 3 if path.suffix.lower() == ".gz" else 1  # text shrinks to about a third
    return max(len(pairs), round(path.stat().st_size * packed / taken * len(pairs) / 1000) * 1000)


def data_section(
    data: DataConfig, left: Side, right: Side, source: Cut, target: Cut, total: int, reasons: list[str]
) -> DataConfig:
    """Tokens, vocabulary and lengths of both sides, and where dev comes from."""
    both = source.tokens == target.tokens == "bpe"
    overlap = len(left.letters & right.letters) / max(1, len(left.letters | right.letters))
    shared = both and overlap > 0.5
    sides = []
    assert data.text is not None
    for name, text, side in (("source", data.text, source), ("target", data.target, target)):
        reasons.append(f"data.{name}.tokens {side.tokens}: {side.reason}")
        longest = between(20, round_up(1.5 * side.longest, 10), 400)
        update = {"tokens": side.tokens, "vocabulary": vocabulary(side.tokens, total), "max_length": longest}
        sides.append(text.model_copy(update=update))
    for name, text in zip(("source", "target"), sides, strict=True):
        if text.tokens == "bpe":
            reasons.append(f"data.{name}.vocabulary {text.vocabulary}: sub-words that {total:,} pairs can teach")
    if both:
        words = "one for both" if shared else "one for each side"
        reasons.append(
            f"data.shared_vocabulary {str(shared).lower()}: {words}, {overlap:.0%} of the letters are common"
        )
    for name, text, side in zip(("source", "target"), sides, (source, target), strict=True):
        words = "longer ones are left out; " if side.longest > text.max_length else ""
        reasons.append(f"data.{name}.max_length {text.max_length}: {words}the longest seen has {side.longest} tokens")
    changes = {"source": sides[0], "target": sides[1], "shared_vocabulary": shared, "hold_out": hold_out(total)}
    data = data.model_copy(update=changes)
    say_dev(data, reasons)
    return data


def hold_out(total: int) -> float:
    """The share of the examples that becomes dev: about a thousand."""
    return between(0.01, round(1000 / total, 2), 0.1)


def say_dev(data: DataConfig, reasons: list[str]) -> None:
    """Where dev comes from."""
    if data.dev is None:
        what = "sources" if data.source else "texts" if data.window is None else "lines"
        part = part_of(what, f"{data.hold_out:.0%}")
        reasons.append(f"data.dev null: no file beside it is called dev, so {part} are held out")
    else:
        reasons.append(f"data.dev {write_value(data.dev)}: it stands beside the training data")


def model_section(data: DataConfig, total: int, reasons: list[str]) -> EncoderDecoderConfig:
    """As large as the data can fill."""
    size = next((size for limit, size in ((2_000, 64), (20_000, 128), (500_000, 256)) if total < limit), 512)
    dropout = 0.3 if total < 20_000 else 0.2
    sides = [side.tokens for side in (data.text, data.target) if side]
    embedding = size if "bpe" in sides else max(32, size // 2)
    reasons.append(f"model sizes {size}, embeddings {embedding}, dropout {dropout}: for {total:,} pairs")
    return EncoderDecoderConfig(
        encoder=RecurrentEncoderConfig(kind="lstm", embedding=embedding, size=size, dropout=dropout),
        context=AttentionConfig(score="additive"),
        decoder=BahdanauConfig(cell="lstm", embedding=embedding, size=size, dropout=dropout),
    )


def training_section(source: Cut, target: Cut, total: int, reasons: list[str]) -> TrainingConfig:
    """Batches so that an epoch has at least some dozens of updates, epochs for some thousands of them."""
    tokens = total * max(source.mean, target.mean)
    batch = between(256, 2 ** round(math.log2(max(1.0, tokens / 200))), 8192)
    updates = max(1, math.ceil(tokens / batch))
    epochs = between(5, math.ceil(8_000 / updates), 100)
    metric = metrics_for(target)[0]
    reasons.append(f"training.batch_tokens {batch}: about {amount(updates, 'updates')} an epoch")
    reasons.append(f"training.epochs {epochs}, patience 8: it stops when {metric} has not got better 8 times")
    reasons.append(f"training.metric {metric}: what counts for targets in {target.tokens}")
    return TrainingConfig(
        batch_tokens=batch,
        epochs=epochs,
        warmup=between(50, updates, 400),
        learning_rate=2e-3 if batch < 2048 else 1e-3,
        metric=metric,
        patience=8,
    )
