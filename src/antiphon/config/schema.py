"""Every key of a configuration, its type, its default and what it means.

The descriptions are the comments that `antiphon init` writes beside each key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from antiphon.config.networks import EncoderDecoderConfig, ModelConfig
from antiphon.config.sections import Delimiter, Natural, OrRegistered, Positive, Section, Share, default_kind
from antiphon.config.sources import AudioConfig, FeaturesConfig, FramesConfig, FrontEndConfig, ImageConfig

__all__ = [
    "FRONT_ENDS_OF_KIND", "Config", "DataConfig", "DecodingConfig", "EvaluationConfig", "Metric", "NoiseConfig",
    "ScheduleConfig", "SourceConfig", "TextConfig", "TrainingConfig", "front_kind",
]  # fmt: skip

Column = int | str
Files = str | Annotated[list[str], Field(min_length=2, max_length=2)]


class TextConfig(Section):
    """One side of the pairs: its column and its tokens."""

    kind: Literal["text"] = Field("text", description="what the column holds: text | image | audio | features | frames")
    column: Column | Annotated[list[Column], Field(min_length=1)] = Field(
        0,
        description="number (from 0) or name (a.b in JSON: b inside a); the target may have a list: several references",
    )
    tokens: Literal["characters", "letters", "words", "bpe", "unigram"] = Field(
        "characters",
        description="characters (grapheme clusters) | letters (decomposed: a Hangul syllable is three, é is e and ´) | "
        "words (split at white space) | bpe | unigram",
    )
    vocabulary: Positive = Field(8000, description="maximum number of tokens; the number that bpe and unigram learn")
    min_count: Positive = Field(1, description="characters or words that occur less often are unknown")
    lowercase: bool = Field(False, description="true: the text is read, written and compared in lower case")
    normalization: Literal["nfc", "nfkc"] | None = Field(
        None,
        description="Unicode normalisation of the text: nfc (é is one character, however it is stored) | nfkc "
        "(also ﬁ is fi, ² is 2) | null: none",
    )
    affixes: bool = Field(
        False,
        description="words of a source: add embeddings of the end, the beginning and the case of each word, which are "
        "all that is known of an unknown one; words are split at spaces and tabs only",
    )
    max_length: Positive = Field(200, description="examples with more tokens than this are left out and counted")
    tokenizer: str | None = Field(None, description="a run whose tokenizer is used; null: learnt from train")


SourceConfig = Annotated[
    TextConfig | ImageConfig | AudioConfig | FeaturesConfig | FramesConfig,
    Field(discriminator="kind"),
    default_kind("text"),
]


# The front ends of each kind of source, the usual one first.
FRONT_ENDS_OF_KIND: dict[str, tuple[str, ...]] = {
    "text": (),
    "image": ("cells", "patches", "linear"),
    "audio": ("subsampled", "linear"),
    "features": ("linear", "subsampled"),
    "frames": ("frame-cells", "linear"),
}


def front_kind(source: str, chosen: FrontEndConfig | None) -> str:
    """The kind of front end that a source of this kind gets; `tokens` for a text."""
    return chosen.kind if chosen is not None else (*FRONT_ENDS_OF_KIND[source], "tokens")[0]


class DataConfig(Section):
    """The examples."""

    train: Files = Field(
        description="TSV, CSV, JSON, JSONL (also .gz), parquet, xlsx; [source file, target file]; @NAME/SPLIT; "
        "language models: plain text"
    )
    dev: Files | None = Field(None, description="examples that choose the best weights; null: hold some out of train")
    hold_out: Annotated[float, Field(gt=0.0, lt=0.5)] = Field(
        0.05, description="share of train that is held out as dev when dev is null"
    )
    delimiter: Delimiter | None = Field(
        None,
        description="between the columns: tab | comma | semicolon | pipe | another character; null: by the first lines",
    )
    header: bool | None = Field(None, description="true: the first line names the columns; null: if a column is a name")
    source: SourceConfig | Annotated[list[SourceConfig], Field(min_length=2)] | None = Field(
        default_factory=lambda: TextConfig(column=0),
        description="the input; a list: several sources; null for language models",
    )
    target: TextConfig = Field(default_factory=lambda: TextConfig(column=1), description="the output")
    labels: bool = Field(
        False,
        description="the target has one word (a label) for each word of the source; lines with unequal numbers are "
        "left out and counted; always true of a tagger",
    )
    turns: Annotated[str, Field(min_length=1)] | None = Field(
        None,
        description="dialogue: the mark between two turns of a source, such as <turn>; `antiphon chat` reads as many "
        "turns as there are in the longest dialogue of train; null: a source is one turn",
    )
    shared_vocabulary: bool = Field(False, description="one vocabulary for all texts of both sides")
    skip_unreadable: bool = Field(
        False, description="leave out examples whose file is missing or cannot be read, and count them; false: stop"
    )
    window: Positive | None = Field(
        None,
        description="language models: read the text as one stream in windows of this many tokens, line ends included; "
        "a recurrent network keeps its state from window to window, a Transformer does not; null: line by line",
    )

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


Metric = Literal[
    "loss",
    "perplexity",
    "word_perplexity",
    "bits_per_character",
    "exact_match",
    "token_accuracy",
    "span_f1",
    "token_error_rate",
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
OPTIMIZERS = "adamw | adam | sgd"
DECAY = "weight decay: decoupled in adamw, L2 regularisation in adam and sgd"
SCHEDULES = "constant | inverse-sqrt | cosine | plateau"
WARMUP = "updates over which the learning rate rises from 0 to its maximum"


class AdamConfig(Section):
    """Adam, or AdamW with decoupled weight decay."""

    kind: Literal["adamw", "adam"] = Field("adamw", description=OPTIMIZERS)
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.0, description=DECAY)


class SGDConfig(Section):
    """Stochastic gradient descent."""

    kind: Literal["sgd"] = Field("sgd", description=OPTIMIZERS)
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(0.0, description=DECAY)
    momentum: Share = Field(0.0, description="momentum; 0: none")


class ScheduleConfig(Section):
    """A schedule that depends on the number of the update alone."""

    kind: Literal["inverse-sqrt", "cosine", "constant"] = Field("inverse-sqrt", description=SCHEDULES)
    warmup: Natural = Field(400, description=WARMUP)


class PlateauConfig(Section):
    """The learning rate falls when the metric no longer improves."""

    kind: Literal["plateau"] = Field("plateau", description=SCHEDULES)
    warmup: Natural = Field(400, description=WARMUP)
    factor: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(0.5, description="the learning rate is multiplied by this")
    patience: Positive = Field(2, description="after this many evaluations without a better metric")


Optimizer = Annotated[AdamConfig | SGDConfig, Field(discriminator="kind"), default_kind("adamw")]
Schedule = Annotated[ScheduleConfig | PlateauConfig, Field(discriminator="kind"), default_kind("inverse-sqrt")]


class GuidedAttentionConfig(Section):
    """Guided attention: attention far from the diagonal costs, for sources in the order of the target."""

    weight: Annotated[float, Field(gt=0.0)] = Field(description="weight of the guided attention loss")
    width: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        0.2, description="distance from the diagonal that costs little, as a share of the source"
    )


class ScheduledSamplingConfig(Section):
    """Scheduled sampling: some decoder inputs are the model's own predictions."""

    probability: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        description="highest probability that an input is the model's own prediction"
    )
    schedule: Literal["linear", "exponential", "inverse-sigmoid"] = Field(
        "linear", description="how the probability rises from 0: linear | exponential | inverse-sigmoid"
    )
    updates: Positive | None = Field(None, description="updates until it is reached; null: all of them")


