"""Parts from another run, frozen parts, tokenizers of another run, and each pretext task, in whole runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import BASE, Ran, distance, run, tiny_config, write_pairs
from torch import Tensor

from antiphon.config.schema import InfillConfig, NoiseConfig
from antiphon.data.batches import PairBatches
from antiphon.data.prepare import prepare
from antiphon.data.tokenizers import EOS, UNK
from antiphon.model_folder import load_model
from antiphon.training.run import build_batches

pytestmark = pytest.mark.usefixtures("no_pictures")
ENCODER, DECODER = BASE["model"]["encoder"], BASE["model"]["decoder"]
BLOCKS = {"kind": "transformer", "size": 8, "layers": 1, "heads": 2, "feedforward": 8, "norm": "batch", "dropout": 0.0}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pairs") / "pairs.tsv"
    write_pairs(path)
    return path


@pytest.fixture(scope="module")
def before(pairs: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run that others begin with."""
    return run(tiny_config(pairs, training={"seed": 9}), tmp_path_factory.mktemp("runs") / "before")


Train = Callable[..., Ran]


@pytest.fixture
def train(pairs: Path, tmp_path: Path) -> Train:
    """A run with other values in the encoder or the decoder; one with a kind of its own replaces the usual one."""
    number = 0

    def with_values(encoder: dict[str, Any], decoder: dict[str, Any], **training: Any) -> Ran:  # noqa: ANN401
        nonlocal number
        number += 1
        read_by = encoder if "kind" in encoder else {**ENCODER, **encoder}
        parts = {"encoder": read_by, "decoder": {**DECODER, **decoder}}
        return run(tiny_config(pairs, model=parts, training=training), tmp_path / f"run{number}")

    return with_values


def part(weights: dict[str, Tensor], *names: str) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in weights.items() if name.split(".")[0] in names}


def equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize(("side", "names"), [("encoder", ("source", "encoder")), ("decoder", ("decoder",))])
def test_a_part_begins_with_another_run(side: str, names: tuple[str, ...], before: Ran, train: Train) -> None:
    """At a rate of almost nothing it is still there at the end; the other part is fresh."""
    values: dict[str, dict[str, Any]] = {"encoder": {}, "decoder": {}, side: {"from": str(before.folder)}}
    ran = train(**values, learning_rate=1e-9)
    assert distance(part(ran.last(), *names), part(before.weights, *names)) < 1e-5
    others = {"source", "encoder", "decoder"} - set(names)
    assert distance(part(ran.last(), *others), part(before.weights, *others)) > 0.1
    assert any(sentence.startswith(f"model.{side}.from: {before.folder}: ") for sentence in ran.watch.said)


def test_a_run_and_its_model_do_without_the_other_run(before: Ran, train: Train, tmp_path: Path) -> None:
    """Only a fresh start reads it: the run goes on, and its model loads, when the other one is gone."""
    away = tmp_path / "away"
    copied = tmp_path / "copy"
    copied.mkdir()
    for name in ("config.yaml", "model.json", "model.safetensors", "tokenizer.source.json", "tokenizer.target.json"):
        (copied / name).write_bytes((before.folder / name).read_bytes())
    whole = train({"from": str(copied)}, {}, epochs=1, checkpoint_every=2, keep=99)
    stopped = tmp_path / "stopped"
    run(whole.config, stopped)
    for checkpoint in sorted((stopped / "checkpoints").iterdir())[1:]:
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    (stopped / "report.html").unlink()
    copied.rename(away)
    again = run(whole.config, stopped)
    assert any(sentence.startswith("resuming from update 2") for sentence in again.watch.said)
    assert equal(again.last(), whole.last())
    assert load_model(stopped).model.parameter_count > 0


@pytest.mark.parametrize(("side", "names"), [("encoder", ("source", "encoder")), ("decoder", ("decoder",))])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_frozen_part_stays_to_the_last_bit(
    side: str, names: tuple[str, ...], optimizer: str, before: Ran, train: Train
) -> None:
    """Whatever the optimiser, the decay and the accumulation; the rest learns."""
    part_values = {"from": str(before.folder), "freeze": True}
    values: dict[str, dict[str, Any]] = {"encoder": {}, "decoder": {}, side: part_values}
    decayed = {"kind": optimizer, "weight_decay": 0.1}
    ran = train(**values, optimizer=decayed, accumulate=2, clip=1.0, average=2, evaluate_every=2)
    assert equal(part(ran.last(), *names), part(before.weights, *names))
    assert equal(part(ran.weights, *names), part(before.weights, *names))
    free = train(encoder={}, decoder={}, max_updates=1, learning_rate=1e-9).last()
    others = {"source", "encoder", "decoder"} - set(names)
    assert distance(part(ran.last(), *others), part(free, *others)) > 1e-2


def test_a_frozen_part_drops_nothing(before: Ran, train: Train) -> None:
    """It runs as in use: dropout in it makes no difference, and the rest learns the same."""
    frozen = {"from": str(before.folder), "freeze": True}
    still, dropping = (train({**frozen, "dropout": dropout}, {}) for dropout in (0.0, 0.6))
    assert equal(still.last(), dropping.last())
    assert not equal(train({"dropout": 0.6}, {}).last(), train({}, {}).last())


