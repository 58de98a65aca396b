"""Checkpoints: folders that exist as a whole or not at all, each with checksums; and the progress of a run, as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from antiphon.files import discard, publish, sha256, sweep, to_json
from antiphon.sequence import Carried
from antiphon.training.numerics import numerical_environment
from antiphon.training.optimizers import Optimizer

__all__ = [
    "Checkpoint", "Checkpoints", "LoopStatus", "Progress", "average",
]  # fmt: skip


@dataclass
class Progress:
    """A position in the batch plan and the evaluations so far. Everything else is derived from these."""

    update: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already used
    skipped: int = 0  # updates left out because the loss was not finite
    skipped_in_a_row: int = 0
    seconds: float = 0.0  # of updates and evaluations, over all processes
    loss_sum: float = 0.0  # of the training loss since the last evaluation
    loss_count: int = 0
    history: list[dict[str, float]] = field(default_factory=list)  # one row an evaluation

    @property
    def mean_loss(self) -> float:
        """The training loss per token since the last evaluation."""
        return self.loss_sum / self.loss_count if self.loss_count else math.nan

    @property
    def evaluated(self) -> bool:
        """True if the current weights have been evaluated."""
        return bool(self.history) and self.history[-1]["update"] == self.update


@dataclass(frozen=True)
class LoopStatus:
    """Figures of the running process, stored with each evaluation."""

    epochs: float  # passes over the data so far
    learning_rate: float  # of the last update
    tokens_per_second: float
    padding: float


WEIGHTS, OPTIMIZER, PROGRESS, MANIFEST = "model.safetensors", "optimizer.safetensors", "progress.json", "manifest.json"
CARRIED = "carried/"  # prefix of the tensors of a carried state
CHECKED = {WEIGHTS, OPTIMIZER, PROGRESS}
BROKEN = (ValueError, KeyError, TypeError, AttributeError)  # raised by reading a broken manifest


@dataclass(frozen=True)
class Checkpoint:
    """The saved state of a run at one update."""

    folder: Path

    @property
    def update(self) -> int:
        return int(self.folder.name)

    def weights(self) -> dict[str, Tensor]:
        return load_file(self.folder / WEIGHTS)

    def progress(self) -> Progress:
        return Progress(**json.loads((self.folder / PROGRESS).read_text("utf-8")))

    def _manifest(self) -> dict[str, Any]:
        manifest = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        if manifest["files"].keys() != CHECKED or not isinstance(manifest["finite"], bool):
            raise ValueError(f"{MANIFEST} does not list what it should")
        return dict(manifest)

    @property
    def finite(self) -> bool:
        """True if every weight and the last loss were finite."""
        try:
            return bool(self._manifest()["finite"])
        except (OSError, *BROKEN):
            return False

    @property
    def numerical_environment(self) -> dict[str, Any]:
        """The `numerical_environment` it was saved in."""
        return {"matmul": "highest", **self._manifest().get("made_with", {})}

    def damage(self) -> str | None:
        """A description of the damage, or None if every file has its checksum."""
        try:
            for name, digest in self._manifest()["files"].items():
                if sha256(self.folder / name) != digest:
                    return f"{name} does not match its checksum"
        except OSError as error:
            return f"{Path(error.filename or MANIFEST).name}: {error.strerror}"
        except BROKEN:
            return f"{MANIFEST} cannot be read"
        return None

    def carried(self) -> dict[str, Tensor]:
        """The tensors of the state that is carried from batch to batch; empty if none is."""
        tensors = load_file(self.folder / OPTIMIZER)
        return {name.removeprefix(CARRIED): part.clone() for name, part in tensors.items() if name.startswith(CARRIED)}

    def restore(self, model: nn.Module, optimizer: Optimizer) -> Progress:
        """Restore weights, optimizer state and random numbers; return the progress."""
        model.load_state_dict(self.weights())
        tensors = load_file(self.folder / OPTIMIZER)
        torch.set_rng_state(tensors.pop("rng").clone())
        optimizer.load_state_dict({name: part for name, part in tensors.items() if not name.startswith(CARRIED)})
        return self.progress()


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run, oldest first."""

    folder: Path

    def all(self) -> list[Checkpoint]:
        if not self.folder.is_dir():
            return []
        return [Checkpoint(path) for path in sorted(self.folder.iterdir()) if path.name.isdigit()]

    def matmul_precision(self) -> str | None:
        """The precision of matrix products that the run began with; None without a readable checkpoint."""
        for checkpoint in reversed(self.all()):
            with suppress(OSError, *BROKEN):
                return str(checkpoint.numerical_environment["matmul"])
        return None

    def save(
        self, model: nn.Module, optimizer: Optimizer, progress: Progress, carried: Carried | None = None
    ) -> Checkpoint:
        path = self.folder / f"{progress.update:08d}"
        weights = {name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())
        carried_tensors = carried.tensors() if carried else {}
        state = optimizer.state_dict()
        state |= {f"{CARRIED}{name}": part.clone().contiguous() for name, part in carried_tensors.items()}
        state["rng"] = torch.get_rng_state()
        with publish(path, replace=True) as folder:
            # Not safetensors' own save_file: its error for a full disk is not an OSError.
            (folder / WEIGHTS).write_bytes(save(weights))
            (folder / OPTIMIZER).write_bytes(save(state))
            (folder / PROGRESS).write_text(to_json(asdict(progress)), "utf-8")
            manifest = {
                "finite": finite and progress.skipped_in_a_row == 0,
                "made_with": numerical_environment(),
                "files": {name: sha256(folder / name) for name in sorted(CHECKED)},
            }
            (folder / MANIFEST).write_text(to_json(manifest), "utf-8")
        return Checkpoint(path)

    def recover(self, log: Callable[[str], None]) -> Checkpoint | None:
        """The newest intact and finite checkpoint; newer ones are reported and deleted, for training redoes them."""
        if self.folder.is_dir():
            sweep(self.folder)
        checkpoints = self.all()
        while checkpoints:
            newest = checkpoints.pop()
            damage = newest.damage()
            if damage is None and newest.finite:
                return newest
            fact = f"damaged ({damage})" if damage else "made when the loss was not finite"
            instead = f"using the one before, {checkpoints[-1].folder.name}" if checkpoints else "starting over"
            log(f"{newest.folder}: {fact}; {instead}")
            discard(newest.folder)
        return None

    def prune(self, keep: set[int], newest: int) -> None:
        """Delete all but the updates to `keep`, the `newest` ones and the newest finite one."""
        checkpoints = self.all()
        finite = next((checkpoint.update for checkpoint in reversed(checkpoints) if checkpoint.finite), None)
        for checkpoint in checkpoints[:-newest]:
            if checkpoint.update not in keep and checkpoint.update != finite:
                discard(checkpoint.folder)


def average(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights, summed in double precision."""
    first, *rest = [checkpoint.weights() for checkpoint in checkpoints]
    totals = {name: tensor.double() for name, tensor in first.items()}
    for weights in rest:
        for name, tensor in weights.items():
            totals[name] += tensor
    return {name: (total / len(checkpoints)).to(first[name].dtype) for name, total in totals.items()}
