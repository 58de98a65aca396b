"""A configuration for a user's data, with the reason for each choice: pairs, plain text, or a table of files."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from antiphon.autoconfig.column_kinds import FILE_KINDS
from antiphon.autoconfig.columns import Columns, find_columns, is_text
from antiphon.autoconfig.file_tables import file_config
from antiphon.autoconfig.settings import Amount, explain_differences, fit_settings, plan_updates, start_from
from antiphon.autoconfig.tasks import Evidence, find_mark
from antiphon.autoconfig.text_profile import (
    TextProfile,
    TokenChoice,
    choose_metrics,
    choose_tokens,
    choose_vocabulary,
    clamp,
    longest_allowed,
)
from antiphon.autoconfig.text_sections import fit_texts
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
    TextConfig,
    TrainingConfig,
)
from antiphon.config.sections import file_format
from antiphon.config.yaml_text import write_value
from antiphon.data.lines import read_lines
from antiphon.data.pairs import DropLog, Pair, describe_hold_out, file_paths, read_pairs
from antiphon.data.tables import has_lines, is_keyed, open_table
from antiphon.errors import DataError, UserError
from antiphon.text import format_reasons, plural

__all__ = ["Suggestion", "suggest_config"]

SAMPLE_PAIRS = 20_000
DEV_NAMES = ("dev", "valid", "val", "validation")
WINDOW = 128
LARGE = 3_000_000  # bytes of a file whose examples are not its lines: to count them takes a second or more
SPAN_LABEL = re.compile(r"O|[BIES]-.+")
MIN_SUBWORD_CHARACTERS = 5_000_000  # a text with fewer is learnt as characters, one with more as sub-words


@dataclass(frozen=True)
class Suggestion:
    """A configuration, the reasons for its values, and warnings."""

    config: Config
    reasons: list[str]
    warnings: list[str] = field(default_factory=list)


def suggest_config(
    files: list[str],
    sources: Sequence[str] = (),
    target: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Suggestion:
    """A configuration from the first lines of one file of pairs, two parallel files, or one file of plain text.

    `sources` and `target` are columns of a table, by name or number, that the user chose. `say` hears what takes long.
    """
    chosen = bool(sources or target)
    if len(files) == 2:
        if chosen:
            raise UserError(
                f"{files[0]} and {files[1]} are the source and the target; --source and --target choose "
                "columns of one table"
            )
        return suggest_for_pairs(files, None)
    [(name, path)] = file_paths(files[0], say)
    if path.is_file() and not has_lines(path) and path.stat().st_size > LARGE:
        say(f"{name}: reading the whole file ({path.stat().st_size / 1e6:,.0f} MB) to count its examples")
    if not chosen and is_text(path):
        return suggest_for_text(files[0])
    columns = find_columns(path, name, sources, target)
    suggest = suggest_for_files if columns.kind in FILE_KINDS else suggest_for_pairs
    return replace(suggest(files, columns), warnings=columns.warnings)


def suggest_for_files(files: list[str], columns: Columns) -> Suggestion:
    """A configuration for a table with a column of paths and perhaps further texts."""
    [file], reasons = files, [columns.reason]
    data = columns.data_config(file, find_dev(files))
    dropped = DropLog()
    pairs = list(itertools.islice(read_pairs(file, data, dropped), SAMPLE_PAIRS))
    if not pairs:
        raise DataError(f"{file}: no usable row ({format_reasons(dropped.reasons) or 'no lines'}); check its columns")
    total = estimate_total([file], pairs)
    data = data.model_copy(update={"hold_out": hold_out(total)})
    config = file_config(columns, data, total, pairs, reasons)
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
    batch = clamp(data.window or 256, usual_batch(tokens), 4096)
    reasons.append("training.metric loss: a language model has no answers to compare")
    training = TrainingConfig(batch_tokens=batch, learning_rate=2e-3)
    return plan_updates(training, Amount(max(1, round(tokens)), 1.0), reasons)


# Pairs: an encoder-decoder.


def suggest_for_pairs(files: list[str], columns: Columns | None) -> Suggestion:
    """A configuration for one file of pairs or, without columns, two parallel files."""
    train = files[0] if len(files) == 1 else files
    reasons: list[str] = []
    data = column_section(files, columns, reasons)
    dropped = DropLog()
    pairs = list(itertools.islice(read_pairs(train, data, dropped), SAMPLE_PAIRS))
    if not pairs:
        why = format_reasons(dropped.reasons) or "no lines"
        raise DataError(f"{files[0]}: no usable pair ({why}); put source TAB target on each line")
    total = estimate_total(files, pairs)
    unusable = f", {plural(dropped.total, 'lines')} unusable" if dropped.total else ""
    reasons.append(f"pairs: {describe_sample(total, len(pairs))}{unusable}")
    config = pair_config(data.model_copy(update={"hold_out": hold_out(total)}), pairs, total, reasons)
    explain_dev(config.data, reasons)
    return Suggestion(config, reasons)


def pair_config(data: DataConfig, pairs: list[Pair], total: int, reasons: list[str]) -> Config:
    """A configuration for texts with an answer: that of a recipe for their task, else a general one."""
    labelled = isinstance(data.train, str) and file_format(Path(data.train)) == "conll" and data.text is not None
    seen = Evidence.of(pairs, [source.kind for source in data.sources], total, labelled=labelled)
    recipe = start_from(seen, reasons)
    if recipe is not None and recipe.data.labels:
        data = data.model_copy(update={"labels": True})
    if recipe is not None and recipe.data.turns:
        data = data.model_copy(update={"turns": find_mark(seen.sources[0])})
        reasons.append(explain_turns(data.turns))
    texts = fit_texts(data, seen, recipe.data if recipe else None, reasons)
    amount = Amount(total, texts.length)
    base = recipe or general_config(texts.data, amount, texts.target)
    if data.labels and marks_spans(pairs):
        base = base.model_copy(
            update={
                "training": base.training.model_copy(update={"metric": "span_f1"}),
                "evaluation": EvaluationConfig(metrics=["span_f1", "token_accuracy"]),
            }
        )
    config = fit_settings(base, texts.data, amount, texts.target, reasons)
    if recipe is not None:
        explain_differences(recipe, config, reasons)
    return config


def explain_turns(mark: str | None) -> str:
    """The reason for data.turns."""
    if mark is None:
        return "data.turns null: there is no mark such as <turn>, so `antiphon chat` answers each line by itself"
    return f"data.turns {write_value(mark)}: it is between the turns of a source; `antiphon chat` joins turns with it"


def marks_spans(pairs: list[Pair]) -> bool:
    """True if the labels are those of BIO or BIOES, which mark spans."""
    labels = {label for pair in pairs for label in pair.target.split()}
    return all(SPAN_LABEL.fullmatch(label) for label in labels) and any(label.startswith("B-") for label in labels)


def general_config(data: DataConfig, amount: Amount, target: TokenChoice) -> Config:
    """An LSTM with attention whose size suits the number of pairs, if no task is recognised."""
    total, batch = amount.examples, usual_batch(amount.positions)
    size = next((size for limit, size in ((2_000, 64), (20_000, 128), (500_000, 256)) if total < limit), 512)
    dropout = 0.3 if total < 20_000 else 0.2
    embedding = (
        size if "bpe" in [getattr(text, "tokens", "") for text in (*data.sources, data.target)] else max(32, size // 2)
    )
    metrics = choose_metrics(target)
    return Config(
        data=data,
        model=EncoderDecoderConfig(
            encoder=RecurrentEncoderConfig(kind="lstm", embedding=embedding, size=size, dropout=dropout),
            context=AttentionConfig(score="additive"),
            decoder=BahdanauConfig(cell="lstm", embedding=embedding, size=size, dropout=dropout),
        ),
        training=TrainingConfig(batch_tokens=batch, learning_rate=2e-3 if batch < 2048 else 1e-3, metric=metrics[0]),
        evaluation=EvaluationConfig(metrics=metrics),
    )


def column_section(files: list[str], columns: Columns | None, reasons: list[str]) -> DataConfig:
    """The data section with files and columns only."""
    dev = find_dev(files)
    if columns is None:
        reasons.append(f"two parallel files: {files[0]} is the source, {files[1]} the target")
        return DataConfig(train=files, dev=dev)
    reasons.append(columns.reason)
    return columns.data_config(files[0], dev)


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


def usual_batch(tokens: float) -> int:
    """Tokens in a batch, for about 200 updates an epoch."""
    return int(clamp(256, 2 ** round(math.log2(max(1.0, tokens / 200))), 8192))


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