def _number_as_share(value: object) -> object:
    """`infill: 0.3` is short for `infill: {share: 0.3}`, and `infill: 0` for null."""
    if type(value) in (int, float):
        return {"share": value} if value else None
    return value


class InfillConfig(Section):
    """Text infilling: spans of tokens are replaced by one <unk> each."""

    share: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(description="share of source tokens inside the spans")
    span: Annotated[float, Field(gt=0.0)] = Field(3.0, description="mean length of a span (Poisson)")


class NoiseConfig(Section):
    """Denoising as a pretext task: the source is corrupted anew in every epoch, the target is not."""

    mask: Share = Field(0.0, description="share of source tokens that become <unk>")
    delete: Share = Field(0.0, description="share of source tokens that are deleted")
    infill: Annotated[InfillConfig | None, BeforeValidator(_number_as_share)] = Field(
        None, description="spans of source tokens become one <unk> each: a share, or {share, span}; null: none"
    )
    permute: bool = Field(False, description="shuffle the sentences of a source (each ends with . ! or ?)")
    shuffle: Annotated[int, Field(ge=0)] = Field(
        0, description="source tokens change places, each moves by at most this many; 0: none"
    )

    @property
    def enabled(self) -> bool:
        """True if there is any noise."""
        return bool(self.mask or self.delete or self.infill or self.permute or self.shuffle)


