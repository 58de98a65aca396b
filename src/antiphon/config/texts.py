"""What only a language model has, and what it has no use for."""

from __future__ import annotations

from antiphon.config.schema import Config, DataConfig, TextConfig, TrainingConfig

__all__ = ["OF_LOSS", "needs_answers", "text_problems"]

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
