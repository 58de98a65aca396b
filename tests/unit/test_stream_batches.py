"""The batches of pairs and of streams: every token once, the state carried on, nothing but (seed, epoch) decides."""
# n tokens, B parallel streams, T columns

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import close, tensors, tiny_model

from antiphon.config.networks import LanguageModelConfig
from antiphon.config.schema import ScheduleConfig, TrainingConfig
from antiphon.data.batches import PairBatches, StreamBatches, source_batch
from antiphon.data.corpus import Corpus, Ragged
from antiphon.data.tokenizers import EOS, PAD
from antiphon.training.checkpoints import Checkpoints, LoopStatus, Progress
from antiphon.training.display import Display
from antiphon.training.loop import Loop
from antiphon.training.optimizers import SGD
from antiphon.training.run_folder import RunFolder
from antiphon.training.step import StepResult, training_step

START = 4


def stream(tokens: int, window: int, budget: int, seed: int = 1, carries: bool = True) -> StreamBatches:
    """A text whose tokens are all different: token number p is p + 10."""
    ids = np.arange(10, 10 + tokens, dtype=np.int32)
    return StreamBatches.of(ids, window=window, budget=budget, start=START, seed=seed, carries=carries)


@given(tokens=st.integers(1, 300), window=st.integers(1, 20), fit=st.integers(1, 12), epoch=st.integers(0, 3))
def test_every_token_is_said_once_an_epoch(tokens: int, window: int, fit: int, epoch: int) -> None:
    batches = stream(tokens, window, window * fit)
    assert batches.streams == max(1, min(fit, tokens // window))
    said: list[int] = []
    plan = batches.plan(epoch)
    for rows in plan:
        assert 1 <= len(rows) <= window + 1
        batch = batches.collate(rows, epoch)
        mask = batch.outputs.mask
        outputs, inputs = batch.outputs.values[mask], batch.inputs[mask]
        assert batches.tokens(rows) == int(mask.sum())
        assert bool(mask.any(1).all()), "no row is empty"
        assert bool((batch.inputs[~mask] == PAD).all())
        # The input is the token before in the text; before the first stands the start.
        assert torch.equal(inputs, torch.where(outputs == 10, START, outputs - 1))
        said += outputs.tolist()
    assert sorted(said) == list(range(10, 10 + tokens))
    padded = batches.streams * sum(map(len, plan))
    assert batches.padding(plan) == pytest.approx(1 - tokens / padded)


def test_each_row_goes_on_where_it_stopped() -> None:
    """Columns of one batch follow those of the batch before, so that a carried state belongs to its row."""
    batches = stream(1000, 16, 64)
    plan = batches.plan(2)
    for before, after in pairwise(plan):
        last, first = batches.collate(before, 2).outputs.values[:, -1], batches.collate(after, 2).inputs[:, 0]
        follows = (last == first) | ((first == START) & (last == 1009))  # the text goes round
        assert bool(follows.all())


def test_the_plan_is_a_function_of_seed_and_epoch() -> None:
    def outputs(seed: int, epoch: int) -> list[int]:
        batches = stream(200, 8, 32, seed=seed)
        return batches.collate(batches.plan(epoch)[0], epoch).outputs.values.flatten().tolist()

    assert outputs(1, 0) == outputs(1, 0)
    assert len({tuple(outputs(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4, "the seams move"
    assert len(stream(200, 8, 32).plan(0)) == len(stream(200, 8, 32).plan(5)), "epochs are equally long"


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_windows_with_a_carried_state_are_one_long_forward(cell: str) -> None:
    values = {"decoder": {"kind": "plain", "cell": cell, "embedding": 5, "size": 6, "layers": 2, "dropout": 0.0}}
    model = tiny_model(LanguageModelConfig.model_validate(values))
    ids = np.random.default_rng(1).integers(4, 9, 53).astype(np.int32)
    batches = StreamBatches.of(ids, window=7, budget=14, start=START, seed=3, carries=True)
    state, losses, whole = None, [], []
    for rows in batches.plan(0):
        batch = batches.collate(rows, 0)
        result = training_step(model, batch, TrainingConfig(), state=state)
        losses.append(result.loss.plain)
        whole.append(batch)
        state = result.state.detach()
        assert not any(part.requires_grad for part in state.layers)
    inputs = torch.cat([batch.inputs for batch in whole], dim=1)
    outputs = torch.cat([batch.outputs.values for batch in whole], dim=1)
    mask = torch.cat([batch.outputs.mask for batch in whole], dim=1)
    logits = model(source_batch([[], []]), inputs).logits
    log_probs = torch.log_softmax(logits, -1).gather(2, outputs.unsqueeze(2)).squeeze(2)
    close(sum(losses, torch.zeros((), dtype=torch.float64)), -log_probs[mask].sum())


def test_no_gradient_flows_over_a_seam(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Truncated backpropagation through time: the loop hands each window the last state, as numbers without a past."""
    model = tiny_model(LanguageModelConfig.model_validate({"decoder": {"kind": "plain", "embedding": 5, "size": 6}}))
    batches = StreamBatches.of(np.arange(4, 9).repeat(4), window=5, budget=10, start=START, seed=1, carries=True)
    handed: list[object] = []
    reached: list[object] = []

    def watched(*arguments: Any, **options: Any) -> StepResult:  # noqa: ANN401 (whatever `training_step` takes)
        handed.append(options["state"])
        result = training_step(*arguments, **options)
        reached.append(result.state)
        return result

    def evaluate(progress: Progress, _: LoopStatus) -> None:
        progress.history.append({"update": progress.update, "dev_loss": 1.0})

    monkeypatch.setattr("antiphon.training.loop.training_step", watched)
    Loop(
        config=TrainingConfig(epochs=1, schedule=ScheduleConfig(warmup=0)), model=model, frozen=[], batches=batches,
        progress=Progress(), optimizer=SGD(model), checkpoints=Checkpoints(tmp_path), folder=RunFolder(tmp_path),
        display=Display(), evaluate=evaluate, check_signals=lambda: None, unigram_loss=0.0,
    ).run()  # fmt: skip
    assert len(handed) == len(batches.plan(0)) == 2
    assert handed[0] is None
    before, after = [*tensors(reached[0])], [*tensors(handed[1])]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert any(one.requires_grad for one in before)
    assert not any(one.requires_grad for one in after)


def test_a_corpus_without_sources_is_planned_by_its_targets() -> None:
    rows = [[4] * length for length in (1, 5, 2, 5, 3)]
    batches = PairBatches(Corpus(Ragged.of([[]] * 5), Ragged.of(rows)), budget=12, seed=1)
    plan = batches.plan(0)
    assert sorted(np.concatenate(plan).tolist()) == [0, 1, 2, 3, 4]
    assert sum(map(batches.tokens, plan)) == sum(len(row) + 1 for row in rows)
    padded = sum(len(one) * (max(len(rows[row]) for row in one) + 1) for one in plan)
    assert batches.padding(plan) == pytest.approx(1 - 21 / padded), "sources that are not there are no padding"


@pytest.mark.parametrize(("start", "said"), [(EOS, {EOS}), (START, set())])
def test_a_line_end_may_be_drawn_where_it_is_a_token(start: int, said: set[int]) -> None:
    """For words and sub-words it is </s>. No other special is ever drawn, and none where texts are lines."""
    batches = StreamBatches.of(np.arange(10, 90), window=8, budget=32, start=start, seed=1, carries=True)
    assert set(range(4)) - set(batches.forbidden) == said
    assert set(PairBatches(Corpus(Ragged.of([[]]), Ragged.of([[4]])), 9, 1).forbidden) == set(range(4))
