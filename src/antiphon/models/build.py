"""The tables of names and the parts they build: the one list of what exists."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.config.networks import (
    AttentionConfig,
    BahdanauConfig,
    ConcatenatedConfig,
    ConvolutionalEncoderConfig,
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    FrontConfig,
    LanguageModelConfig,
    LuongConfig,
    ModelConfig,
    MultiHeadConfig,
    NoEncoderConfig,
    PlainConfig,
    RecurrentEncoderConfig,
    StaticContextConfig,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
    fronts_of,
    learnt_positions,
    vector_size,
)
from antiphon.config.schema import SourceConfig, TextConfig
from antiphon.data.tokenizers import PAD, SPECIALS, by_number
from antiphon.errors import ConfigError
from antiphon.models.attention import (
    AdditiveScore,
    Alignment,
    AttentionContext,
    BilinearScore,
    ConcatScore,
    CosineScore,
    DotScore,
    HardAlignment,
    ScaledDotScore,
    Score,
    SoftAlignment,
)
from antiphon.models.build_frontends import FRONT_ENDS, SourceSpec, build_front_end
from antiphon.models.decoders.bahdanau import BahdanauDecoder
from antiphon.models.decoders.decoder import Bridge, Decoder, DirectBridge
from antiphon.models.decoders.luong import LuongDecoder
from antiphon.models.decoders.plain import PlainDecoder
from antiphon.models.decoders.static_context import POOLS, StaticContext
from antiphon.models.decoders.transformer_decoder import TransformerDecoder
from antiphon.models.encoders.cnn import ConvolutionalEncoder
from antiphon.models.encoders.ctc import CTCHead
from antiphon.models.encoders.encoder import Encoder, NoEncoder
from antiphon.models.encoders.multi_source import ConcatenatedFrontEnds, MultiEncoder, SeparateFrontEnds
from antiphon.models.encoders.rnn import RecurrentEncoder
from antiphon.models.encoders.transformer_encoder import TransformerEncoder
from antiphon.models.frontends.frontend import FrontEnd, NgramEmbedding, SourceEmbedding
from antiphon.models.layers.blocks import BlockSpec, LayerNorm, MaskedBatchNorm, Norm
from antiphon.models.layers.embedding import TokenEmbedding, embedding_table
from antiphon.models.layers.positions import LearntPositions, NoPositions, Positions, SinusoidalPositions
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.models.model import Concatenated, EncoderDecoder, LanguageModel, SequenceModel

__all__ = ["ALIGNMENTS", "DECODERS", "ENCODERS", "FRONT_ENDS", "MODELS", "SCORES", "build_for", "build_model"]

SCORES: dict[str, type[Score]] = {
    "dot": DotScore,
    "scaled-dot": ScaledDotScore,
    "cosine": CosineScore,
    "bilinear": BilinearScore,
    "additive": AdditiveScore,
    "concat": ConcatScore,
}
ALIGNMENTS: dict[str, Callable[[Any], Alignment]] = {
    "soft": lambda _: SoftAlignment(),
    "hard": lambda config: HardAlignment(decay=config.baseline, entropy=config.entropy),
}
NORMS: dict[str, type[Norm]] = {"layer": LayerNorm, "batch": MaskedBatchNorm}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": functional.gelu,
    "swish": functional.silu,
}


def _recurrent_encoder(config: RecurrentEncoderConfig) -> Encoder:
    return RecurrentEncoder(
        kind=config.kind,
        inputs=config.embedding,
        size=config.size,
        layers=config.layers,
        bidirectional=config.bidirectional,
        residual=config.residual,
        dropout=config.dropout,
        scale=config.scale,
    )


def _positions(config: ConvolutionalEncoderConfig | TransformerConfig) -> Positions:
    scale = config.scale if isinstance(config, TransformerConfig) else True
    if config.positions.kind == "none":
        return NoPositions(size=config.size, scale=scale)
    if longest := learnt_positions(config):
        return LearntPositions(longest=longest, size=config.size, scale=scale)
    return SinusoidalPositions(size=config.size, scale=scale)


def _convolutional_encoder(config: ConvolutionalEncoderConfig) -> Encoder:
    return ConvolutionalEncoder(
        inputs=config.embedding,
        size=config.size,
        layers=config.layers,
        kernel=config.kernel,
        positions=_positions(config),
        dropout=config.dropout,
    )


def _block_spec(config: TransformerConfig) -> BlockSpec:
    return BlockSpec(
        size=config.size,
        heads=config.heads,
        inner=config.feedforward,
        order=config.order,
        norm=NORMS[config.norm],
        activation=ACTIVATIONS[config.activation],
        dropout=config.dropout,
        embedding_norm=config.embedding_norm,
    )


def _transformer_encoder(config: TransformerEncoderConfig) -> Encoder:
    return TransformerEncoder(spec=_block_spec(config), layers=config.layers, positions=_positions(config))


def _no_encoder(config: NoEncoderConfig) -> Encoder:
    return NoEncoder(size=config.size, dropout=config.dropout)


ENCODERS: dict[str, Callable[[Any], Encoder]] = {
    "lstm": _recurrent_encoder,
    "gru": _recurrent_encoder,
    "rnn": _recurrent_encoder,
    "rnn-relu": _recurrent_encoder,
    "cnn": _convolutional_encoder,
    "transformer": _transformer_encoder,
    "none": _no_encoder,
}


def _attention(config: AttentionConfig, *, query: int, memory: int) -> AttentionContext:
    try:
        score = SCORES[config.score](query=query, key=memory, size=config.size or query)
    except ValueError as error:
        raise ConfigError(
            f"model.context.score: {error} (the decoder's and the encoder's states); "
            f"set model.decoder.size to {memory}, or the score to bilinear"
        ) from error
    return AttentionContext(score=score, alignment=ALIGNMENTS[config.alignment.kind](config.alignment), size=memory)


def _static(config: StaticContextConfig, *, decoder: PlainConfig, memory: int, parts: int) -> StaticContext:
    bridge = None
    if config.feed != "every-step":
        kind = DirectBridge if config.bridge == "direct" else Bridge
        bridge = kind(memory=memory, size=decoder.size, layers=decoder.layers, parts=parts)
    return StaticContext(pool=POOLS[config.kind], bridge=bridge, every_step=config.feed != "start")


def _stack(config: BahdanauConfig | LuongConfig | PlainConfig, *, beside: int) -> RecurrentStack:
    """`beside` is the size of the other inputs of a step, beside the token's embedding."""
    return RecurrentStack(
        cell=config.cell,
        inputs=config.embedding + beside,
        size=config.size,
        layers=config.layers,
        dropout=config.dropout,
    )


