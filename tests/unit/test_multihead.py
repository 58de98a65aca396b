"""Multi-head attention: the mask, the formula written out, and the fused path bound to it."""
# B sentences, R rows, T queries, S keys, D size, N heads, d size of a head

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import close, fill
from torch import Tensor

from antiphon.models.multihead import KeyValues, MaskedKeyValues, MultiHeadAttention, causal_mask

B, T, S, D, M, N = 2, 4, 5, 6, 8, 3
REAL = torch.tensor([[True] * 5, [True, True, False, False, False]])


def values(*shape: int, shift: float = 0.0) -> Tensor:
    return torch.cos(torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 0.7 + shift).reshape(shape)


def attention(memory: int = M, dropout: float = 0.0) -> MultiHeadAttention:
    module = MultiHeadAttention(query=D, memory=memory, size=D, heads=N, dropout=dropout).double()
    fill(module)
    return module


def test_the_causal_mask_of_five() -> None:
    """A position looks at itself and at what stands before it."""
    expected = """
    1 0 0 0 0
    1 1 0 0 0
    1 1 1 0 0
    1 1 1 1 0
    1 1 1 1 1
    """
    assert causal_mask(5).int().tolist() == [list(map(int, row.split())) for row in expected.strip().split("\n")]


def test_the_causal_mask_after_a_past() -> None:
    assert causal_mask(2, past=3).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def loop(module: MultiHeadAttention, queries: Tensor, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Every number on its own: o [B, T, D] and α [B, N, T, S]; mask [B, T, S]."""
    d = D // N
    weights = torch.zeros(B, N, T, S, dtype=torch.float64)
    heads = torch.zeros(B, T, D, dtype=torch.float64)
    for b in range(B):
        Q, K, V = module.W_Q(queries[b]), module.W_K(states[b]), module.W_V(states[b])
        for n in range(N):
            part = slice(n * d, (n + 1) * d)
            for t in range(T):
                looked = [s for s in range(S) if mask[b, t, s]]
                powers = [math.exp(float(Q[t, part] @ K[s, part]) / math.sqrt(d)) for s in looked]
                for s, power in zip(looked, powers, strict=True):
                    weights[b, n, t, s] = power / sum(powers)
                    heads[b, t, part] += weights[b, n, t, s] * V[s, part]
    return module.W_O(heads), weights


@torch.no_grad()
def test_both_paths_are_the_formula() -> None:
    module, queries, states = attention(), values(B, T, D), values(B, S, M, shift=1.0)
    mask = REAL.unsqueeze(1) & causal_mask(T, S - T)
    found, weights = loop(module, queries, states, mask)
    seen = MaskedKeyValues(module.prepare(states), mask.unsqueeze(1))
    close(module(queries, seen), found)
    close(module.weights(queries, seen), weights)


def test_causal_stands_for_the_causal_mask() -> None:
    module, states = attention(memory=D), values(B, T, D)
    heads = module.prepare(states)
    close(module(states, MaskedKeyValues(heads), causal=True), module(states, MaskedKeyValues(heads, causal_mask(T))))


@torch.no_grad()
def test_weights_of_each_head_make_what_the_fused_path_finds() -> None:
    module, queries = attention(), values(B, T, D)
    heads = module.prepare(values(B, S, M, shift=1.0))
    weights = module.weights(queries, MaskedKeyValues(heads, REAL[:, None, None]))
    assert weights.shape == (B, N, T, S)
    joined = (weights @ heads.values).transpose(1, 2).reshape(B, T, D)
    close(module(queries, MaskedKeyValues(heads, REAL[:, None, None])), module.W_O(joined))
    close(weights.sum(-1), torch.ones(B, N, T, dtype=torch.float64))
    assert not weights[1, :, :, 2:].any()
    assert float((weights[:, 0] - weights[:, 1]).abs().max()) > 0.05  # heads look at different places


def test_hypotheses_of_a_sentence_look_at_one_source() -> None:
    """Six rows, two sentences: as if the source had been copied for each."""
    module, queries = attention(), values(6, T, D)
    heads, mask = module.prepare(values(B, S, M, shift=1.0)), REAL[:, None, None]
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    copied = MaskedKeyValues(heads.select(rows), mask[rows])
    close(module(queries, MaskedKeyValues(heads, mask)), module(queries, copied))
    close(module.weights(queries, MaskedKeyValues(heads, mask)), module.weights(queries, copied))


@pytest.mark.parametrize(("rows", "steps"), [(2, 1), (2, 4), (6, 1), (6, 4)])
def test_two_sides_have_one_softmax(rows: int, steps: int) -> None:
    """Keys shared by a sentence's hypotheses and each one's own keys attend as if concatenated."""
    module, queries = attention(memory=D), values(rows, steps, D)
    shared = MaskedKeyValues(module.prepare(values(B, S, D, shift=1.0)), REAL[:, None, None])
    own = MaskedKeyValues(module.prepare(values(rows, 3 + steps, D, shift=2.0)), causal_mask(steps, 3))
    sentences = torch.arange(B).repeat_interleave(rows // B)
    allowed = torch.cat(
        [REAL[sentences].unsqueeze(1).expand(rows, steps, S), causal_mask(steps, 3).expand(rows, -1, -1)], dim=-1
    )
    whole = MaskedKeyValues(shared.heads.select(sentences).append(own.heads), allowed.unsqueeze(1))
    close(module(queries, shared, own), module(queries, whole))
    close(module.weights(queries, shared, own), module.weights(queries, whole))


def test_who_may_look_nowhere_finds_nothing() -> None:
    """No number is NaN, forwards and backwards."""
    module, queries = attention(), values(B, T, D).requires_grad_()
    heads = module.prepare(values(B, S, M))
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[0, 0, 2] = False
    seen = MaskedKeyValues(heads, mask)
    found, weights = module(queries, seen), module.weights(queries, seen)
    close(found[0, 2], module.W_O.bias)
    assert not weights[0, :, 2].any()
    (found.sum() + weights.square().sum()).backward()
    assert queries.grad is not None
    assert bool(queries.grad.isfinite().all())
    assert not queries.grad[0, 2].any()


def test_keys_and_values_go_on() -> None:
    module, states = attention(), values(B, S, M)
    first, rest = module.prepare(states[:, :2]), module.prepare(states[:, 2:])
    whole = module.empty(B, first.keys).append(first).append(rest)
    assert module.empty(B, first.keys).length == 0
    assert whole.length == S
    close(whole.keys, module.prepare(states).keys)
    close(whole.values, module.prepare(states).values)


def test_select_takes_rows() -> None:
    heads = KeyValues(values(3, N, S, 2), values(3, N, S, 2, shift=1.0))
    chosen = heads.select(torch.tensor([2, 2, 0]))
    assert torch.equal(chosen.keys, torch.stack([heads.keys[2], heads.keys[2], heads.keys[0]]))
    assert torch.equal(chosen.values, torch.stack([heads.values[2], heads.values[2], heads.values[0]]))


def test_dropout_falls_on_the_weights_in_training_only() -> None:
    """If every weight is dropped, only the bias is left, on both paths."""
    module, queries = attention(memory=D, dropout=1.0), values(B, T, D)
    seen = MaskedKeyValues(module.prepare(values(B, S, D)))
    nothing = module.W_O.bias.expand(B, T, D)
    close(module(queries, seen), nothing)
    close(module(queries[:, :1], seen, seen), nothing[:, :1])
    module.eval()
    close(module(queries[:, :1], seen, seen), module(queries[:, :1], seen))  # two equal halves
    assert not torch.allclose(module(queries, seen), nothing)


def test_the_fused_path_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """In use, one side, or two that are alike, never make a table of weights."""

    def refuse(*_: object) -> Tensor:
        raise AssertionError("weights were made")

    module, queries = attention(memory=D).eval(), values(B, T, D)
    seen = MaskedKeyValues(module.prepare(values(B, S, D)), REAL[:, None, None])
    monkeypatch.setattr(MultiHeadAttention, "weights", refuse)
    assert module(queries, seen).shape == (B, T, D)
    assert module(queries, seen, MaskedKeyValues(module.prepare(queries), causal_mask(T))).shape == (B, T, D)


@pytest.mark.parametrize("causal", [False, True])
def test_training_writes_out_what_the_fused_path_computes(causal: bool) -> None:
    module, queries, weight = attention(memory=D), values(B, T, D), values(B, T, D).sin()
    results = []
    for training in (True, False):
        module.train(training)
        leaf = queries.clone().requires_grad_()
        side = MaskedKeyValues(
            module.prepare(leaf if causal else values(B, S, D)), None if causal else REAL[:, None, None]
        )
        output = module(leaf, side, causal=causal)
        results.append((output, *torch.autograd.grad((output * weight).sum(), [leaf, *module.parameters()])))
    for mine, fused in zip(*results, strict=True):
        close(mine, fused)


def test_heads_divide_the_size() -> None:
    with pytest.raises(ValueError, match="4 heads do not divide the size 6"):
        MultiHeadAttention(query=6, memory=6, size=6, heads=4, dropout=0.0)
