"""Combinations of values that are each right but do not work together: the data, the sources, training."""

from __future__ import annotations

from pathlib import Path

from antiphon.config.checks_model import encoder_paths, model_problems
from antiphon.config.checks_tagger import affix_problems, tagger_problems
from antiphon.config.networks import EncoderDecoderConfig, LanguageModelConfig, TaggerConfig, front_ends_of, state_size
from antiphon.config.schema import (
    FRONT_ENDS_OF_KIND,
    Config,
    DataConfig,
    SourceConfig,
    TextConfig,
    TrainingConfig,
    front_kind,
)
from antiphon.config.sections import WITH_DELIMITERS, file_format
from antiphon.config.sources import CellsConfig, ImageConfig
from antiphon.config.yaml_text import write_value

__all__ = ["OF_LOSS", "check_config", "data_problems", "needs_answers"]

OF_LOSS = ("loss", "perplexity", "word_perplexity", "bits_per_character")  # the metrics that need no answers
GRIDS = ("cells", "patches")  # front ends whose vectors stand in rows and columns, and have positions


def check_config(config: Config) -> list[str]:
    """A sentence for each combination that cannot work or would have no effect."""
    language_model = isinstance(config.model, LanguageModelConfig)
    return [
        *model_problems(config),
        *tagger_problems(config),
        *affix_problems(config),
        *_source_problems(config),
        *_freeze_problems(config),
        *(_language_model_problems(config) if language_model else _pair_problems(config)),
        *data_problems(config.data),
        *_joint_problems(config),
    ]


def _joint_problems(config: Config) -> list[str]:
    joint, problems = config.decoding.joint, []
    if joint and config.data.text is None:
        problems.append(f"decoding.joint: {joint:g} is for a source that is one text; set it to 0")
    if joint and config.decoding.beam == 1:
        problems.append(
            f"decoding.joint: {joint:g} reranks the answers of a beam, but decoding.beam is 1; "
            "raise it, or set joint to 0"
        )
    return problems


def _freeze_problems(config: Config) -> list[str]:
    """Something must be left to train, and no weight may be both frozen and trained."""
    model = config.model
    parts = ["encoder", "decoder"] if isinstance(model, EncoderDecoderConfig | TaggerConfig) else ["decoder"]
    frozen = [part for part in parts if getattr(getattr(model, part), "freeze", False)]  # a list of encoders has none
    if not frozen:
        return []
    shared = model.tie in ("tables", "all")
    if isinstance(model, LanguageModelConfig) or len(frozen) == 2 or (shared and len(parts) == 1):
        keys = " and ".join(f"model.{part}.freeze" for part in frozen)
        return [f"{keys}: nothing is left to learn; set {'one of them' if len(frozen) == 2 else 'it'} to false"]
    if shared:
        other = "decoder" if frozen == ["encoder"] else "encoder"
        return [
            f"model.{frozen[0]}.freeze: with tie: {model.tie} its embeddings are those of the {other}, which is "
            "trained; set model.tie to output or none, or freeze to false"
        ]
    return []


# Language models, and all others.


def _language_model_problems(config: Config) -> list[str]:
    """A language model has no source, and its metrics come from the loss."""
    data, training, problems = config.data, config.training, []
    if data.source is not None:
        problems.append("data.source: a language model has no source; set it to null")
    if data.shared_vocabulary:
        problems.append("data.shared_vocabulary: a language model has one side only; set it to false")
    for key, files in (("data.train", data.train), ("data.dev", data.dev)):
        if isinstance(files, list):
            problems.append(f"{key}: a language model reads one file of texts, got {' and '.join(files)}; give one")
    if isinstance(data.target.column, list):
        count = len(data.target.column)
        problems.append(f"data.target.column: one column is the text, got a list of {count}; give one number or name")
    problems += [
        f"training.noise.{key}: a language model has no source; leave it out"
        for key in type(training.noise).model_fields
        if getattr(training.noise, key)
    ]
    problems += _window_problems(data, training.batch_tokens)
    metrics = [
        ("training.metric", training.metric),
        *(("evaluation.metrics", name) for name in config.evaluation.metrics),
    ]
    problems += [f"{key}: {needs_answers(name)}" for key, name in metrics if name not in OF_LOSS]
    decoded, usual = training.dev_examples, TrainingConfig.model_fields["dev_examples"].default
    if decoded != usual:
        problems.append(
            f"training.dev_examples: {decoded} dev examples are decoded, but a language model is measured by its loss "
            f"on all of dev; set it back to {usual}"
        )
    return problems


def _window_problems(data: DataConfig, batch_tokens: int) -> list[str]:
    """A stream has no longest line, and a batch holds at least one window."""
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


