"""Generation.heads and Generation.weights: every layer and head, without padding, of every kind of model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_generators import SOURCE, TARGET, tiny_generator

from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import PAD, SOS
from antiphon.inference.rescoring import HEADS_BATCH

TEXTS = ["a b c", "h", "c a d b e f g", "b b"]
SHAPES = {  # layers and heads of cross, own and source attention
    "bahdanau": ((1, 1), None, None),
    "transformer": ((3, 2), (3, 2), (2, 2)),
    "mixed": ((1, 1), None, (2, 2)),
    "static": (None, None, None),
    "convolutions": (None, None, None),
    "transformer-concatenated": ((2, 2), (2, 2), None),
    "rnn-concatenated": (None, None, None),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_each_kind_of_model_has_its_kinds_of_attention(kind: str) -> None:
    for answer in tiny_generator(kind).generate(TEXTS, heads=True):
        T, S = len(answer.tokens), len(answer.source_tokens)
        assert answer.heads is not None
        found = [answer.heads.cross, answer.heads.own, answer.heads.source]
        sides = [(T, S), (T, T), (S, S)]
        expected = [None if one is None else (*one, *side) for one, side in zip(SHAPES[kind], sides, strict=True)]
        assert [None if one is None else one.shape for one in found] == expected
        names = zip(("cross", "own", "source"), SHAPES[kind], strict=True)
        assert answer.heads.kinds == [name for name, one in names if one]


@pytest.mark.parametrize("kind", SHAPES)
def test_the_one_matrix_is_the_mean_of_cross_attention(kind: str) -> None:
    made = tiny_generator(kind)
    for answer, alone in zip(made.generate(TEXTS, heads=True), made.generate(TEXTS), strict=True):
        assert answer.heads is not None
        if answer.heads.cross is None:
            assert (answer.weights, alone.weights) == (None, None)
            continue
        assert answer.weights is not None
        np.testing.assert_allclose(answer.weights, alone.weights, atol=1e-4)
        L, N, T, S = answer.heads.cross.shape
        by_hand = sum(answer.heads.cross[layer, head] for layer in range(L) for head in range(N)) / (L * N)
        np.testing.assert_allclose(answer.weights, by_hand, atol=1e-4)
        assert answer.weights.shape == (T, S)


def test_a_padded_batch_looks_the_same() -> None:
    """The attention of a batch, without padding, is the attention of each answer."""
    made = tiny_generator("transformer")
    answers = made.generate(TEXTS, heads=True)
    written = [[*map(TARGET.symbols(range(TARGET.size)).index, answer.tokens)] for answer in answers]
    longest = max(map(len, written))
    inputs = torch.tensor([[SOS, *row[:-1], *[PAD] * (longest - len(row))] for row in written])
    with torch.inference_mode():
        heads = made.model.attention_weights(source_batch([SOURCE.encode(text) for text in TEXTS]), inputs)
    assert heads.cross is not None
    assert heads.own is not None
    assert heads.source is not None
    for row, answer in enumerate(answers):
        T, S = len(answer.tokens), len(answer.source_tokens)
        assert answer.heads is not None
        np.testing.assert_allclose(answer.heads.cross, heads.cross[row, :, :, :T, :S], atol=1e-4)
        np.testing.assert_allclose(answer.heads.own, heads.own[row, :, :, :T, :T], atol=1e-4)
        np.testing.assert_allclose(answer.heads.source, heads.source[row, :, :, :S, :S], atol=1e-4)


def test_nobody_looks_ahead_and_weights_sum_to_one() -> None:
    answer = tiny_generator("transformer").generate("a b c d", heads=True)
    assert answer.heads is not None
    assert answer.heads.own is not None
    ahead = np.triu(np.ones(answer.heads.own.shape[-2:]), k=1).astype(bool)
    assert (answer.heads.own[..., ahead] == 0).all()
    for part in (answer.heads.cross, answer.heads.own, answer.heads.source):
        assert part is not None
        np.testing.assert_allclose(part.sum(-1), 1, atol=1e-5)


def test_a_single_network_shares_its_weights_between_source_and_answer() -> None:
    answer = tiny_generator("transformer-concatenated").generate("a b c d", heads=True)
    assert answer.heads is not None
    assert answer.heads.cross is not None
    assert answer.heads.own is not None
    both = answer.heads.cross.sum(-1) + answer.heads.own.sum(-1)
    np.testing.assert_allclose(both, 1, atol=1e-5)
    assert answer.weights is not None
    assert (answer.weights.sum(-1) < 1).all()


def test_a_language_model_looks_at_its_prompt_and_at_what_it_wrote() -> None:
    answer = tiny_generator("transformer-lm").generate("K L M", heads=True)
    assert answer.weights is None
    assert answer.heads is not None
    assert answer.heads.kinds == ["own"]
    said = len(answer.source_tokens) + len(answer.tokens)
    assert answer.heads.own is not None
    assert answer.heads.own.shape == (2, 2, said, said)
    recurrent = tiny_generator("rnn-lm").generate("K L M", heads=True)
    assert recurrent.heads is not None
    assert recurrent.heads.kinds == []


def test_looks_come_only_when_asked_for() -> None:
    answer = tiny_generator("transformer").generate("a b")
    assert answer.heads is None
    assert answer.weights is not None
    assert tiny_generator("transformer").generate("a b", weights=False).weights is None
    assert tiny_generator("transformer").generate("", heads=True).heads is None


@pytest.mark.parametrize(
    ("kind", "forced", "looked"),
    [("bahdanau", 1, 0), ("transformer", 0, 1), ("transformer-concatenated", 0, 1), ("static", 0, 0), ("rnn-lm", 0, 0)],
)
def test_nobody_looks_twice(kind: str, forced: int, looked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights of a recurrent decoder come from one pass over the batch, those of heads from one look at it."""
    made, calls = tiny_generator(kind), {"forward": 0, "attention_weights": 0}

    def count(name: str) -> None:
        really = getattr(made.model, name)

        def counted(*given: Any) -> Any:  # noqa: ANN401 (passes on what it gets)
            calls[name] += 1
            return really(*given)

        monkeypatch.setattr(made.model, name, counted)

    count("forward")
    count("attention_weights")
    answers = made.generate(TEXTS if kind != "rnn-lm" else ["K", "L", "M", "N"])
    assert calls == {"forward": forced, "attention_weights": looked}
    assert [answer.weights is None for answer in answers] == [forced + looked == 0] * 4
    made.generate("a b" if kind != "rnn-lm" else "K", heads=True)
    assert calls == {"forward": forced, "attention_weights": looked + 1}


@pytest.mark.parametrize("kind", ["transformer", "transformer-concatenated"])
def test_many_are_looked_at_together_as_each_alone(kind: str) -> None:
    """More than are computed at once, of unequal lengths."""
    engine = tiny_generator(kind).engine
    sources = [SOURCE.encode(" ".join("abcdefgh"[: 1 + number % 8])) for number in range(HEADS_BATCH + 3)]
    targets = [TARGET.encode(" ".join("KLMNO"[: 1 + number % 5])) for number in range(HEADS_BATCH + 3)]
    together = engine.weights(sources, targets)
    for source, target, found in zip(sources, targets, together, strict=True):
        alone = engine.heads(source, target).mean
        assert found is not None
        assert alone is not None
        np.testing.assert_allclose(found, alone, atol=1e-6)
