"""The keys of the network: encoders, contexts, decoders, and the three kinds of model made of them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from antiphon.config.sections import (
    BUILT_IN,
    REGISTERED,
    DecoderPositions,
    EncoderPositions,
    Freeze,
    FromRun,
    LearntPositionsConfig,
    Ngrams,
    OrRegistered,
    Positive,
    Section,
    Share,
    SinusoidalPositionsConfig,
    choose_encoder,
    default_kind,
    known_encoder,
    odd,
)
from antiphon.config.sources import FrontEndConfig

__all__ = [
    "AttentionConfig", "BahdanauConfig", "ConcatenatedConfig", "ConvolutionalEncoderConfig", "DecoderConfig",
    "EncoderConfig", "EncoderDecoderConfig", "FrontEndConfig", "LabelsConfig", "LanguageModelConfig", "LuongConfig",
    "ModelConfig", "MultiHeadConfig", "PlainConfig", "RecurrentEncoderConfig", "RegisteredEncoderConfig",
    "StaticContextConfig", "TaggerConfig", "TransformerConfig", "TransformerDecoderConfig", "TransformerEncoderConfig",
    "front_ends_of", "learnt_positions", "state_size", "vector_size",
]  # fmt: skip

Cell = Literal["lstm", "gru", "rnn", "rnn-relu"]

POSITIONS = "sinusoidal: sin and cos of the position | learnt: a table; option longest (512)"
CELLS = "lstm | gru | rnn (tanh) | rnn-relu"
VECTOR = "size of a token embedding"
DROPOUT_BLOCKS = "dropout on embeddings and in each block"


# Encoders.


class RecurrentEncoderConfig(Section):
    """A recurrent network that reads the source."""

    kind: Cell = Field("lstm", description=CELLS)
    embedding: Positive = Field(128, description=VECTOR)
    ngrams: Ngrams = None
    size: Positive = Field(256, description="size of a hidden state, in each direction")
    layers: Positive = Field(1, description="stacked layers")
    bidirectional: bool = Field(True, description="read in both directions and concatenate the states")
    residual: bool = Field(False, description="residual connections from the second layer on")
    scale: bool = Field(
        False, description="multiply the embeddings by the square root of their size; helps sources that are no text"
    )
    dropout: Share = Field(0.2, description="dropout on embeddings and between layers")
    from_run: FromRun = None
    freeze: Freeze = False


class ConvolutionalEncoderConfig(Section):
    """Stacked gated convolutions with residual connections and positions."""

    kind: Literal["cnn"] = Field("cnn", description="cnn: stacked gated convolutions")
    embedding: Positive = Field(128, description=VECTOR)
    ngrams: Ngrams = None
    size: Positive = Field(256, description="size of a state")
    layers: Positive = Field(4, description="stacked blocks")
    kernel: Annotated[int, Field(ge=1), AfterValidator(odd)] = Field(3, description="width of a kernel; odd")
    positions: EncoderPositions = Field(default_factory=SinusoidalPositionsConfig, description=f"{POSITIONS} | none")
    dropout: Share = Field(0.2, description=DROPOUT_BLOCKS)
    from_run: FromRun = None
    freeze: Freeze = False


class TransformerConfig(Section):
    """Blocks of attention and a feed-forward network: the keys of both sides."""

    kind: Literal["transformer"] = Field("transformer", description="transformer: attention")
    size: Positive = Field(256, description="size of a state and of a token embedding")
    layers: Positive = Field(6, description="stacked blocks")
    heads: Positive = Field(8, description="attention heads; the size is a multiple of it")
    feedforward: Positive = Field(1024, description="inner size of each block's feed-forward network")
    order: Literal["pre", "post"] = Field("pre", description="pre-norm: x + f(norm(x)) | post-norm: norm(x + f(x))")
    norm: Literal["layer", "batch"] = Field(
        "layer", description="layer norm | batch norm (over the real positions of a batch)"
    )
    activation: Literal["relu", "gelu", "swish"] = Field("relu", description="relu | gelu | swish (x sigmoid(x))")
    positions: EncoderPositions = Field(default_factory=SinusoidalPositionsConfig, description=POSITIONS)
    scale: bool = Field(True, description="multiply token embeddings by the square root of the size")
    embedding_norm: bool = Field(False, description="normalise the sum of embedding and position")
    dropout: Share = Field(0.1, description=DROPOUT_BLOCKS)


class TransformerEncoderConfig(TransformerConfig):
    """Blocks of self-attention and a feed-forward network."""

    kind: Literal["transformer"] = Field("transformer", description="transformer: self-attention")
    positions: EncoderPositions = Field(default_factory=SinusoidalPositionsConfig, description=f"{POSITIONS} | none")
    ngrams: Ngrams = None
    from_run: FromRun = None
    freeze: Freeze = False


class NoEncoderConfig(Section):
    """The embeddings are the states."""

    kind: Literal["none"] = Field("none", description="none: the vectors of the source are the states")
    size: Positive = Field(256, description="size of a vector, which is a state")
    ngrams: Ngrams = None
    dropout: Share = Field(0.2, description="dropout on the vectors")
    from_run: FromRun = None
    freeze: Freeze = False


class RegisteredEncoderConfig(Section):
    """An encoder from outside the package: antiphon.register_encoder(kind, ...)."""

    kind: Annotated[str, AfterValidator(known_encoder)] = Field(description="the name under which it is registered")
    size: Positive = Field(256, description="size of a token embedding and of a state")
    options: dict[str, Any] = Field(default_factory=dict, description="its other parameters")
    ngrams: Ngrams = None
    dropout: Share = Field(0.2, description="dropout on embeddings")
    from_run: FromRun = None
    freeze: Freeze = False


BuiltInEncoderConfig = Annotated[
    RecurrentEncoderConfig | ConvolutionalEncoderConfig | TransformerEncoderConfig | NoEncoderConfig,
    Field(discriminator="kind"),
]
EncoderConfig = Annotated[
    Annotated[BuiltInEncoderConfig, Tag(BUILT_IN)] | Annotated[RegisteredEncoderConfig, Tag(REGISTERED)],
    Discriminator(choose_encoder((*get_args(Cell), "cnn", "transformer", "none"))),
    default_kind("lstm"),
]


# Contexts: what the decoder knows of the source.


class SoftAlignmentConfig(Section):
    """The softmax of the scores."""

    kind: Literal["soft"] = Field("soft", description="soft: weights are the softmax of the scores")


class HardAlignmentConfig(Section):
    """One position: sampled while training (REINFORCE), the most probable one in use."""

    kind: Literal["hard"] = Field("hard", description="hard: one position, sampled in training, the best one in use")
    entropy: Annotated[float, Field(ge=0.0)] = Field(0.01, description="weight of the entropy regularisation")
    baseline: Share = Field(0.9, description="decay of the moving average that is the baseline of the reward")


BuiltInScore = Literal["dot", "scaled-dot", "cosine", "bilinear", "additive", "concat"]
Alignment = Annotated[SoftAlignmentConfig | HardAlignmentConfig, Field(discriminator="kind"), default_kind("soft")]


class AttentionConfig(Section):
    """A new context for every step: a weighted sum of the encoder states."""

    kind: Literal["attention"] = Field("attention", description="attention: c_i = sum_j a_ij h_j")
    score: Annotated[BuiltInScore, OrRegistered("score")] = Field(
        "additive", description="dot | scaled-dot | cosine | bilinear | additive | concat"
    )
    alignment: Alignment = Field(
        default_factory=SoftAlignmentConfig,
        description="soft: softmax of the scores | hard: one position; options entropy (0.01), baseline (0.9)",
    )
    size: Positive | None = Field(None, description="inner size of additive and concat; null: the decoder's size")


class StaticContextConfig(Section):
    """One context c for the whole answer."""

    kind: Literal["last", "mean", "max"] = Field("last", description="last state: c = h_n | mean | max of the states")
    feed: Literal["start", "every-step", "both"] = Field(
        "both", description="start: c sets the decoder's first state | every-step: c is an input of each step | both"
    )
    bridge: Literal["dense", "direct"] = Field(
        "dense", description="how c sets the first state. dense: s_0 = tanh(W c) | direct: s_0 = c, of equal size"
    )


class MultiHeadConfig(Section):
    """The cross-attention of a Transformer decoder."""

    kind: Literal["multi-head"] = Field("multi-head", description="multi-head: cross-attention in each block")


ContextConfig = Annotated[
    AttentionConfig | StaticContextConfig | MultiHeadConfig, Field(discriminator="kind"), default_kind()
]


# Decoders.


class RecurrentDecoderConfig(Section):
    """The keys that recurrent decoders have in common."""

    kind: str = Field(description="bahdanau | luong | plain")
    cell: Cell = Field("lstm", description=CELLS)
    embedding: Positive = Field(128, description=VECTOR)
    size: Positive = Field(256, description="size of a hidden state")
    layers: Positive = Field(1, description="stacked layers")
    dropout: Share = Field(0.2, description="dropout on embeddings, layers and output")


class BahdanauConfig(RecurrentDecoderConfig):
    """Attend with s_{i-1}, then step with the context."""

    kind: Literal["bahdanau"] = Field("bahdanau", description="bahdanau: attend with s_(i-1), then step")
    from_run: FromRun = None
    freeze: Freeze = False


class LuongConfig(RecurrentDecoderConfig):
    """Step, then attend with s_i."""

    kind: Literal["luong"] = Field("luong", description="luong: step, then attend with s_i")
    input_feeding: bool = Field(False, description="the attentional state is an input of the next step")
    from_run: FromRun = None
    freeze: Freeze = False


class PlainConfig(RecurrentDecoderConfig):
    """A recurrent network with one context for the whole answer, or none."""

    kind: Literal["plain"] = Field("plain", description="plain: a recurrent network without attention")
    from_run: FromRun = None
    freeze: Freeze = False


class TransformerDecoderConfig(TransformerConfig):
    """Blocks of masked self-attention, cross-attention and a feed-forward network."""

    kind: Literal["transformer"] = Field("transformer", description="transformer: masked self-attention")
    positions: DecoderPositions = Field(default_factory=SinusoidalPositionsConfig, description=POSITIONS)
    from_run: FromRun = None
    freeze: Freeze = False


DecoderConfig = Annotated[
    BahdanauConfig | LuongConfig | PlainConfig | TransformerDecoderConfig,
    Field(discriminator="kind"),
    default_kind("bahdanau"),
]
NetworkConfig = Annotated[PlainConfig | TransformerDecoderConfig, Field(discriminator="kind"), default_kind("plain")]


def vector_size(part: EncoderConfig | DecoderConfig) -> int:
    """The size of a token embedding; parts without a key for it have states of the same size."""
    return part.embedding if hasattr(part, "embedding") else part.size


def state_size(encoder: EncoderConfig) -> int:
    """The size of the encoder's states: both directions concatenated."""
    return encoder.size * (2 if isinstance(encoder, RecurrentEncoderConfig) and encoder.bidirectional else 1)


