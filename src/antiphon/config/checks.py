"""Combinations of values that are each right but do not go together."""

from __future__ import annotations

from antiphon.config.checks_model import model_problems
from antiphon.config.networks import EncoderDecoderConfig, LanguageModelConfig
from antiphon.config.schema import Config, DataConfig, NoiseConfig, TextConfig, TrainingConfig
from antiphon.config.yaml_text import write_value

__all__ = ["OF_LOSS", "check_config", "data_problems", "learning_problems", "needs_answers", "text_problems"]

# What only a language model has, and what it has no use for.

OF_LOSS = ("loss", "perplexity", "word_perplexity", "bits_per_character")  # the metrics that need no answers


def text_problems(config: Config) -> list[str]:
    """A sentence for each key that is for language models only, or for all others only."""
    if config.model.kind != "language-model":
        return source_problems(config)
    data, problems = config.data, []
    if data.source is not None:
        problems.append("data.source: a language model reads its text alone, without a source; set it to null")
    if data.shared_vocabulary:
        problems.append("data.shared_vocabulary: a language model has one side only; set it to false")
    for key, files in (("data.train", data.train), ("data.dev", data.dev)):
        if isinstance(files, list):
            problems.append(f"{key}: a language model reads one file of texts, got {' and '.join(files)}; give one")
    if isinstance(data.target.column, list):
        count = len(data.target.column)
        problems.append(f"data.target.column: one column is the text, got a list of {count}; give one number or name")
    problems += window_problems(data, config.training.batch_tokens)
    return [*problems, *metric_problems(config), *decoded_problems(config.training)]


def source_problems(config: Config) -> list[str]:
    """The other models read a source, and rows."""
    kind, problems = config.model.kind, []
    if config.data.source is None:
        problems.append(
            f"data.source: null is for language models, but model.kind is {kind}; "
            "give it a section (column, tokens), or set model.kind to language-model"
        )
    if config.data.window is not None:
        problems.append(
            f"data.window: {config.data.window} is for language models, but model.kind is {kind}; "
            "set it to null, or model.kind to language-model"
        )
    return problems


def window_problems(data: DataConfig, batch_tokens: int) -> list[str]:
    """A stream is cut into windows, and a batch holds one at least."""
    problems: list[str] = []
    if data.window is None:
        return problems
    longest, usual = data.target.max_length, TextConfig.model_fields["max_length"].default
    if longest != usual:
        problems.append(
            f"data.target.max_length: {longest} is the longest line, but data.window makes one stream of all lines; "
            f"set it back to {usual}, or data.window to null"
        )
    if data.window > batch_tokens:
        problems.append(
            f"data.window: a window of {data.window} tokens does not fit into training.batch_tokens {batch_tokens}; "
            f"set training.batch_tokens to {data.window} or more, or lower data.window"
        )
    return problems


def decoded_problems(training: TrainingConfig) -> list[str]:
    """Nothing is decoded to measure a language model."""
    decoded, usual = training.dev_examples, TrainingConfig.model_fields["dev_examples"].default
    if decoded == usual:
        return []
    return [
        f"training.dev_examples: {decoded} is how many dev examples are decoded, but a language model is measured by "
        f"its loss, on all of dev; set it back to {usual}"
    ]


def metric_problems(config: Config) -> list[str]:
    """Only what follows from the loss can be measured."""
    asked = [("training.metric", config.training.metric)]
    asked += [("evaluation.metrics", name) for name in config.evaluation.metrics]
    return [f"{key}: {needs_answers(name)}" for key, name in asked if name not in OF_LOSS]


def needs_answers(metric: str) -> str:
    """Why a language model has no such figure, and which it has."""
    choices = ", ".join(OF_LOSS)
    return f"{metric} compares answers with references, and a language model has none; choose among {choices}"


# Options of frozen parts, pretext tasks and scheduled sampling that do not go together or would be ignored.


def learning_problems(config: Config) -> list[str]:
    """A sentence for each combination that cannot work or would be ignored."""
    return [*freeze_problems(config), *noise_problems(config), *sampling_problems(config)]


def freeze_problems(config: Config) -> list[str]:
    """Something must be left to learn, and what is frozen may not be part of what is not."""
    model = config.model
    parts = ["encoder", "decoder"] if isinstance(model, EncoderDecoderConfig) else ["decoder"]
    frozen = [part for part in parts if getattr(getattr(model, part), "freeze", False)]  # of a list none can be
    if not frozen:
        return []
    shared = model.tie in ("tables", "all")
    if (isinstance(model, LanguageModelConfig) or len(frozen) == 2) or (shared and len(parts) == 1):
        keys = " and ".join(f"model.{part}.freeze" for part in frozen)
        return [f"{keys}: nothing is left to learn; set {'one of them' if len(frozen) == 2 else 'it'} to false"]
    if shared:
        other = "decoder" if frozen == ["encoder"] else "encoder"
        return [
            f"model.{frozen[0]}.freeze: with tie: {model.tie} its table of vectors is that of the {other}, which is "
            "to learn; set model.tie to output or none, or freeze to false"
        ]
    return []


def noise_problems(config: Config) -> list[str]:
    """Noise is for a source."""
    noise, problems = config.training.noise, []
    usual = NoiseConfig.model_fields["span"].default
    if noise.span != usual and noise.infill == 0:
        problems.append(
            f"training.noise.span: {noise.span:g} is the length of spans to fill in, but infill is 0; "
            f"set it back to {usual:g}, or training.noise.infill above 0"
        )
    for key in ("mask", "delete", "infill", "permute"):
        value = getattr(noise, key)
        if value and isinstance(config.model, LanguageModelConfig):
            problems.append(
                f"training.noise.{key}: {write_value(value)} of the source, but a language model has none; "
                f"set it to {write_value(NoiseConfig.model_fields[key].default)}, or model.kind to encoder-decoder"
            )
    return problems


def sampling_problems(config: Config) -> list[str]:
    """How a share climbs means nothing if it stays 0; and own words come one at a time."""
    training, problems = config.training, []
    for key in ("sampling_schedule", "sampling_updates"):
        value, usual = getattr(training, key), TrainingConfig.model_fields[key].default
        if training.sampling == 0 and value != usual:
            problems.append(
                f"training.{key}: {value} is how scheduled sampling climbs, but training.sampling is 0; "
                f"set it back to {write_value(usual)}, or training.sampling above 0"
            )
    if training.sampling and getattr(config.model.decoder, "norm", None) == "batch":
        problems.append(
            f"training.sampling: {training.sampling:g} of the words are the decoder's own, which come one at a time, "
            "but model.decoder.norm: batch counts all positions at once; set norm to layer, or sampling to 0"
        )
    return problems


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
