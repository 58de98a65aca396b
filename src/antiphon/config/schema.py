"""Every key of a configuration, its type, its default and what it means.

The descriptions are the comments that `antiphon init` writes beside each key.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from antiphon.config.networks import EncoderDecoderConfig, ModelConfig
from antiphon.config.sections import OrRegistered, Positive, Section, usual_kind
from antiphon.config.sources import AudioConfig, FeaturesConfig, FramesConfig, FrontConfig, ImageConfig
from antiphon.config.training import Metric, TrainingConfig

__all__ = [
    "FRONTS_OF",
    "Config",
    "DataConfig",
    "DecodingConfig",
    "EvaluationConfig",
    "Metric",
    "SourceConfig",
    "TextConfig",
    "TrainingConfig",
    "front_kind",
]

Column = int | str
Files = str | Annotated[list[str], Field(min_length=2, max_length=2)]


class TextConfig(Section):
    """One side of the pairs: its column and its tokens."""

    kind: Literal["text"] = Field("text", description="what the column holds: text | image | audio | features | frames")
    column: Column | Annotated[list[Column], Field(min_length=1)] = Field(
        0, description="number (from 0) or name; the target may have a list: several references"
    )
    tokens: Literal["characters", "letters", "words", "bpe", "unigram"] = Field(
        "characters",
        description="characters (grapheme clusters) | letters (decomposed: a Hangul syllable is three, é is e and ´) | "
        "words (split at white space) | bpe | unigram",
    )
    vocabulary: Positive = Field(8000, description="maximum number of tokens; the number that bpe and unigram learn")
    min_count: Positive = Field(1, description="characters or words that occur less often are unknown")
    max_length: Positive = Field(200, description="examples with more tokens than this are left out and counted")
    tokenizer: str | None = Field(None, description="a run whose tokenizer is used; null: learnt from train")


SourceConfig = Annotated[
    TextConfig | ImageConfig | AudioConfig | FeaturesConfig | FramesConfig,
    Field(discriminator="kind"),
    usual_kind("text"),
]


# The front ends of each kind of source, the usual one first.
FRONTS_OF: dict[str, tuple[str, ...]] = {
    "text": (),
    "image": ("cells", "patches", "linear"),
    "audio": ("subsampled", "linear"),
    "features": ("linear", "subsampled"),
    "frames": ("frame-cells", "linear"),
}


def front_kind(source: str, chosen: FrontConfig | None) -> str:
    """The kind of front end that a source of this kind gets; `tokens` for a text."""
    return chosen.kind if chosen is not None else (*FRONTS_OF[source], "tokens")[0]


class DataConfig(Section):
    """The examples."""

    train: Files = Field(
        description="TSV, CSV or JSONL (also .gz); [source file, target file]; @NAME/SPLIT; language models: plain text"
    )
    dev: Files | None = Field(None, description="examples that choose the best weights; null: hold some out of train")
    hold_out: Annotated[float, Field(gt=0.0, lt=0.5)] = Field(
        0.05, description="share of train that is held out as dev when dev is null"
    )
    header: bool | None = Field(None, description="true: the first line names the columns; null: if a column is a name")
    source: SourceConfig | Annotated[list[SourceConfig], Field(min_length=2)] | None = Field(
        default_factory=lambda: TextConfig(column=0),
        description="the input; a list: several sources; null for language models",
    )
    target: TextConfig = Field(default_factory=lambda: TextConfig(column=1), description="the output")
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


class DecodingConfig(Section):
    """Defaults of the search; options of a command override them."""

    beam: Positive = Field(5, description="hypotheses kept at each step; 1: greedy")
    length_penalty: Annotated[float, Field(ge=0.0)] = Field(
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
        "cer, wer, per, bleu, bleu_1, bleu_2, bleu_3 (n-grams up to n), chrf, ter, rouge_1, rouge_2, rouge_l "
        "(F1 of lower-cased words, not stemmed)",
    )


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
        """The defaults of a language model: no source, the first column as its text, metrics of the loss."""
        model = values.get("model") if isinstance(values, dict) else None
        kind = model.get("kind") if isinstance(model, dict) else getattr(model, "kind", model)
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