def learnt_positions(part: Section) -> int | None:
    """The rows of a part's table of learnt positions; None if it has no such table."""
    positions = getattr(part, "positions", None)
    return positions.longest if isinstance(positions, LearntPositionsConfig) else None


# Models.

MODELS = (
    "encoder-decoder | language-model | concatenated (one network over source and target) | "
    "tagger (a label for each token)"
)
TIE = "share embeddings. none | output: the output layer is the target's embedding table"
TIE_BOTH = f"{TIE} | tables: source and target share one | all: both"
DEFAULT_CONTEXTS = {"plain": "last", "transformer": "multi-head"}  # for the others: attention


class EncoderDecoderConfig(Section):
    """An encoder, the context it gives, and a decoder."""

    kind: Literal["encoder-decoder"] = Field("encoder-decoder", description=MODELS)
    front: FrontEndConfig | Annotated[list[FrontEndConfig | None], Field(min_length=2)] | None = Field(
        None,
        description="front end, which turns a file into vectors; null: the default; several sources: a list",
    )
    encoder: EncoderConfig | Annotated[list[EncoderConfig], Field(min_length=2)] = Field(
        default_factory=RecurrentEncoderConfig,
        description="reads the source, or several one after another; a list: one encoder for each source",
    )
    context: ContextConfig = Field(default_factory=AttentionConfig, description="what the decoder knows of the source")
    decoder: DecoderConfig = Field(
        default_factory=BahdanauConfig, description="writes the target: bahdanau | luong | plain | transformer"
    )
    tie: Literal["none", "output", "tables", "all"] = Field("none", description=TIE_BOTH)
    copying: bool = Field(
        False, alias="copy", description="pointer-generator: p(y) = g P(y) + (1 - g) sum of a_j where x_j = y"
    )
    matches: bool = Field(
        False, description="several texts with one vocabulary: an embedding marks tokens that another text has, too"
    )
    ctc: Annotated[float, Field(ge=0.0)] = Field(
        0.0, description="weight of a CTC loss on the encoder, for a source in the order of the target; 0: none"
    )

    @model_validator(mode="before")
    @classmethod
    def _default_context(cls, data: Any) -> Any:  # noqa: ANN401 (any YAML value)
        """The usual context is the one that the decoder can use."""
        if not isinstance(data, dict):
            return data
        decoder, context = data.get("decoder"), data.get("context", {})
        kind = decoder.get("kind") if isinstance(decoder, dict) else getattr(decoder, "kind", decoder)
        usual = DEFAULT_CONTEXTS.get(str(kind), "attention")
        return {**data, "context": {"kind": usual, **context} if isinstance(context, dict) else context}

    @property
    def encoders(self) -> list[EncoderConfig]:
        """One encoder, or one for each source."""
        return self.encoder if isinstance(self.encoder, list) else [self.encoder]