class TrainingConfig(Section):
    """Optimisation: batches, optimizer, schedule, stopping."""

    epochs: Positive = Field(20, description="maximum number of passes over the training data")
    max_updates: Positive | None = Field(None, description="maximum number of updates; null: epochs decide")
    max_minutes: Annotated[float, Field(gt=0.0)] | None = Field(
        None,
        description="minutes of training, evaluations included; then it ends after the next update, whatever is left "
        "of the schedule; null: no limit",
    )
    batch_tokens: Positive = Field(4096, description="size of a batch: rows x the longer side, padding included")
    accumulate: Positive = Field(1, description="batches whose gradients are accumulated for one update")
    optimizer: Optimizer = Field(default_factory=AdamConfig, description=OPTIMIZERS)
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(1e-3, description="maximum learning rate")
    schedule: Schedule = Field(default_factory=ScheduleConfig, description=f"learning rate schedule: {SCHEDULES}")
    clip: Annotated[float, Field(gt=0.0)] | None = Field(1.0, description="maximum gradient norm; null: no clipping")
    label_smoothing: Share = Field(0.0, description="probability that the loss spreads evenly over all tokens")
    guided_attention: GuidedAttentionConfig | None = Field(
        None, description="loss for attention off the diagonal (a line of print, speech): {weight, width}; null: none"
    )
    metric: Annotated[Metric, OrRegistered("metric")] = Field(
        "loss", description="chooses the best weights, on dev: loss, exact_match, per, bleu, ..."
    )
    evaluate_every: Positive | None = Field(None, description="updates between evaluations; null: after each epoch")
    checkpoint_every: Positive | None = Field(
        None, description="updates between checkpoints; null: only at evaluations"
    )
    patience: Positive | None = Field(
        None, description="early stopping: after this many evaluations without a better metric; null: never"
    )
    min_updates: Natural = Field(
        1000,
        description="patience counts only after this many updates, and once the dev loss has been 5 % below that of a "
        "unigram model (the frequencies of target tokens and lengths alone)",
    )
    dev_examples: Positive = Field(500, description="dev examples decoded at each evaluation (the loss takes all)")
    keep: Positive = Field(2, description="checkpoints kept beside the best")
    average: Positive = Field(1, description="average the weights of the last n evaluations, if that is better")
    bad_updates: Positive = Field(5, description="stop after this many updates in a row whose loss is NaN or infinite")
    noise: NoiseConfig = Field(default_factory=NoiseConfig, description="denoising: how the source is corrupted")
    scheduled_sampling: ScheduledSamplingConfig | None = Field(
        None, description="feed the model its own predictions: {probability, schedule, updates}; null: teacher forcing"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(1, description="the same seed gives the same weights")
    threads: Positive | None = Field(None, description="CPU threads; null: one for each core")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="of matrix products: bfloat16 is faster on processors that have it (AVX-512 BF16, AMX), with 8 "
        "instead of 24 significant bits; weights, sums and losses stay float32, and so does training elsewhere",
    )
    track: list[Literal["tensorboard", "wandb", "mlflow"]] = Field(
        default_factory=list, description="write the figures into RUN/track, too: tensorboard, wandb, mlflow"
    )


class DecodingConfig(Section):
    """Defaults of the search; options of a command override them."""

    beam: Positive = Field(5, description="hypotheses kept at each step; 1: greedy")
    length_penalty: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        1.0, description="exponent a of sum(log p) / length^a; 0: the plain sum"
    )
    max_length: Positive = Field(200, description="maximum length of an answer in tokens")
    joint: Annotated[float, Field(ge=0.0)] = Field(
        0.0,
        description="weight of joint n-grams of source and target when a beam is reranked; for monotone pairs "
        "such as spelling and sound. 0: none",
    )
    replace_unknown: bool = Field(
        False,
        description="replace <unk> in an answer by the source token with the highest attention weight",
    )
    batch_size: Positive = Field(128, description="maximum number of sentences decoded together")


class EvaluationConfig(Section):
    """Metrics that `antiphon evaluate` reports."""

    metrics: Annotated[list[Annotated[Metric, OrRegistered("metric")]], Field(min_length=1)] = Field(
        default=["exact_match", "token_accuracy", "cer"],
        description="any of loss, perplexity, word_perplexity, bits_per_character, exact_match, token_accuracy, "
        "span_f1 (of BIO labels), "
        "token_error_rate (edits / length), per (the same of pronunciations), cer, wer, bleu, bleu_1, bleu_2, bleu_3 "
        "(n-grams up to n), chrf, ter, rouge_1, rouge_2, rouge_l (F1 of lower-cased words, not stemmed)",
    )


def _usual_tagger(values: dict[str, Any]) -> dict[str, Any]:
    """The defaults of a tagger: words with a label each, and metrics of labels."""
    data, evaluation = values.get("data"), values.get("evaluation", {})
    if isinstance(data, dict):
        data = {"labels": True, **data, "source": _words(data, "source", 0), "target": _words(data, "target", 1)}
    if isinstance(evaluation, dict):
        evaluation = {"metrics": ["token_accuracy", "exact_match"], **evaluation}
    return {**values, "data": data, "evaluation": evaluation}


def _words(data: dict[str, Any], name: str, column: int) -> Any:  # noqa: ANN401 (any YAML value)
    """One side of the data; the tokens of a text are words unless it says otherwise."""
    side = data.get(name, {})
    text = isinstance(side, dict) and side.get("kind", "text") == "text"
    return {"tokens": "words", "column": column, **side} if text else side


class Config(Section):
    """A whole run."""

    data: DataConfig = Field(description="the examples")
    model: ModelConfig = Field(default_factory=EncoderDecoderConfig, description="the network")
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="how the weights are learnt")
    decoding: DecodingConfig = Field(default_factory=DecodingConfig, description="how answers are decoded")
    evaluation: EvaluationConfig = Field(
        default_factory=EvaluationConfig, description="what `antiphon evaluate` reports"
    )

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, values: Any) -> Any:  # noqa: ANN401 (any YAML value)
        """The defaults of a tagger; those of a language model: no source, the first column, metrics of the loss."""
        model = values.get("model") if isinstance(values, dict) else None
        kind = model.get("kind") if isinstance(model, dict) else getattr(model, "kind", model)
        if kind == "tagger":
            return _usual_tagger(values)
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
