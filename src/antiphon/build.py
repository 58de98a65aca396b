"""The closed tables name → class: the one list of what exists."""

from __future__ import annotations

from antiphon.attention.alignment import SoftAlignment
from antiphon.attention.context import AttentionContext
from antiphon.attention.scores import AdditiveScore, BilinearScore, DotScore, Score
from antiphon.config.schema import AttentionConfig, BahdanauConfig, LuongConfig, ModelConfig, RecurrentEncoderConfig
from antiphon.decoders.bahdanau import BahdanauDecoder
from antiphon.decoders.bridge import Bridge
from antiphon.decoders.luong import LuongDecoder
from antiphon.decoders.stack import RecurrentStack
from antiphon.decoders.state import Decoder
from antiphon.encoders.embedding import SourceEmbedding, TokenEmbedding
from antiphon.encoders.rnn import RecurrentEncoder
from antiphon.model import EncoderDecoder

__all__ = ["ALIGNMENTS", "DECODERS", "ENCODERS", "MODELS", "SCORES", "build_model"]

ENCODERS: dict[str, type[RecurrentEncoder]] = {
    "rnn": RecurrentEncoder,
    "gru": RecurrentEncoder,
    "lstm": RecurrentEncoder,
}
SCORES: dict[str, type[Score]] = {"dot": DotScore, "bilinear": BilinearScore, "additive": AdditiveScore}
ALIGNMENTS: dict[str, type[SoftAlignment]] = {"soft": SoftAlignment}
DECODERS: dict[str, type[Decoder]] = {"bahdanau": BahdanauDecoder, "luong": LuongDecoder}
MODELS: dict[str, type[EncoderDecoder]] = {"encoder-decoder": EncoderDecoder}


def build_model(config: ModelConfig, *, source_tokens: int, target_tokens: int) -> EncoderDecoder:
    """A model with fresh weights."""
    encoder = _encoder(config.encoder)
    return MODELS[config.kind](
        source=SourceEmbedding(tokens=source_tokens, size=config.encoder.embedding, dropout=config.encoder.dropout),
        encoder=encoder,
        decoder=_decoder(config, memory=encoder.size, tokens=target_tokens),
    )


def _encoder(config: RecurrentEncoderConfig) -> RecurrentEncoder:
    return ENCODERS[config.kind](
        kind=config.kind,
        inputs=config.embedding,
        size=config.size,
        layers=config.layers,
        bidirectional=config.bidirectional,
        dropout=config.dropout,
    )


def _context(config: AttentionConfig, *, query: int, memory: int) -> AttentionContext:
    kind = SCORES[config.score]
    if kind is AdditiveScore:
        score: Score = AdditiveScore(query=query, key=memory, size=config.size or query)
    else:
        score = kind(query=query, key=memory)
    return AttentionContext(score=score, alignment=ALIGNMENTS[config.alignment](), size=memory)


def _decoder(config: ModelConfig, *, memory: int, tokens: int) -> Decoder:
    decoder = config.decoder
    context = _context(config.context, query=decoder.size, memory=memory)
    embedding = TokenEmbedding(tokens=tokens, size=decoder.embedding, dropout=decoder.dropout)
    stack = _stack(decoder, context=context.size)
    bridge = Bridge(memory=memory, size=decoder.size, layers=decoder.layers, parts=stack.parts)
    if isinstance(decoder, LuongConfig):
        return LuongDecoder(
            embedding=embedding,
            stack=stack,
            context=context,
            bridge=bridge,
            dropout=decoder.dropout,
            input_feeding=decoder.input_feeding,
        )
    return BahdanauDecoder(embedding=embedding, stack=stack, context=context, bridge=bridge, dropout=decoder.dropout)


def _stack(config: BahdanauConfig | LuongConfig, *, context: int) -> RecurrentStack:
    """What enters a step beside the word: the context (Bahdanau), the last output (input feeding), or nothing."""
    beside = 0
    if isinstance(config, BahdanauConfig):
        beside = context
    elif config.input_feeding:
        beside = config.size
    return RecurrentStack(
        cell=config.cell,
        inputs=config.embedding + beside,
        size=config.size,
        layers=config.layers,
        dropout=config.dropout,
    )
