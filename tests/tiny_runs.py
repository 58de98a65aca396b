"""Whole training runs of a second or less, and what can be seen of them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from antiphon.config.schema import Config
from antiphon.training.display import Display
from antiphon.training.run import train_run

WORDS = ["".join(letters) for length in (1, 2, 3) for letters in product("abcd", repeat=length)][::2]
# Dropout is 0, the rate is constant and nothing is clipped, so that one key's effect can be seen alone.
BASE: dict[str, Any] = {
    "data": {"hold_out": 0.2},
    "model": {
        "kind": "encoder-decoder",
        "encoder": {"kind": "gru", "embedding": 8, "size": 8, "dropout": 0.0},
        "decoder": {"kind": "bahdanau", "cell": "gru", "embedding": 8, "size": 8, "dropout": 0.0},
    },
    "training": {
        "epochs": 2,
        "batch_tokens": 64,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "schedule": {"kind": "constant", "warmup": 0},
        "clip": None,
    },
    "decoding": {"max_length": 6},
    "evaluation": {"metrics": ["exact_match"]},
}


class Watch(Display):
    """Writes down what a person would be shown."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.updates: list[dict[str, float]] = []
        self.threads: set[int] = set()

    def log(self, message: str) -> None:
        self.said.append(message)

    def update(self, row: dict[str, float], total: int) -> None:  # noqa: ARG002
        self.updates.append(row)
        self.threads.add(torch.get_num_threads())


@dataclass(frozen=True)
class Ran:
    """A run that is over."""

    folder: Path
    watch: Watch
    config: Config = field(repr=False)

    @property
    def weights(self) -> dict[str, Tensor]:
        return load_file(self.folder / "model.safetensors")

    def last(self) -> dict[str, Tensor]:
        """The weights after the last update."""
        return load_file(self.folder / "checkpoints" / f"{self.checkpoints[-1]:08d}" / "model.safetensors")

    @property
    def checkpoints(self) -> list[int]:
        return sorted(int(path.name) for path in (self.folder / "checkpoints").iterdir() if path.name.isdigit())

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "summary.json").read_text()))

    @property
    def metrics(self) -> list[dict[str, str]]:
        with (self.folder / "metrics.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @property
    def samples(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "samples.jsonl").read_text().splitlines()]

    @property
    def rates(self) -> list[float]:
        return [row["learning_rate"] for row in self.watch.updates]

    @property
    def evaluated(self) -> list[int]:
        return [int(row["update"]) for row in self.metrics]


def write_pairs(path: Path) -> None:
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in WORDS))


def tiny_config(pairs: Path, **sections: dict[str, Any]) -> Config:
    """BASE with other values in some sections."""
    values = {name: {**part, **sections.get(name, {})} for name, part in BASE.items()}
    values["data"]["train"] = str(pairs)
    return Config.model_validate(values)


def run(config: Config, folder: Path) -> Ran:
    watch = Watch()
    train_run(config, folder, display=watch)
    return Ran(folder, watch, config)


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """To the last bit."""
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def distance(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    """The 2-norm of the difference of all weights."""
    return float(torch.stack([(left[name] - right[name]).double().square().sum() for name in left]).sum().sqrt())
