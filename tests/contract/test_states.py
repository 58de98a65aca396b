"""What holds for the state of every model: it is a value, rows of it can be chosen, and search can use it."""
# B sentences, R rows, V vocabulary

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from model_cases import STATES
from tiny_models import INPUTS, ROWS, close, tensors, tiny_model
from torch import Tensor

from antiphon.config.models import EncoderDecoderConfig, ModelConfig
from antiphon.decoding.beam import beam_search
from antiphon.decoding.greedy import greedy_search
from antiphon.model import SequenceModel
from antiphon.sequence import Sequence, State
from antiphon.sources.batches import source_batch
from antiphon.sources.vocabulary import EOS, PAD, SOS

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


@pytest.mark.parametrize("config", list(STATES.values()), ids=list(STATES))
def test_selected_states_go_on_as_if_computed_from_scratch(config: ModelConfig) -> None:
    """A beam grows, is reordered, narrows; sentences leave."""
    model = tiny_model(config).requires_grad_(False)
    state, said = go_on(model, model.start(source_batch(ROWS)), [(0, []), (1, []), (2, [])], [1, 1, 1])
    for rows, tokens in TURNS:
        state = state.select(torch.tensor(rows))
        state, said = go_on(model, state, [said[row] for line in rows for row in line], tokens)


def reads_once(config: ModelConfig) -> bool:
    """Whether its state keeps what was made of the source, to look at it in every step."""
    if isinstance(config, EncoderDecoderConfig):
        return config.decoder.kind != "plain"
    return config.kind == "concatenated" and config.decoder.kind == "transformer"


def test_hypotheses_share_the_source_and_a_state_is_a_value(model: SequenceModel, config: ModelConfig) -> None:
    """No copy of keys and values for each hypothesis, and none at all while every sentence stays.

    The state before is untouched, so a step can be taken from it again.
    """
    state = model.step(INPUTS[:, :2], model.start(source_batch(ROWS))).state
    before = [part.clone() for part in tensors(state)]
    wide = state.select(torch.tensor([[0, 0], [1, 1], [2, 2]])).select(torch.tensor([[1, 0], [3, 3], [4, 5]]))
    model.step(torch.full((6, 1), 4), wide)
    shared = [part for part in tensors(wide) if part.size(0) == 3]
    places = {part.data_ptr() for part in tensors(state)}
    assert {part.data_ptr() for part in shared} <= places
    assert bool(shared) == reads_once(config)
    narrow = [part.size(0) for part in tensors(wide.select(torch.tensor([[0, 1], [4, 5]])))]
    assert narrow.count(2) == len(shared)
    assert narrow.count(4) == len(narrow) - len(shared)
    for part, expected in zip(tensors(state), before, strict=True):
        assert torch.equal(part, expected)


def step_of(model: SequenceModel) -> Callable[[Tensor, State], tuple[Tensor, State]]:
    """What search needs of a model."""

    def step(tokens: Tensor, state: State) -> tuple[Tensor, State]:
        step = model.step(tokens.unsqueeze(1), state)
        return torch.log_softmax(step.logits[:, -1], dim=-1), step.state

    return step


AROUND: dict[str, Any] = {"sentences": 3, "start": SOS, "end": EOS, "max_length": 3, "length_penalty": 0.0}


def test_a_beam_finds_answers_with_the_scores_of_teacher_forcing(model: SequenceModel) -> None:
    found = beam_search(step_of(model), model.start(source_batch(ROWS)), size=2, **AROUND)
    answers = [(row, answer) for row, answers in zip(ROWS, found, strict=True) for answer in answers]
    assert len({(tuple(row), answer.tokens) for row, answer in answers}) == 6
    inputs = Sequence.of_ids([[SOS, *answer.tokens[:-1]] for _, answer in answers], PAD)
    logits = model(source_batch([row for row, _ in answers]), inputs.values).logits
    for (_, answer), after in zip(answers, torch.log_softmax(logits, dim=-1), strict=True):
        log_probs = [float(after[position, token]) for position, token in enumerate(answer.tokens)]
        assert answer.log_probs == pytest.approx(log_probs)


@pytest.mark.parametrize("config", list(STATES.values()), ids=list(STATES))
def test_greedy_is_a_beam_of_one(config: ModelConfig) -> None:
    model, source = tiny_model(config).requires_grad_(False), source_batch(ROWS)
    greedy = greedy_search(step_of(model), model.start(source), **AROUND)
    beam = beam_search(step_of(model), model.start(source), size=1, **AROUND)
    assert [[answer.tokens for answer in answers] for answers in beam] == [[one.tokens] for one in greedy]
    assert [answer.score for [answer] in beam] == pytest.approx([one.score for one in greedy])