def _bridge(config: BahdanauConfig | LuongConfig, *, memory: int, stack: RecurrentStack) -> Bridge:
    return Bridge(memory=memory, size=config.size, layers=config.layers, parts=stack.parts)


def _bahdanau(
    config: BahdanauConfig, context: AttentionConfig, *, memory: int, table: nn.Embedding, copying: bool
) -> BahdanauDecoder:
    stack = _stack(config, beside=memory)
    return BahdanauDecoder(
        embedding=TokenEmbedding(table=table, dropout=config.dropout),
        stack=stack,
        context=_attention(context, query=config.size, memory=memory),
        bridge=_bridge(config, memory=memory, stack=stack),
        dropout=config.dropout,
        copying=copying,
    )


def _luong(
    config: LuongConfig, context: AttentionConfig, *, memory: int, table: nn.Embedding, copying: bool
) -> LuongDecoder:
    stack = _stack(config, beside=config.size if config.input_feeding else 0)
    return LuongDecoder(
        embedding=TokenEmbedding(table=table, dropout=config.dropout),
        stack=stack,
        context=_attention(context, query=config.size, memory=memory),
        bridge=_bridge(config, memory=memory, stack=stack),
        dropout=config.dropout,
        input_feeding=config.input_feeding,
        copying=copying,
    )


def _plain(
    config: PlainConfig,
    context: StaticContextConfig | None,
    *,
    memory: int,
    table: nn.Embedding,
    copying: bool = False,  # noqa: ARG001 (without attention there is no copying)
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
    context: MultiHeadConfig | None,  # noqa: ARG001 (it has no options)
    *,
    memory: int,
    table: nn.Embedding,
    copying: bool = False,
) -> TransformerDecoder:
    return TransformerDecoder(
        embedding=TokenEmbedding(table=table, dropout=0.0),
        spec=_block_spec(config),
        layers=config.layers,
        positions=_positions(config),
        memory=memory,
        padding=PAD,
        copying=copying,
    )


# Each takes its configuration, that of the context (None: no source), the size of the encoder's states and the table of
# target embeddings.
DECODERS: dict[str, Callable[..., Any]] = {
    "bahdanau": _bahdanau,
    "luong": _luong,
    "plain": _plain,
    "transformer": _transformer,
}


def _ngrams(config: EncoderConfig) -> NgramEmbedding | None:
    if not config.ngrams:
        return None
    size = vector_size(config)
    return NgramEmbedding(lengths=config.ngrams.lengths, rows=config.ngrams.rows, size=size, dropout=config.dropout)


def _embedding(reader: EncoderConfig | DecoderConfig, *, tokens: int, target: nn.Embedding, tie: str) -> TokenEmbedding:
    """The embedding of source tokens: a table of its own, or shared with the target: e(x) = E[x], e(y) = E[y]"""
    table = target if tie in ("tables", "all") else embedding_table(tokens, vector_size(reader))
    return TokenEmbedding(table=table, dropout=_dropout(reader))


