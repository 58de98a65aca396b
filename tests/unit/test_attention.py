"""Scores, alignment and context against written-out loops, and the lectures' numbers."""
# B batch, Q queries, S source steps, D query size, H state size

from __future__ import annotations

import math

import pytest
import torch
from tiny_models import fill
from torch import Tensor

from antiphon.attention.alignment import SoftAlignment
from antiphon.attention.context import AttentionContext, SourceSide
from antiphon.attention.scores import AdditiveScore, BilinearScore, DotScore, Score
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


def written_out(score: Score, s: list[float], h: list[float]) -> float:
    """The formula of each class, number by number."""
    if isinstance(score, DotScore):
        return dot(s, h)
    if isinstance(score, BilinearScore):
        return dot(s, times(score.W.weight.tolist(), h))
    assert isinstance(score, AdditiveScore)
    from_query = [a + b for a, b in zip(times(score.W.weight.tolist(), s), score.W.bias.tolist(), strict=True)]
    inner = [math.tanh(a + b) for a, b in zip(from_query, times(score.U.weight.tolist(), h), strict=True)]
    return dot(score.v.weight.tolist()[0], inner)


SCORES = [DotScore(query=H, key=H), BilinearScore(query=D, key=H), AdditiveScore(query=D, key=H, size=A)]


@pytest.mark.parametrize("score", SCORES, ids=lambda score: type(score).__name__)
def test_score_is_its_formula(score: Score) -> None:
    fill(score.double())
    states = numbers(B, S, H)
    queries = numbers(B, Q, H if isinstance(score, DotScore) else D)
    expected = [
        [[written_out(score, s, h) for h in rows] for s in asked]
        for asked, rows in zip(*map(Tensor.tolist, (queries, states)), strict=True)
    ]
    torch.testing.assert_close(score(queries, score.prepare(states)), torch.tensor(expected, dtype=torch.float64))


def test_dot_needs_equal_sizes() -> None:
    with pytest.raises(ValueError, match="equal sizes, not 5 and 6"):
        DotScore(query=5, key=6)


def test_soft_alignment_is_a_softmax_over_real_positions() -> None:
    scores, mask = numbers(B, Q, S) * 4, torch.tensor([[True, True, False, False], [True, True, True, True]])
    weights = SoftAlignment()(scores, mask)
    for sentence, real in enumerate(mask.sum(1).tolist()):
        for query in range(Q):
            expected = [*softmax(scores[sentence, query, :real].tolist()), *[0.0] * (S - real)]
            assert weights[sentence, query].tolist() == pytest.approx(expected)
    assert bool((weights[0, :, 2:] == 0).all())


def test_no_score_is_so_low_that_padding_beats_it() -> None:
    """Minus infinity, not a large number: padding has nothing even where real scores are enormous."""
    scores = torch.tensor([[[-1e30, -1e30, 0.0, 1e30]]], dtype=torch.float64)
    weights = SoftAlignment()(scores, torch.tensor([[True, True, False, False]]))
    assert weights.tolist() == [[[0.5, 0.5, 0.0, 0.0]]]


def test_context_is_the_weighted_sum_of_states() -> None:
    score = BilinearScore(query=D, key=H).double()
    fill(score)
    context = AttentionContext(score=score, alignment=SoftAlignment(), size=H)
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
    score = AdditiveScore(query=D, key=H, size=A).double()
    fill(score)
    context = AttentionContext(score=score, alignment=SoftAlignment(), size=H)
    mask = torch.tensor([[True, True, True, False], [True, True, True, True]])
    source = context.prepare(Memory(states=numbers(B, S, H), mask=mask, final=numbers(B, 1, H)))
    queries = numbers(B * 3, 2, D)
    folded = context(queries, source)
    copied = context(queries, source.select(torch.tensor([0, 0, 0, 1, 1, 1])))
    torch.testing.assert_close(folded.context, copied.context)
    torch.testing.assert_close(folded.weights, copied.weights)


def weights_of(*scores: float) -> list[float]:
    asked = torch.tensor([[list(scores)]], dtype=torch.float64)
    weights: list[float] = SoftAlignment()(asked, torch.ones(1, len(scores), dtype=torch.bool))[0, 0].tolist()
    return weights


def test_lecture_scores_13_9_9() -> None:
    assert weights_of(13.0, 9.0, 9.0) == pytest.approx([0.96, 0.02, 0.02], abs=0.005)


def test_lecture_scores_13_9_9_as_dot_products() -> None:
    states = torch.tensor([[[3.0, 2.0], [3.0, 0.0], [1.0, 3.0]]])
    score = DotScore(query=2, key=2)
    assert score(torch.tensor([[[3.0, 2.0]]]), states).tolist() == [[[13.0, 9.0, 9.0]]]


def test_lecture_cat_and_dog() -> None:
    """cat · dog = 1.05; / √3 = 0.606; softmax(0.606, 0.2, -0.8); 0.523 x dog."""
    cat, dog = torch.tensor([[[0.6, 0.3, 0.8]]]), torch.tensor([[[0.5, 0.1, 0.9]]])
    score = DotScore(query=3, key=3)
    relevance = float(score(cat, score.prepare(dog)))
    assert relevance == pytest.approx(1.05)
    assert relevance / math.sqrt(3) == pytest.approx(0.606, abs=5e-4)
    weights = weights_of(0.606, 0.2, -0.8)
    assert weights == pytest.approx([0.523, 0.348, 0.128], abs=6e-4)
    part = AttentionContext(score=score, alignment=Given(weights), size=3)(
        cat, SourceSide(keys=dog, values=torch.cat([dog, torch.zeros(1, 2, 3)], 1), mask=torch.ones(1, 3).bool())
    )
    assert part.context.flatten().tolist() == pytest.approx([0.262, 0.052, 0.471], abs=6e-4)


class Given(torch.nn.Module):
    """An alignment that says what it was told."""

    def __init__(self, weights: list[float]) -> None:
        super().__init__()
        self.weights = torch.tensor([[weights]])

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:  # noqa: ARG002
        return self.weights
