"""The keys of the network: encoders, contexts, decoders, and the three kinds of model made of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from antiphon.config.sources import (
    CellsConfig,
    FrameCellsConfig,
    LinearConfig,
    PatchesConfig,
    Positive,
    Section,
    Share,
    SubsampledConfig,
    with_kinds,
)

__all__ = [
    "AttentionConfig",
    "BahdanauConfig",
    "Cell",
    "ConcatenatedConfig",
    "ContextConfig",
    "ConvolutionalEncoderConfig",
    "DecoderConfig",
    "EncoderConfig",
    "EncoderDecoderConfig",
    "FrontConfig",
    "LanguageModelConfig",
    "LuongConfig",
    "ModelConfig",
    "MultiHeadConfig",
    "NetworkConfig",
    "NoEncoderConfig",
    "PlainConfig",
    "RecurrentDecoderConfig",
    "RecurrentEncoderConfig",
    "StaticContextConfig",
    "TransformerConfig",
    "TransformerDecoderConfig",
    "TransformerEncoderConfig",
    "state_size",
    "vector_size",
]

Cell = Literal["lstm", "gru", "rnn", "rnn-relu"]
Positions = Literal["sinusoidal", "learnt"]
EncoderPositions = Literal["sinusoidal", "learnt", "none"]

CELLS = "lstm | gru | rnn (tanh) | rnn-relu"
VECTOR = "size of a token's vector"
NGRAMS = "odd lengths of n-grams; the one around each token has a vector that is added to the token's; []: none"
ROWS = "ngrams only: rows of the table of each length; n-grams share them by a hash"
STACKED = "networks stacked on one another"
DROPPED = "share of values set to 0 in training, on embeddings, layers and output"
FROM = "a run whose weights this part begins with, read at a fresh start only; null: fresh weights"
FROZEN = "keep this part's weights as they are; in training it runs as in use, without dropout"
BLOCKS = "blocks stacked on one another"
HEADS = "attention heads; they divide the size"
INNER = "size of the inner layer of each block's feed-forward network"
ORDER = "pre: x + f(norm(x)) | post: norm(x + f(x))"
NORM = "layer: over a state's values | batch: over the real positions of a batch"
BENT = "relu | gelu | swish (x sigmoid(x))"
POSITIONS = "sinusoidal: sin and cos of the position | learnt: a table"
OR_NONE = f"{POSITIONS} | none: a set, or the front has told the positions"
ENLARGED = "multiply the vectors by the root of their size, so that values are about 1: helps what is no text"
SCALED = "multiply a token's vector by the root of the size before its position is added"
FIRST_NORM = "norm the sum of vector and position, before the first block"
LONGEST = "learnt positions only: rows of the table, the longest sequence with </s>"

# Keys of every encoder, and of every encoder and decoder.
Ngrams = Annotated[list[Positive], Field(description=NGRAMS)]
Rows = Annotated[Positive, Field(description=ROWS)]
FromRun = Annotated[str | None, Field(alias="from", description=FROM)]
Freeze = Annotated[bool, Field(description=FROZEN)]


class RecurrentEncoderConfig(Section):
    """A recurrent network that reads the source."""

    kind: Cell = Field("lstm", description=CELLS)
    embedding: Positive = Field(128, description=VECTOR)
    ngrams: Ngrams = Field([])
    ngram_rows: Rows = 32768
    size: Positive = Field(256, description="size of a state, in each direction")
    layers: Positive = Field(1, description=STACKED)
    bidirectional: bool = Field(True, description="read in both directions and concatenate")
    residual: bool = Field(False, description="from the second layer on, add a layer's input to its output")
    scale: bool = Field(False, description=ENLARGED)
    dropout: Share = Field(0.2, description="share of values set to 0 in training, on embeddings and between layers")
    from_run: FromRun = None
    freeze: Freeze = False


class ConvolutionalEncoderConfig(Section):
    """Gated convolutions stacked with residuals; the states know their positions."""

    kind: Literal["cnn"] = Field("cnn", description="cnn: stacked gated convolutions")
    embedding: Positive = Field(128, description=VECTOR)
    ngrams: Ngrams = Field([])
    ngram_rows: Rows = 32768
    size: Positive = Field(256, description="size of a state")
    layers: Positive = Field(4, description=BLOCKS)
    kernel: Positive = Field(3, description="positions that one convolution sees; odd")
    positions: EncoderPositions = Field("sinusoidal", description=OR_NONE)
    longest: Positive = Field(512, description=LONGEST)
    dropout: Share = Field(0.2, description="share of values set to 0 in training, on embeddings and in each block")
    from_run: FromRun = None
    freeze: Freeze = False


class TransformerConfig(Section):
    """Blocks of attention and a feed-forward network: the keys of both sides."""

    kind: Literal["transformer"] = Field("transformer", description="transformer: attention")
    size: Positive = Field(256, description="size of a state and of a token's vector")
    layers: Positive = Field(6, description=BLOCKS)
    heads: Positive = Field(8, description=HEADS)
    feedforward: Positive = Field(1024, description=INNER)
    order: Literal["pre", "post"] = Field("pre", description=ORDER)
    norm: Literal["layer", "batch"] = Field("layer", description=NORM)
    activation: Literal["relu", "gelu", "swish"] = Field("relu", description=BENT)
    positions: EncoderPositions = Field("sinusoidal", description=POSITIONS)
    longest: Positive = Field(512, description=LONGEST)
    scale: bool = Field(True, description=SCALED)
    embedding_norm: bool = Field(False, description=FIRST_NORM)
    dropout: Share = Field(0.1, description="share of values set to 0 in training, on embeddings and in each block")


class TransformerEncoderConfig(TransformerConfig):
    """Blocks of self-attention and a feed-forward network."""

    kind: Literal["transformer"] = Field("transformer", description="transformer: self-attention")
    positions: EncoderPositions = Field("sinusoidal", description=OR_NONE)
    ngrams: Ngrams = Field([])
    ngram_rows: Rows = 32768
    from_run: FromRun = None
    freeze: Freeze = False


class NoEncoderConfig(Section):
    """The vectors are the states."""

    kind: Literal["none"] = Field("none", description="none: the vectors of the source are the states")
    size: Positive = Field(256, description="size of a vector, which is a state")
    ngrams: Ngrams = Field([])
    ngram_rows: Rows = 32768
    dropout: Share = Field(0.2, description="share of values of the vectors set to 0 in training")
    from_run: FromRun = None
    freeze: Freeze = False


EncoderConfig = Annotated[
    RecurrentEncoderConfig | ConvolutionalEncoderConfig | TransformerEncoderConfig | NoEncoderConfig,
    Field(discriminator="kind"),
]
FrontConfig = Annotated[
    CellsConfig | PatchesConfig | SubsampledConfig | LinearConfig | FrameCellsConfig, Field(discriminator="kind")
]


class AttentionConfig(Section):
    """A new context for every step, weighed over all encoder states."""

    kind: Literal["attention"] = Field("attention", description="attention: c_i = sum_j a_ij h_j")
    score: Literal["dot", "scaled-dot", "cosine", "bilinear", "additive", "concat"] = Field(
        "additive", description="dot | scaled-dot | cosine | bilinear | additive | concat"
    )
    alignment: Literal["soft", "hard"] = Field(
        "soft", description="soft: the softmax of the scores | hard: one position, drawn in training, the best in use"
    )
    size: Positive | None = Field(None, description="inner size of additive and concat; null: the decoder's size")
    entropy: Annotated[float, Field(ge=0.0)] = Field(
        0.01, description="hard only: weight of the entropy, which keeps the drawing from freezing too early"
    )
    baseline: Share = Field(0.9, description="hard only: decay of the moving average that rewards are compared with")


class StaticContextConfig(Section):
    """One context c for the whole answer."""

    kind: Literal["last", "mean", "max"] = Field(
        "last", description="last: c = h_n | mean | max of the states (real positions only)"
    )
    feed: Literal["start", "every-step", "both"] = Field(
        "both", description="start: c sets the decoder's first state | every-step: c enters each step | both"
    )
    bridge: Literal["dense", "direct"] = Field(
        "dense", description="how c sets the first state. dense: s_0 = tanh(W c) | direct: s_0 = c, of equal size"
    )


class MultiHeadConfig(Section):
    """The Transformer decoder's own attention to the source."""

    kind: Literal["multi-head"] = Field("multi-head", description="multi-head: each block looks with all its heads")