def _front_end(
    source: SourceSpec, chosen: FrontConfig | None, encoder: EncoderConfig, target: nn.Embedding, tie: str
) -> FrontEnd:
    if isinstance(source.config, TextConfig):
        embedding = _embedding(encoder, tokens=source.size, target=target, tie=tie)
        return SourceEmbedding(embedding, _ngrams(encoder), source.copied_as)
    return build_front_end(source, chosen, vector_size(encoder))


def _encoder_decoder(config: EncoderDecoderConfig, *, sources: Items[SourceSpec], target_tokens: int) -> EncoderDecoder:
    encoders = [ENCODERS[part.kind](part) for part in config.encoders]
    encoder = MultiEncoder(encoders) if isinstance(config.encoder, list) else encoders[0]
    table = embedding_table(target_tokens, vector_size(config.decoder))
    decoder = DECODERS[config.decoder.kind](
        config.decoder, config.context, memory=encoder.size, table=table, copying=config.copying
    )
    readers = config.encoders * len(sources) if len(encoders) == 1 else config.encoders
    parts = zip(sources, fronts_of(config, len(sources)), readers, strict=True)
    front_ends = [_front_end(*part, target=table, tie=config.tie) for part in parts]
    ctc = CTCHead(memory=encoder.size, tokens=target_tokens, blank=PAD, weight=config.ctc) if config.ctc else None
    return EncoderDecoder(
        source=_join_front_ends(config, front_ends),
        encoder=encoder,
        decoder=_tied(decoder, table, config.tie),
        spelling=ctc,
    )


def _join_front_ends(config: EncoderDecoderConfig, fronts: list[FrontEnd]) -> nn.Module:
    """The only one; or those of several sources, for one encoder or for one each."""
    if len(fronts) == 1:
        return fronts[0]
    specials = len(SPECIALS) if config.matches else None
    if isinstance(config.encoder, list):
        return SeparateFrontEnds(fronts, sizes=[vector_size(part) for part in config.encoder], specials=specials)
    return ConcatenatedFrontEnds(fronts, size=vector_size(config.encoder), specials=specials)


def _language_model(config: LanguageModelConfig, *, sources: Items[SourceSpec], target_tokens: int) -> LanguageModel:  # noqa: ARG001
    table = embedding_table(target_tokens, vector_size(config.decoder))
    decoder = DECODERS[config.decoder.kind](config.decoder, None, memory=0, table=table)
    return LanguageModel(decoder=_tied(decoder, table, config.tie))


def _concatenated(config: ConcatenatedConfig, *, sources: Items[SourceSpec], target_tokens: int) -> Concatenated:
    [source] = sources
    table = embedding_table(target_tokens, vector_size(config.decoder))
    decoder = DECODERS[config.decoder.kind](config.decoder, None, memory=0, table=table)
    embedding = _embedding(config.decoder, tokens=source.size, target=table, tie=config.tie)
    return Concatenated(source=SourceEmbedding(embedding), decoder=_tied(decoder, table, config.tie))


MODELS: dict[str, Callable[..., SequenceModel]] = {
    "encoder-decoder": _encoder_decoder,
    "language-model": _language_model,
    "concatenated": _concatenated,
}


def build_model(config: ModelConfig, *, source_tokens: int, target_tokens: int) -> SequenceModel:
    """A model of one text source, with new weights."""
    return build_for(config, [TextConfig()], [source_tokens], target_tokens=target_tokens)


def build_for(
    config: ModelConfig,
    sources: Items[SourceConfig],
    sizes: Items[int],
    *,
    target_tokens: int,
    copied_as: Items[Tensor | None] | None = None,
) -> SequenceModel:
    """A model of any sources, with new weights; `sizes` are the vocabularies of texts and the widths of vectors.

    `copied_as` maps the source tokens of each text to target tokens, for a model that copies; None: both sides have one
    vocabulary.
    """
    specs = [SourceSpec(*both) for both in zip(sources, sizes, strict=False)]  # a language model has no sources
    if isinstance(config, EncoderDecoderConfig) and config.copying:
        tables = copied_as or [
            by_number(spec.size, target_tokens) if isinstance(spec.config, TextConfig) else None for spec in specs
        ]
        specs = [replace(spec, copied_as=table) for spec, table in zip(specs, tables, strict=True)]
    return MODELS[config.kind](config, sources=specs, target_tokens=target_tokens)


def _dropout(config: Any) -> float:  # noqa: ANN401 (any encoder or decoder)
    """Dropout on token embeddings; `transformer` applies its own after adding positions, `none` on its input."""
    return 0.0 if config.kind in ("transformer", "none") else float(config.dropout)


D = TypeVar("D", bound=Decoder[Any])


def _tied(decoder: D, table: nn.Embedding, tie: str) -> D:
    """logits = E o + b: the output layer shares the target's table E"""
    if tie in ("output", "all"):
        decoder.output.weight = table.weight
    return decoder
