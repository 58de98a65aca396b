"""The Transformer against torch's own, with copied weights: every order, activation and mask."""
# B sentences, T target steps, S source steps, D state, M memory, N heads, F inner size

from __future__ import annotations

from itertools import product

import pytest
import torch
from tiny_models import close, fill
from torch import Tensor, nn
from torch.nn import functional

from antiphon.models.decoders.transformer_decoder import DecoderBlock, TransformerDecoder
from antiphon.models.encoders.transformer_encoder import EncoderBlock, TransformerEncoder
from antiphon.models.layers.blocks import BlockSpec, LayerNorm, Order
from antiphon.models.layers.embedding import TokenEmbedding
from antiphon.models.layers.positions import SinusoidalPositions
from antiphon.models.multihead import MaskedKeyValues, MultiHeadAttention, causal_mask
from antiphon.sequence import Memory, Sequence

B, T, S, D, M, N, F, L, V = 3, 5, 6, 8, 6, 2, 12, 2, 9
LENGTHS = torch.tensor([6, 2, 4])
REAL = torch.arange(S) < LENGTHS.unsqueeze(1)
TOKENS = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 4, 4, 5], [1, 7, 5, 8, 6]])
ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}
every_block = pytest.mark.parametrize(("order", "activation"), list(product(("pre", "post"), ACTIVATIONS)))


def values(*shape: int) -> Tensor:
    return torch.cos(torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 0.7).reshape(shape)


def copy(ours: nn.Module, theirs: nn.Module) -> None:
    """Weights of modules whose parameters have the same names."""
    theirs.load_state_dict(ours.state_dict())


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """torch keeps queries, keys and values in one matrix, or in three where their sizes differ."""
    ins = (ours.W_Q, ours.W_K, ours.W_V)
    with torch.no_grad():
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight.copy_(torch.cat([dense.weight for dense in ins]))
        else:
            for name, dense in zip("qkv", ins, strict=True):
                getattr(theirs, f"{name}_proj_weight").copy_(dense.weight)
        theirs.in_proj_bias.copy_(torch.cat([dense.bias for dense in ins]))
    copy(ours.W_O, theirs.out_proj)


