"""Properties of every model that models/build.py can make: in use, in search, and in training.

The tests stand here and run in two files, each with its half of the models: two processes share the work. A model is
built once for all that is asked of it.
"""
# B sentences, R rows, T target steps, S source steps, L layers, N heads

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from tiny_models import INPUTS, ROWS, SOURCE_TOKENS, batch_for, close, sizes, tensors, tiny_model
from torch import Tensor

from antiphon.config.networks import AttentionConfig, ConcatenatedConfig, EncoderDecoderConfig, ModelConfig
from antiphon.config.schema import TrainingConfig
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import EOS, PAD, SOS
from antiphon.models.attention import HardAlignment
from antiphon.models.build import build_model
from antiphon.models.decoders.decoder import AttentionWeights, Step
from antiphon.models.model import SequenceModel
from antiphon.search.beam import ShrinkingBeam, beam_search
from antiphon.search.hypothesis import SearchRequest
from antiphon.sequence import Sequence, State
from antiphon.training.step import training_step


def test_in_use(model: SequenceModel, config: ModelConfig) -> None:
    """The same in any company and in any steps; it sees what it may, and says where it looked."""
    whole = model(source_batch(ROWS), INPUTS)
    same_in_any_company(model, whole)
    same_in_one_step_or_many(model, whole)
    sees_the_source_but_not_the_future(model, config, whole)
    looks_with_shares_that_leave_padding_out(model, config, whole)


def test_in_search(model: SequenceModel, config: ModelConfig) -> None:
    """A state is a value that hypotheses can go on from, and a beam finds what teacher forcing says."""
    shares_the_source_among_hypotheses(model, config)
    finds_answers_with_the_scores_of_teacher_forcing(model)


def test_in_training(config: ModelConfig) -> None:
    """The loss reaches every weight, and all that was learnt can be saved and loaded."""
    taught = tiny_model(config).train()
    torch.manual_seed(1)  # hard attention draws
    training_step(taught, batch_for(config), TrainingConfig()).loss.backward()
    has_gradients_everywhere(taught, config)
    is_nearly_the_same_in_bfloat16(config)
    is_the_same_saved_and_loaded(taught, config)


def is_nearly_the_same_in_bfloat16(config: ModelConfig) -> None:
    """Products with 8 significant bits give the loss of float32 within 5 %, and a finite gradient."""
    losses = []
    for precision in ("float32", "bfloat16"):
        model = tiny_model(config).float().train()
        torch.manual_seed(1)
        loss = training_step(model, batch_for(config), TrainingConfig(precision=precision, label_smoothing=0.1)).loss
        loss.backward()
        assert all(bool(weight.grad.isfinite().all()) for weight in model.parameters() if weight.grad is not None)
        losses.append(float(loss.total.detach()))
    assert losses[0] != losses[1]
    if not any(isinstance(part, HardAlignment) for part in model.modules()):  # which may draw other positions
        assert losses[1] == pytest.approx(losses[0], rel=0.05)


def padded(source: Sequence) -> Sequence:
    """Four more columns of padding, whatever stands in them."""
    values = torch.cat([source.values, torch.zeros(3, 4, dtype=torch.long)], dim=1)
    mask = torch.cat([source.mask, torch.zeros(3, 4, dtype=torch.bool)], dim=1)
    values[~mask] = torch.arange(int((~mask).sum())) % SOURCE_TOKENS
    return Sequence(values, mask)


def same_weights(left: Tensor | None, right: Tensor | None) -> None:
    """Both there and equal over what both have of the source, or neither there."""
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        shorter = min(left.size(-1), right.size(-1))
        close(left[..., :shorter], right[..., :shorter])


def same_in_any_company(model: SequenceModel, whole: Step[Any]) -> None:
    """A row is the same in a batch, in a wider one, and alone."""
    after = model(padded(source_batch(ROWS)), INPUTS)
    close(after.logits, whole.logits)
    same_weights(after.weights, whole.weights)
    for number in (0, 2):  # the longest, the shortest
        alone = model(source_batch([ROWS[number]]), INPUTS[number : number + 1])
        close(alone.logits[0], whole.logits[number])
        same_weights(alone.weights, None if whole.weights is None else whole.weights[number].unsqueeze(0))


def same_in_one_step_or_many(model: SequenceModel, whole: Step[Any]) -> None:
    """Teacher forcing is step by step is a prefix, then the rest."""
    start = model.start(source_batch(ROWS))
    for pieces in ([1] * INPUTS.size(1), [2, INPUTS.size(1) - 2]):
        state, steps = start, []
        for piece in INPUTS.split(pieces, dim=1):
            steps.append(model.step(piece, state))
            state = steps[-1].state
        close(torch.cat([step.logits for step in steps], dim=1), whole.logits)
        if whole.weights is not None:
            close(torch.cat([step.weights for step in steps], dim=1), whole.weights)
        for part, expected in zip(tensors(state), tensors(whole.state), strict=True):
            close(part, expected)


def sees_the_source_but_not_the_future(model: SequenceModel, config: ModelConfig, whole: Step[Any]) -> None:
    """Later tokens change no earlier step; another source changes all steps, except in a language model.

    A tagger sees no tokens but those of the source.
    """
    later = INPUTS.clone()
    later[:, 2:] = 7
    logits = model(source_batch(ROWS), later).logits
    close(logits[:, :2], whole.logits[:, :2])
    assert torch.allclose(logits[:, 2:], whole.logits[:, 2:]) == (config.kind == "tagger")
    other = source_batch([[14 - token for token in row] for row in ROWS])
    assert torch.equal(model(other, INPUTS).logits, whole.logits) == (config.kind == "language-model")


