"""A run from beginning to end: data, model, loop, and what is left to look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from antiphon.config.checks import check_config
from antiphon.config.schema import Config
from antiphon.data.noise import noisy
from antiphon.data.prepare import Prepared, prepare
from antiphon.errors import ConfigError, DivergedError, Interrupted
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model, is_whole, load_weights, save_model, save_weights
from antiphon.ngrams.joint import JOINT, JointNgrams
from antiphon.training.checkpoints import Checkpoint, Checkpoints, made_with
from antiphon.training.display import Display, StopRequested, StopSignals
from antiphon.training.evaluator import Evaluator
from antiphon.training.finish import draw_plots, finish, is_finished, load_weights_into, write_reports
from antiphon.training.loop import Loop
from antiphon.training.optimizers import build_optimizer
from antiphon.training.progress import Progress, best_evaluation
from antiphon.training.run_folder import (
    RunFolder,
    has_same_config,
    refuse_changed_config,
    refuse_changed_data,
    refuse_foreign_folder,
)
from antiphon.training.side_models import joint_of
from antiphon.training.step import build_batches, carried_state, ctc_length_warnings, describe_data
from antiphon.training.transfer import check_transfer, freeze_parts, refuse_transfer_from_self, transfer_weights

__all__ = ["train_run"]


@dataclass(frozen=True)
class Run:
    """Everything a run is made of, ready to go."""

    config: Config
    folder: RunFolder
    display: Display
    loop: Loop
    evaluator: Evaluator
    progress: Progress
    checkpoints: Checkpoints


def train_run(config: Config, out: Path, *, display: Display, fresh: bool = False) -> None:
    """Trains, or goes on where the folder stands. Interrupted after a signal, with everything saved."""
    if problems := check_config(config):
        raise ConfigError(problems)
    folder = RunFolder(out)
    refuse_transfer_from_self(config, out)
    refuse_foreign_folder(folder, config)  # before the lock: someone else's folder does not get even that file
    with folder.locked():
        if not fresh:
            refuse_changed_config(folder, config)
        prepared = prepare(config.data, display.say)
        if fresh:  # only now: the old run is not given up for data or parts that cannot be used
            check_transfer(config, prepared.source, prepared.target_tokenizer)
            folder.start_over(keep_config=has_same_config(folder, config))
        for warning in prepared.facts["warnings"]:
            display.say(f"warning: {warning}")
        joint = _joint(config, folder, prepared, display)
        with _threads(config.training.threads), StopSignals() as signals:
            run = _set_up(config, folder, prepared, display, signals.check)
            reason = run.loop.reason_to_stop()
            if reason and is_finished(folder, reason):
                if joint is not None:  # they were taken away
                    joint.save(out)
                display.say(f"{out}: this run is finished ({reason}); --fresh starts over")
                return
            _begin(run, prepared)
            if joint is not None:
                joint.save(out)
            _go(run)


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many CPU threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _go(run: Run) -> None:
    """Every way a run can end leaves a folder that can be used."""
    try:
        reason = run.loop.run()
        finish(run.evaluator, run.progress, run.checkpoints, epochs=run.loop.epochs, reason=reason)
    except StopRequested as stop:
        raise _leave(run, stop.exit_code) from None
    except DivergedError:
        _keep_usable_after_divergence(run)
        raise
    finally:
        run.display.close()


def _set_up(config: Config, folder: RunFolder, prepared: Prepared, display: Display, check: Callable[[], None]) -> Run:
    torch.manual_seed(config.training.seed)
    source, target = prepared.source, prepared.target_tokenizer
    checkpoints = Checkpoints(folder.checkpoints)
    newest = checkpoints.recover(display.say)
    if newest:
        refuse_changed_data(folder, config.data, prepared)
    model = fresh_model(config, source, target)
    if not newest:
        transfer_weights(model, config, source, target, display.say)
    frozen = freeze_parts(model, config.model)
    optimizer = build_optimizer(config.training, model)
    progress = newest.restore(model, optimizer) if newest else Progress()
    if newest:
        display.say(f"going on from update {progress.update} of {folder.path}")
        _say_inexact(newest, display)
    read_by = noisy(source, config.training)  # on dev, too, the pretext task is measured
    generator = Generator(LoadedModel(config, model, read_by, target), check)
    evaluator = Evaluator(config=config, generator=generator, dev=prepared.dev, folder=folder, display=display)
    loop = Loop(
        config=config.training,
        model=model,
        frozen=frozen,
        optimizer=optimizer,
        batches=build_batches(config, prepared),
        carried=carried_state(newest.carried() if newest else {}),
        progress=progress,
        checkpoints=checkpoints,
        folder=folder,
        display=display,
        evaluate=evaluator,
        check=check,
    )
    return Run(config, folder, display, loop, evaluator, progress, checkpoints)


def _say_inexact(checkpoint: Checkpoint, display: Display) -> None:
    before, now = checkpoint.made_with, made_with()
    different = [f"{name} {before.get(name)}, now {now[name]}" for name in now if before.get(name) != now[name]]
    if different:
        display.say(
            f"warning: the run so far was made with {' and '.join(different)}; it goes on well, "
            "but its weights will not be bit-exact with those of a run that was never stopped "
            "(OMP_NUM_THREADS sets the threads)"
        )


def _begin(run: Run, prepared: Prepared) -> None:
    """The folder is made to say what the newest checkpoint knows, and to hold a model that can be used."""
    history, model = run.progress.history, run.evaluator.generator.model
    for warning in ctc_length_warnings(model, prepared.train):
        run.display.say(f"warning: {warning}")
    best = best_evaluation(history, run.config.training.metric)
    update = int(best["update"]) if best else None
    run.folder.write_facts(prepared.facts)
    if run.progress.update == 0 or not is_whole(run.folder.path):
        kept = next((one for one in run.checkpoints.all() if one.update == update and not one.damage()), None)
        weights = kept.weights() if kept else model.state_dict()
        save_model(run.folder.path, run.config, weights, prepared.source, prepared.target_tokenizer)
    run.folder.rewind(update=run.progress.update, history=history, best=update)
    loop = run.loop
    run.display.say(
        f"{describe_data(run.config.data, prepared)}; {model.parameter_count:,} parameters; "
        f"{loop.updates_per_epoch:,} updates an epoch, padding {loop.padding:.1%}"
    )


def _joint(config: Config, folder: RunFolder, prepared: Prepared, display: Display) -> JointNgrams | None:
    """Those that the run wants and has not got; one that goes on has them already."""
    there = (folder.path / JOINT).is_file() and Checkpoints(folder.checkpoints).all()
    return joint_of(prepared.train, display.say) if config.decoding.joint and not there else None


def _leave(run: Run, exit_code: int) -> Interrupted:
    run.loop.save()
    _keep_usable(run)
    return Interrupted(
        exit_code,
        f"stopped and saved at update {run.progress.update}; {run.folder.path} can be used as it is, "
        "and the same command goes on from here",
    )


def _keep_usable(run: Run) -> None:
    """Before the first evaluation the model folder gets the weights of the moment; later it holds the best.

    No pictures: whoever sent the signal waits.
    """
    best = best_evaluation(run.progress.history, run.config.training.metric)
    model = run.evaluator.generator.model
    if best is None and all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values()):
        save_weights(run.folder.path, model.state_dict())
    _write_pages(run, stopped="interrupted")


def _keep_usable_after_divergence(run: Run) -> None:
    """The best weights are in the folder; if there was no evaluation, those of the newest finite checkpoint.

    If there is none either, the folder keeps the weights of the beginning.
    """
    best = best_evaluation(run.progress.history, run.config.training.metric)
    finite = [one for one in run.checkpoints.all() if one.finite and one.damage() is None]
    if best is None and finite:
        save_weights(run.folder.path, finite[-1].weights())
    load_weights_into(run.evaluator, load_weights(run.folder.path))
    draw_plots(run.evaluator, run.progress)
    _write_pages(run, stopped="diverged")


def _write_pages(run: Run, *, stopped: str) -> None:
    weights = "best" if best_evaluation(run.progress.history, run.config.training.metric) else "last"
    write_reports(run.evaluator, run.progress, epochs=run.loop.epochs, stopped=stopped, weights=weights)
