"""Combinations of values that are each right but do not go together."""

from __future__ import annotations

from antiphon.config.combinations import model_problems
from antiphon.config.learning import learning_problems
from antiphon.config.schema import Config, DataConfig, TextConfig, TrainingConfig
from antiphon.config.texts import text_problems
from antiphon.config.yamltext import write_value

__all__ = ["check_config", "data_problems"]


def check_config(config: Config) -> list[str]:
    """A sentence for each combination that cannot work or would be ignored."""
    return [
        *model_problems(config),
        *training_problems(config.training),
        *learning_problems(config),
        *text_problems(config),
        *data_problems(config.data),
        *joint_problems(config),
    ]


def joint_problems(config: Config) -> list[str]:
    """Joint n-grams are of two texts, and choose among several answers."""
    joint, problems = config.decoding.joint, []
    if joint and config.data.text is None:
        problems.append(f"decoding.joint: {joint:g} is for a source that is one text; set it to 0")
    if joint and config.decoding.beam == 1:
        problems.append(
            f"decoding.joint: {joint:g} chooses among the answers of a beam, but decoding.beam is 1; "
            "raise it, or set joint to 0"
        )
    return problems


def training_problems(training: TrainingConfig) -> list[str]:
    """Settings that only one optimiser or schedule knows."""
    problems = []
    if training.momentum != 0 and training.optimizer != "sgd":
        problems.append(
            f"training.momentum: {training.momentum:g} is only for sgd, but the optimizer is {training.optimizer}; "
            "set it to 0, or the optimizer to sgd"
        )
    for key in ("plateau_factor", "plateau_patience"):
        value, default = getattr(training, key), TrainingConfig.model_fields[key].default
        if value != default and training.schedule != "plateau":
            problems.append(
                f"training.{key}: {value:g} is only for plateau, but the schedule is {training.schedule}; "
                f"set it back to {default:g}, or the schedule to plateau"
            )
    if training.seed >= 2**63:
        problems.append(f"training.seed: {training.seed} is too large; give a number below 2^63")
    return problems


def data_problems(data: DataConfig) -> list[str]:
    """What the two sides and the files must agree on; also asked where a configuration made in Python is used."""
    problems = []
    for number, source in enumerate(data.sources):
        if isinstance(source.column, list):
            problems.append(
                f"{data.place(number)}.column: one column is the source, got a list of {len(source.column)}; "
                "give one number or name (only the target may have several)"
            )
        if data.shared_vocabulary and isinstance(source, TextConfig):
            problems += vocabulary_problems(data, number, source)
    if isinstance(data.source, list):
        problems += several_problems(data)
    columns = [source.column for source in data.sources if not isinstance(source.column, list)]
    columns += data.target.column if isinstance(data.target.column, list) else [data.target.column]
    for column in columns:
        if isinstance(column, int) and column < 0:
            problems.append(f"column {column} in data: columns are counted from 0; give 0 or more, or a name")
    return problems


def vocabulary_problems(data: DataConfig, number: int, source: TextConfig) -> list[str]:
    """One vocabulary is learnt in one way."""
    problems = []
    for key in ("tokens", "vocabulary", "min_count", "tokenizer"):
        left, right = getattr(source, key), getattr(data.target, key)
        if left != right:
            problems.append(
                f"data.shared_vocabulary: one vocabulary cannot have {data.place(number)}.{key} {write_value(left)} "
                f"and data.target.{key} {write_value(right)}; make them equal, or set data.shared_vocabulary to false"
            )
    return problems


def several_problems(data: DataConfig) -> list[str]:
    """Several sources stand in several columns of one file."""
    problems = []
    for key, files in (("data.train", data.train), ("data.dev", data.dev)):
        if isinstance(files, list):
            problems.append(f"{key}: two files have one source and one target, but data.source is a list; give a table")
    columns = [source.column for source in data.sources]
    for number, column in enumerate(columns):
        if column in columns[:number]:
            first = data.place(columns.index(column))
            problems.append(f"{data.place(number)}.column: {write_value(column)} is that of {first}, too; name another")
    return problems
