"""What holds for every model that build.py can make."""
# B sentences, R rows, T target steps, S source steps

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_models import CASES, SOURCE_TOKENS, TARGET_TOKENS, choices, close, tiny_model
from torch import Tensor

from antiphon.build import ALIGNMENTS, DECODERS, ENCODERS, MODELS, SCORES
from antiphon.config.schema import (
    AttentionConfig,
    BahdanauConfig,
    Config,
    DataConfig,
    LuongConfig,
    ModelConfig,
    RecurrentEncoderConfig,
)
from antiphon.decoders.state import RecurrentState
from antiphon.folder import load_model, save_model
from antiphon.model import EncoderDecoder
from antiphon.sequence import Sequence
from antiphon.sources.batches import source_batch
from antiphon.sources.tokens import WordTokenizer
from antiphon.sources.vocabulary import SPECIALS
from antiphon.training.loss import cross_entropy

ROWS = [[4, 5, 6, 7, 10], [6, 4, 9], [8]]
INPUTS = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 4, 4, 5], [1, 7, 5, 8, 6]])
every_model = pytest.mark.parametrize("config", list(CASES.values()), ids=list(CASES))


def test_tables_are_the_choices_of_the_config() -> None:
    assert set(ENCODERS) == set(choices(RecurrentEncoderConfig, "kind"))
    assert set(SCORES) == set(choices(AttentionConfig, "score"))
    assert set(ALIGNMENTS) == set(choices(AttentionConfig, "alignment"))
    assert set(DECODERS) == {*choices(BahdanauConfig, "kind"), *choices(LuongConfig, "kind")}
    assert set(MODELS) == set(choices(ModelConfig, "kind"))


def test_the_cases_have_every_choice() -> None:
    configs = CASES.values()
    assert {config.encoder.kind for config in configs} == set(ENCODERS)
    assert {config.context.score for config in configs} == set(SCORES)
    assert {config.decoder.kind for config in configs} == set(DECODERS)
    assert {type(tiny_model(config).decoder) for config in configs} == set(DECODERS.values())


@every_model
def test_padding_changes_nothing(config: ModelConfig) -> None:
    """More columns of padding, whatever stands in them."""
    model, source = tiny_model(config), source_batch(ROWS)
    values = torch.cat([source.values, torch.zeros(3, 4, dtype=torch.long)], dim=1)
    mask = torch.cat([source.mask, torch.zeros(3, 4, dtype=torch.bool)], dim=1)
    values[~mask] = torch.arange(int((~mask).sum())) % SOURCE_TOKENS
    plain, padded = model(source, INPUTS), model(Sequence(values, mask), INPUTS)
    close(padded.logits, plain.logits)
    close(padded.weights[:, :, : source.values.size(1)], plain.weights)


@every_model
def test_alone_is_as_in_a_batch(config: ModelConfig) -> None:
    model = tiny_model(config)
    together = model(source_batch(ROWS), INPUTS)
    for number, row in enumerate(ROWS):
        alone = model(source_batch([row]), INPUTS[number : number + 1])
        close(alone.logits[0], together.logits[number])
        close(alone.weights[0], together.weights[number, :, : len(row) + 1])


@every_model
def test_teacher_forcing_is_step_by_step_is_prefix_then_rest(config: ModelConfig) -> None:
    model, source = tiny_model(config), source_batch(ROWS)
    whole = model(source, INPUTS)
    for pieces in ([1] * INPUTS.size(1), [2, INPUTS.size(1) - 2]):
        state, logits, weights = model.start(source), [], []
        for piece in INPUTS.split(pieces, dim=1):
            step = model.step(piece, state)
            state, logits, weights = step.state, [*logits, step.logits], [*weights, step.weights]
        close(torch.cat(logits, dim=1), whole.logits)
        close(torch.cat(weights, dim=1), whole.weights)
        close(state.attended, whole.state.attended)
        for part, expected in zip(state.layers, whole.state.layers, strict=True):
            close(part, expected)


@every_model
def test_the_future_is_not_seen(config: ModelConfig) -> None:
    model, source = tiny_model(config), source_batch(ROWS)
    other = INPUTS.clone()
    other[:, 3:] = 4
    left, right = model(source, INPUTS).logits, model(source, other).logits
    close(left[:, :3], right[:, :3])
    assert not torch.allclose(left[:, 3:], right[:, 3:])


