"""Checkpoints: folders that are there as a whole or not at all, each with its checksums."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from antiphon.files import discard, publish, sha256, sweep, to_json
from antiphon.sequence import Carried
from antiphon.training.optimizers import Optimizer
from antiphon.training.progress import Progress

__all__ = ["Checkpoint", "Checkpoints", "average", "made_with"]

WEIGHTS, OPTIMIZER, PROGRESS, MANIFEST = "model.safetensors", "optimizer.safetensors", "progress.json", "manifest.json"
CARRIED = "carried/"  # what the names of a carried state's tensors begin with
CHECKED = {WEIGHTS, OPTIMIZER, PROGRESS}
BROKEN = (ValueError, KeyError, TypeError, AttributeError)  # what reading a broken manifest may raise


def made_with() -> dict[str, Any]:
    """Sums are added in another order by other threads and other versions, so their last bits differ."""
    return {"threads": torch.get_num_threads(), "torch": torch.__version__}


@dataclass(frozen=True)
class Checkpoint:
    """One saved moment."""

    folder: Path

    @property
    def update(self) -> int:
        return int(self.folder.name)

    def weights(self) -> dict[str, Tensor]:
        return load_file(self.folder / WEIGHTS)

    def progress(self) -> Progress:
        return Progress.from_json(json.loads((self.folder / PROGRESS).read_text("utf-8")))

    def _manifest(self) -> dict[str, Any]:
        manifest = json.loads((self.folder / MANIFEST).read_text("utf-8"))
        if manifest["files"].keys() != CHECKED or not isinstance(manifest["finite"], bool):
            raise ValueError(f"{MANIFEST} does not list what it should")
        return dict(manifest)

    @property
    def finite(self) -> bool:
        """Every weight is a number, and so was the last loss."""
        try:
            return bool(self._manifest()["finite"])
        except (OSError, *BROKEN):
            return False

    @property
    def made_with(self) -> dict[str, Any]:
        """What the last bits of its numbers depend on."""
        return dict(self._manifest().get("made_with", {}))

    def damage(self) -> str | None:
        """What is wrong with it, if anything."""
        try:
            for name, digest in self._manifest()["files"].items():
                if sha256(self.folder / name) != digest:
                    return f"{name} does not have its checksum"
        except OSError as error:
            return f"{Path(error.filename or MANIFEST).name}: {error.strerror}"
        except BROKEN:
            return f"{MANIFEST} cannot be read"
        return None

    def carried(self) -> dict[str, Tensor]:
        """The tensors of the state that goes on from batch to batch; none where nothing does."""
        tensors = load_file(self.folder / OPTIMIZER)
        return {name.removeprefix(CARRIED): part.clone() for name, part in tensors.items() if name.startswith(CARRIED)}

    def restore(self, model: nn.Module, optimizer: Optimizer) -> Progress:
        """Weights, optimiser, random numbers and position, as they were."""
        model.load_state_dict(self.weights())
        tensors = load_file(self.folder / OPTIMIZER)
        torch.set_rng_state(tensors.pop("rng").clone())
        kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(CARRIED)}
        optimizer.restore(kept)
        return self.progress()


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run, oldest first."""

    folder: Path

    def all(self) -> list[Checkpoint]:
        if not self.folder.is_dir():
            return []
        return [Checkpoint(path) for path in sorted(self.folder.iterdir()) if path.name.isdigit()]

    def save(
        self, model: nn.Module, optimizer: Optimizer, progress: Progress, carried: Carried | None = None
    ) -> Checkpoint:
        path = self.folder / f"{progress.update:08d}"
        weights = {name: tensor.detach().clone().contiguous() for name, tensor in model.state_dict().items()}
        numbers = all(bool(torch.isfinite(tensor).all()) for tensor in weights.values())
        going_on = carried.tensors() if carried else {}
        between = {f"{CARRIED}{name}": part.clone().contiguous() for name, part in going_on.items()}
        state = {**optimizer.tensors(), **between, "rng": torch.get_rng_state()}
        with publish(path, replace=True) as folder:
            # Not safetensors' own save_file: its error for a full disk is not an OSError.
            (folder / WEIGHTS).write_bytes(save(weights))
            (folder / OPTIMIZER).write_bytes(save(state))
            (folder / PROGRESS).write_text(to_json(progress.to_json()), "utf-8")
            manifest = {
                "finite": numbers and progress.skipped_in_a_row == 0,
                "made_with": made_with(),
                "files": {name: sha256(folder / name) for name in sorted(CHECKED)},
            }
            (folder / MANIFEST).write_text(to_json(manifest), "utf-8")
        return Checkpoint(path)

    def recover(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest whole and finite one; those after it are named and thrown away, for training comes by again."""
        if self.folder.is_dir():
            sweep(self.folder)
        checkpoints = self.all()
        while checkpoints:
            newest = checkpoints.pop()
            damage = newest.damage()
            if damage is None and newest.finite:
                return newest
            fact = f"damaged ({damage})" if damage else "made when the loss was not a number"
            instead = f"using the one before, {checkpoints[-1].folder.name}" if checkpoints else "starting over"
            say(f"{newest.folder}: {fact}; {instead}")
            discard(newest.folder)
        return None

    def prune(self, keep: set[int], newest: int) -> None:
        """Deletes all but the named updates, the `newest` ones and the newest finite one."""
        checkpoints = self.all()
        finite = next((one.update for one in reversed(checkpoints) if one.finite), None)
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
