"""Scores, alignment and context against written-out loops, and the lectures' numbers."""
# B batch, Q queries, S source steps, D query size, H state size

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import fill
from torch import Tensor

from antiphon.models.attention import (
    AdditiveScore,
    Alignment,
    AlignmentWeights,
    AttentionContext,
    BilinearScore,
    ConcatScore,
    CosineScore,
    DotScore,
    EqualSizes,
    ProjectedMemory,
    ScaledDotScore,
    Score,
    SoftAlignment,
)
from antiphon.models.build import SCORES
from antiphon.sequence import Memory

B, Q, S, D, H, A = 2, 3, 4, 5, 6, 3


def numbers(*shape: int) -> Tensor:
    return torch.sin(torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 1.3 + 0.2).reshape(shape)


def dot(left: list[float], right: list[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def times(matrix: list[list[float]], vector: list[float]) -> list[float]:
    return [dot(row, vector) for row in matrix]


def softmax(scores: list[float]) -> list[float]:
    powers = [math.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def plus(left: list[float], right: list[float]) -> list[float]:
    return [a + b for a, b in zip(left, right, strict=True)]


def of_dot(_: DotScore, s: list[float], h: list[float]) -> float:
    return dot(s, h)


def of_scaled_dot(_: ScaledDotScore, s: list[float], h: list[float]) -> float:
    return dot(s, h) / math.sqrt(len(s))


def of_cosine(_: CosineScore, s: list[float], h: list[float]) -> float:
    return dot(s, h) / (math.sqrt(dot(s, s)) * math.sqrt(dot(h, h)))


def of_bilinear(score: BilinearScore, s: list[float], h: list[float]) -> float:
    return dot(s, times(score.W.weight.tolist(), h))


def of_additive(score: AdditiveScore, s: list[float], h: list[float]) -> float:
    from_query = plus(times(score.W.weight.tolist(), s), score.W.bias.tolist())
    inner = plus(from_query, times(score.U.weight.tolist(), h))
    return dot(score.v.weight.tolist()[0], [math.tanh(value) for value in inner])


def of_concat(score: ConcatScore, s: list[float], h: list[float]) -> float:
    """As published: the two vectors one after the other, through one matrix."""
    inner = plus(times(score.W1.weight.tolist(), [*s, *h]), score.W1.bias.tolist())
    return dot(score.w2.weight.tolist()[0], [math.tanh(value) for value in inner])


WRITTEN_OUT = {
    "dot": of_dot,
    "scaled-dot": of_scaled_dot,
    "cosine": of_cosine,
    "bilinear": of_bilinear,
    "additive": of_additive,
    "concat": of_concat,
}
OF_EQUAL_SIZES = [name for name, kind in SCORES.items() if issubclass(kind, EqualSizes)]


def made(name: str) -> Score:
    """In double precision, with weights from a formula; the sizes differ where they may."""
    score = SCORES[name](query=H if name in OF_EQUAL_SIZES else D, key=H, size=A).double()
    fill(score)
    return score


@pytest.mark.parametrize("name", SCORES)
def test_score_is_its_formula(name: str) -> None:
    score = made(name)
    states, queries = numbers(B, S, H), numbers(B, Q, H if name in OF_EQUAL_SIZES else D)
    expected = [
        [[WRITTEN_OUT[name](score, s, h) for h in rows] for s in asked]
        for asked, rows in zip(*map(Tensor.tolist, (queries, states)), strict=True)
    ]
    torch.testing.assert_close(score(queries, score.prepare(states)), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("name", SCORES)
def test_only_scores_with_a_matrix_compare_unequal_sizes(name: str) -> None:
    if name in ("dot", "scaled-dot", "cosine"):
        with pytest.raises(ValueError, match=f"{SCORES[name].__name__} needs states of equal size, not 5 and 6"):
            SCORES[name](query=5, key=6, size=3)
    else:
        assert list(SCORES[name](query=5, key=6, size=3).parameters()) != []


def test_a_zero_vector_is_like_nothing() -> None:
    """Cosine: the score is 0, not 0 / 0, and so it is backwards; a tiny vector points where it points."""
    score = CosineScore(query=2, key=2, size=2)
    query = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]], requires_grad=True)
    states = torch.tensor([[[0.0, 0.0], [0.3, 0.4], [-3e-4, -4e-4]]], requires_grad=True)
    scores = score(query, score.prepare(states))
    assert scores[0].tolist() == [[0.0, 0.0, 0.0], [0.0, pytest.approx(1.0), pytest.approx(-1.0)]]
    torch.softmax(scores, dim=-1).square().sum().backward()
    for vectors in (query, states):
        assert vectors.grad is not None
        assert bool(torch.isfinite(vectors.grad).all())


def test_the_concatenation_has_one_matrix_and_one_bias() -> None:
    shapes = {name: tuple(part.shape) for name, part in ConcatScore(query=D, key=H, size=A).named_parameters()}
    assert shapes == {"W1.weight": (A, D + H), "W1.bias": (A,), "w2.weight": (1, A)}


def test_soft_alignment_is_a_softmax_over_real_positions() -> None:
    scores, mask = numbers(B, Q, S) * 4, torch.tensor([[True, True, False, False], [True, True, True, True]])
    weights = SoftAlignment()(scores, mask).weights
    for sentence, real in enumerate(mask.sum(1).tolist()):
        for query in range(Q):
            expected = [*softmax(scores[sentence, query, :real].tolist()), *[0.0] * (S - real)]
            assert weights[sentence, query].tolist() == pytest.approx(expected)
    assert bool((weights[0, :, 2:] == 0).all())


def test_no_score_is_so_low_that_padding_beats_it() -> None:
    """Minus infinity, not a large number: padding has nothing even where real scores are enormous."""
    scores = torch.tensor([[[-1e30, -1e30, 0.0, 1e30]]], dtype=torch.float64)
    weights = SoftAlignment()(scores, torch.tensor([[True, True, False, False]])).weights
    assert weights.tolist() == [[[0.5, 0.5, 0.0, 0.0]]]


def test_context_is_the_weighted_sum_of_states() -> None:
    context = AttentionContext(score=made("bilinear"), alignment=SoftAlignment(), size=H)
    mask = torch.tensor([[True, True, False, False], [True, True, True, True]])
    source = context.prepare(Memory(states=numbers(B, S, H), mask=mask, final=numbers(B, 1, H)))
    attended = context(numbers(B, Q, D), source)
    for sentence in range(B):
        for query in range(Q):
            weights = attended.weights[sentence, query].tolist()
            columns = source.values[sentence].T.tolist()
            assert attended.context[sentence, query].tolist() == pytest.approx([dot(weights, one) for one in columns])


def test_hypotheses_of_a_sentence_look_at_its_source() -> None:
    """Three hypotheses of two sentences, folded into the query axis, are as if the source were copied for each."""
    context = AttentionContext(score=made("additive"), alignment=SoftAlignment(), size=H)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    source = context.prepare(Memory(states=numbers(B, S, H), mask=mask, final=numbers(B, 1, H)))
    queries = numbers(B * 3, 2, D)
    folded = context(queries, source)
    copied = context(queries, source.select(torch.tensor([0, 0, 0, 1, 1, 1])))
    torch.testing.assert_close(folded.context, copied.context)
    torch.testing.assert_close(folded.weights, copied.weights)


def weights_of(*scores: float) -> list[float]:
    asked = torch.tensor([[list(scores)]], dtype=torch.float64)
    aligned: AlignmentWeights = SoftAlignment()(asked, torch.ones(1, len(scores), dtype=torch.bool))
    weights: list[float] = aligned.weights[0, 0].tolist()
    return weights


def test_lecture_scores_13_9_9() -> None:
    assert weights_of(13.0, 9.0, 9.0) == pytest.approx([0.96, 0.02, 0.02], abs=0.005)


def test_lecture_scores_13_9_9_as_dot_products() -> None:
    states = torch.tensor([[[3.0, 2.0], [3.0, 0.0], [1.0, 3.0]]])
    score = DotScore(query=2, key=2, size=2)
    assert score(torch.tensor([[[3.0, 2.0]]]), states).tolist() == [[[13.0, 9.0, 9.0]]]


def test_lecture_cat_and_dog() -> None:
    """cat · dog = 1.05; / √3 = 0.606; softmax(0.606, 0.2, -0.8); 0.523 x dog."""
    cat, dog = torch.tensor([[[0.6, 0.3, 0.8]]]), torch.tensor([[[0.5, 0.1, 0.9]]])
    score = ScaledDotScore(query=3, key=3, size=3)
    assert float(DotScore(query=3, key=3, size=3)(cat, dog)) == pytest.approx(1.05)
    assert float(score(cat, score.prepare(dog))) == pytest.approx(0.606, abs=5e-4)
    weights = weights_of(0.606, 0.2, -0.8)
    assert weights == pytest.approx([0.523, 0.348, 0.128], abs=6e-4)
    part = AttentionContext(score=score, alignment=Given(weights), size=3)(
        cat, ProjectedMemory(keys=dog, values=torch.cat([dog, torch.zeros(1, 2, 3)], 1), mask=torch.ones(1, 3).bool())
    )
    assert part.context.flatten().tolist() == pytest.approx([0.262, 0.052, 0.471], abs=6e-4)


class Given(Alignment):
    """An alignment that says what it was told."""

    def __init__(self, weights: list[float]) -> None:
        super().__init__()
        self.weights = torch.tensor([[weights]])

    def forward(self, scores: Tensor, mask: Tensor) -> AlignmentWeights:  # noqa: ARG002
        return AlignmentWeights(self.weights)
