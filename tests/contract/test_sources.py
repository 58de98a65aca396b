"""Properties of every front end, of models without an encoder, and of several sources."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save
from source_cases import CASES, INPUTS, LENGTHS, Case, batch
from tiny_models import close
from torch import Tensor

from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import Batch
from antiphon.data.tokenizers import EOS
from antiphon.models.model import SequenceModel
from antiphon.sequence import MultiSource, Sequence
from antiphon.training.step import training_step


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@torch.no_grad()
def test_a_row_is_the_same_alone_in_a_batch_and_padded(case: Case) -> None:
    model, rows = case.build(), case.rows()
    whole = model(batch(rows), INPUTS)
    wider = model(padded(batch(rows)), INPUTS)
    close(wider.logits, whole.logits)
    for number in range(len(rows)):
        alone = model(batch(rows[number : number + 1]), INPUTS[number : number + 1])
        close(alone.logits[0], whole.logits[number])
        if whole.weights is not None and alone.weights is not None:
            real = alone.weights.size(-1)
            close(alone.weights[0], whole.weights[number, :, :real])
            assert bool((whole.weights[number, :, real:] == 0).all())


@torch.no_grad()
def test_step_by_step_is_all_at_once(case: Case) -> None:
    model, source = case.build(), batch(case.rows())
    state, logits = model.start(source), []
    for tokens in INPUTS.split(1, dim=1):
        step = model.step(tokens, state)
        state = step.state
        logits.append(step.logits)
    close(torch.cat(logits, dim=1), model(source, INPUTS).logits)


@torch.no_grad()
def test_every_source_matters(case: Case) -> None:
    """Another picture, with the same question: another answer."""
    model = case.build()
    rows, others = case.rows(), case.rows(shift=0.4)
    first = model(batch(rows), INPUTS).logits
    for number in range(len(case.sources)):
        changed = [
            other if not isinstance(row, tuple) else (*row[:number], other[number], *row[number + 1 :])
            for row, other in zip(rows, others, strict=True)
        ]
        assert not torch.allclose(model(batch(changed), INPUTS).logits, first, atol=1e-6), number


@torch.no_grad()
def test_names_are_those_of_the_states(case: Case) -> None:
    """As many as the memory has, and a grid has as many cells."""
    model = case.build()
    for row in case.rows():
        parts = row if isinstance(row, tuple) else (row,)
        lengths = [len(part) + isinstance(part, list) for part in parts]
        both = list(zip(model.front_ends, lengths, strict=True))
        names = [front.names(length) for front, length in both]
        assert model.encode(batch([row])).states.size(1) == sum(map(len, names))
        for name, (front, length) in zip(names, both, strict=True):
            grid = front.grid(length)
            assert grid is None or grid[0] * grid[1] == len(name)
            assert len(set(name)) == len(name)


def test_gradients_reach_every_weight_and_all_is_saved(case: Case) -> None:
    model = case.build().train()
    outputs = INPUTS.roll(-1, dims=1)
    outputs[:, -1] = EOS
    given = Batch(batch(case.rows()), INPUTS, Sequence(outputs, torch.ones_like(outputs, dtype=torch.bool)))
    training_step(model, given, TrainingConfig()).loss.backward()
    weights = [(name, one.grad) for name, one in model.named_parameters() if not name.endswith("W_K.bias")]
    assert [name for name, slope in weights if slope is None or float(slope.abs().max()) < 1e-12] == []
    content = save({name: tensor.clone() for name, tensor in model.state_dict().items()})
    fresh = case.build()
    with torch.no_grad():
        for parameter in fresh.parameters():
            parameter.zero_()
    fresh.load_state_dict(load(content))
    assert torch.equal(answered(fresh, given), answered(model, given))


def test_sources_have_marks_of_their_own() -> None:
    """Two texts of equal content and equal tables are told apart by their marks alone."""
    for name in ("two-texts_gru", "two-texts_apart"):
        model = CASES[name].build()
        [marks] = [one for key, one in model.named_parameters() if key.endswith("marks")]
        assert marks.shape[0] == 2
        row = CASES[name].rows()[0]
        with torch.no_grad():
            before = model(batch([row]), INPUTS[:1]).logits
            marks[1] += 1.0
            assert not torch.allclose(model(batch([row]), INPUTS[:1]).logits, before)


def test_joined_sequences_have_their_padding_at_the_end() -> None:
    rows = [[torch.full((length, 2), float(length)).numpy() for length in part] for part in ((1, 3), (2, 1))]
    parts = [Sequence.of_vectors(part) for part in rows]
    found = Sequence.joined(parts)
    assert found.mask.tolist() == [[True, True, True, False], [True] * 4]
    assert found.values[0, :, 0].tolist()[:3] == [1.0, 2.0, 2.0]
    assert found.values[1, :, 0].tolist() == [3.0, 3.0, 3.0, 1.0]


def padded(source: Sequence | MultiSource) -> Sequence | MultiSource:
    """Four more columns of padding, whatever stands in them."""
    if isinstance(source, MultiSource):
        return MultiSource(tuple(more(part) for part in source.parts))
    return more(source)


def more(source: Sequence) -> Sequence:
    rows = len(LENGTHS)
    values = torch.cat([source.values, torch.ones_like(source.values[:, :1]).repeat_interleave(4, dim=1)], dim=1)
    mask = torch.cat([source.mask, torch.zeros(rows, 4, dtype=torch.bool)], dim=1)
    filled = values.clone()
    filled[~mask] = 5 if values.dim() == 2 else 3.0
    return replace(source, values=filled, mask=mask)


@torch.no_grad()
def answered(model: SequenceModel, given: Batch) -> Tensor:
    logits: Tensor = model.eval()(given.source, given.inputs).logits
    return logits
