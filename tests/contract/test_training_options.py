"""Every key of training, decoding and evaluation does in a whole run what its description says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from learning_effects import noise, sampling_schedule, sampling_updates, scheduled_sampling
from pydantic import BaseModel
from safetensors.torch import load_file
from tiny_runs import Ran, distance, run, same, tiny_config, write_pairs

from antiphon.config.schema import (
    AdamConfig,
    EvaluationConfig,
    GuidedAttentionConfig,
    PlateauConfig,
    ScheduleConfig,
    ScheduledSamplingConfig,
    SGDConfig,
    TrainingConfig,
)
from antiphon.data import batches as feed
from antiphon.data.pairs import Example
from antiphon.data.prepare import prepare
from antiphon.errors import DivergedError
from antiphon.evaluation import intervals as bootstrap
from antiphon.inference.generator import Generator
from antiphon.models.build import build_model
from antiphon.training import evaluator, loop, numerics
from antiphon.training import run as runs
from antiphon.training.estimate import TrainingEstimate
from antiphon.training.step import StepResult

pytestmark = pytest.mark.usefixtures("no_pictures")
Train = Callable[..., Ran]
SGD = {"kind": "sgd"}
PLATEAU = {"kind": "plateau", "warmup": 0, "patience": 1}
NEVER_BETTER = {"metric": "exact_match", "evaluate_every": 1}  # after 6 updates nothing is right yet


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    write_pairs(path)
    return path


@pytest.fixture(scope="module")
def train(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """A run with other values in `training` (or in another section); equal runs are run once."""
    done: dict[str, Ran] = {}

    def with_values(evaluation: dict[str, Any] | None = None, **training: Any) -> Ran:  # noqa: ANN401
        config = tiny_config(pairs, training=training, evaluation=evaluation or {})
        key = config.model_dump_json()
        if key not in done:
            done[key] = run(config, tmp_path_factory.mktemp("runs") / "run")
        return done[key]

    return with_values


def beginning(ran: Ran) -> dict[str, torch.Tensor]:
    """The weights before the first update."""
    prepared = prepare(ran.config.data, lambda _: None)
    torch.manual_seed(ran.config.training.seed)
    sizes = {"source_tokens": prepared.source_tokenizer.size, "target_tokens": prepared.target_tokenizer.size}
    return build_model(ran.config.model, **sizes).state_dict()


def worsening(train: Train, **training: Any) -> Ran:  # noqa: ANN401
    """A run whose exact match falls at each look, as its loss does: the first is best by one, the last by the other."""
    looks = iter(range(1000))

    def figures(_: evaluator.Evaluator) -> tuple[dict[str, float], list[tuple[Example, str]]]:
        look = next(looks)
        return {"dev_loss": 100.0 - look, "perplexity": 1.0, "exact_match": 50.0 - look}, []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluator.Evaluator, "evaluate", figures)
        return train(metric="exact_match", evaluate_every=1, bad_updates=1000, **training)  # 1000: no other test's run


def epochs(train: Train) -> None:
    one, two = train(epochs=1), train()
    assert two.summary["updates"] == 2 * one.summary["updates"]
    assert (one.summary["epochs"], two.summary["epochs"]) == (1, 2)


def max_updates(train: Train) -> None:
    stopped = train(max_updates=2)
    assert stopped.summary["updates"] == 2
    assert stopped.summary["stopped"] == "all 2 updates done"
    assert train(max_updates=10_000).summary["updates"] == train().summary["updates"]


def batch_tokens(train: Train) -> None:
    small, large = train(batch_tokens=16, epochs=1), train(batch_tokens=10_000, epochs=1)
    assert large.summary["updates"] == 1
    assert small.summary["updates"] > 4


def accumulate(train: Train) -> None:
    """Batches added up are one large batch: the mean over all its tokens."""
    parts, whole = train(batch_tokens=16, accumulate=1000, epochs=1), train(batch_tokens=10_000, epochs=1)
    assert parts.summary["updates"] == 1
    assert distance(parts.weights, whole.weights) < 1e-5
    assert distance(whole.weights, beginning(whole)) > 1e-2
    single, double = (train(batch_tokens=16, accumulate=many, epochs=1).summary["updates"] for many in (1, 2))
    assert double == math.ceil(single / 2)


def optimizer(train: Train) -> None:
    sgd, adam, adamw = (
        train(optimizer={"kind": name, "weight_decay": 0.5}, learning_rate=0.01) for name in ("sgd", "adam", "adamw")
    )
    assert min(distance(a.last(), b.last()) for a, b in ((sgd, adam), (adam, adamw), (sgd, adamw))) > 1e-3


def learning_rate(train: Train) -> None:
    slow, fast = train(max_updates=1, learning_rate=0.1), train(max_updates=1, learning_rate=0.2)
    start = beginning(slow)
    assert distance(fast.weights, start) == pytest.approx(2 * distance(slow.weights, start), rel=1e-4)
    assert fast.rates == [0.2]


def weight_decay(train: Train) -> None:
    """w ← w - rate (gradient + decay w)"""
    free, pulled = train(max_updates=1).weights, train(max_updates=1, optimizer=SGD | {"weight_decay": 0.5}).weights
    for name, start in beginning(train(max_updates=1)).items():
        torch.testing.assert_close(free[name] - pulled[name], 0.1 * 0.5 * start, atol=1e-6, rtol=1e-4)


def momentum(train: Train) -> None:
    """The first step is the same; then half of the last step is added to each."""
    one, rolling = train(max_updates=1), train(max_updates=1, optimizer=SGD | {"momentum": 0.5})
    assert same(one.weights, rolling.weights)
    start, first = beginning(one), one.weights
    second, rolled = train(max_updates=2).last(), train(max_updates=2, optimizer=SGD | {"momentum": 0.5}).last()
    for name in start:
        torch.testing.assert_close(rolled[name] - second[name], 0.5 * (first[name] - start[name]), atol=1e-6, rtol=1e-3)


def schedule(train: Train) -> None:
    kinds = ("constant", "inverse-sqrt", "cosine")
    rates = {kind: train(max_updates=4, schedule={"kind": kind, "warmup": 0}).rates for kind in kinds}
    rates["plateau"] = train(max_updates=4, schedule=PLATEAU, **NEVER_BETTER).rates
    assert rates["constant"] == [0.1] * 4
    assert rates["inverse-sqrt"] == pytest.approx([0.1, 0.1 / math.sqrt(2), 0.1 / math.sqrt(3), 0.05])
    assert rates["cosine"][1] == pytest.approx(0.05 * (1 + math.cos(0.4 * math.pi)))
    assert rates["cosine"] == sorted(rates["cosine"], reverse=True)
    assert rates["plateau"] == pytest.approx([0.1, 0.1, 0.05, 0.025])


def warmup(train: Train) -> None:
    assert train(max_updates=4, schedule={"kind": "constant", "warmup": 4}).rates == pytest.approx(
        [0.025, 0.05, 0.075, 0.1]
    )


def plateau_factor(train: Train) -> None:
    ran = train(max_updates=4, schedule=PLATEAU | {"factor": 0.1}, **NEVER_BETTER)
    assert ran.rates == pytest.approx([0.1, 0.1, 0.01, 0.001])


def plateau_patience(train: Train) -> None:
    ran = train(max_updates=6, schedule=PLATEAU | {"patience": 2}, **NEVER_BETTER)
    assert ran.rates == pytest.approx([0.1, 0.1, 0.1, 0.05, 0.05, 0.025])


def clip(train: Train) -> None:
    """A step of sgd is the rate times the gradient, which is no longer than this."""
    free, short = train(max_updates=1), train(max_updates=1, clip=0.01)
    start = beginning(free)
    assert distance(short.weights, start) == pytest.approx(0.1 * 0.01, rel=1e-3)
    assert distance(free.weights, start) > 0.1 * 0.02
    assert same(free.weights, train(max_updates=1, clip=1000.0).weights)


def label_smoothing(train: Train) -> None:
    """Other weights; the loss that is shown stays the plain one."""
    plain, smooth = train(max_updates=1), train(max_updates=1, label_smoothing=0.3)
    assert distance(plain.weights, smooth.weights) > 1e-3
    assert plain.watch.updates[0]["loss"] == smooth.watch.updates[0]["loss"]


def guided_attention(train: Train) -> None:
    """Attention moves to the diagonal; the loss that is shown is without its cost."""
    plain, guided = train(max_updates=1), train(max_updates=1, guided_attention={"weight": 10.0})
    assert distance(plain.weights, guided.weights) > 1e-3
    assert plain.watch.updates[0]["loss"] == guided.watch.updates[0]["loss"]


def guided_width(train: Train) -> None:
    narrow, wide = (train(max_updates=1, guided_attention={"weight": 10.0, "width": width}) for width in (0.2, 1.0))
    assert distance(narrow.weights, wide.weights) > 1e-3
    assert same(narrow.weights, train(max_updates=1, guided_attention={"weight": 10.0}).weights)


def metric(train: Train) -> None:
    """The loss falls, so the last is the best; by another metric it is the first."""
    by_loss, by_match = train(evaluate_every=1), worsening(train)
    assert by_loss.summary["best_update"] == by_loss.summary["updates"]
    assert by_match.summary["best_update"] == 1
    assert [int(row["best"]) for row in by_match.metrics][:2] == [1, 0]
    assert same(by_match.weights, train(max_updates=1).weights)
    assert same(by_loss.weights, by_loss.last())


def evaluate_every(train: Train) -> None:
    updates = train().summary["updates"]
    assert train().evaluated == [updates // 2, updates]
    assert train(max_updates=5, evaluate_every=2).evaluated == [2, 4, 5]


def checkpoint_every(train: Train) -> None:
    assert train(max_updates=5, keep=100).checkpoints[-1:] == [5]
    assert train(max_updates=5, keep=100, checkpoint_every=2, evaluate_every=100).checkpoints == [2, 4, 5]


def patience(train: Train) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "unigram_loss", lambda *_: math.inf)  # which every model is below
        ran = train(patience=2, min_updates=0, **NEVER_BETTER)
    assert ran.summary["updates"] == 3
    assert ran.summary["stopped"] == "no better exact_match in 2 evaluations"
    losses = iter([9.0, 9.0, 9.0, 0.5, 0.5])  # a plateau above the floor, then learning, then a plateau below it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluator.Evaluator, "evaluate", lambda _: ({"dev_loss": next(losses), "perplexity": 1.0}, []))
        assert train(patience=1, min_updates=0, evaluate_every=1).evaluated == [1, 2, 3, 4, 5]
    never_below = train(patience=2, min_updates=1, **NEVER_BETTER)
    assert never_below.summary["stopped"] == f"all {never_below.summary['updates']} updates done"
    assert never_below.summary["updates"] > 3


def min_updates(train: Train) -> None:
    """The first evaluation is the best, and those of the updates 4 and 5 are the first to count."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "unigram_loss", lambda *_: math.inf)
        assert train(patience=2, min_updates=4, **NEVER_BETTER).summary["updates"] == 5


