"""Every key of a configuration, its type, its default and what it means.

The descriptions are the comments that `antiphon init` writes beside each key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from antiphon.config.networks import EncoderDecoderConfig, ModelConfig
from antiphon.config.sources import (
    AudioConfig,
    FeaturesConfig,
    FramesConfig,
    ImageConfig,
    Natural,
    Positive,
    Section,
    Share,
    with_kinds,
)

__all__ = [
    "Config",
    "DataConfig",
    "DecodingConfig",
    "EvaluationConfig",
    "Metric",
    "NoiseConfig",
    "SourceConfig",
    "TextConfig",
    "TrainingConfig",
]

Column = int | str
Files = str | Annotated[list[str], Field(min_length=2, max_length=2)]
Metric = Literal[
    "loss",
    "perplexity",
    "word_perplexity",
    "bits_per_character",
    "exact_match",
    "token_accuracy",
    "cer",
    "wer",
    "per",
    "bleu",
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "chrf",
    "ter",
    "rouge_1",
    "rouge_2",
    "rouge_l",
]


class TextConfig(Section):
    """One side of the pairs: where it stands and how it is cut into tokens."""

    kind: Literal["text"] = Field("text", description="what the column holds: text | image | audio | features | frames")
    column: Column | Annotated[list[Column], Field(min_length=1)] = Field(
        0, description="number (from 0) or name; for the target also a list: several references"
    )
    tokens: Literal["characters", "letters", "words", "bpe", "unigram"] = Field(
        "characters",
        description="characters (grapheme clusters) | letters (a Hangul syllable is three, é is e and ´) | "
        "words (split at white space) | bpe | unigram",
    )
    vocabulary: Positive = Field(8000, description="at most so many different tokens; bpe and unigram learn so many")
    min_count: Positive = Field(1, description="a character or word seen fewer times than this is unknown")
    max_length: Positive = Field(200, description="longer examples (in tokens) are left out and counted")
    tokenizer: str | None = Field(None, description="a run whose tokenizer is used; null: learnt from train")


SourceConfig = Annotated[
    TextConfig | ImageConfig | AudioConfig | FeaturesConfig | FramesConfig, Field(discriminator="kind")
]


class DataConfig(Section):
    """The examples."""

    train: Files = Field(
        description="TSV, CSV or JSONL (also .gz); [source file, target file]; @NAME/SPLIT; language models: plain text"
    )
    dev: Files | None = Field(None, description="examples to choose the best weights by; null: hold some out of train")
    hold_out: Annotated[float, Field(gt=0.0, lt=0.5)] = Field(
        0.05, description="the share of train that is held out as dev when dev is null"
    )
    header: bool | None = Field(None, description="first line names the columns; null: only if a column is a name")
    source: SourceConfig | Annotated[list[SourceConfig], Field(min_length=2)] | None = Field(
        default_factory=lambda: TextConfig(column=0),
        description="what goes in; a list of sections: several sources; null for language models",
    )
    target: TextConfig = Field(default_factory=lambda: TextConfig(column=1), description="what comes out")
    shared_vocabulary: bool = Field(False, description="one vocabulary, learnt from all texts of both sides")
    skip_unreadable: bool = Field(
        False, description="leave out examples whose file is missing or cannot be read, and count them; false: stop"
    )
    window: Positive | None = Field(
        None,
        description="language models: the text is one stream of windows of so many tokens, in which line ends are "
        "tokens; a recurrent network carries its state on, a transformer sees each window on its own; null: lines",
    )

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, data: Any) -> Any:  # noqa: ANN401 (whatever stood in the file)
        return with_kinds(data, {"source": "text"})

    @property
    def sources(self) -> list[SourceConfig]:
        """All of them, in order; a language model has none."""
        if self.source is None:
            return []
        return self.source if isinstance(self.source, list) else [self.source]

    @property
    def text(self) -> TextConfig | None:
        """The only source, if it is a text."""
        return self.source if isinstance(self.source, TextConfig) else None

    def place(self, number: int) -> str:
        """The key of a source: data.source, or data.source[1] of several."""
        return f"data.source[{number}]" if isinstance(self.source, list) else "data.source"


class NoiseConfig(Section):
    """Pretext tasks: the source is spoilt anew in every epoch, the target is not."""

    mask: Share = Field(0.0, description="share of source tokens that are hidden (<unk>)")
    delete: Share = Field(0.0, description="share of source tokens that are left out")
    infill: Share = Field(0.0, description="share of source tokens hidden in spans, each span one <unk>")
    span: Annotated[float, Field(gt=0.0)] = Field(3.0, description="infill only: mean length of a span (Poisson)")
    permute: bool = Field(False, description="put the sentences of a source (up to . ! or ?) in any order")

    @property
    def enabled(self) -> bool:
        """True if there is any noise."""
        return bool(self.mask or self.delete or self.infill or self.permute)


class TrainingConfig(Section):
    """How the weights are learnt."""

    epochs: Positive = Field(20, description="passes over the training data, at most")
    max_updates: Positive | None = Field(None, description="stop after so many updates; null: epochs decide")
    batch_tokens: Positive = Field(4096, description="a batch: rows x the longer side, padding included")
    accumulate: Positive = Field(1, description="batches added up to one update")
    optimizer: Literal["adam", "adamw", "sgd"] = Field("adamw", description="adam | adamw | sgd")
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(1e-3, description="the highest it gets")
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.0, description="pull of the weights towards 0")
    momentum: Share = Field(0.0, description="sgd only")
    schedule: Literal["constant", "inverse-sqrt", "cosine", "plateau"] = Field(
        "inverse-sqrt", description="constant | inverse-sqrt | cosine | plateau"
    )
    warmup: Natural = Field(400, description="updates over which the rate climbs from 0 to the highest")
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.5, description="plateau only: the rate is multiplied by this"
    )
    plateau_patience: Positive = Field(2, description="plateau only: after so many evaluations without a better metric")
    clip: Annotated[float, Field(gt=0.0)] | None = Field(1.0, description="longest gradient (2-norm); null: no limit")
    label_smoothing: Share = Field(0.0, description="probability spread evenly over all tokens in the loss")
    diagonal: Annotated[float, Field(ge=0.0)] = Field(
        0.0, description="what attention off the diagonal costs; for a source that is read in order (a line, speech)"
    )
    diagonal_width: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        0.2, description="how far off it a look costs little, as a share of the source"
    )
    metric: Metric = Field("loss", description="chooses the best weights, on dev: loss, exact_match, per, bleu, ...")
    evaluate_every: Positive | None = Field(None, description="updates between evaluations; null: after each epoch")
    checkpoint_every: Positive | None = Field(
        None, description="updates between checkpoints; null: only at evaluations"
    )
    patience: Positive | None = Field(None, description="stop after so many evaluations without a better metric")
    dev_examples: Positive = Field(500, description="dev examples to decode at each evaluation (the loss takes all)")
    keep: Positive = Field(2, description="checkpoints to keep beside the best")
    average: Positive = Field(1, description="average the weights of the last so many evaluations, if that is better")
    bad_updates: Positive = Field(5, description="stop after so many updates in a row whose loss is not a number")
    noise: NoiseConfig = Field(default_factory=NoiseConfig, description="pretext tasks: what is done to the source")
    sampling: Share = Field(0.0, description="scheduled sampling: highest share of inputs that are the model's words")
    sampling_schedule: Literal["linear", "exponential", "inverse-sigmoid"] = Field(
        "linear", description="how that share climbs from 0: linear | exponential | inverse-sigmoid"
    )
    sampling_updates: Positive | None = Field(None, description="updates until it is reached; null: all of them")
    seed: Natural = Field(1, description="the same seed gives the same weights")
    threads: Positive | None = Field(None, description="CPU threads; null: what torch chooses, one for each core")


class DecodingConfig(Section):
    """How an answer is searched for, unless the command says otherwise."""

    beam: Positive = Field(5, description="hypotheses kept at each step; 1: greedy")
    length_penalty: Annotated[float, Field(ge=0.0)] = Field(
        1.0, description="exponent a of sum(log p) / length^a; 0: the plain sum"
    )
    max_length: Positive = Field(200, description="longest answer in tokens")
    joint: Annotated[float, Field(ge=0.0)] = Field(
        0.0,
        description="weight of joint n-grams, counted in training, among the answers of a beam; for texts that go "
        "together from left to right (spelling and sound). 0: none",
    )
    replace_unknown: bool = Field(
        False, description="<unk> may be said, and becomes the source token that was attended to most (or copied)"
    )
    batch_size: Positive = Field(128, description="sentences decoded together, at most")


class EvaluationConfig(Section):
    """What `antiphon evaluate` reports."""

    metrics: Annotated[list[Metric], Field(min_length=1)] = Field(
        default=["exact_match", "token_accuracy", "cer"],
        description="any of loss, perplexity, word_perplexity, bits_per_character, exact_match, token_accuracy, "
        "cer, wer, per, bleu, bleu_1, bleu_2, bleu_3 (n-grams up to n), chrf, ter, rouge_1, rouge_2, rouge_l "
        "(F1 of lower-cased words, not stemmed)",
    )


class Config(Section):
    """A whole run."""

    data: DataConfig = Field(description="the examples")
    model: ModelConfig = Field(default_factory=EncoderDecoderConfig, description="the network")
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="how the weights are learnt")
    decoding: DecodingConfig = Field(default_factory=DecodingConfig, description="how an answer is searched for")
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig, description="what is measured")

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, values: Any) -> Any:  # noqa: ANN401 (whatever stood in the file)
        """A model without a kind is an encoder-decoder.

        A language model has no source, and gives no answers; where nothing is said, its text is the first column.
        """
        values = with_kinds(values, {"model": "encoder-decoder"})
        model = values.get("model") if isinstance(values, dict) else None
        kind = model.get("kind") if isinstance(model, dict) else getattr(model, "kind", None)
        if kind != "language-model":
            return values
        data, evaluation = values.get("data"), values.get("evaluation", {})
        if isinstance(data, dict):
            target = data.get("target", {})
            if isinstance(target, dict) and "column" not in target:
                target = {**target, "column": 0}
            data = {"source": None, **data, "target": target}
        if isinstance(evaluation, dict):
            evaluation = {"metrics": ["perplexity", "bits_per_character"], **evaluation}
        return {**values, "data": data, "evaluation": evaluation}
