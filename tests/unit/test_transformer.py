"""The Transformer's state: going on from it, what is shared, and one network that reads and writes."""
# B sentences, R rows, T steps, S source steps, L layers, N heads

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from tiny_models import close, fill
from torch import Tensor, nn
from torch.nn import functional

from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import PAD
from antiphon.errors import UserError
from antiphon.models.decoders.transformer_decoder import SharedKeyValues, TransformerDecoder, TransformerState
from antiphon.models.encoders.transformer_encoder import TransformerEncoder
from antiphon.models.layers.blocks import BlockSpec, LayerNorm, MaskedBatchNorm, Norm, Order
from antiphon.models.layers.embedding import TokenEmbedding, embedding_table
from antiphon.models.layers.positions import LearntPositions, Positions, SinusoidalPositions
from antiphon.models.multihead import MultiHeadAttention
from antiphon.sequence import Memory, Sequence

D, M, N, L, V = 8, 6, 2, 2, 11
SOURCE = source_batch([[4, 5, 6, 7, 10], [6, 4, 9], [8]])
INPUTS = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 4, 4, 5], [1, 7, 5, 8, 6]])
B, T = INPUTS.shape
S = SOURCE.values.size(1)


def spec(order: Order = "pre", norm: type[Norm] = LayerNorm, dropout: float = 0.0) -> BlockSpec:
    return BlockSpec(size=D, heads=N, inner=12, order=order, norm=norm, activation=functional.relu, dropout=dropout)


def decoder(memory: int, blocks: BlockSpec | None = None, positions: Positions | None = None) -> TransformerDecoder:
    module = TransformerDecoder(
        embedding=TokenEmbedding(table=embedding_table(V, D), dropout=0.0),
        spec=blocks or spec(),
        layers=L,
        positions=positions or SinusoidalPositions(size=D),
        memory=memory,
        padding=PAD,
    )
    fill(module.double())
    return module.eval()


def memory() -> Memory:
    states = torch.cos(torch.arange(B * S * M, dtype=torch.float64) * 0.7).reshape(B, S, M)
    return Memory(states, SOURCE.mask, final=states[:, :1])


def begin(module: TransformerDecoder, kind: str) -> TransformerState:
    """The state before the first step: told by an encoder, having read the source, or alone."""
    if kind == "told":
        return module.start(memory())
    state = module.start(Memory.nothing(B))
    return (
        module.read_prefix(Sequence(module.embedding(SOURCE.values), SOURCE.mask), state) if kind == "read" else state
    )


KINDS = ("told", "read", "alone")
every_kind = pytest.mark.parametrize("kind", KINDS)
every_spec = pytest.mark.parametrize(
    ("kind", "order", "norm"), list(product(KINDS, ("pre", "post"), (LayerNorm, MaskedBatchNorm)))
)


