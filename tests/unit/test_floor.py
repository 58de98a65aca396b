"""The floor of a training: the loss of a unigram model, until which patience does not count and nothing is learnt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from antiphon.config.schema import Config, TrainingConfig
from antiphon.data.prepare import prepare
from antiphon.evaluation.likelihood import TOKENS, likelihood, unigram_loss
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model
from antiphon.training.schedule import has_learnt, patience_used

PAIRS = {"data": {"train": "train.tsv", "dev": "dev.tsv"}}
LINES = {"data": {"train": "train.txt", "dev": "dev.txt"}, "model": "language-model"}
STREAM = {**LINES, "data": {**LINES["data"], "window": 2}}  # type: ignore[dict-item]
TINY = {"embedding": 2, "size": 2}


TRAIN, DEV = ("x\tab\n", "y\ta\n"), ("p\tab\n", "p\tb\n", "q\taa\n")  # one of them with two references


def prepared_generator(
    folder: Path, values: dict[str, object], train: Sequence[str] = TRAIN, dev: Sequence[str] = DEV
) -> tuple[Generator, float, int]:
    """A generator, the loss of the unigram model, and the number of tokens that dev_loss counts."""
    (folder / "train.tsv").write_text("".join(train))
    (folder / "dev.tsv").write_text("".join(dev))
    (folder / "train.txt").write_text("ab\na\n")
    (folder / "dev.txt").write_text("ab\nb\naa\n")
    language_model = "model" in values
    model: dict[str, object] = {"decoder": {"kind": "plain" if language_model else "bahdanau", **TINY}}
    model |= {"kind": "language-model"} if language_model else {"encoder": {"kind": "gru", **TINY}}
    config = Config.model_validate({**values, "model": model})
    prepared = prepare(config.data, lambda _: None)
    network = fresh_model(config, prepared.source, prepared.target_tokenizer)
    generator = Generator(LoadedModel(config, network, prepared.source, prepared.target_tokenizer))
    found = unigram_loss(generator, prepared.dev, prepared.train.target)
    return generator, found, int(likelihood(generator, prepared.dev)[:, TOKENS].sum())


@pytest.mark.parametrize("values", [PAIRS, LINES, STREAM], ids=["pairs", "lines", "stream"])
def test_the_unigram_loss_on_paper(values: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained on ab. a. (a point is the end): a 2, b 1, and one more for each token; lengths 1 and 2, and 0, 1, 2 more.

    Measured on ab. b. aa., which has three a, two b and three ends: the tokens of which dev_loss is the mean. In a
    stream the ends are tokens, too.
    """
    monkeypatch.chdir(tmp_path)
    generator, found, tokens = prepared_generator(tmp_path, values)
    stream = generator.config.data.window is not None
    total = generator.target_tokenizer.size + (5 if stream else 3)
    nats = [math.log(total / count) for count in (3, 2)]
    end = math.log(total / 3) if stream else math.log(5 / 2)
    assert tokens == 8
    assert found == pytest.approx((3 * nats[0] + 2 * nats[1] + 3 * end) / 8)


def test_no_network_that_ignores_its_source_is_below_the_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels have one token and its end: the best is the entropy of the label, and nothing for the end."""
    monkeypatch.chdir(tmp_path)
    lines = [f"x{number}\t{'ab'[number % 2]}\n" for number in range(4000)]
    _, found, _ = prepared_generator(tmp_path, PAIRS, train=lines, dev=["p\ta\n", "q\tb\n"])
    assert found == pytest.approx(math.log(2) / 2, rel=0.01)


@pytest.mark.parametrize(
    ("losses", "min_updates", "used"),
    [
        ([], 0, 0),
        ([0.5, 0.6, 0.7], 0, 2),
        ([0.5, 0.6, 0.7], 20, 2),  # the evaluations of the updates 20 and 30 count
        ([0.5, 0.6, 0.7], 30, 1),
        ([0.5, 0.6, 0.7], 31, 0),
        ([1.2, 1.3, 1.3, 1.3], 0, 0),  # a plateau above the floor
        ([0.96, 1.0, 1.0, 1.0], 0, 0),  # below it, but not clearly
        ([1.2, 1.3, 0.94, 0.95, 0.96], 0, 2),
        ([0.94, math.nan, 2.0], 0, 2),
        ([math.nan, math.nan], 0, 0),
    ],
)
def test_patience_counts_after_updates_and_below_the_floor(losses: list[float], min_updates: int, used: int) -> None:
    config = TrainingConfig(min_updates=min_updates)
    history = [{"update": 10.0 * number, "dev_loss": loss} for number, loss in enumerate(losses, start=1)]
    assert patience_used(config, history, 1.0) == used


def test_patience_for_a_metric_waits_for_the_loss() -> None:
    rows = [(2.0, 0.0), (1.5, 0.0), (0.9, 0.0), (0.8, 0.0)]
    history = [{"update": float(n), "dev_loss": loss, "bleu": bleu} for n, (loss, bleu) in enumerate(rows)]
    assert patience_used(TrainingConfig(metric="bleu", min_updates=0), history, 1.0) == 2


@pytest.mark.parametrize(("losses", "learnt"), [([2.0, 0.99, 3.0], True), ([1.0, math.nan], False), ([], False)])
def test_learnt_is_once_below_the_floor(losses: list[float], learnt: bool) -> None:
    assert has_learnt([{"dev_loss": loss} for loss in losses], 1.0) is learnt
