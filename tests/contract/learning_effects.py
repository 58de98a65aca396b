"""Effects of the keys of pretext tasks and scheduled sampling in a whole run; for the table of training's keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tiny_runs import Ran, distance, same

from antiphon.data.noise import Noise
from antiphon.data.prepare import prepare
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, load_model
from antiphon.training import loop

Train = Callable[..., Ran]
STILL = {"learning_rate": 1e-9, "batch_tokens": 10_000}  # one batch an epoch, and weights that hardly move


def losses(ran: Ran) -> list[float]:
    """Of each update; the bar shows their mean so far."""
    means = [row["loss"] for row in ran.watch.updates]
    return [mean * number - sum(means[number - 2 : number - 1]) * (number - 1) for number, mean in enumerate(means, 1)]


def dev_loss(ran: Ran, *, corrupted: bool) -> float:
    """Of the weights in the folder, on dev as it is or as the pretext task spoils it."""
    loaded, prepared = load_model(ran.folder), prepare(ran.config.data, lambda _: None)
    training, source = ran.config.training, loaded.source_tokenizer
    source = Noise(training.noise, source, seed=training.seed).reader() if corrupted else source
    generator = Generator(LoadedModel(loaded.config, loaded.model, source, loaded.target_tokenizer))
    return evaluate_examples(generator, prepared.dev, metrics=["loss"], resamples=0).values["loss"].value


def noise(train: Train) -> None:
    """The source is spoilt anew in every epoch, and on dev always in the same way."""
    clean, corrupted = train(**STILL), train(**STILL, noise={"mask": 0.6})
    first, second = losses(clean)
    assert first == pytest.approx(second, abs=1e-6)
    first, second = losses(corrupted)
    assert abs(first - second) > 1e-4
    assert first != pytest.approx(losses(clean)[0], abs=1e-4)
    measured = [float(row["dev_loss"]) for row in corrupted.metrics]
    assert measured[0] == pytest.approx(measured[1], abs=1e-6)
    assert measured[1] == pytest.approx(dev_loss(corrupted, corrupted=True), abs=1e-6)
    assert abs(measured[1] - dev_loss(corrupted, corrupted=False)) > 1e-4


def shares(train: Train, **training: Any) -> list[float]:  # noqa: ANN401
    """The share of own words of every update."""
    seen: list[float] = []
    good = loop.sampling_probability

    def noted(*arguments: Any, **named: Any) -> float:  # noqa: ANN401
        seen.append(good(*arguments, **named))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "sampling_probability", noted)
        train(max_updates=4, **training)
    return seen


def scheduled_sampling(train: Train) -> None:
    assert shares(train, scheduled_sampling={"probability": 0.8}) == pytest.approx([0.2, 0.4, 0.6, 0.8])
    taught, sampled = train(max_updates=4), train(max_updates=4, scheduled_sampling={"probability": 0.8})
    assert distance(taught.last(), sampled.last()) > 1e-3
    assert same(taught.last(), train(max_updates=4, scheduled_sampling=None, keep=7).last())


def sampling_schedule(train: Train) -> None:
    climbs = {
        name: shares(train, scheduled_sampling={"probability": 0.4, "schedule": name})
        for name in ("linear", "exponential", "inverse-sigmoid")
    }
    assert climbs["linear"] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert climbs["exponential"][1] == pytest.approx(0.4 * 0.9 / 0.99)
    assert climbs["inverse-sigmoid"][1] == pytest.approx(0.2)
    assert {round(climb[-1], 12) for climb in climbs.values()} == {0.4}
    assert climbs["exponential"][0] > climbs["linear"][0] > climbs["inverse-sigmoid"][0]


def sampling_updates(train: Train) -> None:
    assert shares(train, scheduled_sampling={"probability": 0.6, "updates": 2}) == pytest.approx([0.3, 0.6, 0.6, 0.6])
