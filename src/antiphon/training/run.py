"""A run from beginning to end: data, model, loop. How it ends is in endings.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from antiphon.config.checks import check_config
from antiphon.config.networks import ModelConfig
from antiphon.config.schema import Config, DataConfig
from antiphon.config.yaml_text import ChangedKey
from antiphon.data.batches import Batches, PairBatches, PrefetchedBatches, StreamBatches, build_noise, noise_warnings
from antiphon.data.build_source import is_file
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.tokenizers import Tokenizer, line_end
from antiphon.errors import ConfigError, MissingExtraError
from antiphon.evaluation.likelihood import unigram_loss
from antiphon.inference.conversation import TurnFormat
from antiphon.inference.flags import FLAGS, learn_limits
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model, is_intact, save_config, save_model
from antiphon.models.decoders.plain import PlainState
from antiphon.ngrams.joint import JOINT, JointNgrams
from antiphon.training.callbacks import Callback, DisplayWithCallbacks, missing_trackers, open_trackers
from antiphon.training.checkpoints import Checkpoint, Checkpoints, Progress
from antiphon.training.display import Display, StopSignals
from antiphon.training.endings import Run, is_finished, key_to_go_on, say_problem, train_to_the_end, write_pages
from antiphon.training.estimate import estimate_training
from antiphon.training.evaluator import Evaluator
from antiphon.training.loop import Loop
from antiphon.training.numerics import (
    cpu_threads,
    keep_freed_memory,
    matmul_precision,
    numerical_environment,
    probe_matmul,
    usable_training,
)
from antiphon.training.optimizers import build_optimizer
from antiphon.training.run_folder import (
    RunFolder,
    allowed_changes,
    has_same_config,
    refuse_changed_data,
    refuse_foreign_folder,
)
from antiphon.training.side_models import joint_of
from antiphon.training.step import ctc_length_warnings
from antiphon.training.transfer import check_transfer, freeze_parts, refuse_transfer_from_self, transfer_weights

__all__ = ["build_batches", "train_run"]


def train_run(
    config: Config, out: Path, *, display: Display, fresh: bool = False, callbacks: Sequence[Callback] = ()
) -> None:
    """Train, or resume or extend the run in the folder. A signal saves everything and raises Interrupted."""
    if problems := check_config(config):
        raise ConfigError(problems)
    if missing := missing_trackers(config.training.track):
        raise MissingExtraError(missing)
    folder, transfers = RunFolder(out), _transfers(config.model)
    if transfers:
        refuse_transfer_from_self(config, out)
    refuse_foreign_folder(folder, config)  # before the lock, which is a file in the folder
    with folder.locked():
        changes = [] if fresh else allowed_changes(folder, config)
        prepared = prepare(config.data, display.log)
        if fresh and transfers:
            check_transfer(config, prepared.source, prepared.target_tokenizer)
        if fresh:  # only now: the old run is not deleted for data or weights that cannot be used
            folder.start_over(keep_config=has_same_config(folder, config))
        for warning in prepared.facts["warnings"]:
            display.log(f"warning: {warning}")
        joint = _joint(config, folder, prepared, display)
        keep_freed_memory()
        precision = probe_matmul().precision_for(Checkpoints(folder.checkpoints).matmul_precision())
        with cpu_threads(config.training.threads), matmul_precision(precision), StopSignals() as signals:
            told = DisplayWithCallbacks(display, callbacks, outcome=lambda: folder.outcome, stop=signals.stop)
            run = _set_up(config, folder, prepared, told, signals.check)
            _go_on(run, prepared, changes, joint, told)


def _go_on(
    run: Run, prepared: Prepared, changes: list[ChangedKey], joint: JointNgrams | None, told: DisplayWithCallbacks
) -> None:
    """Write down what has changed since the run began, and train unless it is finished."""
    folder, reason = run.folder, run.loop.reason_to_stop()
    finished = reason is not None and is_finished(folder, reason)
    if changes:
        folder.record_changes(run.progress.update, changes)
    if not finished:
        told.callbacks += open_trackers(run.config, folder.track, run.progress.update)
        _prepare_folder(run, prepared)
    if not (folder.path / FLAGS).is_file() or any(change.key == "data.turns" for change in changes):
        turns = TurnFormat(**prepared.facts["turns"]) if "turns" in prepared.facts else None
        learn_limits(prepared.train.target, turns).save(folder.path)
    if joint is not None:  # before the config that wants them
        joint.save(folder.path)
    if changes:
        save_config(folder.path, run.config)
        _say_changes(run, changes)
    if not finished:
        train_to_the_end(run)
        return
    if changes:
        write_pages(folder)
    run.display.log(
        f"{folder.path}: this run is finished ({reason}); a larger {key_to_go_on(run)} goes on from here, "
        "and --fresh starts over"
    )
    say_problem(folder, run.display)


def _say_changes(run: Run, changes: list[ChangedKey]) -> None:
    """Name the changed keys, and what follows the number of updates from now on."""
    for change in changes:
        run.display.log(str(change))
    training, keys = run.config.training, {change.key for change in changes}
    following = ["learning rate"] if training.schedule.kind == "cosine" else []
    if training.scheduled_sampling is not None and training.scheduled_sampling.updates is None:
        following.append("probability of scheduled sampling")
    if following and run.progress.update and keys & {"training.epochs", "training.max_updates"}:
        run.display.log(
            f"from here on the {' and the '.join(following)} follows the curve of a run of {run.loop.updates:,} "
            "updates, so the result is not that of a run planned so long from the beginning"
        )


def _transfers(model: ModelConfig) -> bool:
    """True if a part begins with the weights of another run, or is frozen."""
    parts = [model.decoder, *getattr(model, "encoders", [])]
    return any(part.from_run is not None or part.freeze for part in parts)


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
        config=usable_training(config.training, display.log),
        model=model,
        frozen=frozen,
        optimizer=optimizer,
        batches=build_batches(config, prepared),
        carried=PlainState.of(carried) if carried else None,
        progress=progress,
        unigram_loss=unigram_loss(generator, prepared.dev, prepared.train.target),
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
    model, best = run.model, run.best
    noise = noise_warnings(run.config.training, prepared.source, prepared.train)
    for warning in [*ctc_length_warnings(model, prepared.train), *noise]:
        run.display.log(f"warning: {warning}")
    update = int(best["update"]) if best else None
    run.folder.write_facts(prepared.facts)
    # After averaging, the run goes on from the weights of its own updates.
    averaged = run.folder.outcome.get("weights") == "averaged"
    if run.progress.update == 0 or averaged or not is_intact(run.folder.path):
        intact = (each for each in run.checkpoints.all() if each.update == update and not each.damage())
        checkpoint = next(intact, None)
        weights = checkpoint.weights() if checkpoint else model.state_dict()
        at = checkpoint.update if checkpoint else run.progress.update
        save_model(run.folder.path, run.config, weights, prepared.source, prepared.target_tokenizer, at)
    run.folder.rewind(update=run.progress.update, history=run.progress.history, best=update)
    run.display.log(
        f"{_describe_data(run.config.data, prepared)}; {model.parameter_count:,} parameters; "
        f"{run.loop.updates_per_epoch:,} updates per epoch, padding {run.loop.padding:.1%}"
    )
    run.display.log(probe_matmul().describe())
    if run.progress.update == 0:
        estimate = estimate_training(run.loop.config, model, run.loop.batches, run.loop.plan)
        run.display.log(estimate.describe())


def _describe_data(data: DataConfig, prepared: Prepared) -> str:
    train, dev, size = prepared.train, len(prepared.dev), prepared.target_tokenizer.size
    if data.window is not None:
        return f"a stream of {len(train.target.ids):,} training tokens, {dev:,} dev lines, vocabulary {size:,}"
    if data.source is None:
        return f"{len(train):,} training texts, {dev:,} dev texts, vocabulary {size:,}"
    kinds = " + ".join(source.kind for source in data.sources)
    source = f"{prepared.source.size:,}" if isinstance(prepared.source, Tokenizer) else kinds
    return f"{len(train):,} training pairs, {dev:,} dev sources, {source} → {size:,} tokens"