def attention_shapes(config: ModelConfig) -> dict[str, tuple[int, int] | None]:
    """The attentions that a model has, and their numbers of layers and heads."""
    parts = {"own": config.decoder, "source": getattr(config, "encoder", None)}
    looks = {
        name: (part.layers, part.heads) if part is not None and part.kind == "transformer" else None
        for name, part in parts.items()
    }
    attends = isinstance(config, EncoderDecoderConfig) and isinstance(config.context, AttentionConfig)
    reads = isinstance(config, EncoderDecoderConfig | ConcatenatedConfig)
    return {**looks, "cross": (1, 1) if attends else looks["own"] if reads else None}


def shares(weights: Tensor, mask: Tensor) -> None:
    """Weights [B, L, N, T, S] are ≥ 0, their sum is 1, and there are none where the mask [B, T, S] is False."""
    close(weights.sum(dim=-1), torch.ones(weights.shape[:-1], dtype=weights.dtype))
    allowed = mask[:, None, None].expand_as(weights)
    assert bool((weights[~allowed] == 0).all())
    assert bool((weights >= 0).all())


def check_looks(looks: AttentionWeights, source: Sequence, *, one_network: bool) -> None:
    B, T, S = *INPUTS.shape, source.values.size(1)
    past, real = torch.ones(T, T).tril().bool().expand(B, T, T), source.mask.unsqueeze(1)
    if looks.own is not None and looks.cross is not None and one_network:  # one softmax over source and past
        shares(torch.cat([looks.cross, looks.own], dim=-1), torch.cat([real.expand(B, T, S), past], dim=-1))
        return
    if looks.cross is not None:
        shares(looks.cross, real.expand(B, T, S))
    if looks.own is not None:
        shares(looks.own, past)
    if looks.source is not None:
        for sentence, row in zip(looks.source, source.mask, strict=True):
            rows = sentence[:, :, row].unsqueeze(0)  # where padding looks is nobody's business
            shares(rows, row.expand(1, rows.size(-2), S))


def looks_with_shares_that_leave_padding_out(model: SequenceModel, config: ModelConfig, whole: Step[Any]) -> None:
    """In every layer and head; a hard look goes to one position."""
    source = source_batch(ROWS)
    weights, looks = whole.weights, model.attention_weights(source, INPUTS)
    shapes = {name: None if found is None else tuple(found.shape[1:3]) for name, found in vars(looks).items()}
    assert shapes == attention_shapes(config)
    check_looks(looks, source, one_network=isinstance(config, ConcatenatedConfig))
    if weights is not None:
        close(looks.cross[:, 0, 0], weights)
    if isinstance(config, EncoderDecoderConfig) and isinstance(config.context, AttentionConfig):
        hard, found = config.context.alignment.kind == "hard", weights[source.mask[:, None].expand_as(weights)]
        assert bool((((found == 0) | (found == 1)) if hard else (found > 0)).all())


def reads_once(config: ModelConfig) -> bool:
    """True if its state keeps an encoding of the source for every step."""
    if isinstance(config, EncoderDecoderConfig):
        return config.decoder.kind != "plain"
    return config.kind == "concatenated" and config.decoder.kind == "transformer"


def shares_the_source_among_hypotheses(model: SequenceModel, config: ModelConfig) -> None:
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
    """Properties of a model that search relies on."""

    def step(tokens: Tensor, state: State) -> tuple[Tensor, State]:
        step = model.step(tokens.unsqueeze(1), state)
        return torch.log_softmax(step.logits[:, -1], dim=-1), step.state

    return step


AROUND = SearchRequest(sentences=3, start=SOS, end=EOS, max_length=3)


def finds_answers_with_the_scores_of_teacher_forcing(model: SequenceModel) -> None:
    found = beam_search(step_of(model), model.start(source_batch(ROWS)), AROUND, policy=ShrinkingBeam(2))
    answers = [(row, answer) for row, answers in zip(ROWS, found, strict=True) for answer in answers]
    assert len({(tuple(row), answer.tokens) for row, answer in answers}) == 6
    inputs = Sequence.of_ids([[SOS, *answer.tokens[:-1]] for _, answer in answers], PAD)
    logits = model(source_batch([row for row, _ in answers]), inputs.values).logits
    for (_, answer), after in zip(answers, torch.log_softmax(logits, dim=-1), strict=True):
        log_probs = [float(after[position, token]) for position, token in enumerate(answer.tokens)]
        assert answer.log_probs == pytest.approx(log_probs)


def without(name: str, config: ModelConfig) -> bool:
    """A gradient that is 0 by its formula.

    A key's bias adds the same to all scores of a query, and a softmax takes no notice. A batch norm takes away what is
    added to all states alike: the last bias of each part whose result is normed.
    """
    if name.endswith("W_K.bias"):
        return True
    part = getattr(config, name.split(".")[0], None)
    normed = getattr(part, "norm", "layer") == "batch"
    return normed and name.endswith(("W_V.bias", "W_O.bias", "feedforward.W_2.bias"))


def has_gradients_everywhere(taught: SequenceModel, config: ModelConfig) -> None:
    largest = {
        name: 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
        for name, parameter in taught.named_parameters()
    }
    assert [name for name, value in largest.items() if (value < 1e-12) != without(name, config)] == []


def logits_of(model: SequenceModel) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model.eval()(source_batch(ROWS), INPUTS).logits
    return logits


def is_the_same_saved_and_loaded(taught: SequenceModel, config: ModelConfig) -> None:
    """Weights, what a batch norm counted, and one table that has two names."""
    content = save({name: tensor.clone() for name, tensor in taught.state_dict().items()})
    fresh = build_model(config, **sizes(config)).double()
    fresh.load_state_dict(load(content))
    assert torch.equal(logits_of(fresh), logits_of(taught))
    assert len(list(fresh.parameters())) == len(list(taught.parameters()))