@every_model
def test_gradients_reach_every_parameter(config: ModelConfig) -> None:
    model = tiny_model(config).train()
    outputs = Sequence(INPUTS.roll(-1, dims=1), torch.ones_like(INPUTS, dtype=torch.bool))
    cross_entropy(model(source_batch(ROWS), INPUTS).logits, outputs).backward()
    silent = [
        name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
    ]
    assert silent == []


@every_model
def test_saved_is_loaded_equal(config: ModelConfig, tmp_path: Path) -> None:
    model = tiny_model(config, torch.float32)
    source, target = (
        WordTokenizer([f"w{number}" for number in range(size - len(SPECIALS))])
        for size in (SOURCE_TOKENS, TARGET_TOKENS)
    )
    whole = Config(data=DataConfig(train="pairs.tsv"), model=config)
    save_model(tmp_path, whole, model.state_dict(), source, target)
    loaded = load_model(tmp_path)
    assert loaded.config == whole
    assert not loaded.model.training
    assert loaded.source_tokenizer.fingerprint == source.fingerprint
    assert torch.equal(loaded.model(source_batch(ROWS), INPUTS).logits, model(source_batch(ROWS), INPUTS).logits)


@every_model
def test_weights_are_shares_and_padding_has_none(config: ModelConfig) -> None:
    source = source_batch(ROWS)
    weights = tiny_model(config)(source, INPUTS).weights
    close(weights.sum(dim=-1), torch.ones(INPUTS.shape, dtype=weights.dtype))
    padding = ~source.mask.unsqueeze(1).expand_as(weights)
    assert bool((weights[padding] == 0).all())
    assert bool((weights[~padding] > 0).all())


def from_scratch(model: EncoderDecoder, row: int, tokens: list[int]) -> Tensor:
    """The logits after these tokens, alone, teacher-forced."""
    return model(source_batch([ROWS[row]]), torch.tensor([tokens])).logits[0, -1]


def go_on(
    model: EncoderDecoder, state: RecurrentState, said: list[tuple[int, list[int]]], tokens: list[int]
) -> tuple[RecurrentState, list[tuple[int, list[int]]]]:
    """One step of every hypothesis (sentence, tokens so far); each must be as if computed from scratch."""
    said = [(sentence, [*before, token]) for (sentence, before), token in zip(said, tokens, strict=True)]
    step = model.step(torch.tensor(tokens).unsqueeze(1), state)
    for logits, (sentence, prefix) in zip(step.logits[:, -1], said, strict=True):
        close(logits, from_scratch(model, sentence, prefix))
    return step.state, said


@every_model
def test_selected_states_go_on_as_if_computed_from_scratch(config: ModelConfig) -> None:
    """A beam grows, is reordered, narrows; sentences leave."""
    model = tiny_model(config)
    state, said = go_on(model, model.start(source_batch(ROWS)), [(0, []), (1, []), (2, [])], [1, 1, 1])
    turns = [
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], [4, 5, 6, 7, 8, 4, 5, 6, 7]),  # each grows to three
        ([[2, 0, 0], [4, 4, 3], [8, 7, 6]], [4, 4, 5, 8, 2, 5, 6, 7, 5]),  # another order
        ([[1, 0], [8, 7]], [5, 6, 7, 8]),  # the sentence in the middle leaves, the beam narrows
        ([[3, 2]], [4, 5]),  # the last one stays
    ]
    for rows, tokens in turns:
        state = state.select(torch.tensor(rows))
        state, said = go_on(model, state, [said[row] for line in rows for row in line], tokens)


@every_model
def test_hypotheses_share_the_source(config: ModelConfig) -> None:
    """No copy of keys and values for each hypothesis, and none at all while every sentence stays."""
    state = tiny_model(config).start(source_batch(ROWS))
    wide = state.select(torch.tensor([[0, 0], [1, 1], [2, 2]])).select(torch.tensor([[1, 0], [3, 3], [4, 5]]))
    assert wide.attended.size(0) == 6
    for name in ("keys", "values", "mask"):
        assert getattr(wide.source, name).data_ptr() == getattr(state.source, name).data_ptr()
    assert wide.select(torch.tensor([[0, 1], [4, 5]])).source.mask.size(0) == 2


def test_select_is_a_value() -> None:
    """The state before is untouched, so a step can be taken from it again."""
    model = tiny_model(next(iter(CASES.values())))
    state = model.start(source_batch(ROWS))
    before = [part.clone() for part in state.layers]
    grown = state.select(torch.tensor([[0, 0], [1, 1], [2, 2]]))
    model.step(torch.full((6, 1), 4), grown)
    for part, expected in zip(state.layers, before, strict=True):
        assert torch.equal(part, expected)
