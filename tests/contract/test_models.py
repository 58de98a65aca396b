"""What holds for every model that build.py can make: what it computes, and what it looks at."""
# B sentences, R rows, T target steps, S source steps, L layers, N heads

from __future__ import annotations

from typing import Any

import pytest
import torch
from model_cases import CASES
from tiny_models import INPUTS, ROWS, SOURCE_TOKENS, close, tensors, tiny_model
from torch import Tensor

from antiphon.config.models import AttentionConfig, ConcatenatedConfig, EncoderDecoderConfig, ModelConfig
from antiphon.decoders.state import Looks, Step
from antiphon.model import SequenceModel
from antiphon.sequence import Sequence
from antiphon.sources.batches import source_batch
from antiphon.sources.vocabulary import PAD


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


def test_padding_and_company_change_nothing(model: SequenceModel, whole: Step[Any]) -> None:
    """A row is the same in a batch, in a wider one, and alone."""
    after = model(padded(source_batch(ROWS)), INPUTS)
    close(after.logits, whole.logits)
    same_weights(after.weights, whole.weights)
    for number in (0, 2):  # the longest, the shortest
        alone = model(source_batch([ROWS[number]]), INPUTS[number : number + 1])
        close(alone.logits[0], whole.logits[number])
        same_weights(alone.weights, None if whole.weights is None else whole.weights[number].unsqueeze(0))


def test_teacher_forcing_is_step_by_step_is_prefix_then_rest(model: SequenceModel, whole: Step[Any]) -> None:
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


def test_the_future_is_not_seen_but_the_source_is(model: SequenceModel, config: ModelConfig, whole: Step[Any]) -> None:
    """What comes later changes no step before it; another source changes all of them, but in a language model."""
    later = INPUTS.clone()
    later[:, 2:] = 7
    logits = model(source_batch(ROWS), later).logits
    close(logits[:, :2], whole.logits[:, :2])
    assert not torch.allclose(logits[:, 2:], whole.logits[:, 2:])
    other = source_batch([[14 - token for token in row] for row in ROWS])
    assert torch.equal(model(other, INPUTS).logits, whole.logits) == (config.kind == "language-model")


def looked(config: ModelConfig) -> dict[str, tuple[int, int] | None]:
    """Which looks a model has, with so many layers and heads."""
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


def check_looks(looks: Looks, source: Sequence, *, one_network: bool) -> None:
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


def test_weights_are_shares_and_padding_has_none(model: SequenceModel, config: ModelConfig, whole: Step[Any]) -> None:
    """In every layer and head; a hard look goes to one position."""
    source = source_batch(ROWS)
    weights, looks = whole.weights, model.look(source, INPUTS)
    shapes = {name: None if found is None else tuple(found.shape[1:3]) for name, found in vars(looks).items()}
    assert shapes == looked(config)
    check_looks(looks, source, one_network=isinstance(config, ConcatenatedConfig))
    if weights is not None:
        close(looks.cross[:, 0, 0], weights)
    if isinstance(config, EncoderDecoderConfig) and isinstance(config.context, AttentionConfig):
        hard, found = config.context.alignment == "hard", weights[source.mask[:, None].expand_as(weights)]
        assert bool((((found == 0) | (found == 1)) if hard else (found > 0)).all())


def counted(config: ModelConfig) -> bool:
    return any(getattr(part, "norm", "") == "batch" for part in (config.decoder, getattr(config, "encoder", None)))


COUNTED = {name: config for name, config in CASES.items() if counted(config)}


@pytest.mark.parametrize("batch_normed", list(COUNTED.values()), ids=list(COUNTED))
def test_padding_changes_nothing_in_training_either(batch_normed: ModelConfig) -> None:
    """A batch norm counts real positions only, of both sides; so its moving averages are the same too."""
    lengths, inputs = torch.tensor([4, 3, 2]), INPUTS.clone()
    real = torch.arange(INPUTS.size(1)) < lengths.unsqueeze(1)
    inputs[~real] = PAD
    wider = torch.cat([inputs, torch.full((3, 3), PAD)], dim=1)
    plain, after = tiny_model(batch_normed).train(), tiny_model(batch_normed).train()
    source = source_batch(ROWS)
    close(after(padded(source), wider).logits[:, : INPUTS.size(1)][real], plain(source, inputs).logits[real])
    for name, buffer in plain.named_buffers():
        close(after.get_buffer(name), buffer)
