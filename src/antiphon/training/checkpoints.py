"""Checkpoints: folders that are there as a whole or not at all, each with its checksums."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from antiphon.files import TEMPORARY, publish, sha256, to_json
from antiphon.training.optimisers import optimizer_tensors, restore_optimizer
from antiphon.training.progress import Progress

__all__ = ["Checkpoint", "Checkpoints", "average"]

WEIGHTS, OPTIMIZER, PROGRESS, MANIFEST = "model.safetensors", "optimizer.safetensors", "progress.json", "manifest.json"


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

    @property
    def finite(self) -> bool:
        return bool(json.loads((self.folder / MANIFEST).read_text("utf-8"))["finite"])

    def damage(self) -> str | None:
        """What is wrong with it, if anything."""
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text("utf-8"))
            for name, digest in manifest["files"].items():
                if sha256(self.folder / name) != digest:
                    return f"{name} does not have its checksum"
        except (OSError, ValueError, KeyError, TypeError) as error:
            return str(error)
        return None

    def restore(self, model: nn.Module, optimizer: Optimizer) -> Progress:
        """Weights, optimiser, random numbers and position, as they were."""
        model.load_state_dict(self.weights())
        tensors = load_file(self.folder / OPTIMIZER)
        torch.set_rng_state(tensors.pop("rng").clone())
        restore_optimizer(optimizer, model, tensors)
        return self.progress()


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run, oldest first."""

    folder: Path

    def all(self) -> list[Checkpoint]:
        if not self.folder.is_dir():
            return []
        return [Checkpoint(path) for path in sorted(self.folder.iterdir()) if path.name.isdigit()]

    def sweep(self) -> None:
        """Removes what a killed process left under a temporary name."""
        for path in self.folder.glob(f"{TEMPORARY}*"):
            shutil.rmtree(path, ignore_errors=True)

    def save(self, model: nn.Module, optimizer: Optimizer, progress: Progress) -> Checkpoint:
        path = self.folder / f"{progress.update:08d}"
        weights = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
        finite = all(bool(torch.isfinite(tensor).all()) for tensor in weights.values() if tensor.is_floating_point())

        with publish(path, replace=True) as folder:
            save_file(weights, folder / WEIGHTS)
            save_file({**optimizer_tensors(optimizer, model), "rng": torch.get_rng_state()}, folder / OPTIMIZER)
            (folder / PROGRESS).write_text(to_json(progress.to_json()), "utf-8")
            files = {name: sha256(folder / name) for name in (WEIGHTS, OPTIMIZER, PROGRESS)}
            (folder / MANIFEST).write_text(to_json({"finite": finite, "files": files}), "utf-8")
        return Checkpoint(path)

    def newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest whole and finite one; a damaged one is named and passed over."""
        for checkpoint in reversed(self.all()):
            damage = checkpoint.damage()
            if damage:
                say(f"{checkpoint.folder}: damaged ({damage}); going on from the one before")
            elif checkpoint.finite:
                return checkpoint
        return None

    def prune(self, keep: set[int], newest: int) -> None:
        """Deletes all but the named updates, the `newest` ones and the newest finite one."""
        checkpoints = self.all()
        finite = next((one.update for one in reversed(checkpoints) if one.finite), None)
        for checkpoint in checkpoints[:-newest]:
            if checkpoint.update not in keep and checkpoint.update != finite:
                shutil.rmtree(checkpoint.folder, ignore_errors=True)


def average(checkpoints: list[Checkpoint]) -> dict[str, Tensor]:
    """The mean of the weights, summed in double precision."""
    first, *rest = [checkpoint.weights() for checkpoint in checkpoints]
    totals = {name: tensor.double() for name, tensor in first.items()}
    for weights in rest:
        for name, tensor in weights.items():
            totals[name] += tensor
    return {name: (total / len(checkpoints)).to(first[name].dtype) for name, total in totals.items()}
