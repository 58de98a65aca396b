"""Several texts with one vocabulary: which tokens another of them has, too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import close, fill

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import TextConfig
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import EOS, PAD, SPECIALS, UNK
from antiphon.models.build import build_for
from antiphon.models.encoders.multi_source import MatchEmbedding, exact_matches
from antiphon.models.model import EncoderDecoder
from antiphon.sequence import MultiSource, Sequence

PREMISES = [[5, 6, 7, UNK, EOS], [8, 5, EOS]]
HYPOTHESES = [[7, 9, 5, UNK, EOS], [9, EOS]]
GRU: dict[str, Any] = {"kind": "gru", "embedding": 4, "size": 4, "dropout": 0.0}
NONE: dict[str, Any] = {"kind": "none", "size": 8, "dropout": 0.0}


def texts(*sides: list[list[int]]) -> MultiSource:
    return MultiSource(tuple(Sequence.of_ids(rows, PAD) for rows in sides))


def test_words_of_the_other_text_are_found_and_specials_are_not() -> None:
    both = texts(PREMISES, HYPOTHESES)
    found = [exact_matches(both, number, len(SPECIALS)) for number in (0, 1)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].int().tolist() == [[1, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    assert found[1].int().tolist() == [[1, 0, 1, 0, 0], [0, 0, 0, 0, 0]]


def test_of_three_texts_any_other_counts_and_vectors_are_no_text() -> None:
    three = texts([[5, 6]], [[7]], [[6]])
    assert exact_matches(three, 0, len(SPECIALS)).int().tolist() == [[0, 1]]  # type: ignore[union-attr]
    picture = Sequence(torch.randn(1, 3, 2), torch.ones(1, 3, dtype=torch.bool))
    with_picture = MultiSource((picture, *texts([[5, 6]], [[6]]).parts))
    assert exact_matches(with_picture, 0, len(SPECIALS)) is None
    assert exact_matches(with_picture, 1, len(SPECIALS)).int().tolist() == [[0, 1]]  # type: ignore[union-attr]


def test_what_is_found_gets_a_vector_of_its_source() -> None:
    both, made = texts(PREMISES, HYPOTHESES), MatchEmbedding([3, 2], specials=len(SPECIALS))
    read = [
        Sequence(torch.randn(*part.mask.shape, size), part.mask) for part, size in zip(both.parts, (3, 2), strict=True)
    ]
    for number, (before, after) in enumerate(zip(read, made(both, read), strict=True)):
        found = exact_matches(both, number, len(SPECIALS))
        assert found is not None
        added = after.values - before.values
        torch.testing.assert_close(added[found], made.vectors[number].expand(int(found.sum()), -1))
        assert not added[~found].any()


@pytest.mark.parametrize("encoder", [GRU, [GRU, NONE]], ids=["joint", "apart"])
def test_a_model_sees_them(encoder: Any) -> None:  # noqa: ANN401
    """Two pairs that differ in whether a word stands on both sides; without `matches` the weights are the same."""
    logits = {}
    for matches in (False, True):
        config = EncoderDecoderConfig.model_validate(
            {"encoder": encoder, "decoder": {"kind": "bahdanau", "embedding": 4, "size": 4}, "matches": matches}
        )
        model = build_for(config, [TextConfig(), TextConfig(column=1)], [12, 12], target_tokens=6).double().eval()
        fill(model)
        assert isinstance(model, EncoderDecoder)
        assert any("matches" in name for name in model.state_dict()) == matches
        source = source_batch([(one, other) for one, other in zip([[5, 6], [5]], [[6], [7]], strict=True)])
        logits[matches] = model(source, torch.tensor([[1], [1]])).logits.detach()
        alone = model(source_batch([([5], [7])]), torch.tensor([[1]])).logits.detach()
        close(alone[0], logits[matches][1])  # the same in any company
    assert not torch.allclose(logits[False], logits[True])
