"""A run from beginning to end: data, model, loop, and the files it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from antiphon.config.checks import check_config
from antiphon.config.networks import ModelConfig
from antiphon.config.schema import Config, DataConfig
from antiphon.data.batches import Batches, PairBatches, PrefetchedBatches, StreamBatches, build_noise
from antiphon.data.build_source import is_file
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.tokenizers import Tokenizer, line_end
from antiphon.errors import ConfigError, DivergedError, Interrupted
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model, is_whole, load_weights, save_model, save_weights
from antiphon.models.decoders.plain import PlainState
from antiphon.ngrams.joint import JOINT, JointNgrams
from antiphon.training.checkpoints import Checkpoint, Checkpoints, numerical_environment
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
from antiphon.training.step import ctc_length_warnings
from antiphon.training.transfer import check_transfer, freeze_parts, refuse_transfer_from_self, transfer_weights

__all__ = ["build_batches", "train_run"]


@dataclass(frozen=True)
class Run:
    """The parts of a run, ready to train."""

    config: Config
    folder: RunFolder
    display: Display
    loop: Loop
    evaluator: Evaluator
    progress: Progress
    checkpoints: Checkpoints


def train_run(config: Config, out: Path, *, display: Display, fresh: bool = False) -> None:
    """Train, or resume the run in the folder. A signal saves everything and raises Interrupted."""
    if problems := check_config(config):
        raise ConfigError(problems)
    folder, transfers = RunFolder(out), _transfers(config.model)
    if transfers:
        refuse_transfer_from_self(config, out)
    refuse_foreign_folder(folder, config)  # before the lock, which is a file in the folder
    with folder.locked():
        if not fresh:
            refuse_changed_config(folder, config)
        prepared = prepare(config.data, display.log)
        if fresh and transfers:
            check_transfer(config, prepared.source, prepared.target_tokenizer)
        if fresh:  # only now: the old run is not deleted for data or weights that cannot be used
            folder.start_over(keep_config=has_same_config(folder, config))
        for warning in prepared.facts["warnings"]:
            display.log(f"warning: {warning}")
        joint = _joint(config, folder, prepared, display)
        with _threads(config.training.threads), StopSignals() as signals:
            run = _set_up(config, folder, prepared, display, signals.check)
            reason = run.loop.reason_to_stop()
            if reason and is_finished(folder, reason):
                if joint is not None:  # they were deleted
                    joint.save(out)
                display.log(f"{out}: this run is finished ({reason}); --fresh starts over")
                return
            _prepare_folder(run, prepared)
            if joint is not None:
                joint.save(out)
            _train(run)


def _transfers(model: ModelConfig) -> bool:
    """True if a part begins with the weights of another run, or is frozen."""
    parts = [model.decoder, *getattr(model, "encoders", [])]
    return any(part.from_run is not None or part.freeze for part in parts)


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Use this number of CPU threads inside the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _joint(config: Config, folder: RunFolder, prepared: Prepared, display: Display) -> JointNgrams | None:
    """Joint n-grams if the run needs some and does not have them yet."""
    existing = (folder.path / JOINT).is_file() and Checkpoints(folder.checkpoints).all()
    return joint_of(prepared.train, display.log) if config.decoding.joint and not existing else None


def _set_up(
    config: Config, folder: RunFolder, prepared: Prepared, display: Display, check_signals: Callable[[], None]
) -> Run:
    torch.manual_seed(config.training.seed)
    source, target = prepared.source, prepared.target_tokenizer
    checkpoints = Checkpoints(folder.checkpoints)
    newest = checkpoints.recover(display.log)
    if newest:
        refuse_changed_data(folder, config.data, prepared)
    model, transfers = fresh_model(config, source, target), _transfers(config.model)
    if transfers and not newest:
        transfer_weights(model, config, source, target, display.log)
    frozen = freeze_parts(model, config.model) if transfers else []
    optimizer = build_optimizer(config.training, model)
    progress = newest.restore(model, optimizer) if newest else Progress()
    carried = newest.carried() if newest else {}
    if newest:
        display.log(f"resuming from update {progress.update} of {folder.path}")
        _warn_if_inexact(newest, display)
    noise = build_noise(config.training, source)
    dev_source = source if noise is None else noise.reader()  # a pretext task is evaluated on noisy sources, too
    generator = Generator(LoadedModel(config, model, dev_source, target), check_signals)
    evaluator = Evaluator(config=config, generator=generator, dev=prepared.dev, folder=folder, display=display)
    loop = Loop(
        config=config.training,
        model=model,
        frozen=frozen,
        optimizer=optimizer,
        batches=build_batches(config, prepared),
        carried=PlainState.of(carried) if carried else None,
        progress=progress,
        checkpoints=checkpoints,
        folder=folder,
        display=display,
        evaluate=evaluator,
        check_signals=check_signals,
    )
    return Run(config, folder, display, loop, evaluator, progress, checkpoints)


def build_batches(config: Config, prepared: Prepared) -> Batches:
    """Batches of pairs or lines, or windows of a stream; a recurrent network carries its state between windows."""
    training, window = config.training, config.data.window
    if window is None:
        noise = build_noise(training, prepared.source)
        pairs = PairBatches(prepared.train, budget=training.batch_tokens, seed=training.seed, noise=noise)
        return PrefetchedBatches(pairs) if any(map(is_file, config.data.sources)) else pairs
    return StreamBatches.of(
        prepared.train.target.ids,
        window=window,
        budget=training.batch_tokens,
        start=line_end(prepared.target_tokenizer),
        seed=training.seed,
        carries=config.model.decoder.kind == "plain",
    )


def _warn_if_inexact(checkpoint: Checkpoint, display: Display) -> None:
    before, now = checkpoint.numerical_environment, numerical_environment()
    different = [f"{name} {before.get(name)}, now {now[name]}" for name in now if before.get(name) != now[name]]
    if different:
        display.log(
            f"warning: this run was trained with {' and '.join(different)}; training continues, "
            "but the weights will not be bit-exact with those of an uninterrupted run "
            "(OMP_NUM_THREADS sets the threads)"
        )


def _prepare_folder(run: Run, prepared: Prepared) -> None:
    """Bring the folder to the state of the newest checkpoint, with a model that can be used."""
    history, model = run.progress.history, run.evaluator.generator.model
    for warning in ctc_length_warnings(model, prepared.train):
        run.display.log(f"warning: {warning}")
    best = best_evaluation(history, run.config.training.metric)
    update = int(best["update"]) if best else None
    run.folder.write_facts(prepared.facts)
    if run.progress.update == 0 or not is_whole(run.folder.path):
        intact = (each for each in run.checkpoints.all() if each.update == update and not each.damage())
        checkpoint = next(intact, None)
        weights = checkpoint.weights() if checkpoint else model.state_dict()
        save_model(run.folder.path, run.config, weights, prepared.source, prepared.target_tokenizer)
    run.folder.rewind(update=run.progress.update, history=history, best=update)
    run.display.log(
        f"{_describe_data(run.config.data, prepared)}; {model.parameter_count:,} parameters; "
        f"{run.loop.updates_per_epoch:,} updates per epoch, padding {run.loop.padding:.1%}"
    )


def _describe_data(data: DataConfig, prepared: Prepared) -> str:
    train, dev, size = prepared.train, len(prepared.dev), prepared.target_tokenizer.size
    if data.window is not None:
        return f"a stream of {len(train.target.ids):,} training tokens, {dev:,} dev lines, vocabulary {size:,}"
    if data.source is None:
        return f"{len(train):,} training texts, {dev:,} dev texts, vocabulary {size:,}"
    kinds = " + ".join(source.kind for source in data.sources)
    source = f"{prepared.source.size:,}" if isinstance(prepared.source, Tokenizer) else kinds
    return f"{len(train):,} training pairs, {dev:,} dev sources, {source} → {size:,} tokens"


def _train(run: Run) -> None:
    """Run the loop; however it ends, the folder holds a model that can be used."""
    try:
        reason = run.loop.run()
        finish(run.evaluator, run.progress, run.checkpoints, epochs=run.loop.epochs, reason=reason)
    except StopRequested as stop:
        _save_interrupted(run)
        raise Interrupted(
            stop.exit_code,
            f"stopped and saved at update {run.progress.update}; {run.folder.path} can be used as it is, "
            "and the same command resumes from here",
        ) from None
    except DivergedError:
        _save_diverged(run)
        raise
    finally:
        run.display.close()


def _save_interrupted(run: Run) -> None:
    """Save a checkpoint and, before the first evaluation, the current weights; later the folder holds the best.

    No plots: whoever sent the signal is waiting.
    """
    run.loop.save()
    best = best_evaluation(run.progress.history, run.config.training.metric)
    weights = run.evaluator.generator.model.state_dict()
    if best is None and all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        save_weights(run.folder.path, weights)
    _write_reports(run, stopped="interrupted")


def _save_diverged(run: Run) -> None:
    """Keep the best weights; without an evaluation, those of the newest finite checkpoint, or the initial ones."""
    best = best_evaluation(run.progress.history, run.config.training.metric)
    finite = [checkpoint for checkpoint in run.checkpoints.all() if checkpoint.finite and not checkpoint.damage()]
    if best is None and finite:
        save_weights(run.folder.path, finite[-1].weights())
    load_weights_into(run.evaluator, load_weights(run.folder.path))
    draw_plots(run.evaluator, run.progress)
    _write_reports(run, stopped="diverged")


def _write_reports(run: Run, *, stopped: str) -> None:
    weights = "best" if best_evaluation(run.progress.history, run.config.training.metric) else "last"
    write_reports(run.evaluator, run.progress, epochs=run.loop.epochs, stopped=stopped, weights=weights)
