"""Combinations of values that are each right but do not go together."""

from __future__ import annotations

from antiphon.config.combinations import model_problems
from antiphon.config.learning import learning_problems
from antiphon.config.schema import Config, DataConfig, TrainingConfig
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
    ]


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
    source = data.source
    if source and isinstance(source.column, list):
        problems.append(
            f"data.source.column: one column is the source, got a list of {len(source.column)}; "
            "give one number or name (only the target may have several)"
        )
    for key in ("tokens", "vocabulary", "min_count", "tokenizer"):
        left, right = getattr(source, key, None), getattr(data.target, key)
        if source and data.shared_vocabulary and left != right:
            problems.append(
                f"data.shared_vocabulary: one vocabulary cannot have data.source.{key} {write_value(left)} and "
                f"data.target.{key} {write_value(right)}; make them equal, or set data.shared_vocabulary to false"
            )
    columns = [source.column] if source and not isinstance(source.column, list) else []
    columns += data.target.column if isinstance(data.target.column, list) else [data.target.column]
    for column in columns:
        if isinstance(column, int) and column < 0:
            problems.append(f"column {column} in data: columns are counted from 0; give 0 or more, or a name")
    return problems
