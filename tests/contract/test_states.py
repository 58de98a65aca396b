"""Chosen rows of a state go on as if nothing else had been, for every decoder with every context."""
# B sentences, R rows

from __future__ import annotations

import pytest
import torch
from every_model import AROUND, step_of
from model_cases import STATES
from tiny_models import ROWS, close, tiny_model

from antiphon.config.networks import ModelConfig
from antiphon.data.batches import source_batch
from antiphon.models.model import SequenceModel
from antiphon.models.weight_layout import HalfLinear, half_is_faster, lay_out_weights
from antiphon.search.beam import ShrinkingBeam, beam_search
from antiphon.search.greedy import greedy_search
from antiphon.sequence import State

Said = list[tuple[int, list[int]]]  # of each hypothesis, the sentence and the tokens so far
TURNS = [
    ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], [4, 5, 6, 7, 8, 4, 5, 6, 7]),  # each grows to three
    ([[2, 0, 0], [4, 4, 3], [8, 7, 6]], [4, 4, 5, 8, 2, 5, 6, 7, 5]),  # another order
    ([[1, 0], [8, 7]], [5, 6, 7, 8]),  # the sentence in the middle leaves, the beam narrows
    ([[3, 2]], [4, 5]),  # the last one stays
]


def go_on(model: SequenceModel, state: State, said: Said, tokens: list[int]) -> tuple[State, Said]:
    """One step of every hypothesis; each must be as if computed from scratch."""
    said = [(sentence, [*before, token]) for (sentence, before), token in zip(said, tokens, strict=True)]
    step = model.step(torch.tensor(tokens).unsqueeze(1), state)
    sources = source_batch([ROWS[sentence] for sentence, _ in said])
    scratch = model(sources, torch.tensor([before for _, before in said]))
    close(step.logits[:, -1], scratch.logits[:, -1])
    return step.state, said


every_state = pytest.mark.parametrize("case", list(STATES.values()), ids=list(STATES))


@every_state
def test_selected_states_go_on_as_if_computed_from_scratch(case: ModelConfig) -> None:
    """A beam grows, is reordered, narrows; sentences leave."""
    model = tiny_model(case).requires_grad_(False)
    state, said = go_on(model, model.start(source_batch(ROWS)), [(0, []), (1, []), (2, [])], [1, 1, 1])
    for rows, tokens in TURNS:
        state = state.select(torch.tensor(rows))
        state, said = go_on(model, state, [said[row] for line in rows for row in line], tokens)


@every_state
@pytest.mark.parametrize("half", [False, True], ids=["transposed", "half precision"])
@torch.inference_mode()
def test_weights_laid_out_for_use_compute_the_same(case: ModelConfig, half: bool) -> None:
    """The fast path of one step against the plain one; and no step changes the states before it."""
    if half and not half_is_faster():
        half = False  # this machine has no such products
    plain, used = tiny_model(case, torch.float32), lay_out_weights(tiny_model(case, torch.float32), half=half)
    assert half == any(isinstance(part, HalfLinear) for part in used.modules())
    states = [model.start(source_batch(ROWS)) for model in (plain, used)]
    for rows, tokens in [([[0], [1], [2]], [1, 1, 1]), *TURNS]:
        states = [state.select(torch.tensor(rows)) for state in states]
        row, again = torch.tensor(tokens).unsqueeze(1), states[1]
        steps = [model.step(row, state) for model, state in zip((plain, used), states, strict=True)]
        assert torch.allclose(steps[0].logits, steps[1].logits, atol=5e-3 if half else 1e-5)
        other = used.step(torch.full_like(row, 4), again)  # the same state goes on in another way
        used.step(row, other.state)
        assert torch.equal(used.step(row, again).logits, steps[1].logits)
        many = torch.cat([row, row], dim=1)  # several tokens after one take the plain way
        assert torch.allclose(
            used.step(many, steps[1].state).logits[:, -1],
            used.step(row, used.step(row, steps[1].state).state).logits[:, -1],
            atol=5e-3 if half else 1e-5,
        )
        states = [step.state for step in steps]


@every_state
def test_greedy_is_a_beam_of_one(case: ModelConfig) -> None:
    model, source = tiny_model(case).requires_grad_(False), source_batch(ROWS)
    greedy = greedy_search(step_of(model), model.start(source), AROUND)
    beam = beam_search(step_of(model), model.start(source), AROUND, policy=ShrinkingBeam(1))
    assert [[answer.tokens for answer in answers] for answers in beam] == [[one.tokens] for one in greedy]
    assert [answer.score for [answer] in beam] == pytest.approx([one.score for one in greedy])