ContextConfig = Annotated[AttentionConfig | StaticContextConfig | MultiHeadConfig, Field(discriminator="kind")]


class RecurrentDecoderConfig(Section):
    """The keys that recurrent decoders have in common."""

    kind: str = Field(description="bahdanau | luong | plain")
    cell: Cell = Field("lstm", description=CELLS)
    embedding: Positive = Field(128, description=VECTOR)
    size: Positive = Field(256, description="size of a state")
    layers: Positive = Field(1, description=STACKED)
    dropout: Share = Field(0.2, description=DROPPED)


class BahdanauConfig(RecurrentDecoderConfig):
    """Look first with s_{i-1}, then step with the context."""

    kind: Literal["bahdanau"] = Field("bahdanau", description="bahdanau: look with s_(i-1), then step")
    from_run: FromRun = None
    freeze: Freeze = False


class LuongConfig(RecurrentDecoderConfig):
    """Step first, then look with s_i."""

    kind: Literal["luong"] = Field("luong", description="luong: step, then look with s_i")
    input_feeding: bool = Field(False, description="the last attended state enters the next step")
    from_run: FromRun = None
    freeze: Freeze = False


class PlainConfig(RecurrentDecoderConfig):
    """A recurrent network that is told one context, or none."""

    kind: Literal["plain"] = Field("plain", description="plain: a recurrent network without attention")
    from_run: FromRun = None
    freeze: Freeze = False