def needs_answers(metric: str) -> str:
    """The sentence for a metric that a language model does not have."""
    choices = ", ".join(OF_LOSS)
    return f"{metric} compares answers with references, and a language model has none; choose among {choices}"


def _pair_problems(config: Config) -> list[str]:
    """All other models have a source, and read pairs."""
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


# The data.


def data_problems(data: DataConfig) -> list[str]:
    """Columns, files and vocabularies; also for a configuration made in Python, where it is used."""
    problems = []
    for number, source in enumerate(data.sources):
        if isinstance(source.column, list):
            problems.append(
                f"{data.place(number)}.column: a source has one column, got a list of {len(source.column)}; "
                "give one number or name (only the target may have several)"
            )
        if data.shared_vocabulary and isinstance(source, TextConfig):
            problems += _vocabulary_problems(data, number, source)
    if isinstance(data.source, list):
        problems += _multi_source_problems(data)
    if data.delimiter is not None and not any(map(_has_delimiters, (data.train, data.dev))):
        fact = (
            f"{write_value(data.delimiter)} divides the lines of TSV, CSV, CoNLL and text, but the files here are none"
        )
        problems.append(f"data.delimiter: {fact}; set it to null")
    if data.turns is not None and (data.text is None or data.labels):
        fact = f"{write_value(data.turns)} is between the turns of a dialogue, whose source is one text"
        problems.append(f"data.turns: {fact}{' without labels' if data.labels else ''}; set it to null")
    columns = [source.column for source in data.sources if not isinstance(source.column, list)]
    columns += data.target.column if isinstance(data.target.column, list) else [data.target.column]
    return problems + [
        f"column {column} in data: columns are counted from 0; give 0 or more, or a name"
        for column in columns
        if isinstance(column, int) and column < 0
    ]


def _has_delimiters(files: str | list[str] | None) -> bool:
    """True for a table whose lines are divided; two files side by side have one text on each line."""
    return isinstance(files, str) and file_format(Path(files)) in WITH_DELIMITERS


def _vocabulary_problems(data: DataConfig, number: int, source: TextConfig) -> list[str]:
    """A shared vocabulary is learnt in one way."""
    problems = []
    for key in ("tokens", "vocabulary", "min_count", "lowercase", "normalization", "tokenizer"):
        left, right = getattr(source, key), getattr(data.target, key)
        if left != right:
            problems.append(
                f"data.shared_vocabulary: one vocabulary cannot have {data.place(number)}.{key} {write_value(left)} "
                f"and data.target.{key} {write_value(right)}; make them equal, or set data.shared_vocabulary to false"
            )
    return problems


def _multi_source_problems(data: DataConfig) -> list[str]:
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


# Sources, front ends and encoders.


def _source_problems(config: Config) -> list[str]:
    """A sentence for each key that does not fit the kind of the sources, or their number."""
    problems = [*_width_problems(config.data), *_text_problems(config)]
    if isinstance(config.model, EncoderDecoderConfig):
        problems += [
            *_number_problems(config.model, len(config.data.sources)),
            *_front_problems(config.model, config.data),
            *_copy_problems(config.model, config.data),
            *_encoder_problems(config.model, config.data.sources),
        ]
    return problems


def _number_problems(model: EncoderDecoderConfig, count: int) -> list[str]:
    """Lists are as long as the list of sources."""
    problems = []
    for key, value in (("front", model.front), ("encoder", model.encoder)):
        if isinstance(value, list) and len(value) != count:
            fact = "one source, not a list" if count == 1 else f"{count} sources"
            remedy = "give one section" if count == 1 else f"give {count}, or one section for all"
            problems.append(f"model.{key}: a list of {len(value)}, but data.source is {fact}; {remedy}")
    if count > 1 and model.front is not None and not isinstance(model.front, list):
        problems.append(
            f"model.front: one section, but there are {count} sources; "
            f"give a list of {count}, with null for the default"
        )
    return problems


def _front_problems(model: EncoderDecoderConfig, data: DataConfig) -> list[str]:
    """Each kind of source has its own front ends."""
    problems = []
    for number, (source, front) in enumerate(zip(data.sources, front_ends_of(model, len(data.sources)), strict=False)):
        key = f"model.front[{number}]" if isinstance(model.front, list) else "model.front"
        fitting = FRONT_ENDS_OF_KIND[source.kind]
        if front is not None and front.kind not in fitting:
            remedy = f"set it to {' or '.join(fitting)}, or model.front" if fitting else f"set {key}"
            problems.append(
                f"{key}.kind: {front.kind} is not for {data.place(number)}, which is of kind {source.kind}; "
                f"{remedy} to null"
            )
        if isinstance(front, CellsConfig) and front.wide > len(front.channels):
            stages = len(front.channels)
            problems.append(f"{key}.wide: {front.wide}, but there are {stages} stages; set it to at most {stages}")
    return problems


