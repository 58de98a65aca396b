"""The closed tables name → how it is made: the one list of what exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn import functional

from antiphon.attention.alignment import Alignment, HardAlignment, SoftAlignment
from antiphon.attention.context import AttentionContext
from antiphon.attention.scores import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    CosineScore,
    DotScore,
    ScaledDotScore,
    Score,
)
from antiphon.config.models import (
    AttentionConfig,
    BahdanauConfig,
    ConcatenatedConfig,
    ConvolutionalEncoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    LuongConfig,
    ModelConfig,
    MultiHeadConfig,
    PlainConfig,
    RecurrentEncoderConfig,
    StaticContextConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)
from antiphon.decoders.bahdanau import BahdanauDecoder
from antiphon.decoders.bridge import Bridge, DirectBridge
from antiphon.decoders.luong import LuongDecoder
from antiphon.decoders.plain import PlainDecoder
from antiphon.decoders.stack import RecurrentStack
from antiphon.decoders.state import Decoder
from antiphon.decoders.static import POOLS, StaticContext
from antiphon.decoders.transformer import TransformerDecoder
from antiphon.encoders.cnn import ConvolutionalEncoder
from antiphon.encoders.embedding import SourceEmbedding, TokenEmbedding, vectors
from antiphon.encoders.encoder import Encoder
from antiphon.encoders.ngrams import NgramEmbedding
from antiphon.encoders.norms import LayerNorm, MaskedBatchNorm, Norm
from antiphon.encoders.positions import LearntPositions, Positions, SinusoidalPositions
from antiphon.encoders.rnn import RecurrentEncoder
from antiphon.encoders.transformer import BlockPlan, TransformerEncoder
from antiphon.model import Concatenated, EncoderDecoder, LanguageModel, SequenceModel

__all__ = ["ALIGNMENTS", "DECODERS", "ENCODERS", "MODELS", "SCORES", "build_model"]

SCORES: dict[str, type[Score]] = {
    "dot": DotScore,
    "scaled-dot": ScaledDotScore,
    "cosine": CosineScore,
    "bilinear": BilinearScore,
    "additive": AdditiveScore,
    "concat": ConcatScore,
}
ALIGNMENTS: dict[str, Callable[[AttentionConfig], Alignment]] = {
    "soft": lambda _: SoftAlignment(),
    "hard": lambda config: HardAlignment(decay=config.baseline, entropy=config.entropy),
}
NORMS: dict[str, type[Norm]] = {"layer": LayerNorm, "batch": MaskedBatchNorm}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}


def _recurrent_encoder(config: RecurrentEncoderConfig) -> Encoder:
    return RecurrentEncoder(
        kind=config.kind,
        inputs=config.embedding,
        size=config.size,
        layers=config.layers,
        bidirectional=config.bidirectional,
        residual=config.residual,
        dropout=config.dropout,
    )


def _positions(
    config: ConvolutionalEncoderConfig | TransformerEncoderConfig | TransformerDecoderConfig,
) -> Positions:
    if config.positions == "learnt":
        return LearntPositions(longest=config.longest, size=config.size)
    return SinusoidalPositions(size=config.size)


def _convolutional_encoder(config: ConvolutionalEncoderConfig) -> Encoder:
    return ConvolutionalEncoder(
        inputs=config.embedding,
        size=config.size,
        layers=config.layers,
        kernel=config.kernel,
        positions=_positions(config),
        dropout=config.dropout,
    )


def _plan(config: TransformerEncoderConfig | TransformerDecoderConfig) -> BlockPlan:
    return BlockPlan(
        size=config.size,
        heads=config.heads,
        inner=config.feedforward,
        order=config.order,
        norm=NORMS[config.norm],
        activation=ACTIVATIONS[config.activation],
        dropout=config.dropout,
    )


def _transformer_encoder(config: TransformerEncoderConfig) -> Encoder:
    return TransformerEncoder(plan=_plan(config), layers=config.layers, positions=_positions(config))


ENCODERS: dict[str, Callable[[Any], Encoder]] = {
    "lstm": _recurrent_encoder,
    "gru": _recurrent_encoder,
    "rnn": _recurrent_encoder,
    "rnn-relu": _recurrent_encoder,
    "cnn": _convolutional_encoder,
    "transformer": _transformer_encoder,
}


def _attention(config: AttentionConfig, *, query: int, memory: int) -> AttentionContext:
    score = SCORES[config.score](query=query, key=memory, size=config.size or query)
    return AttentionContext(score=score, alignment=ALIGNMENTS[config.alignment](config), size=memory)


def _static(config: StaticContextConfig, *, decoder: PlainConfig, memory: int, parts: int) -> StaticContext:
    kind = DirectBridge if config.bridge == "direct" else Bridge
    bridge = kind(memory=memory, size=decoder.size, layers=decoder.layers, parts=parts)
    return StaticContext(
        pool=POOLS[config.kind],
        bridge=None if config.feed == "every-step" else bridge,
        every_step=config.feed != "start",
    )


def _stack(config: BahdanauConfig | LuongConfig | PlainConfig, *, beside: int) -> RecurrentStack:
    """`beside` is the size of what enters a step beside the word."""
    return RecurrentStack(
        cell=config.cell,
        inputs=config.embedding + beside,
        size=config.size,
        layers=config.layers,
        dropout=config.dropout,
    )


def _bridge(config: BahdanauConfig | LuongConfig, *, memory: int, stack: RecurrentStack) -> Bridge:
    return Bridge(memory=memory, size=config.size, layers=config.layers, parts=stack.parts)


def _bahdanau(config: BahdanauConfig, context: AttentionConfig, *, memory: int, table: nn.Embedding) -> BahdanauDecoder:
    stack = _stack(config, beside=memory)
    return BahdanauDecoder(
        embedding=TokenEmbedding(table=table, dropout=config.dropout),
        stack=stack,
        context=_attention(context, query=config.size, memory=memory),
        bridge=_bridge(config, memory=memory, stack=stack),
        dropout=config.dropout,
    )


def _luong(config: LuongConfig, context: AttentionConfig, *, memory: int, table: nn.Embedding) -> LuongDecoder:
    stack = _stack(config, beside=config.size if config.input_feeding else 0)
    return LuongDecoder(
        embedding=TokenEmbedding(table=table, dropout=config.dropout),
        stack=stack,
        context=_attention(context, query=config.size, memory=memory),
        bridge=_bridge(config, memory=memory, stack=stack),
        dropout=config.dropout,
        input_feeding=config.input_feeding,
    )


def _plain(
    config: PlainConfig, context: StaticContextConfig | None, *, memory: int, table: nn.Embedding
) -> PlainDecoder:
    stack = _stack(config, beside=memory if context and context.feed != "start" else 0)
    return PlainDecoder(
        embedding=TokenEmbedding(table=table, dropout=config.dropout),
        stack=stack,
        context=_static(context, decoder=config, memory=memory, parts=stack.parts) if context else None,
        dropout=config.dropout,
    )


def _transformer(
    config: TransformerDecoderConfig,
    context: MultiHeadConfig | None,  # noqa: ARG001 (it says no more than that there is a source)
    *,
    memory: int,
    table: nn.Embedding,
) -> TransformerDecoder:
    return TransformerDecoder(
        embedding=TokenEmbedding(table=table, dropout=0.0),
        plan=_plan(config),
        layers=config.layers,
        positions=_positions(config),
        memory=memory,
    )


# Each takes its configuration, that of the context (None: no source), the size of the encoder's states and a table.
DECODERS: dict[str, Callable[..., Any]] = {
    "bahdanau": _bahdanau,
    "luong": _luong,
    "plain": _plain,
    "transformer": _transformer,
}


def _ngrams(config: EncoderConfig) -> NgramEmbedding | None:
    if not config.ngrams:
        return None
    return NgramEmbedding(lengths=config.ngrams, rows=config.ngram_rows, size=_width(config), dropout=config.dropout)


def _encoder_decoder(config: EncoderDecoderConfig, *, source_tokens: int, target_tokens: int) -> EncoderDecoder:
    encoder = ENCODERS[config.encoder.kind](config.encoder)
    table = vectors(target_tokens, _width(config.decoder))
    decoder = DECODERS[config.decoder.kind](config.decoder, config.context, memory=encoder.size, table=table)
    shared = table if config.tie == "all" else vectors(source_tokens, _width(config.encoder))
    source = SourceEmbedding(TokenEmbedding(table=shared, dropout=_dropout(config.encoder)), _ngrams(config.encoder))
    return EncoderDecoder(source=source, encoder=encoder, decoder=_tied(decoder, table, config.tie))


def _language_model(config: LanguageModelConfig, *, source_tokens: int, target_tokens: int) -> LanguageModel:  # noqa: ARG001
    table = vectors(target_tokens, _width(config.decoder))
    decoder = DECODERS[config.decoder.kind](config.decoder, None, memory=0, table=table)
    return LanguageModel(decoder=_tied(decoder, table, config.tie))


def _concatenated(config: ConcatenatedConfig, *, source_tokens: int, target_tokens: int) -> Concatenated:
    table = vectors(target_tokens, _width(config.decoder))
    decoder = DECODERS[config.decoder.kind](config.decoder, None, memory=0, table=table)
    shared = table if config.tie == "all" else vectors(source_tokens, _width(config.decoder))
    source = SourceEmbedding(TokenEmbedding(table=shared, dropout=_dropout(config.decoder)))
    return Concatenated(source=source, decoder=_tied(decoder, table, config.tie))


MODELS: dict[str, Callable[..., SequenceModel]] = {
    "encoder-decoder": _encoder_decoder,
    "language-model": _language_model,
    "concatenated": _concatenated,
}


def build_model(config: ModelConfig, *, source_tokens: int, target_tokens: int) -> SequenceModel:
    """A model with fresh weights."""
    return MODELS[config.kind](config, source_tokens=source_tokens, target_tokens=target_tokens)


def _width(config: Any) -> int:  # noqa: ANN401 (any encoder or decoder)
    """The size of a token's vector: a Transformer's is that of its states."""
    return int(config.size if config.kind == "transformer" else config.embedding)


def _dropout(config: Any) -> float:  # noqa: ANN401 (any encoder or decoder)
    """Dropout on token vectors; a Transformer drops after it has added the positions."""
    return 0.0 if config.kind == "transformer" else float(config.dropout)


D = TypeVar("D", bound=Decoder[Any])


def _tied(decoder: D, table: nn.Embedding, tie: str) -> D:
    """The output layer gets the table as its weights."""
    if tie != "none":
        decoder.output.weight = table.weight
    return decoder