def max_minutes(train: Train) -> None:
    """Each look at the clock is ten seconds later: an update takes ten, an evaluation takes ten."""
    clock = itertools.count(step=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
        ran = train(max_minutes=1, evaluate_every=4)
        assert train(max_minutes=1.5, evaluate_every=4, epochs=9).summary["stopped"] == "1.5 minutes are over"
    assert ran.evaluated == [4, 5]  # 4 updates, an evaluation, and the update that ends the minute
    assert ran.summary["stopped"] == "1 minute is over"
    assert (ran.summary["updates"], ran.summary["seconds"]) == (5, 70)
    assert same(ran.last(), train(max_updates=5).last())


def dev_examples(train: Train) -> None:
    """So many are decoded; the loss takes all 8."""
    decoded: list[int] = []
    measured: list[int] = []

    def counted(work: Callable[..., Any], seen: list[int]) -> Callable[..., Any]:
        def counting(generator: Generator, examples: list[Example], *rest: Any, **named: Any) -> Any:  # noqa: ANN401
            seen.append(len(examples))
            return work(generator, examples, *rest, **named)

        return counting

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluator, "evaluate_examples", counted(evaluator.evaluate_examples, decoded))
        patch.setattr(evaluator, "likelihood", counted(evaluator.likelihood, measured))
        train(max_updates=1, dev_examples=5)
        train(max_updates=1, dev_examples=2)
        train(max_updates=1, dev_examples=1000)
    assert decoded == [5, 2, 8]
    assert measured == [8, 8, 8]