def test_a_frozen_batch_norm_counts_no_longer(train: Train) -> None:
    def means(ran: Ran) -> list[Tensor]:
        return [tensor for name, tensor in ran.last().items() if "encoder" in name and name.endswith("running_mean")]

    frozen, free = (train({**BLOCKS, "freeze": freeze}, {}) for freeze in (True, False))
    assert means(frozen)
    assert all(torch.equal(mean, torch.zeros_like(mean)) for mean in means(frozen))
    assert not any(torch.equal(mean, torch.zeros_like(mean)) for mean in means(free))


def test_data_is_cut_by_the_tokenizer_of_another_run(before: Ran, tmp_path: Path) -> None:
    """Its letters keep their ids, though train has others here and in another order."""
    path = tmp_path / "pairs.tsv"
    path.write_text("da\tad\nzd\tdz\nad\tda\n" * 5)
    there = load_model(before.folder)
    read = {"source": {"tokenizer": str(before.folder)}, "target": {"column": 1, "tokenizer": str(before.folder)}}
    given = prepare(tiny_config(path, data=read).data, lambda _: None)
    learnt = prepare(tiny_config(path).data, lambda _: None)
    assert given.source_tokenizer.encode("abcd") == there.source_tokenizer.encode("abcd")
    assert given.target_tokenizer.encode("abcd") == there.target_tokenizer.encode("abcd")
    assert learnt.source_tokenizer.encode("d") != there.source_tokenizer.encode("d")
    assert given.source_tokenizer.encode("z") == [UNK]


Rows = Callable[..., list[tuple[list[int], list[int]]]]


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """Each row of a text as it is and as the model is shown it."""
    path = tmp_path / "text.tsv"
    lines = ["".join("abcdefgh"[(i * j) % 8] for j in range(1, 30)) + "." + "abc"[i % 3] * 9 + "!" for i in range(20)]
    path.write_text("".join(f"{line}\t{line}\n" for line in lines))

    def shown(**noise: Any) -> list[tuple[list[int], list[int]]]:  # noqa: ANN401
        config = tiny_config(path, training={"noise": noise})
        prepared = prepare(config.data, lambda _: None)
        batches = build_batches(config, prepared)
        assert isinstance(batches, PairBatches)
        found = []
        for numbers in batches.plan(0):
            batch = batches.collate(numbers, 0)
            for row, number in enumerate(numbers):
                ids = batch.source.values[row, : int(batch.source.lengths[row])].tolist()
                assert ids.pop() == EOS
                found.append((prepared.train.source[int(number)].tolist(), ids))
        return found

    return shown


def masks(rows: Rows) -> None:
    pairs = rows(mask=0.3)
    assert all(len(clean) == len(shown) for clean, shown in pairs)
    changed = [b for clean, shown in pairs for a, b in zip(clean, shown, strict=True) if a != b]
    assert set(changed) == {UNK}
    assert 0.2 < len(changed) / sum(len(clean) for clean, _ in pairs) < 0.4


def deletes(rows: Rows) -> None:
    pairs = rows(delete=0.3)
    assert not any(UNK in shown for _, shown in pairs)
    assert 0.6 < sum(len(shown) for _, shown in pairs) / sum(len(clean) for clean, _ in pairs) < 0.8


def hidden_and_marks(pairs: list[tuple[list[int], list[int]]]) -> tuple[int, int]:
    marks = sum(shown.count(UNK) for _, shown in pairs)
    return sum(len(clean) - len(shown) + shown.count(UNK) for clean, shown in pairs), marks


def fills_in(rows: Rows) -> None:
    pairs = rows(infill=0.3)
    hidden, marks = hidden_and_marks(pairs)
    assert 0.2 < hidden / sum(len(clean) for clean, _ in pairs) < 0.4
    assert hidden > 1.5 * marks > 0


def spans(rows: Rows) -> None:
    """Longer spans leave fewer marks for as many tokens."""
    ratios = [
        hidden / marks
        for hidden, marks in (hidden_and_marks(rows(infill={"share": 0.3, "span": s})) for s in (1.0, 6.0))
    ]
    assert ratios[0] * 2 < ratios[1]


def shuffles(rows: Rows) -> None:
    pairs = rows(shuffle=3)
    assert all(sorted(clean) == sorted(shown) for clean, shown in pairs)
    assert all(clean != shown for clean, shown in pairs)


def permutes(rows: Rows) -> None:
    pairs = rows(permute=True)
    assert all(sorted(clean) == sorted(shown) for clean, shown in pairs)
    turned = [shown == clean[30:] + clean[:30] for clean, shown in pairs]
    assert all(turn or clean == shown for turn, (clean, shown) in zip(turned, pairs, strict=True))
    assert 0 < sum(turned) < len(pairs)


NOISE_EFFECTS: dict[str, Callable[[Rows], None]] = {
    "mask": masks,
    "delete": deletes,
    "infill": fills_in,
    "permute": permutes,
    "shuffle": shuffles,
}
INFILL_EFFECTS: dict[str, Callable[[Rows], None]] = {"share": fills_in, "span": spans}


def test_every_pretext_task_is_in_the_table() -> None:
    assert set(NOISE_EFFECTS) == set(NoiseConfig.model_fields)
    assert set(INFILL_EFFECTS) == set(InfillConfig.model_fields)


@pytest.mark.parametrize("key", [*NOISE_EFFECTS, *INFILL_EFFECTS])
def test_the_pretext_task_does_what_it_says(key: str, rows: Rows) -> None:
    {**NOISE_EFFECTS, **INFILL_EFFECTS}[key](rows)