@every_spec
def test_piece_by_piece_is_the_whole(kind: str, order: Order, norm: type[Norm]) -> None:
    module = decoder(M if kind == "told" else 0, spec(order, norm))
    whole = module(INPUTS, begin(module, kind))
    for pieces in ([1] * T, [2, T - 2], [3, 1, T - 4]):
        state, logits = begin(module, kind), []
        for piece in INPUTS.split(pieces, dim=1):
            step = module(piece, state)
            state, logits = step.state, [*logits, step.logits]
        close(torch.cat(logits, dim=1), whole.logits)
        for layer, expected in zip(state.own, whole.state.own, strict=True):
            assert layer.keys.shape == (B, N, T, D // N)
            close(layer.keys, expected.keys)
            close(layer.values, expected.values)


@every_kind
def test_looking_piece_by_piece_is_looking_at_once(kind: str) -> None:
    """The steps before have their columns too."""
    module = decoder(M if kind == "told" else 0)
    whole = module.attention_weights(INPUTS, begin(module, kind))
    state = module(INPUTS[:, :2], begin(module, kind)).state
    rest = module.attention_weights(INPUTS[:, 2:], state)
    assert whole.own is not None
    assert rest.own is not None
    assert rest.own.shape == (B, L, N, T - 2, T)
    close(rest.own, whole.own[:, :, :, 2:])
    if kind == "alone":
        assert whole.cross is None
        return
    assert whole.cross is not None
    assert rest.cross is not None
    assert whole.cross.shape == (B, L, N, T, S)
    close(rest.cross, whole.cross[:, :, :, 2:])
    assert not whole.cross.masked_select(~SOURCE.mask[:, None, None, None]).any()


def test_what_read_the_source_shares_its_looks_between_source_and_self() -> None:
    module = decoder(0)
    looks = module.attention_weights(INPUTS, begin(module, "read"))
    assert looks.own is not None
    assert looks.cross is not None
    ones = torch.ones(B, L, N, T, dtype=torch.float64)
    close(looks.own.sum(-1) + looks.cross.sum(-1), ones)
    assert bool((looks.cross.sum(-1) < ones).all())
    told = decoder(M)
    apart = told.attention_weights(INPUTS, begin(told, "told"))
    assert apart.own is not None
    assert apart.cross is not None
    close(apart.own.sum(-1), ones)
    close(apart.cross.sum(-1), ones)


@pytest.mark.parametrize(("order", "norm"), list(product(("pre", "post"), (LayerNorm, MaskedBatchNorm))))
def test_reading_then_writing_is_one_causal_network(order: Order, norm: type[Norm]) -> None:
    """ "source <sep> target" of each sentence alone, in one row without padding."""
    module = decoder(0, spec(order, norm))
    found = module(INPUTS, begin(module, "read")).logits
    for row, length in enumerate(SOURCE.lengths.tolist()):
        line = torch.cat([SOURCE.values[row, :length], INPUTS[row]]).unsqueeze(0)
        close(found[row], module(line, module.start(Memory.nothing(1))).logits[0, length:])


def test_rows_go_on_after_sources_of_unequal_length() -> None:
    module = decoder(0)
    state = begin(module, "read")
    assert isinstance(state.position, Tensor)
    assert state.position.tolist() == [6, 4, 2]
    state = module(INPUTS[:, :3], state).state.select(torch.tensor([[0, 0], [2, 2]]))
    assert isinstance(state.position, Tensor)
    assert state.position.tolist() == [9, 9, 5, 5]
    assert module(INPUTS[:, :3], begin(module, "alone")).state.position == 3


def test_a_source_is_read_before_all_else() -> None:
    module = decoder(0)
    source = Sequence(module.embedding(SOURCE.values), SOURCE.mask)
    for late in (begin(module, "read"), module(INPUTS, begin(module, "alone")).state):
        with pytest.raises(ValueError, match="before the first step"):
            module.read_prefix(source, late)


@every_kind
@pytest.mark.parametrize("steps", [1, 2])
def test_selected_rows_go_on_as_if_alone(kind: str, steps: int) -> None:
    """Each sentence gets three hypotheses in another order, one leaves; each is as if it had been said alone."""
    module = decoder(M if kind == "told" else 0)
    state = module(INPUTS[:, :1], begin(module, kind)).state.select(torch.tensor([[0, 0, 0], [1, 1, 1], [2, 2, 2]]))
    first = torch.tensor([[4], [5], [6], [7], [8], [9], [4], [6], [8]])
    state = module(first, state).state.select(torch.tensor([[2, 0], [8, 8]]))
    rest = torch.tensor([[4, 5], [6, 7], [8, 9], [5, 4]])[:, :steps]
    found = module(rest, state).logits
    for row, (sentence, before) in enumerate([(0, 6), (0, 4), (2, 8), (2, 8)]):
        said = torch.cat([torch.tensor([1, before]), rest[row]]).unsqueeze(0).expand(B, -1)
        close(found[row], module(said, begin(module, kind)).logits[sentence, 2:])


def shared(state: TransformerState, kind: str) -> SharedKeyValues:
    found = state.memory if kind == "told" else state.prefix
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["told", "read"])
def test_the_source_is_not_copied(kind: str) -> None:
    """Once per sentence, for all its hypotheses; and untouched while every sentence stays."""
    module = decoder(M if kind == "told" else 0)
    state = begin(module, kind)
    wide = state.select(torch.tensor([[0, 0], [1, 1], [2, 2]])).select(torch.tensor([[1, 0], [3, 3], [4, 5]]))
    assert wide.rows == 6
    assert shared(wide, kind) is shared(state, kind)
    assert shared(module(torch.full((6, 1), 4), wide).state, kind) is shared(state, kind)
    narrow = shared(wide.select(torch.tensor([[0, 1], [4, 5]])), kind)
    assert torch.equal(narrow.mask, SOURCE.mask[[0, 2]])
    for kept, before in zip(narrow.layers, shared(state, kind).layers, strict=True):
        assert torch.equal(kept.keys, before.keys[[0, 2]])
        assert torch.equal(kept.values, before.values[[0, 2]])


def test_a_state_is_a_value() -> None:
    module = decoder(M)
    state = module(INPUTS[:, :2], begin(module, "told")).state
    before = [layer.keys.clone() for layer in state.own]
    module(INPUTS[:, 2:], state)
    module(INPUTS[:, 2:3], state.select(torch.tensor([[0], [1], [2]])))
    assert all(torch.equal(layer.keys, kept) for layer, kept in zip(state.own, before, strict=True))


