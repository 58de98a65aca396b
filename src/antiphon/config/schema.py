"""Every key of a configuration, its type, its default and what it means.

The descriptions are the comments that `antiphon init` writes beside each key.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AttentionConfig",
    "BahdanauConfig",
    "Config",
    "DataConfig",
    "DecoderConfig",
    "DecodingConfig",
    "EvaluationConfig",
    "LuongConfig",
    "Metric",
    "ModelConfig",
    "RecurrentEncoderConfig",
    "TextConfig",
    "TrainingConfig",
]

Column = int | str
Files = str | Annotated[list[str], Field(min_length=2, max_length=2)]
Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Cell = Literal["rnn", "gru", "lstm"]
Metric = Literal[
    "loss", "perplexity", "exact_match", "token_accuracy", "cer", "wer", "per", "bleu", "chrf", "ter", "rouge_l"
]


class Section(BaseModel):
    """A part of the configuration: unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TextConfig(Section):
    """One side of the pairs: where it stands and how it is cut into tokens."""

    kind: Literal["text"] = Field("text", description="what the column holds: text")
    column: Column | Annotated[list[Column], Field(min_length=1)] = Field(
        0, description="number (from 0) or name; for the target also a list: several references"
    )
    tokens: Literal["characters", "words", "bpe", "unigram"] = Field(
        "characters", description="characters (grapheme clusters) | words (split at white space) | bpe | unigram"
    )
    vocabulary: Positive = Field(8000, description="at most so many different tokens; bpe and unigram learn so many")
    min_count: Positive = Field(1, description="a character or word seen fewer times than this is unknown")
    max_length: Positive = Field(200, description="longer examples (in tokens) are left out and counted")


class DataConfig(Section):
    """The examples."""

    train: Files = Field(description="TSV, CSV or JSONL (also .gz); [source file, target file]; or @NAME/SPLIT")
    dev: Files | None = Field(None, description="examples to choose the best weights by; null: hold some out of train")
    hold_out: Annotated[float, Field(gt=0.0, lt=0.5)] = Field(
        0.05, description="the share of train that is held out as dev when dev is null"
    )
    header: bool | None = Field(None, description="first line names the columns; null: only if a column is a name")
    source: TextConfig = Field(default_factory=lambda: TextConfig(column=0), description="what goes in")
    target: TextConfig = Field(default_factory=lambda: TextConfig(column=1), description="what comes out")
    shared_vocabulary: bool = Field(False, description="one vocabulary, learnt from both sides")


class RecurrentEncoderConfig(Section):
    """A recurrent network that reads the source."""

    kind: Cell = Field("lstm", description="rnn | gru | lstm")
    embedding: Positive = Field(128, description="size of a token's vector")
    size: Positive = Field(256, description="size of a state, in each direction")
    layers: Positive = Field(1, description="networks stacked on one another")
    bidirectional: bool = Field(True, description="read in both directions and concatenate")
    dropout: Share = Field(0.2, description="share of values set to 0 in training, on embeddings and between layers")


class AttentionConfig(Section):
    """A new context for every step, weighed over all encoder states."""

    kind: Literal["attention"] = Field("attention", description="attention: c_i = sum_j a_ij h_j")
    score: Literal["dot", "bilinear", "additive"] = Field("additive", description="dot | bilinear | additive")
    alignment: Literal["soft"] = Field("soft", description="soft: weights are the softmax of the scores")
    size: Positive | None = Field(None, description="inner size of the additive score; null: the decoder's size")


class BahdanauConfig(Section):
    """Look first with s_{i-1}, then step with the context."""

    kind: Literal["bahdanau"] = Field("bahdanau", description="bahdanau: look with s_(i-1), then step")
    cell: Cell = Field("lstm", description="rnn | gru | lstm")
    embedding: Positive = Field(128, description="size of a token's vector")
    size: Positive = Field(256, description="size of a state")
    layers: Positive = Field(1, description="networks stacked on one another")
    dropout: Share = Field(0.2, description="share of values set to 0 in training, on embeddings, layers and output")


class LuongConfig(Section):
    """Step first, then look with s_i."""

    kind: Literal["luong"] = Field("luong", description="luong: step, then look with s_i")
    cell: Cell = Field("lstm", description="rnn | gru | lstm")
    embedding: Positive = Field(128, description="size of a token's vector")
    size: Positive = Field(256, description="size of a state")
    layers: Positive = Field(1, description="networks stacked on one another")
    dropout: Share = Field(0.2, description="share of values set to 0 in training, on embeddings, layers and output")
    input_feeding: bool = Field(False, description="the last attended state enters the next step")


DecoderConfig = Annotated[BahdanauConfig | LuongConfig, Field(discriminator="kind")]


class ModelConfig(Section):
    """The network."""

    kind: Literal["encoder-decoder"] = Field("encoder-decoder", description="encoder-decoder")
    encoder: RecurrentEncoderConfig = Field(default_factory=RecurrentEncoderConfig, description="reads the source")
    context: AttentionConfig = Field(default_factory=AttentionConfig, description="what the decoder is told of it")
    decoder: DecoderConfig = Field(default_factory=BahdanauConfig, description="writes the target: bahdanau | luong")


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
    seed: Natural = Field(1, description="the same seed gives the same weights")
    threads: Positive | None = Field(None, description="CPU threads; null: what torch chooses, one for each core")


class DecodingConfig(Section):
    """How an answer is searched for, unless the command says otherwise."""

    beam: Positive = Field(5, description="hypotheses kept at each step; 1: greedy")
    length_penalty: Annotated[float, Field(ge=0.0)] = Field(
        1.0, description="exponent a of sum(log p) / length^a; 0: the plain sum"
    )
    max_length: Positive = Field(200, description="longest answer in tokens")
    batch_size: Positive = Field(64, description="sentences decoded together")


class EvaluationConfig(Section):
    """What `antiphon evaluate` reports."""

    metrics: Annotated[list[Metric], Field(min_length=1)] = Field(
        default=["exact_match", "token_accuracy", "cer"],
        description="any of loss, perplexity, exact_match, token_accuracy, cer, wer, per, bleu, chrf, ter, rouge_l",
    )


class Config(Section):
    """A whole run."""

    data: DataConfig = Field(description="the examples")
    model: ModelConfig = Field(default_factory=ModelConfig, description="the network")
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="how the weights are learnt")
    decoding: DecodingConfig = Field(default_factory=DecodingConfig, description="how an answer is searched for")
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig, description="what is measured")
