"""Scheduled sampling: how the share climbs, and what a decoder is given."""
# B batch, T target steps

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import INPUTS, ROWS, close, sizes, tiny_model
from torch import Tensor

from antiphon.config.networks import LanguageModelConfig
from antiphon.config.schema import Config, TrainingConfig
from antiphon.data.batches import Batch, collate, source_batch
from antiphon.data.corpus import Corpus, Ragged
from antiphon.data.tokenizers import EOS, PAD, SOS, SPECIALS, UNK
from antiphon.models.build import build_model
from antiphon.models.model import SequenceModel
from antiphon.sequence import Sequence
from antiphon.training.scheduled_sampling import forward_with_sampling, sampling_probability
from antiphon.training.step import cross_entropy, training_step

RECURRENT = {"cell": "lstm", "embedding": 6, "size": 8, "dropout": 0.0}
BLOCKS = {"kind": "transformer", "size": 8, "layers": 2, "heads": 2, "feedforward": 7, "dropout": 0.0}
ENCODER = {"kind": "gru", "embedding": 5, "size": 4, "dropout": 0.0}
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {"encoder": ENCODER, "decoder": {"kind": "bahdanau", **RECURRENT}},
    "luong": {"encoder": ENCODER, "decoder": {"kind": "luong", **RECURRENT}},
    "luong-fed": {"encoder": ENCODER, "decoder": {"kind": "luong", "input_feeding": True, **RECURRENT}},
    "plain": {"encoder": ENCODER, "decoder": {"kind": "plain", **RECURRENT}},
    "transformer": {"encoder": ENCODER, "decoder": BLOCKS},
    "language-model": {"kind": "language-model", "decoder": {"kind": "plain", **RECURRENT}},
    "language-transformer": {"kind": "language-model", "decoder": BLOCKS},
    "concatenated": {"kind": "concatenated", "decoder": {"kind": "plain", **RECURRENT}},
}
every_model = pytest.mark.parametrize("name", list(MODELS))


def model_of(name: str, **context: Any) -> SequenceModel:  # noqa: ANN401
    values = {"kind": "encoder-decoder", **MODELS[name], **({"context": context} if context else {})}
    config = Config.model_validate({"data": {"train": "none"}, "model": values})
    return tiny_model(config.model)


def batch_of(targets: list[list[int]]) -> Batch:
    return collate(Corpus(Ragged.of(ROWS), Ragged.of(targets)), np.arange(3))


def given_words(model: SequenceModel) -> list[Tensor]:
    """Filled with the tokens that the decoder is given from now on, call by call."""
    seen: list[Tensor] = []
    model.decoder.embedding.table.register_forward_hook(lambda _, tokens, __: seen.append(tokens[0].clone()))
    return seen


def shares(number: int, **changes: object) -> float:
    values = {"scheduled_sampling": {"probability": 0.5, **changes}}
    return sampling_probability(TrainingConfig.model_validate(values), number=number, updates=100)


@pytest.mark.parametrize("schedule", ["linear", "exponential", "inverse-sigmoid"])
def test_the_share_climbs_from_nothing_to_the_highest(schedule: str) -> None:
    climbed = [shares(number, schedule=schedule) for number in range(121)]
    assert climbed[0] == 0.0
    assert climbed[100] == 0.5
    assert set(climbed[100:]) == {0.5}
    assert climbed == sorted(climbed)
    assert len(set(climbed[:101])) == 101
    early = [shares(number, schedule=schedule, updates=10) for number in (0, 10, 11)]
    assert early == [0.0, 0.5, 0.5]


def test_the_shapes_on_paper() -> None:
    """x is the part of the way: x; (1 - 0.01^x) / 0.99; σ(10 (x - 1/2)), moved and stretched to go from 0 to 1."""
    assert [shares(n) for n in (25, 50)] == pytest.approx([0.125, 0.25])
    exponential = [shares(n, schedule="exponential") for n in (25, 50)]
    assert exponential == pytest.approx([0.5 * (1 - 0.01**0.25) / 0.99, 0.5 * 0.9 / 0.99])
    sigmoid = [shares(n, schedule="inverse-sigmoid") for n in (25, 50, 75)]
    assert sigmoid == pytest.approx([0.5 * 0.0701037, 0.25, 0.5 * 0.9298963], rel=1e-5)


def test_no_sampling_is_no_share() -> None:
    assert [sampling_probability(TrainingConfig(), number=number, updates=100) for number in (0, 50, 100)] == [0.0] * 3


@every_model
def test_without_own_words_it_is_teacher_forcing(name: str) -> None:
    model = model_of(name)
    source = source_batch(ROWS)
    close(forward_with_sampling(model, model.start(source), INPUTS, 0.0).logits, model(source, INPUTS).logits)


@every_model
def test_own_words_replace_all_but_the_first_and_padding(name: str) -> None:
    model, batch = model_of(name), batch_of([[4, 5, 6, 7], [8], [5, 5]])
    state, seen = model.start(batch.source), given_words(model)
    torch.manual_seed(1)
    forward_with_sampling(model, state, batch.inputs, 1.0)
    given = torch.cat(seen[-batch.inputs.size(1) :], dim=1)
    assert given.shape == batch.inputs.shape
    assert given[:, 0].tolist() == [SOS] * 3
    padded = batch.inputs == PAD
    assert given[padded].tolist() == [PAD] * int(padded.sum())
    assert int(given[:, 1:][~padded[:, 1:]].min()) >= len(SPECIALS)
    assert not torch.equal(given, batch.inputs)