def front_ends_of(model: EncoderDecoderConfig, sources: int) -> list[FrontEndConfig | None]:
    """The front end chosen for each source; None: the usual one."""
    return list(model.front) if isinstance(model.front, list) else [model.front] * sources


class LanguageModelConfig(Section):
    """A decoder alone: p(y) = Π p(y_t | y_<t)."""

    kind: Literal["language-model"] = Field("language-model", description=MODELS)
    decoder: NetworkConfig = Field(default_factory=PlainConfig, description="writes the text: plain | transformer")
    tie: Literal["none", "output"] = Field("none", description=TIE)


class ConcatenatedConfig(Section):
    """One network over "source <sep> target", with loss on the target."""

    kind: Literal["concatenated"] = Field("concatenated", description=MODELS)
    decoder: NetworkConfig = Field(default_factory=PlainConfig, description="reads and writes: plain | transformer")
    tie: Literal["none", "output", "tables", "all"] = Field("none", description=TIE_BOTH)


class LabelsConfig(Section):
    """The output layer of a tagger."""

    kind: Literal["labels"] = Field("labels", description="labels: p(y_t | x) = softmax(W h_t + b)")
    dropout: Share = Field(0.2, description="dropout on the states of the encoder")
    from_run: FromRun = None
    freeze: Freeze = False


class TaggerConfig(Section):
    """An encoder, and a label for each of its states."""

    kind: Literal["tagger"] = Field("tagger", description=MODELS)
    encoder: EncoderConfig = Field(default_factory=RecurrentEncoderConfig, description="reads the text")
    decoder: LabelsConfig = Field(default_factory=LabelsConfig, description="the output layer")
    tie: ClassVar[Literal["none"]] = "none"  # it embeds no labels

    @property
    def encoders(self) -> list[EncoderConfig]:
        """The only one."""
        return [self.encoder]


ModelConfig = Annotated[
    EncoderDecoderConfig | LanguageModelConfig | ConcatenatedConfig | TaggerConfig,
    Field(discriminator="kind"),
    default_kind("encoder-decoder"),
]