def keep(train: Train) -> None:
    """So many, and the best (here the first)."""
    assert worsening(train, max_updates=6, keep=1).checkpoints == [1, 6]
    assert worsening(train, max_updates=6, keep=3).checkpoints == [1, 4, 5, 6]


def average(train: Train) -> None:
    """The mean of the last three evaluations, if it is better: made so here by a loss that falls at each look."""
    calls = iter(range(1000))
    with pytest.MonkeyPatch.context() as patch:
        fall = lambda _: ({"dev_loss": 100.0 - next(calls), "perplexity": 1.0, "exact_match": 0.0}, [])  # noqa: E731
        patch.setattr(evaluator.Evaluator, "evaluate", fall)
        ran = train(max_updates=5, evaluate_every=1, average=3, keep=1)
    assert ran.checkpoints == [3, 4, 5]
    assert ran.summary["weights"] == "averaged"
    folders = [ran.folder / "checkpoints" / f"{update:08d}" for update in (3, 4, 5)]
    parts = [load_file(folder / "model.safetensors") for folder in folders]
    mean = {name: sum(part[name].double() for part in parts).div(3).float() for name in parts[0]}  # type: ignore[union-attr]
    assert same(ran.weights, mean)
    not_better = worsening(train, max_updates=5, average=3)
    assert not_better.summary["weights"] == "best"
    assert same(not_better.weights, train(max_updates=1).weights)


