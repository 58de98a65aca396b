"""The encoder spells: CTC against every way to read a target from the states, written out."""

from __future__ import annotations

from itertools import groupby, product

import pytest
import torch
from tiny_models import ROWS, fill, tiny_batch, tiny_model

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import source_batch
from antiphon.data.prepare import Corpus, Ragged
from antiphon.data.tokenizers import EOS, PAD
from antiphon.errors import ConfigError
from antiphon.models.encoders.ctc import CTCHead
from antiphon.sequence import Memory, Sequence
from antiphon.training.step import ctc_length_warnings, training_step

TOKENS, SIZE = 6, 3
SMALL = {
    "encoder": {"embedding": 3, "size": 4, "layers": 1, "dropout": 0.0},
    "decoder": {"embedding": 3, "size": 4, "layers": 1, "dropout": 0.0},
}


def spelling(weight: float = 1.0) -> CTCHead:
    made = CTCHead(memory=SIZE, tokens=TOKENS, blank=PAD, weight=weight).double()
    fill(made)
    return made


def states(*lengths: int) -> Memory:
    """Rows of states; what stands in the padding is large."""
    longest = max(lengths)
    values = torch.sin(torch.arange(len(lengths) * longest * SIZE, dtype=torch.float64) * 1.3)
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    values = values.view(len(lengths), longest, SIZE).masked_fill(~mask.unsqueeze(-1), 50.0)
    return Memory(values, mask, final=values[:, :1])


def written_out(made: CTCHead, row: torch.Tensor, target: list[int]) -> float:
    """-log of the sum over all ways, each state one token or nothing."""
    probabilities = torch.softmax(made.W(row), dim=-1).detach()
    total = 0.0
    for way in product(range(TOKENS), repeat=len(row)):
        read = [token for token, _ in groupby(way) if token != PAD]
        if read == target:
            total += float(torch.stack([probabilities[j, token] for j, token in enumerate(way)]).prod())
    return -float(torch.log(torch.tensor(total, dtype=torch.float64)))


@pytest.mark.parametrize("target", [[4], [4, 5], [4, 4], [5, 4, 5], []])
def test_all_ways_to_read_the_target_count(target: list[int]) -> None:
    made, memory = spelling(), states(4)
    cost = made.loss(memory, Sequence.of_ids([[*target, EOS]], PAD))
    assert cost.item() == pytest.approx(written_out(made, memory.states[0], target), rel=1e-6)


def test_rows_add_up_and_padding_says_nothing() -> None:
    made, memory = spelling(weight=0.5), states(4, 2)
    cost = made.loss(memory, Sequence.of_ids([[4, 5, EOS], [5, EOS]], PAD))
    alone = [written_out(made, memory.states[0], [4, 5]), written_out(made, memory.states[1, :2], [5])]
    assert cost.item() == pytest.approx(0.5 * sum(alone), rel=1e-6)


def test_a_source_that_is_too_short_costs_nothing_and_teaches_nothing() -> None:
    """Two equal tokens need something between them: three states."""
    made = spelling()
    cost = made.loss(states(2), Sequence.of_ids([[4, 4, EOS]], PAD))
    cost.backward()
    assert cost.item() == 0.0
    assert made.W.weight.grad is not None
    assert not made.W.weight.grad.any()


def test_the_loss_that_is_shown_is_without_it() -> None:
    """The encoder gets gradients of both losses; the decoder those of its own."""
    plain, spelt = (tiny_model(EncoderDecoderConfig.model_validate({**SMALL, "ctc": ctc})) for ctc in (0.0, 0.5))
    spelt.load_state_dict({**spelt.state_dict(), **plain.state_dict()})
    losses = [training_step(model, tiny_batch(), TrainingConfig()).loss for model in (plain, spelt)]
    assert losses[0].plain.item() == losses[1].plain.item()
    assert losses[1].total.item() > losses[0].total.item() + 0.1
    for loss in losses:
        loss.backward()
    both = [dict(model.named_parameters()) for model in (plain, spelt)]
    same = {name: torch.equal(both[0][name].grad, both[1][name].grad) for name in both[0]}
    assert all(equal for name, equal in same.items() if name.startswith("decoder.output"))
    assert not any(equal for name, equal in same.items() if name.startswith("encoder."))


def spelt(pairs: list[tuple[int, list[int]]]) -> list[str]:
    """Warnings for sources with this number of tokens (plus </s>), and their targets."""
    model = tiny_model(EncoderDecoderConfig.model_validate({**SMALL, "ctc": 0.5}))
    return ctc_length_warnings(
        model, Corpus(Ragged.of([[5] * length for length, _ in pairs]), Ragged.of([target for _, target in pairs]))
    )


def test_pairs_that_cannot_be_spelt_are_counted() -> None:
    """A state for each token, and one between two that are equal: as many as the loss needs to be finite."""
    enough = [(1, [4, 5]), (2, [4, 4]), (0, []), (4, [4, 4, 4]), (2, [4, 5, 4])]
    assert spelt(enough) == []
    short = [(0, [4, 5]), (1, [4, 4]), (3, [4, 4, 4]), (1, [4, 5, 4])]
    [warning] = spelt([*enough, *short])
    assert warning.startswith("model.ctc: 4 of 9 training pairs have fewer encoder states than CTC needs")
    assert "front.wide" in warning
    with pytest.raises(ConfigError, match=r"model.ctc: 4 of 4 .*, so it has no effect; .* or set it to 0"):
        spelt(short)
    for (length, target), lacks in [*((pair, False) for pair in enough), *((pair, True) for pair in short)]:
        cost = spelling().loss(states(length + 1), Sequence.of_ids([[*target, EOS]], PAD))
        assert (cost.item() == 0.0) == lacks


def test_in_use_it_is_not_asked() -> None:
    model = tiny_model(EncoderDecoderConfig.model_validate({**SMALL, "ctc": 0.5}))
    before = model(source_batch(ROWS), torch.tensor([[1, 4], [1, 5], [1, 6]])).logits
    model.spelling = None  # type: ignore[assignment]
    assert torch.equal(before, model(source_batch(ROWS), torch.tensor([[1, 4], [1, 5], [1, 6]])).logits)
