"""A run from beginning to end: data, model, loop, and the files it leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
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
from antiphon.files import disk_errors, to_json, write_text
from antiphon.inference.flags import FLAGS, learn_limits
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model, is_intact, load_weights, save_model, save_weights
from antiphon.models.decoders.plain import PlainState
from antiphon.models.model import SequenceModel
from antiphon.ngrams.joint import JOINT, JointNgrams
from antiphon.plots.attention_views import draw_answer
from antiphon.plots.curves import draw_curves
from antiphon.reports.card import write_card
from antiphon.reports.report import write_report
from antiphon.training.checkpoints import Checkpoint, Checkpoints, Progress, average
from antiphon.training.display import Display, StopRequested, StopSignals
from antiphon.training.estimate import estimate_training
from antiphon.training.evaluator import Evaluator
from antiphon.training.loop import Loop
from antiphon.training.numerics import (
    cpu_threads,
    keep_freed_memory,
    matmul_precision,
    numerical_environment,
    probe_matmul,
)
from antiphon.training.optimizers import build_optimizer
from antiphon.training.run_folder import (
    RunFolder,
    has_same_config,
    refuse_changed_config,
    refuse_changed_data,
    refuse_foreign_folder,
)
from antiphon.training.schedule import best_evaluation, is_better, metric_value
from antiphon.training.side_models import joint_of
from antiphon.training.step import ctc_length_warnings
from antiphon.training.transfer import check_transfer, freeze_parts, refuse_transfer_from_self, transfer_weights

__all__ = ["build_batches", "train_run"]

PLOTS = 4
HEAD_PLOTS = 2  # of them, those with a plot of every head


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

    @property
    def model(self) -> SequenceModel:
        """The network, with its current weights."""
        return self.loop.model

    @property
    def best(self) -> dict[str, float] | None:
        """The best evaluation so far."""
        return best_evaluation(self.progress.history, self.config.training.metric)


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
        keep_freed_memory()
        precision = probe_matmul().precision_for(Checkpoints(folder.checkpoints).matmul_precision())
        with cpu_threads(config.training.threads), matmul_precision(precision), StopSignals() as signals:
            run = _set_up(config, folder, prepared, display, signals.check)
            reason = run.loop.reason_to_stop()
            if reason and _is_finished(folder, reason):
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
    model, best = run.model, run.best
    for warning in ctc_length_warnings(model, prepared.train):
        run.display.log(f"warning: {warning}")
    update = int(best["update"]) if best else None
    run.folder.write_facts(prepared.facts)
    if run.progress.update == 0 or not is_intact(run.folder.path):
        intact = (each for each in run.checkpoints.all() if each.update == update and not each.damage())
        checkpoint = next(intact, None)
        weights = checkpoint.weights() if checkpoint else model.state_dict()
        save_model(run.folder.path, run.config, weights, prepared.source, prepared.target_tokenizer)
    if not (run.folder.path / FLAGS).is_file():
        learn_limits(prepared.train.target).save(run.folder.path)
    run.folder.rewind(update=run.progress.update, history=run.progress.history, best=update)
    run.display.log(
        f"{_describe_data(run.config.data, prepared)}; {model.parameter_count:,} parameters; "
        f"{run.loop.updates_per_epoch:,} updates per epoch, padding {run.loop.padding:.1%}"
    )
    run.display.log(probe_matmul().describe())
    if run.progress.update == 0:
        estimate = estimate_training(run.config.training, model, run.loop.batches, run.loop.plan)
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


def _train(run: Run) -> None:
    """Run the loop; however it ends, the folder holds a model that can be used."""
    try:
        _finish(run, run.loop.run())
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
    weights = run.model.state_dict()
    if run.best is None and all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        save_weights(run.folder.path, weights)
    _write_reports(run, stopped="interrupted", weights="best" if run.best else "last")


def _save_diverged(run: Run) -> None:
    """Keep the best weights; without an evaluation, those of the newest finite checkpoint, or the initial ones."""
    finite = [checkpoint for checkpoint in run.checkpoints.all() if checkpoint.finite and not checkpoint.damage()]
    if run.best is None and finite:
        save_weights(run.folder.path, finite[-1].weights())
    run.model.load_state_dict(load_weights(run.folder.path))
    _draw_plots(run)
    _write_reports(run, stopped="diverged", weights="best" if run.best else "last")


# The end of a run: its weights, plots and reports.


def _is_finished(folder: RunFolder, reason: str) -> bool:
    """True if the run stopped for this reason, wrote all its files, and its model is intact."""
    try:
        stopped = json.loads(folder.summary.read_bytes())["stopped"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return stopped == reason and folder.report.exists() and is_intact(folder.path)


def _finish(run: Run, reason: str) -> None:
    """Save the best or the averaged weights, and write plots and reports of them."""
    training, display, folder, best = run.config.training, run.display, run.folder, run.best
    if best is None:
        raise DivergedError(
            f"{folder.path}: the dev loss was not finite at any evaluation; lower training.learning_rate "
            f"(now {training.learning_rate}) and start again with --fresh or another --out"
        )
    folder.report.unlink(missing_ok=True)  # written last: without it the run is not finished
    updates = [int(row["update"]) for row in run.progress.history[-training.average :]]
    intact = _intact_checkpoints(run, updates, int(best["update"]))
    checkpoint = intact.get(int(best["update"]))
    weights = checkpoint.weights() if checkpoint else load_weights(folder.path)
    kind, value = "best", metric_value(best, training.metric)
    chosen = [intact[update] for update in updates if update in intact]
    if training.average > 1 and len(chosen) > 1:
        averaged = average(chosen)
        run.model.load_state_dict(averaged)
        figure = metric_value(run.evaluator.evaluate()[0], training.metric)
        display.log(f"average of the last {len(chosen)} weights: {training.metric} {figure:.4g} (best: {value:.4g})")
        if is_better(training.metric, figure, value):
            weights, kind, value = averaged, "averaged", figure
    save_weights(folder.path, weights)
    run.model.load_state_dict(weights)
    _draw_plots(run)
    _write_reports(run, stopped=reason, weights=kind, value=value)
    display.log(f"done: {reason}; {training.metric} {value:.4g} with the {kind} weights, in {folder.path}")


def _intact_checkpoints(run: Run, last: list[int], best: int) -> dict[int, Checkpoint]:
    """The checkpoints of the best and the last evaluations by update; damaged ones are reported and left out."""
    wanted = {best, *last}
    candidates = {checkpoint.update: checkpoint for checkpoint in run.checkpoints.all() if checkpoint.update in wanted}
    intact = {update: checkpoint for update, checkpoint in candidates.items() if checkpoint.damage() is None}
    for update in sorted(wanted - intact.keys()):
        instead = "using the weights in the model folder" if update == best else "left out of the average"
        run.display.log(f"{run.checkpoints.folder / f'{update:08d}'}: missing or damaged; {instead}")
    return intact


def _draw_plots(run: Run) -> None:
    """Draw results.png and, if there is a source to attend to, attention/*.png."""
    metric, best = run.config.training.metric, run.best
    if best:
        rows = [{**row, "best": float(row is best)} for row in run.progress.history]
        draw_curves(rows, "dev_loss" if metric == "loss" else metric, run.folder.path / "results.png")
    if run.config.data.source is not None:
        _draw_attention(run)


def _draw_attention(run: Run) -> None:
    folder, trained = run.folder.attention, run.evaluator.generator
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
    run.model.eval()
    # A generator that ignores signals: plots take only a moment.
    generator = Generator(LoadedModel(run.config, run.model, trained.source, trained.target_tokenizer))
    sources = [example.source for example in run.evaluator.decoded[:PLOTS]]
    for number, answer in enumerate(generator.generate(sources, beam=1, heads=True), start=1):
        draw_answer(generator, answer, folder / f"{number}.png", heads=number <= HEAD_PLOTS)


def _write_reports(run: Run, *, stopped: str, weights: str, value: float | None = None) -> None:
    """Write summary.json, card.md and, last, report.html."""
    folder, metric, progress, best = run.folder, run.config.training.metric, run.progress, run.best
    summary = {
        "parameters": run.model.parameter_count,
        "best_update": int(best["update"]) if best else None,
        "metric": metric,
        "best_value": metric_value(best, metric) if best and value is None else value,
        "updates": progress.update,
        "epochs": round(run.loop.epochs, 4),
        "seconds": round(progress.seconds, 1),
        "stopped": stopped,
        "weights": weights,
        "skipped_updates": progress.skipped,
    }
    write_text(folder.summary, to_json(summary))
    write_card(folder.path)
    write_report(folder.path)