def bad_updates(train: Train) -> None:
    good, looks = loop.training_step, []

    def broken(*arguments: Any, **named: Any) -> StepResult:  # noqa: ANN401
        looks.append(1)
        result = good(*arguments, **named)
        factor = 1.0 if len(looks) < 3 else math.nan
        loss = replace(result.loss, total=result.loss.total * factor, plain=result.loss.plain * factor)
        return replace(result, loss=loss)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "training_step", broken)
        with pytest.raises(DivergedError, match="not finite in 2 updates in a row, up to update 4"):
            train(bad_updates=2, epochs=9)
    assert len(looks) == 4


def seed(train: Train) -> None:
    """Of the first weights and of the order of the batches."""
    orders: list[list[int]] = []
    with pytest.MonkeyPatch.context() as patch:
        good = feed.collate
        noted = lambda corpus, rows, *how: orders[-1].extend(rows) or good(corpus, rows, *how)  # noqa: E731
        patch.setattr(feed, "collate", noted)
        patch.setattr(runs, "estimate_training", lambda *_: TrainingEstimate(0.0, 1.0, None))  # it tries batches, too
        trained = []
        for values in ({"seed": 1, "keep": 8}, {"seed": 1, "keep": 9}, {"seed": 2}):
            orders.append([])
            trained.append(train(epochs=1, **values))
    one, again, other = trained
    assert same(one.weights, again.weights)
    assert distance(beginning(one), beginning(other)) > 0.1
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def threads(train: Train) -> None:
    before = torch.get_num_threads()
    try:
        assert train(max_updates=1, threads=2).watch.threads == {2}
        torch.set_num_threads(1)
        assert train(max_updates=1, threads=None, seed=5).watch.threads == {1}
    finally:
        torch.set_num_threads(before)


