"""A configuration for a user's data, with the reason for each choice: pairs, plain text, or a table of files."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.autoconfig.columns import find_columns, is_text
from antiphon.autoconfig.file_tables import FileTable, file_config, find_file_table
from antiphon.autoconfig.text_profile import (
    TextProfile,
    TokenChoice,
    choose_metrics,
    choose_tokens,
    choose_vocabulary,
    clamp,
    longest_allowed,
    with_tokens,
)
from antiphon.config.networks import (
    AttentionConfig,
    BahdanauConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    PlainConfig,
    RecurrentEncoderConfig,
)
from antiphon.config.schema import (
    Config,
    DataConfig,
    DecodingConfig,
    EvaluationConfig,
    ScheduleConfig,
    TextConfig,
    TrainingConfig,
)
from antiphon.config.yaml_text import write_value
from antiphon.data.encode import describe_hold_out
from antiphon.data.lines import read_lines
from antiphon.data.pairs import DropLog, Pair, file_paths, read_pairs
from antiphon.data.tables import has_lines, is_keyed, open_table
from antiphon.errors import DataError
from antiphon.text import format_reasons, plural

__all__ = ["Suggestion", "suggest_config"]

SAMPLE_PAIRS = 20_000
DEV_NAMES = ("dev", "valid", "val", "validation")
WINDOW = 128
MIN_SUBWORD_CHARACTERS = 5_000_000  # a text with fewer is learnt as characters, one with more as sub-words


@dataclass(frozen=True)
class Suggestion:
    """A configuration and the reasons for its values."""

    config: Config
    reasons: list[str]


def suggest_config(files: list[str]) -> Suggestion:
    """A configuration from the first lines of one file of pairs, two parallel files, or one file of plain text."""
    if len(files) == 1 and is_text(file_paths(files[0])[0][1]):
        return suggest_for_text(files[0])
    if len(files) == 1 and (table := find_file_table(file_paths(files[0])[0][1], files[0])):
        return suggest_for_files(files[0], table)
    return suggest_for_pairs(files)


def suggest_for_files(file: str, table: FileTable) -> Suggestion:
    """A configuration for a table with a column of paths and perhaps further texts."""
    reasons = [table.reason]
    source: dict[str, Any] = {"kind": table.kind, "column": table.column}
    sources = [source, *({"kind": "text", "column": column} for column in table.texts)]
    target = {"column": table.target}
    data = DataConfig.model_validate(
        {"train": file, "dev": find_dev([file]), "source": sources if table.texts else source, "target": target}
    )
    dropped = DropLog()
    pairs = list(itertools.islice(read_pairs(file, data, dropped), SAMPLE_PAIRS))
    if not pairs:
        raise DataError(f"{file}: no usable row ({format_reasons(dropped.reasons) or 'no lines'}); check its columns")
    total = estimate_total([file], pairs)
    data = data.model_copy(update={"hold_out": hold_out(total)})
    config = file_config(table, data, total, pairs, reasons)
    explain_dev(config.data, reasons)
    return Suggestion(config, reasons)


# Plain text: a language model.


def suggest_for_text(file: str) -> Suggestion:
    """Short strings are learnt line by line, running text as one stream of characters or, if long, of sub-words."""
    reasons = ["plain text in one column: a language model; for pairs put source TAB target on each line"]
    data = DataConfig(train=file, dev=find_dev([file]), source=None, target=TextConfig(column=0))
    pairs = list(itertools.islice(read_pairs(file, data, DropLog()), SAMPLE_PAIRS))
    total = estimate_total([file], pairs)
    reasons.append(f"texts: {describe_sample(total, len(pairs))}")
    data = data.model_copy(update={"hold_out": hold_out(total)})
    profile = TextProfile.of([pair.target for pair in pairs])
    choice = choose_tokens(profile)
    characters = round(profile.mean_characters * total)
    if choice.tokens == "bpe":
        data, tokens = stream_section(data, profile, characters, total, reasons)
    else:
        data, tokens = line_section(data, choice, total, reasons)
    training = text_training_section(data, tokens, reasons)
    longest = 300 if data.window else clamp(20, 2 * choice.longest, 500)
    why = "some lines" if data.window else f"twice the longest line seen ({choice.longest}), 20 to 500"
    reasons.append(f"decoding.max_length {longest}: {why}")
    config = Config(
        data=data,
        model=text_model_section(data, characters, reasons),
        training=training,
        decoding=DecodingConfig(beam=1, max_length=longest),
        evaluation=EvaluationConfig(metrics=["perplexity", "bits_per_character"]),
    )
    explain_dev(config.data, reasons)
    return Suggestion(config, reasons)


def stream_section(
    data: DataConfig, profile: TextProfile, characters: int, total: int, reasons: list[str]
) -> tuple[DataConfig, float]:
    """The data section for running text, and the number of its tokens."""
    few = characters < MIN_SUBWORD_CHARACTERS
    reason = f"about {characters:,} characters, {'too few for' if few else 'enough for'} sub-words"
    target = data.target.model_copy(
        update={"tokens": "characters"} if few else {"tokens": "bpe", "vocabulary": choose_vocabulary("bpe", total)}
    )
    reasons.append(f"data.target.tokens {target.tokens}: {reason}")
    reasons.append(
        f"data.window {WINDOW}: running text ({profile.mean_words:.0f} words a line on average), learnt as one stream; "
        "null learns it line by line"
    )
    return data.model_copy(update={"target": target, "window": WINDOW}), characters if few else characters / 4


def line_section(data: DataConfig, choice: TokenChoice, total: int, reasons: list[str]) -> tuple[DataConfig, float]:
    """The data section for short strings, and the number of their tokens."""
    longest = longest_allowed(choice)
    target = data.target.model_copy(update={"tokens": choice.tokens, "max_length": longest})
    reasons.append(f"data.target.tokens {choice.tokens}: {choice.reason}")
    reasons.append(f"data.target.max_length {longest}: the longest seen has {choice.longest} tokens")
    reasons.append("data.window null: each line is a text of its own")
    return data.model_copy(update={"target": target}), total * (choice.mean + 1)


def text_model_section(data: DataConfig, characters: int, reasons: list[str]) -> LanguageModelConfig:
    """A language model whose size suits the amount of text."""
    size = next((size for limit, size in ((100_000, 128), (2_000_000, 256)) if characters < limit), 512)
    embedding = size if data.target.tokens == "bpe" else max(32, size // 4)
    dropout = 0.3 if characters < 2_000_000 else 0.1
    reasons.append(f"model size {size}, embeddings {embedding}, dropout {dropout}: for about {characters:,} characters")
    return LanguageModelConfig(decoder=PlainConfig(cell="lstm", embedding=embedding, size=size, dropout=dropout))


def text_training_section(data: DataConfig, tokens: float, reasons: list[str]) -> TrainingConfig:
    """Batches for some dozens of updates an epoch, epochs for some thousands of updates."""
    batch = clamp(data.window or 256, 2 ** round(math.log2(max(1.0, tokens / 200))), 4096)
    updates = max(1, math.ceil(tokens / batch))
    epochs = clamp(5, math.ceil(5_000 / updates), 50)
    reasons.append(f"training.batch_tokens {batch}: about {plural(updates, 'updates')} an epoch")
    reasons.append(f"training.epochs {epochs}, patience 4: training stops after 4 evaluations without a better loss")
    reasons.append("training.metric loss: a language model has no answers to compare")
    return TrainingConfig(
        batch_tokens=batch,
        epochs=epochs,
        schedule=ScheduleConfig(warmup=clamp(50, updates, 400)),
        learning_rate=2e-3,
        patience=4,
    )


# Pairs: an encoder-decoder.


def suggest_for_pairs(files: list[str]) -> Suggestion:
    """A configuration for one file of pairs or two parallel files."""
    train = files[0] if len(files) == 1 else files
    reasons: list[str] = []
    data = column_section(files, train, reasons)
    dropped = DropLog()
    pairs = list(itertools.islice(read_pairs(train, data, dropped), SAMPLE_PAIRS))
    if not pairs:
        why = format_reasons(dropped.reasons) or "no lines"
        raise DataError(f"{files[0]}: no usable pair ({why}); put source TAB target on each line")
    total = estimate_total(files, pairs)
    unusable = f", {plural(dropped.total, 'lines')} unusable" if dropped.total else ""
    reasons.append(f"pairs: {describe_sample(total, len(pairs))}{unusable}")
    profiles = TextProfile.of([pair.source for pair in pairs]), TextProfile.of([pair.target for pair in pairs])
    source, target = map(choose_tokens, profiles)
    data = data_section(data, profiles, (source, target), total, reasons)
    config = Config(
        data=data,
        model=model_section(data, total, reasons),
        training=training_section(source, target, total, reasons),
        decoding=DecodingConfig(max_length=clamp(20, 2 * target.longest, 500)),
        evaluation=EvaluationConfig(metrics=choose_metrics(target)),
    )
    longest = config.decoding.max_length
    reasons.append(f"decoding.max_length {longest}: twice the longest target seen ({target.longest}), 20 to 500")
    return Suggestion(config, reasons)


def column_section(files: list[str], train: str | list[str], reasons: list[str]) -> DataConfig:
    """The data section with files and columns only."""
    dev = find_dev(files)
    if len(files) == 2:
        reasons.append(f"two parallel files: {files[0]} is the source, {files[1]} the target")
        return DataConfig(train=train, dev=dev)
    [(name, path)] = file_paths(files[0])
    columns = find_columns(path, name)
    reasons.append(columns.reason)
    return DataConfig(
        train=train, dev=dev, source=TextConfig(column=columns.source), target=TextConfig(column=columns.target)
    )


def data_section(
    data: DataConfig,
    profiles: tuple[TextProfile, TextProfile],
    choices: tuple[TokenChoice, TokenChoice],
    total: int,
    reasons: list[str],
) -> DataConfig:
    """The data section with the tokens, vocabularies and lengths of both sides, and the development set."""
    assert data.text is not None
    names, (left, right) = ("source", "target"), (profile.characters for profile in profiles)
    sides = [with_tokens(text, choice, total) for text, choice in zip((data.text, data.target), choices, strict=True)]
    both = all(choice.tokens == "bpe" for choice in choices)
    overlap = len(left & right) / max(1, len(left | right))
    shared = both and overlap > 0.5
    for name, choice in zip(names, choices, strict=True):
        reasons.append(f"data.{name}.tokens {choice.tokens}: {choice.reason}")
    for name, text in zip(names, sides, strict=True):
        if text.tokens == "bpe":
            reasons.append(f"data.{name}.vocabulary {text.vocabulary}: sub-words for {total:,} pairs")
    if both:
        reasons.append(f"data.shared_vocabulary {str(shared).lower()}: {overlap:.0%} of the characters are common")
    for name, text, choice in zip(names, sides, choices, strict=True):
        cut = "longer ones are left out; " if choice.longest > text.max_length else ""
        reasons.append(f"data.{name}.max_length {text.max_length}: {cut}the longest seen has {choice.longest} tokens")
    changes = {"source": sides[0], "target": sides[1], "shared_vocabulary": shared, "hold_out": hold_out(total)}
    data = data.model_copy(update=changes)
    explain_dev(data, reasons)
    return data


def model_section(data: DataConfig, total: int, reasons: list[str]) -> EncoderDecoderConfig:
    """A model whose size suits the number of pairs."""
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


def training_section(source: TokenChoice, target: TokenChoice, total: int, reasons: list[str]) -> TrainingConfig:
    """Batches for at least some dozens of updates an epoch, epochs for some thousands of updates."""
    tokens = total * max(source.mean, target.mean)
    batch = clamp(256, 2 ** round(math.log2(max(1.0, tokens / 200))), 8192)
    updates = max(1, math.ceil(tokens / batch))
    epochs = clamp(5, math.ceil(8_000 / updates), 100)
    metric = choose_metrics(target)[0]
    reasons.append(f"training.batch_tokens {batch}: about {plural(updates, 'updates')} an epoch")
    reasons.append(
        f"training.epochs {epochs}, patience 8: training stops after 8 evaluations without a better {metric}"
    )
    reasons.append(f"training.metric {metric}: usual for targets in {target.tokens}")
    return TrainingConfig(
        batch_tokens=batch,
        epochs=epochs,
        schedule=ScheduleConfig(warmup=clamp(50, updates, 400)),
        learning_rate=2e-3 if batch < 2048 else 1e-3,
        metric=metric,
        patience=8,
    )


# The development set, and the number of examples.


def find_dev(files: list[str]) -> str | list[str] | None:
    """The development set beside the training set: dev.tsv beside train.tsv."""
    for word in DEV_NAMES:
        names = []
        for file in files:
            folder, slash, name = file.rpartition("/")
            names.append(f"{folder}{slash}{name.replace('train', word)}")
        if all(name != file and _exists(name) for name, file in zip(names, files, strict=True)):
            return names[0] if len(files) == 1 else names
    return None


def _exists(name: str) -> bool:
    """True if a name is a file or the dev split of a data set that comes with Antiphon."""
    return name.endswith("/dev") if name.startswith("@") else Path(name).is_file()


def estimate_total(files: list[str], pairs: list[Pair]) -> int:
    """The number of pairs: counted in a small file, estimated from the file size of a large one."""
    if len(pairs) < SAMPLE_PAIRS:
        return len(pairs)
    [(_, path), *_] = file_paths(files if len(files) == 2 else files[0])
    if len(files) == 1 and not has_lines(path):
        table = open_table(path)
        return sum(1 for _ in (table.records if is_keyed(path) else table.rows))
    lines = itertools.islice(read_lines(path), pairs[-1].line)
    sample_bytes = sum(len(line.text.encode()) + 1 for line in lines)
    compression = 3 if path.suffix.lower() == ".gz" else 1  # text shrinks to about a third
    return max(len(pairs), round(path.stat().st_size * compression / sample_bytes * len(pairs) / 1000) * 1000)


def describe_sample(total: int, sample: int) -> str:
    """The number of examples, and how it was found."""
    return f"{sample:,}" if total == sample else f"about {total:,}, estimated from the first {sample:,}"


def hold_out(total: int) -> float:
    """The share of the examples that becomes dev: about a thousand examples."""
    return clamp(0.01, round(1000 / total, 2), 0.1)


def explain_dev(data: DataConfig, reasons: list[str]) -> None:
    """Add the origin of the development set to the reasons."""
    if data.dev is None:
        unit = "sources" if data.source else "texts" if data.window is None else "lines"
        part = describe_hold_out(unit, f"{data.hold_out:.0%}")
        reasons.append(f"data.dev null: no file beside it is called dev, so {part} are held out")
    else:
        reasons.append(f"data.dev {write_value(data.dev)}: found beside the training data")
