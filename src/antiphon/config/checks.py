"""Combinations of values that are each right but do not go together."""

from __future__ import annotations

from antiphon.config.schema import Config, DataConfig, TrainingConfig

__all__ = ["check_config", "data_problems"]


def check_config(config: Config) -> list[str]:
    """A sentence for each combination that cannot work or would be ignored."""
    return [*attention_problems(config), *training_problems(config.training), *data_problems(config.data)]


def attention_problems(config: Config) -> list[str]:
    """The score has to fit the states it compares."""
    context, encoder, decoder = config.model.context, config.model.encoder, config.model.decoder
    problems = []
    directions = 2 if encoder.bidirectional else 1
    key = encoder.size * directions
    if context.score == "dot" and decoder.size != key:
        made = f"{encoder.size} x {directions} directions" if directions == 2 else "one direction"
        problems.append(
            f"model.context.score: dot needs states of one size, but the decoder's is {decoder.size} and the encoder's "
            f"{key} ({made}); set model.decoder.size to {key}, or the score to bilinear"
        )
    if context.size is not None and context.score != "additive":
        problems.append(
            f"model.context.size: {context.size} is the inner size of the additive score, but the score is "
            f"{context.score}; set it to null, or the score to additive"
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
    if isinstance(data.source.column, list):
        problems.append(
            f"data.source.column: one column is the source, got a list of {len(data.source.column)}; "
            "give one number or name (only the target may have several)"
        )
    for key in ("tokens", "vocabulary", "min_count"):
        left, right = getattr(data.source, key), getattr(data.target, key)
        if data.shared_vocabulary and left != right:
            problems.append(
                f"data.shared_vocabulary: one vocabulary cannot have data.source.{key} {left} and data.target.{key} "
                f"{right}; make them equal, or set data.shared_vocabulary to false"
            )
    columns = [data.source.column] if not isinstance(data.source.column, list) else []
    columns += data.target.column if isinstance(data.target.column, list) else [data.target.column]
    for column in columns:
        if isinstance(column, int) and column < 0:
            problems.append(f"column {column} in data: columns are counted from 0; give 0 or more, or a name")
    return problems
