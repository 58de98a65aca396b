"""The tables of names and the parts they build: the one list of what exists."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.config import networks
from antiphon.config.networks import DecoderConfig, EncoderConfig, EncoderDecoderConfig, TransformerConfig, vector_size
from antiphon.config.schema import SourceConfig, TextConfig
from antiphon.data.tokenizers import PAD, SPECIALS, by_number
from antiphon.errors import ConfigError
from antiphon.models import attention
from antiphon.models.attention import Alignment, AttentionContext, Score
from antiphon.models.build_frontends import FRONT_ENDS, SourceSpec, build_front_end
from antiphon.models.decoders.decoder import AttentionDecoder, BahdanauDecoder, Bridge, DirectBridge, LuongDecoder
from antiphon.models.decoders.labels import LabelDecoder
from antiphon.models.decoders.plain import PlainDecoder
from antiphon.models.decoders.static_context import POOLS, StaticContext
from antiphon.models.decoders.transformer_decoder import TransformerDecoder
from antiphon.models.encoders.cnn import ConvolutionalEncoder
from antiphon.models.encoders.ctc import CTCHead
from antiphon.models.encoders.encoder import Encoder, NoEncoder
from antiphon.models.encoders.multi_source import ConcatenatedFrontEnds, MultiEncoder, SeparateFrontEnds
from antiphon.models.encoders.rnn import RecurrentEncoder
from antiphon.models.encoders.transformer_encoder import TransformerEncoder
from antiphon.models.frontends.frontend import AffixEmbedding, FrontEnd, NgramEmbedding, SourceEmbedding
from antiphon.models.layers.blocks import BlockSpec, LayerNorm, MaskedBatchNorm, Norm
from antiphon.models.layers.embedding import TokenEmbedding, embedding_table
from antiphon.models.layers.positions import LearntPositions, NoPositions, Positions, SinusoidalPositions
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.models.model import Concatenated, EncoderDecoder, LanguageModel, SequenceModel
from antiphon.registry import registered

__all__ = ["ALIGNMENTS", "DECODERS", "ENCODERS", "FRONT_ENDS", "MODELS", "SCORES", "build_for", "build_model"]

SCORES: dict[str, type[Score]] = {
    "dot": attention.DotScore,
    "scaled-dot": attention.ScaledDotScore,
    "cosine": attention.CosineScore,
    "bilinear": attention.BilinearScore,
    "additive": attention.AdditiveScore,
    "concat": attention.ConcatScore,
}
ALIGNMENTS: dict[str, Callable[[Any], Alignment]] = {
    "soft": lambda _: attention.SoftAlignment(),
    "hard": lambda config: attention.HardAlignment(decay=config.baseline, entropy=config.entropy),
}
NORMS: dict[str, type[Norm]] = {"layer": LayerNorm, "batch": MaskedBatchNorm}
ACTIVATIONS = {"relu": torch.relu_, "gelu": functional.gelu, "swish": functional.silu}


def _recurrent_encoder(config: networks.RecurrentEncoderConfig) -> Encoder:
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


def _positions(config: networks.ConvolutionalEncoderConfig | TransformerConfig) -> Positions:
    scale = config.scale if isinstance(config, TransformerConfig) else True
    if longest := networks.learnt_positions(config):
        return LearntPositions(longest=longest, size=config.size, scale=scale)
    kind = NoPositions if config.positions.kind == "none" else SinusoidalPositions
    return kind(size=config.size, scale=scale)


def _convolutional_encoder(config: networks.ConvolutionalEncoderConfig) -> Encoder:
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


def _transformer_encoder(config: networks.TransformerEncoderConfig) -> Encoder:
    return TransformerEncoder(spec=_block_spec(config), layers=config.layers, positions=_positions(config))


ENCODERS: dict[str, Callable[[Any], Encoder]] = {
    **dict.fromkeys(("lstm", "gru", "rnn", "rnn-relu"), _recurrent_encoder),
    "cnn": _convolutional_encoder,
    "transformer": _transformer_encoder,
    "none": lambda config: NoEncoder(size=config.size, dropout=config.dropout),
}


def _encoder(config: EncoderConfig) -> Encoder:
    """A built-in encoder, or one that was registered from outside the package."""
    if not isinstance(config, networks.RegisteredEncoderConfig):
        return ENCODERS[config.kind](config)
    encoder: Encoder = registered("encoder", config.kind).part(size=config.size, **config.options)
    if encoder.size != config.size:
        raise ConfigError(
            f"model.encoder.size: the states of the encoder '{config.kind}' are {encoder.size} wide, not "
            f"{config.size}; an encoder that is registered must return states of its size"
        )
    return encoder


def _attention(config: networks.AttentionConfig, *, query: int, memory: int) -> AttentionContext:
    try:
        kind = SCORES[config.score] if config.score in SCORES else registered("score", config.score).part
        score = kind(query=query, key=memory, size=config.size or query)
    except ValueError as error:
        raise ConfigError(
            f"model.context.score: {error} (the decoder's and the encoder's states); "
            f"set model.decoder.size to {memory}, or the score to bilinear"
        ) from error
    return AttentionContext(score=score, alignment=ALIGNMENTS[config.alignment.kind](config.alignment), size=memory)


def _stack(config: networks.RecurrentDecoderConfig, *, beside: int) -> RecurrentStack:
    """`beside` is the size of the other inputs of a step, beside the token's embedding."""
    inputs = config.embedding + beside
    return RecurrentStack(
        cell=config.cell, inputs=inputs, size=config.size, layers=config.layers, dropout=config.dropout
    )