def test_batch_norm_of_the_decoder_counts_no_padding() -> None:
    """In training, the moving averages are the same however much padding follows."""
    found = []
    for more in (0, 3):
        module = decoder(M, spec(norm=MaskedBatchNorm)).train()
        module(functional.pad(INPUTS, (0, more)), begin(module, "told"))
        found.append([buffer.clone() for buffer in module.buffers()])
    assert len(found[0]) == 2 * (3 * L + 1)
    for left, right in zip(*found, strict=True):
        close(left, right)


def test_positions_beyond_a_learnt_table_are_said() -> None:
    module = decoder(0, positions=LearntPositions(longest=10, size=D))
    state = module(INPUTS[:, :4], begin(module, "read")).state  # 6 of the source and 4
    with pytest.raises(UserError, match="a sequence of 11 tokens, but the model has learnt 10 positions"):
        module(INPUTS[:, 4:], state)


def encoder(blocks: BlockSpec) -> TransformerEncoder:
    module = TransformerEncoder(spec=blocks, layers=L, positions=SinusoidalPositions(size=D))
    fill(module.double())
    return module.eval()


@pytest.mark.parametrize(("order", "norm"), list(product(("pre", "post"), (LayerNorm, MaskedBatchNorm))))
def test_encoder_never_sees_padding(order: Order, norm: type[Norm]) -> None:
    module, mask = encoder(spec(order, norm)), SOURCE.mask
    tokens = torch.cos(torch.arange(B * S * D, dtype=torch.float64) * 0.7).reshape(B, S, D)
    wild = Sequence(tokens.masked_fill(~mask.unsqueeze(-1), 1e3), mask)
    found = module(wild)
    for row, length in enumerate(SOURCE.lengths.tolist()):
        alone = Sequence(tokens[row : row + 1, :length], mask[row : row + 1, :length])
        close(found.states[row, :length], module(alone).states[0])
        close(found.final[row], module(alone).states[0, -1:])
        close(module.attention_weights(wild)[row, :, :, :length, :length], module.attention_weights(alone)[0])


def test_a_decoder_without_memory_has_the_parts_of_an_encoder() -> None:
    """So that a language model's weights can begin an encoder; what it has beside them is its words."""
    for order, norm in product(("pre", "post"), (LayerNorm, MaskedBatchNorm)):
        theirs = {name: tuple(part.shape) for name, part in encoder(spec(order, norm)).state_dict().items()}
        ours = {name: tuple(part.shape) for name, part in decoder(0, spec(order, norm)).state_dict().items()}
        words = ("embedding.", "output.")
        assert {name: shape for name, shape in ours.items() if not name.startswith(words)} == theirs
        more = set(decoder(M, spec(order, norm)).state_dict()) - set(ours)
        assert more
        assert all(".cross." in name for name in more)


def test_dropout_falls_on_the_sum_of_vectors_and_positions() -> None:
    """If all is dropped, every position of the encoder is the same."""
    module = encoder(spec(dropout=1.0)).train()
    inputs = Sequence(torch.ones(1, 4, D, dtype=torch.float64), torch.ones(1, 4, dtype=torch.bool))
    assert module.norm is not None
    close(module(inputs).states[0], module.norm.bias.expand(4, D))
    writer = decoder(0, spec(dropout=1.0)).train()
    logits = writer(INPUTS, begin(writer, "alone")).logits
    assert writer.norm is not None
    close(logits, writer.output(writer.norm.bias).expand(B, T, V))


def test_every_dense_layer_begins_with_xavier_and_no_bias() -> None:
    module = TransformerDecoder(
        embedding=TokenEmbedding(table=embedding_table(50, 64), dropout=0.0),
        spec=replace(spec(), size=64, inner=128),
        layers=1,
        positions=SinusoidalPositions(size=64),
        memory=96,
        padding=PAD,
    )
    dense = [part for part in module.modules() if isinstance(part, nn.Linear)]
    assert len(dense) == 4 + 4 + 2 + 1
    for part in dense:
        bound = math.sqrt(6 / (part.in_features + part.out_features))
        assert 0.95 * bound < float(part.weight.detach().abs().max()) <= bound
        assert not part.bias.any()


def test_only_looking_makes_tables_of_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Teacher forcing and stepping take the fused path, except one step after a source that was read."""
    made: list[int] = []
    plain = MultiHeadAttention.weights
    monkeypatch.setattr(MultiHeadAttention, "weights", lambda *given: made.append(1) or plain(*given))
    for kind in KINDS:
        module = decoder(M if kind == "told" else 0)
        state = module(INPUTS[:, :3], begin(module, kind)).state
        assert made == []
        module(INPUTS[:, 3:4], state)
        assert len(made) == (L if kind == "read" else 0)
        made.clear()