def copy_block(
    ours: EncoderBlock | DecoderBlock, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    if isinstance(theirs, nn.TransformerDecoderLayer):
        copy_attention(ours.cross, theirs.multihead_attn)
    copy(ours.feedforward.W_1, theirs.linear1)
    copy(ours.feedforward.W_2, theirs.linear2)
    for number, norm in enumerate(ours.norms.values(), start=1):
        copy(norm, getattr(theirs, f"norm{number}"))


def spec(order: Order, activation: str) -> BlockSpec:
    return BlockSpec(
        size=D,
        heads=N,
        inner=F,
        order=order,
        norm=LayerNorm,
        activation=ACTIVATIONS[activation],
        dropout=0.3,  # in use it does nothing
    )


def our_encoder(order: Order, activation: str) -> TransformerEncoder:
    encoder = TransformerEncoder(spec=spec(order, activation), layers=L, positions=SinusoidalPositions(size=D))
    fill(encoder.double())
    return encoder.eval()


def our_decoder(order: Order, activation: str, memory: int) -> TransformerDecoder:
    embedding = TokenEmbedding(table=nn.Embedding(V, D), dropout=0.0)
    decoder = TransformerDecoder(
        embedding=embedding,
        spec=spec(order, activation),
        layers=L,
        positions=SinusoidalPositions(size=D),
        memory=memory,
        padding=0,
    )
    fill(decoder.double())
    return decoder.eval()


def torch_encoder(ours: TransformerEncoder | TransformerDecoder, order: Order, activation: str) -> nn.Module:
    """torch's stack with our weights."""
    layer = nn.TransformerEncoderLayer(D, N, F, 0.3, activation, batch_first=True, norm_first=order == "pre")
    last = nn.LayerNorm(D) if order == "pre" else None
    theirs = nn.TransformerEncoder(layer, L, norm=last, enable_nested_tensor=False).double()
    for mine, yours in zip(ours.blocks, theirs.layers, strict=True):
        copy_block(mine, yours)
    if last is not None:
        copy(ours.norm, theirs.norm)
    return theirs.eval()


def torch_decoder(ours: TransformerDecoder, order: Order, activation: str) -> nn.TransformerDecoder:
    layer = nn.TransformerDecoderLayer(D, N, F, 0.3, activation, batch_first=True, norm_first=order == "pre")
    theirs = nn.TransformerDecoder(layer, L, norm=nn.LayerNorm(D) if order == "pre" else None).double()
    for mine, yours in zip(ours.blocks, theirs.layers, strict=True):
        copy_block(mine, yours)
    if theirs.norm is not None:
        copy(ours.norm, theirs.norm)
    return theirs.eval()


@pytest.mark.parametrize("memory", [D, M])
def test_cross_attention_is_torchs(memory: int) -> None:
    ours = MultiHeadAttention(query=D, memory=memory, size=D, heads=N, dropout=0.0).double()
    fill(ours)
    theirs = nn.MultiheadAttention(D, N, batch_first=True, kdim=memory, vdim=memory).double()
    copy_attention(ours, theirs)
    queries, states = values(B, T, D), values(B, S, memory)
    found, weights = theirs(queries, states, states, key_padding_mask=~REAL, average_attn_weights=False)
    seen = MaskedKeyValues(ours.prepare(states), REAL[:, None, None])
    close(ours(queries, seen), found)
    close(ours.weights(queries, seen), weights)


def test_masked_self_attention_is_torchs() -> None:
    ours = MultiHeadAttention(query=D, memory=D, size=D, heads=N, dropout=0.0).double()
    fill(ours)
    theirs = nn.MultiheadAttention(D, N, batch_first=True).double()
    copy_attention(ours, theirs)
    states = values(B, T, D)
    hidden = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    found, weights = theirs(states, states, states, attn_mask=hidden, average_attn_weights=False)
    heads = ours.prepare(states)
    close(ours(states, MaskedKeyValues(heads), causal=True), found)
    close(ours(states, MaskedKeyValues(heads, causal_mask(T))), found)
    close(ours.weights(states, MaskedKeyValues(heads, causal_mask(T))), weights)


@every_block
def test_encoder_is_torchs(order: Order, activation: str) -> None:
    ours = our_encoder(order, activation)
    theirs = torch_encoder(ours, order, activation)
    inputs = values(B, S, D)
    memory = ours(Sequence(inputs, REAL))
    states = theirs(ours.positions(inputs), src_key_padding_mask=~REAL)
    close(memory.states[REAL], states[REAL])
    close(memory.final.squeeze(1), states[torch.arange(B), LENGTHS - 1])


@every_block
def test_encoder_looks_where_torchs_does(order: Order, activation: str) -> None:
    ours = our_encoder(order, activation)
    theirs = torch_encoder(ours, order, activation)
    heads, states = ours.attention_weights(Sequence(values(B, S, D), REAL)), ours.positions(values(B, S, D))
    assert heads.shape == (B, L, N, S, S)
    for number, layer in enumerate(theirs.layers):
        inside = layer.norm1(states) if order == "pre" else states
        _, weights = layer.self_attn(inside, inside, inside, key_padding_mask=~REAL, average_attn_weights=False)
        states = layer(states, src_key_padding_mask=~REAL)
        close(heads[:, number], weights)


@every_block
def test_decoder_is_torchs(order: Order, activation: str) -> None:
    ours = our_decoder(order, activation, memory=D)
    theirs = torch_decoder(ours, order, activation)
    states = values(B, S, D)
    words = ours.positions(ours.embedding(TOKENS))
    hidden = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    # of the same kind as the other mask, or torch warns
    padding = torch.zeros(B, S, dtype=torch.float64).masked_fill(~REAL, -torch.inf)
    top = theirs(words, states, tgt_mask=hidden, memory_key_padding_mask=padding)
    start = ours.start(Memory(states, REAL, final=states[:, :1]))
    close(ours(TOKENS, start).logits, ours.output(top))


@every_block
def test_decoder_looks_where_torchs_does(order: Order, activation: str) -> None:
    ours = our_decoder(order, activation, memory=D)
    theirs = torch_decoder(ours, order, activation)
    memory = values(B, S, D)
    looks = ours.attention_weights(TOKENS, ours.start(Memory(memory, REAL, final=memory[:, :1])))
    states = ours.positions(ours.embedding(TOKENS))
    hidden = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    padding = torch.zeros(B, S, dtype=torch.float64).masked_fill(~REAL, -torch.inf)
    pre = order == "pre"
    assert looks.own is not None
    assert looks.cross is not None
    for number, layer in enumerate(theirs.layers):
        inside = layer.norm1(states) if pre else states
        found, own = layer.self_attn(inside, inside, inside, attn_mask=hidden, average_attn_weights=False)
        added = states + found if pre else layer.norm1(states + found)
        asked = layer.norm2(added) if pre else added
        _, cross = layer.multihead_attn(asked, memory, memory, key_padding_mask=~REAL, average_attn_weights=False)
        states = layer(states, memory, tgt_mask=hidden, memory_key_padding_mask=padding)
        close(looks.own[:, number], own)
        close(looks.cross[:, number], cross)


@every_block
def test_decoder_without_memory_is_torchs_causal_encoder(order: Order, activation: str) -> None:
    ours = our_decoder(order, activation, memory=0)
    theirs = torch_encoder(ours, order, activation)
    hidden = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    top = theirs(ours.positions(ours.embedding(TOKENS)), mask=hidden, is_causal=True)
    close(ours(TOKENS, ours.start(Memory.nothing(B))).logits, ours.output(top))