def _attention_decoder(
    config: networks.BahdanauConfig | networks.LuongConfig,
    context: networks.AttentionConfig,
    *,
    memory: int,
    table: nn.Embedding,
    copying: bool,
) -> AttentionDecoder:
    """Into a step goes the context (Bahdanau), or with input feeding the last attentional state (Luong)."""
    kind = BahdanauDecoder if isinstance(config, networks.BahdanauConfig) else LuongDecoder
    feeding = isinstance(config, networks.LuongConfig) and config.input_feeding
    stack = _stack(config, beside=memory if kind is BahdanauDecoder else config.size * feeding)
    return kind(
        embedding=TokenEmbedding(table=table, dropout=config.dropout),
        stack=stack,
        context=_attention(context, query=config.size, memory=memory),
        bridge=Bridge(memory=memory, size=config.size, layers=config.layers, parts=stack.parts),
        dropout=config.dropout,
        input_feeding=feeding,
        copying=copying,
    )


def _plain(
    config: networks.PlainConfig,
    context: networks.StaticContextConfig | None,
    *,
    memory: int,
    table: nn.Embedding,
    copying: bool,  # noqa: ARG001 (without attention there is no copying)
) -> PlainDecoder:
    stack, static, bridge = _stack(config, beside=memory if context and context.feed != "start" else 0), None, None
    if context and context.feed != "every-step":
        kind = DirectBridge if context.bridge == "direct" else Bridge
        bridge = kind(memory=memory, size=config.size, layers=config.layers, parts=stack.parts)
    if context:
        static = StaticContext(pool=POOLS[context.kind], bridge=bridge, every_step=context.feed != "start")
    embedding = TokenEmbedding(table=table, dropout=config.dropout)
    return PlainDecoder(embedding=embedding, stack=stack, context=static, dropout=config.dropout)


def _transformer(
    config: networks.TransformerDecoderConfig,
    context: networks.MultiHeadConfig | None,  # noqa: ARG001 (it has no options)
    *,
    memory: int,
    table: nn.Embedding,
    copying: bool,
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
    "bahdanau": _attention_decoder,
    "luong": _attention_decoder,
    "plain": _plain,
    "transformer": _transformer,
}


def _embedding(
    reader: EncoderConfig | DecoderConfig, tokens: int, target: nn.Embedding | None, tie: str
) -> TokenEmbedding:
    """The embedding of source tokens: a table of its own, or shared with the target: e(x) = E[x], e(y) = E[y]"""
    table = target if target is not None and tie in ("tables", "all") else embedding_table(tokens, vector_size(reader))
    # `transformer` applies its own dropout after adding positions, `none` on its input.
    return TokenEmbedding(table=table, dropout=0.0 if reader.kind in ("transformer", "none") else reader.dropout)


def _front_end(
    source: SourceSpec,
    chosen: networks.FrontEndConfig | None,
    encoder: EncoderConfig,
    target: nn.Embedding | None,
    tie: str,
) -> FrontEnd:
    size = vector_size(encoder)
    if not isinstance(source.config, TextConfig):
        return build_front_end(source, chosen, size)
    embedding, ngrams, around = _embedding(encoder, source.size, target, tie), encoder.ngrams, None
    if ngrams:
        around = NgramEmbedding(lengths=ngrams.lengths, rows=ngrams.rows, size=size, dropout=encoder.dropout)
    affixes = None if source.affixes is None else AffixEmbedding(source.affixes, size=size, dropout=encoder.dropout)
    return SourceEmbedding(embedding, around, source.copied_as, affixes)


def _decoder(
    config: EncoderDecoderConfig | networks.LanguageModelConfig | networks.ConcatenatedConfig,
    tokens: int,
    *,
    memory: int = 0,
    copying: bool = False,
) -> tuple[Any, nn.Embedding]:
    """The decoder and its table E of token embeddings; tied: logits = E o + b, the output layer shares E"""
    table = embedding_table(tokens, vector_size(config.decoder))
    context = getattr(config, "context", None)
    decoder = DECODERS[config.decoder.kind](config.decoder, context, memory=memory, table=table, copying=copying)
    if config.tie in ("output", "all"):
        decoder.output.weight = table.weight
    return decoder, table