class TransformerDecoderConfig(TransformerConfig):
    """Blocks of masked self-attention, attention to the source and a feed-forward network."""

    kind: Literal["transformer"] = Field("transformer", description="transformer: masked self-attention")
    positions: Positions = Field("sinusoidal", description=POSITIONS)
    from_run: FromRun = None
    freeze: Freeze = False


DecoderConfig = Annotated[
    BahdanauConfig | LuongConfig | PlainConfig | TransformerDecoderConfig, Field(discriminator="kind")
]
NetworkConfig = Annotated[PlainConfig | TransformerDecoderConfig, Field(discriminator="kind")]

TIED = "none | output: the output layer is the target's table of vectors"
MATCHED = "several texts with one vocabulary: mark the tokens that another of them has, too"
SPELT = "weight of a second loss: the encoder spells the target by itself (CTC); for a line, speech. 0: none"
COPIED = "words of the source can be copied into the answer: p(y) = g P(y) + (1 - g) sum of a_j where x_j = y"
TIED_TWO = f"{TIED} | tables: the source's table is the target's | all: both"
USUAL_CONTEXT = {"plain": "last", "transformer": "multi-head"}  # for the others: attention


def vector_size(part: EncoderConfig | DecoderConfig) -> int:
    """The size of a token's vector: a Transformer's is that of its states, and without an encoder it is the state."""
    return part.size if isinstance(part, TransformerConfig | NoEncoderConfig) else part.embedding


def state_size(encoder: EncoderConfig) -> int:
    """The size of the encoder's states: both directions side by side."""
    both = isinstance(encoder, RecurrentEncoderConfig) and encoder.bidirectional
    return encoder.size * (2 if both else 1)


class EncoderDecoderConfig(Section):
    """An encoder, what it hands over, and a decoder."""

    kind: Literal["encoder-decoder"] = Field(
        "encoder-decoder", description="encoder-decoder | language-model | concatenated"
    )
    front: FrontConfig | Annotated[list[FrontConfig | None], Field(min_length=2)] | None = Field(
        None, description="makes vectors of a source that is no text; null: as usual; of several sources a list"
    )
    encoder: EncoderConfig | Annotated[list[EncoderConfig], Field(min_length=2)] = Field(
        default_factory=RecurrentEncoderConfig,
        description="reads the source, or several one after another; a list: one encoder for each source",
    )
    context: ContextConfig = Field(default_factory=AttentionConfig, description="what the decoder is told of it")
    decoder: DecoderConfig = Field(
        default_factory=BahdanauConfig, description="writes the target: bahdanau | luong | plain | transformer"
    )
    tie: Literal["none", "output", "tables", "all"] = Field("none", description=TIED_TWO)
    copying: bool = Field(False, alias="copy", description=COPIED)
    matches: bool = Field(False, description=MATCHED)
    ctc: Annotated[float, Field(ge=0.0)] = Field(0.0, description=SPELT)

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, data: Any) -> Any:  # noqa: ANN401 (whatever stood in the file)
        """The usual context is the one that the decoder can use."""
        if not isinstance(data, dict):
            return data
        decoder = data.get("decoder")
        kind = decoder.get("kind") if isinstance(decoder, dict) else getattr(decoder, "kind", None)
        context = USUAL_CONTEXT.get(str(kind), "attention")
        return with_kinds({"context": {}, **data}, {"encoder": "lstm", "context": context, "decoder": "bahdanau"})

    @property
    def encoders(self) -> list[EncoderConfig]:
        """One, or one for each source."""
        return self.encoder if isinstance(self.encoder, list) else [self.encoder]


class SingleNetwork(Section):
    """A model that is a decoder and nothing else."""

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, data: Any) -> Any:  # noqa: ANN401 (whatever stood in the file)
        return with_kinds(data, {"decoder": "plain"})


class LanguageModelConfig(SingleNetwork):
    """A decoder alone: p(y) = Π p(y_t | y_<t)."""

    kind: Literal["language-model"] = Field(
        "language-model", description="encoder-decoder | language-model | concatenated"
    )
    decoder: NetworkConfig = Field(default_factory=PlainConfig, description="writes the text: plain | transformer")
    tie: Literal["none", "output"] = Field("none", description=TIED)


class ConcatenatedConfig(SingleNetwork):
    """One network over "source <sep> target", with loss on the target."""

    kind: Literal["concatenated"] = Field("concatenated", description="encoder-decoder | language-model | concatenated")
    decoder: NetworkConfig = Field(default_factory=PlainConfig, description="reads and writes: plain | transformer")
    tie: Literal["none", "output", "tables", "all"] = Field("none", description=TIED_TWO)


ModelConfig = Annotated[EncoderDecoderConfig | LanguageModelConfig | ConcatenatedConfig, Field(discriminator="kind")]