def test_own_words_come_as_often_as_asked_for() -> None:
    """A word that cannot be said (its logit is far below) tells a right input from an own one."""
    model = model_of("language-model")
    with torch.no_grad():
        model.decoder.output.bias[4] = -1e9
    inputs = torch.full((4000, 2), 4)
    inputs[:, 0] = SOS
    seen = given_words(model)
    torch.manual_seed(2)
    forward_with_sampling(model, model.start(Sequence.of_ids([[] for _ in inputs], PAD)), inputs, 0.3)
    assert 0.27 < float((seen[1] != 4).double().mean()) < 0.33


def test_own_words_are_drawn_from_the_distribution() -> None:
    """p(word) without the specials, in 40,000 draws."""
    model = model_of("language-model")
    rows = 40_000
    inputs = torch.full((rows, 2), SOS)
    seen = given_words(model)
    torch.manual_seed(3)
    step = forward_with_sampling(model, model.start(Sequence.of_ids([[] for _ in range(rows)], PAD)), inputs, 1.0)
    expected = torch.softmax(step.logits[0, 0, len(SPECIALS) :].detach(), dim=-1)
    drawn = torch.bincount(seen[1].flatten(), minlength=step.logits.size(-1))[len(SPECIALS) :] / rows
    torch.testing.assert_close(drawn.double(), expected, atol=0.01, rtol=0.0)
    assert float(expected.max() - expected.min()) > 0.05


def test_in_a_stream_a_line_end_is_drawn() -> None:
    """Words and sub-words have </s> for it; what else is special is never drawn, however probable."""
    model = model_of("language-model")
    with torch.no_grad():
        model.decoder.output.bias[[PAD, SOS, UNK]] = 1e9
        model.decoder.output.bias[EOS] = 1e4
    inputs, seen = torch.full((50, 3), 5), given_words(model)
    inputs[:, 0] = EOS
    forward_with_sampling(model, model.start(source_batch([[]] * 50)), inputs, 1.0, forbidden=(PAD, SOS, UNK))
    assert torch.cat(seen, dim=1).tolist() == [[EOS, EOS, EOS]] * 50


def test_a_vocabulary_of_specials_keeps_the_right_words() -> None:
    config = LanguageModelConfig.model_validate({"decoder": {"kind": "plain", **RECURRENT}})
    model = build_model(config, source_tokens=len(SPECIALS), target_tokens=len(SPECIALS))
    inputs, seen = torch.tensor([[SOS, UNK, UNK]]), given_words(model)
    forward_with_sampling(model, model.start(source_batch([[]])), inputs, 1.0)
    assert torch.cat(seen, dim=1).tolist() == inputs.tolist()


@every_model
def test_the_gradient_is_that_of_teacher_forcing_with_the_words_drawn(name: str) -> None:
    model, batch = model_of(name), batch_of([[4, 5, 6, 7], [8], [5, 5]])
    state, seen = model.start(batch.source), given_words(model)
    torch.manual_seed(4)
    loss = cross_entropy(forward_with_sampling(model, state, batch.inputs, 0.6).logits, batch.outputs)
    given = torch.cat(seen[-batch.inputs.size(1) :], dim=1)
    assert not torch.equal(given, batch.inputs)
    parameters = dict(model.named_parameters())
    mine = torch.autograd.grad(loss.total, list(parameters.values()), allow_unused=True)
    forced = cross_entropy(model(batch.source, given).logits, batch.outputs)
    close(loss.total, forced.total)
    theirs = torch.autograd.grad(forced.total, list(parameters.values()), allow_unused=True)
    for left, right in zip(mine, theirs, strict=True):
        assert (left is None) == (right is None)
        if left is not None and right is not None:
            close(left, right)


def test_teaching_without_a_share_is_as_before() -> None:
    model, batch = model_of("luong"), batch_of([[4, 5, 6, 7], [8], [5, 5]])
    plain = cross_entropy(model(batch.source, batch.inputs).logits, batch.outputs)
    close(training_step(model, batch, TrainingConfig()).loss.total, plain.total)
    torch.manual_seed(5)
    assert not torch.equal(training_step(model, batch, TrainingConfig(), sampling=0.9).loss.total, plain.total)


def test_hard_attention_hands_out_its_draws_step_by_step() -> None:
    model, batch = model_of("bahdanau", kind="attention", alignment="hard").train(), batch_of([[4, 5, 6, 7], [8], [5]])
    drawn = forward_with_sampling(model, model.start(batch.source), batch.inputs, 0.5).sampled
    assert drawn is not None
    assert drawn.log_probs.shape == drawn.entropy.shape == batch.inputs.shape


def test_what_is_not_a_number_is_left_to_the_loss() -> None:
    """The loop skips such an update; drawing must not fail before."""
    config = Config.model_validate(
        {"data": {"train": "none"}, "model": {"kind": "encoder-decoder", **MODELS["plain"]}}
    ).model
    model = build_model(config, **sizes(config))
    with torch.no_grad():
        model.decoder.output.bias.fill_(torch.nan)
    batch = batch_of([[4, 5, 6, 7], [8], [5, 5]])
    result = training_step(model, batch, TrainingConfig(), sampling=0.9)
    assert not torch.isfinite(result.loss.plain)