def _width_problems(data: DataConfig) -> list[str]:
    """The length of a picture is its width."""
    return [
        f"{data.place(number)}.max_length: {source.max_length} is less than the width {source.width}, so every "
        f"picture would be left out; set it to {source.width} or more"
        for number, source in enumerate(data.sources)
        if isinstance(source, ImageConfig) and source.width is not None and source.width > source.max_length
    ]


def _text_problems(config: Config) -> list[str]:
    """Some keys are for texts only, others for files only."""
    data, model, noise = config.data, config.model, config.training.noise
    if not data.sources:
        return []
    texts = any(isinstance(source, TextConfig) for source in data.sources)
    what, problems = _describe_sources(data), []
    if model.kind == "concatenated" and data.text is None:
        problems.append(
            f"model.kind: concatenated reads one text, but data.source is {what}; set model.kind to encoder-decoder"
        )
    if data.shared_vocabulary and not texts:
        problems.append(f"data.shared_vocabulary: data.source is {what} and has no vocabulary; set it to false")
    if model.tie in ("tables", "all") and not texts:
        other = "output" if model.tie == "all" else "none"
        problems.append(f"model.tie: {model.tie} is for two texts, but data.source is {what}; set it to {other}")
    if data.text is None and noise.enabled:
        problems.append(f"training.noise: it is for a source that is one text, but data.source is {what}; leave it out")
    if data.skip_unreadable and all(isinstance(source, TextConfig) for source in data.sources):
        fact = "true is for sources that are files, but there are only texts"
        problems.append(f"data.skip_unreadable: {fact}; set it to false")
    return problems


def _describe_sources(data: DataConfig) -> str:
    """The kind of the only source, or the number of them."""
    return f"of kind {data.sources[0].kind}" if len(data.sources) == 1 else f"{len(data.sources)} sources"


def _copy_problems(model: EncoderDecoderConfig, data: DataConfig) -> list[str]:
    """Copying and marked matches compare tokens of texts."""
    texts = [source for source in data.sources if isinstance(source, TextConfig)]
    kinds, problems = sorted({text.tokens for text in texts}), []
    if model.copying and not texts:
        problems.append(
            f"model.copy: tokens are copied from a text, but data.source is {_describe_sources(data)}; set it to false"
        )
    elif model.copying and data.target.tokens not in kinds:
        problems.append(
            f"model.copy: a token is copied unchanged, but the source has {' and '.join(kinds)} and the target "
            f"{data.target.tokens}; set data.target.tokens to {kinds[0]}, or copy to false"
        )
    if model.matches and len(texts) < 2:
        problems.append(f"model.matches: it compares several texts, but data.source has {len(texts)}; set it to false")
    elif model.matches and not data.shared_vocabulary:
        fact = "the texts of data.source have a vocabulary each"
        problems.append(f"model.matches: {fact}; set data.shared_vocabulary to true, or matches to false")
    return problems


def _encoder_problems(model: EncoderDecoderConfig, sources: list[SourceConfig]) -> list[str]:
    """The states of several encoders have one size; n-grams, weights of other runs and learnt positions."""
    problems, sizes = [], [state_size(encoder) for encoder in model.encoders]
    if len(set(sizes)) > 1:
        problems.append(
            f"model.encoder: states of {' and '.join(map(str, sizes))} cannot be concatenated; make them of one size "
            "(both directions count)"
        )
    for number, (key, encoder) in enumerate(encoder_paths(model)):
        read = sources[number : number + 1] if isinstance(model.encoder, list) else sources
        if encoder.ngrams and not any(isinstance(source, TextConfig) for source in read):
            problems.append(f"{key}.ngrams: they are of tokens, but it reads no text; set it to null")
        for name, value, off in (("from", encoder.from_run, "null"), ("freeze", encoder.freeze, "false")):
            if value and len(sources) > 1:
                problems.append(f"{key}.{name}: only an encoder of one source can have it; set it to {off}")
        positions = getattr(encoder, "positions", None)
        if positions and positions.kind == "learnt" and (grids := _grids(model, read, number)):
            problems.append(
                f"{key}.positions: learnt positions are of one row, but {' and '.join(grids)} have rows and columns, "
                "and positions of their own; set it to none"
            )
    return problems


def _grids(model: EncoderDecoderConfig, read: list[SourceConfig], number: int) -> list[str]:
    """The front ends with rows and columns among those of an encoder; `number` is the place of its first source."""
    fronts = front_ends_of(model, len(read))
    if isinstance(model.encoder, list) and isinstance(model.front, list):
        fronts = fronts[number : number + 1]
    kinds = [front_kind(source.kind, front) for source, front in zip(read, fronts, strict=False)]
    return [kind for kind in kinds if kind in GRIDS]