def precision(train: Train) -> None:
    """Where bfloat16 is faster the weights differ, by rounding; where it is not they are those of float32."""
    exact = train(max_updates=2)
    found = []
    for speedup in (2.0, 0.5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numerics, "probe_matmul", partial(numerics.MatmulProbe, 1.0, 1e-6, speedup))
            found.append(train(max_updates=2, precision="bfloat16", max_minutes=1000 * speedup))  # two runs
    mixed, refused = found
    assert 0.0 < distance(exact.weights, mixed.weights) < 0.1 * distance(exact.weights, beginning(exact))
    assert same(exact.weights, refused.weights)
    assert any("trains in float32" in line for line in refused.watch.said)


def track(train: Train) -> None:
    assert list((train(max_updates=1, track=["tensorboard"]).folder / "track" / "tensorboard").glob("events.*"))
    assert not (train(max_updates=1).folder / "track").exists()


def metrics(train: Train) -> None:
    """Of the section evaluation: what is measured at each evaluation, beside training.metric."""
    [row, *_] = train(max_updates=1, evaluation={"metrics": ["cer", "bleu"]}, metric="ter").metrics
    assert {"cer", "bleu", "ter"} < row.keys()
    assert "exact_match" not in row
    assert "exact_match" in train(max_updates=1).metrics[0]


TRAINING_EFFECTS: dict[str, Callable[[Train], None]] = {
    effect.__name__: effect
    for effect in (
        epochs, max_updates, batch_tokens, accumulate, optimizer, learning_rate, schedule, clip, label_smoothing,
        guided_attention, metric, evaluate_every, checkpoint_every, patience, min_updates, max_minutes, dev_examples,
        keep, average, bad_updates, noise, scheduled_sampling, seed, threads, precision, track,
    )
}  # fmt: skip
SECTION_EFFECTS: dict[type[BaseModel], dict[str, Callable[[Train], None]]] = {
    AdamConfig: {"kind": optimizer, "weight_decay": optimizer},
    SGDConfig: {"kind": optimizer, "weight_decay": weight_decay, "momentum": momentum},
    ScheduleConfig: {"kind": schedule, "warmup": warmup},
    PlateauConfig: {"kind": schedule, "warmup": warmup, "factor": plateau_factor, "patience": plateau_patience},
    GuidedAttentionConfig: {"weight": guided_attention, "width": guided_width},
    ScheduledSamplingConfig: {
        "probability": scheduled_sampling,
        "schedule": sampling_schedule,
        "updates": sampling_updates,
    },
}
EVALUATION_EFFECTS: dict[str, Callable[[Train], None]] = {"metrics": metrics}


def test_every_key_is_in_the_tables() -> None:
    assert set(TRAINING_EFFECTS) == set(TrainingConfig.model_fields)
    assert set(EVALUATION_EFFECTS) == set(EvaluationConfig.model_fields)
    for section, effects in SECTION_EFFECTS.items():
        assert set(effects) == set(section.model_fields)


@pytest.mark.parametrize("key", [*TRAINING_EFFECTS, *EVALUATION_EFFECTS])
def test_the_key_does_what_it_says(key: str, train: Train) -> None:
    (TRAINING_EFFECTS | EVALUATION_EFFECTS)[key](train)


def test_training_pays_for_no_intervals(train: Train) -> None:
    """Evaluations on the way use only the value."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bootstrap, "_resampled_sums", None)
        ran = train(max_updates=2, seed=77)
    assert len(ran.metrics) == 1


def test_answers_are_shown_also_when_no_metric_needs_them(train: Train) -> None:
    ran = train(max_updates=1, evaluation={"metrics": ["loss"]})
    assert len(ran.samples) == evaluator.SAMPLES
    assert all(isinstance(sample["output"], str) for sample in ran.samples)


def test_a_finished_run_is_what_the_base_promises(train: Train) -> None:
    """Else some effects above could not be seen."""
    ran = train()
    assert ran.summary["updates"] >= 6
    losses = [float(row["dev_loss"]) for row in ran.metrics]
    assert losses == sorted(losses, reverse=True)
