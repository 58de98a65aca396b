"""A run from beginning to end: data, model, loop, and what is left to look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from antiphon.build import build_model
from antiphon.config.read import read_config
from antiphon.config.schema import Config
from antiphon.config.write import config_diff
from antiphon.decoding.generator import Generator
from antiphon.errors import DivergedError, Interrupted, RunError
from antiphon.folder import LoadedModel, save_model, save_weights
from antiphon.sources.corpus import Prepared, prepare
from antiphon.training.checkpoints import Checkpoints
from antiphon.training.display import Display
from antiphon.training.evaluator import Evaluator
from antiphon.training.finish import finish, write_pictures
from antiphon.training.loop import Loop
from antiphon.training.optimisers import build_optimizer
from antiphon.training.progress import Progress
from antiphon.training.run_folder import RunFolder
from antiphon.training.signals import StopRequested, StopSignals

__all__ = ["train_run"]

OURS = (
    ["checkpoints", "attention"],
    ["*.json", "*.jsonl", "*.csv", "*.safetensors", "config.yaml", "card.md", "report.html", "results.png"],
)


@dataclass(frozen=True)
class Run:
    """Everything a run is made of, ready to go."""

    config: Config
    folder: RunFolder
    display: Display
    loop: Loop
    evaluator: Evaluator
    progress: Progress


def train_run(config: Config, out: Path, *, display: Display, fresh: bool = False) -> None:
    """Trains, or goes on where the folder stands. Interrupted after a signal, with everything saved."""
    folder = RunFolder(out)
    with folder.locked():
        if fresh:
            _start_over(folder)
        _refuse_other_config(folder, config)
        torch.set_num_threads(config.training.threads or torch.get_num_threads())
        prepared = prepare(config.data, display.say)
        for warning in prepared.facts["warnings"]:
            display.say(f"warning: {warning}")
        with StopSignals() as signals:
            run = _set_up(config, folder, prepared, display, signals.check)
            try:
                reason = run.loop.run()
                finish(run.evaluator, run.progress, Checkpoints(folder.checkpoints), reason)
            except StopRequested as stop:
                raise _leave(run, stop.exit_code) from None
            except DivergedError:
                _keep_usable(run)
                raise
            finally:
                display.close()


def _start_over(folder: RunFolder) -> None:
    """Deletes what a run wrote, and nothing else that may lie there."""
    if not folder.config.exists():
        return
    folders, files = OURS
    for name in folders:
        shutil.rmtree(folder.path / name, ignore_errors=True)
    for pattern in files:
        for path in folder.path.glob(pattern):
            path.unlink()


def _refuse_other_config(folder: RunFolder, config: Config) -> None:
    if not folder.config.exists():
        return
    differences = config_diff(read_config(folder.config), config)
    if differences:
        raise RunError(
            [
                f"{folder.path}: holds a run of another configuration:",
                *(f"  {line}" for line in differences),
                "train into another folder with --out, or start over here with --fresh",
            ]
        )


def _set_up(config: Config, folder: RunFolder, prepared: Prepared, display: Display, check: Callable[[], None]) -> Run:
    torch.manual_seed(config.training.seed)
    source, target = prepared.source_tokenizer, prepared.target_tokenizer
    model = build_model(config.model, source_tokens=source.size, target_tokens=target.size)
    optimizer = build_optimizer(config.training, model)
    checkpoints = Checkpoints(folder.checkpoints)
    checkpoints.sweep()
    newest = checkpoints.newest(display.say)
    progress = newest.restore(model, optimizer) if newest else Progress()
    if newest:
        display.say(f"going on from update {progress.update} of {folder.path}")
    else:
        save_model(folder.path, config, model.state_dict(), source, target)
    folder.write_facts(prepared.facts)
    folder.rewind(update=progress.update, evaluated=int(progress.history[-1]["update"]) if progress.history else 0)
    generator = Generator(LoadedModel(config, model, source, target), check)
    evaluator = Evaluator(config=config, generator=generator, dev=prepared.dev, folder=folder, display=display)
    loop = Loop(
        config=config.training,
        model=model,
        optimizer=optimizer,
        corpus=prepared.train,
        progress=progress,
        checkpoints=checkpoints,
        folder=folder,
        display=display,
        evaluate=evaluator,
        check=check,
    )
    _introduce(display, loop, prepared, model.parameter_count)
    return Run(config, folder, display, loop, evaluator, progress)


def _introduce(display: Display, loop: Loop, prepared: Prepared, parameters: int) -> None:
    display.say(
        f"{len(prepared.train):,} training pairs, {len(prepared.dev):,} dev sources, "
        f"{prepared.source_tokenizer.size:,} → {prepared.target_tokenizer.size:,} tokens; "
        f"{parameters:,} parameters; {loop.updates_per_epoch:,} updates an epoch, padding {loop.padding:.1%}"
    )


def _leave(run: Run, exit_code: int) -> Interrupted:
    run.loop.save()
    _keep_usable(run)
    return Interrupted(
        exit_code,
        f"stopped and saved at update {run.progress.update}; {run.folder.path} can be used as it is, "
        "and the same command goes on from here",
    )


def _keep_usable(run: Run) -> None:
    """Before the first evaluation the model folder gets the weights of the moment; later it holds the best."""
    weights = "best" if run.progress.history else "last"
    if weights == "last":
        save_weights(run.folder.path, run.evaluator.generator.model.state_dict())
    write_pictures(run.evaluator, run.progress, stopped="interrupted", weights=weights)