def _encoder_decoder(config: EncoderDecoderConfig, *, sources: Items[SourceSpec], target_tokens: int) -> EncoderDecoder:
    encoders = [_encoder(part) for part in config.encoders]
    encoder = MultiEncoder(encoders) if isinstance(config.encoder, list) else encoders[0]
    decoder, table = _decoder(config, target_tokens, memory=encoder.size, copying=config.copying)
    readers = config.encoders * len(sources) if len(encoders) == 1 else config.encoders
    parts = zip(sources, networks.front_ends_of(config, len(sources)), readers, strict=True)
    front_ends = [_front_end(*part, target=table, tie=config.tie) for part in parts]
    ctc = CTCHead(memory=encoder.size, tokens=target_tokens, blank=PAD, weight=config.ctc) if config.ctc else None
    source = _join_front_ends(config, front_ends)
    return EncoderDecoder(source=source, encoder=encoder, decoder=decoder, spelling=ctc)


def _join_front_ends(config: EncoderDecoderConfig, fronts: list[FrontEnd]) -> nn.Module:
    """The only one; or those of several sources, for one encoder or for one each."""
    if len(fronts) == 1:
        return fronts[0]
    specials = len(SPECIALS) if config.matches else None
    if isinstance(config.encoder, list):
        return SeparateFrontEnds(fronts, sizes=[vector_size(part) for part in config.encoder], specials=specials)
    return ConcatenatedFrontEnds(fronts, size=vector_size(config.encoder), specials=specials)


def _language_model(
    config: networks.LanguageModelConfig,
    *,
    sources: Items[SourceSpec],  # noqa: ARG001 (it has none)
    target_tokens: int,
) -> LanguageModel:
    return LanguageModel(decoder=_decoder(config, target_tokens)[0])


def _concatenated(
    config: networks.ConcatenatedConfig, *, sources: Items[SourceSpec], target_tokens: int
) -> Concatenated:
    [source] = sources
    decoder, table = _decoder(config, target_tokens)
    embedding = _embedding(config.decoder, source.size, table, config.tie)
    return Concatenated(source=SourceEmbedding(embedding), decoder=decoder)


def _tagger(config: networks.TaggerConfig, *, sources: Items[SourceSpec], target_tokens: int) -> EncoderDecoder:
    """An encoder-decoder whose decoder is an output layer."""
    [source] = sources
    encoder = _encoder(config.encoder)
    decoder = LabelDecoder(memory=encoder.size, labels=target_tokens, dropout=config.decoder.dropout)
    front = _front_end(source, None, config.encoder, None, config.tie)
    return EncoderDecoder(source=front, encoder=encoder, decoder=decoder)


MODELS: dict[str, Callable[..., SequenceModel]] = {
    "encoder-decoder": _encoder_decoder,
    "language-model": _language_model,
    "concatenated": _concatenated,
    "tagger": _tagger,
}


def build_model(config: networks.ModelConfig, *, source_tokens: int, target_tokens: int) -> SequenceModel:
    """A model of one text source, with new weights."""
    return build_for(config, [TextConfig()], [source_tokens], target_tokens=target_tokens)


def build_for(
    config: networks.ModelConfig,
    sources: Items[SourceConfig],
    sizes: Items[int],
    *,
    target_tokens: int,
    copied_as: Items[Tensor | None] | None = None,
    affixes: Items[Tensor | None] | None = None,
) -> SequenceModel:
    """A model of any sources, with new weights; `sizes` are the vocabularies of texts and the widths of vectors.

    `copied_as` maps the source tokens of each text to target tokens, for a model that copies; None: both sides have one
    vocabulary. `affixes` are the codes of the tokens of each text with affixes; None: none is known.
    """
    specs = [SourceSpec(*both) for both in zip(sources, sizes, strict=False)]  # a language model has no sources
    if isinstance(config, EncoderDecoderConfig) and config.copying:
        tables = copied_as or [
            by_number(spec.size, target_tokens) if isinstance(spec.config, TextConfig) else None for spec in specs
        ]
        specs = [replace(spec, copied_as=table) for spec, table in zip(specs, tables, strict=True)]
    if any(isinstance(spec.config, TextConfig) and spec.config.affixes for spec in specs):
        none = [torch.zeros(size, dtype=torch.long) for size in sizes]
        specs = [
            replace(spec, affixes=table) if isinstance(spec.config, TextConfig) and spec.config.affixes else spec
            for spec, table in zip(specs, affixes or none, strict=True)
        ]
    return MODELS[config.kind](config, sources=specs, target_tokens=target_tokens)
