"""The end of a run, however it comes: weights that can be used, pictures, reports, and whether it has learnt."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from antiphon.config.networks import LanguageModelConfig
from antiphon.config.schema import Config
from antiphon.config.yaml_text import flat
from antiphon.errors import DivergedError, Interrupted
from antiphon.files import disk_errors, read_rows, sweep, to_json, write_text
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, is_intact, load_weights, save_weights
from antiphon.models.model import SequenceModel
from antiphon.plots.attention_views import draw_answer
from antiphon.plots.curves import draw_curves
from antiphon.reports.card import write_card
from antiphon.reports.report import write_report
from antiphon.training.checkpoints import Checkpoint, Checkpoints, Progress, average
from antiphon.training.display import Display, StopRequested
from antiphon.training.evaluator import Evaluator, evenly_spaced
from antiphon.training.loop import Loop
from antiphon.training.run_folder import RunFolder
from antiphon.training.schedule import best_evaluation, has_learnt, is_better, metric_value

__all__ = ["Run", "is_finished", "key_to_go_on", "say_problem", "train_to_the_end", "write_pages"]

PLOTS = 4
HEAD_PLOTS = 2  # of them, those with a plot of every head
FEW_UPDATES = 5000  # the advice to train longer is given up to here
MUCH_DROPOUT = 0.3
REMEDIES = 3


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


def train_to_the_end(run: Run) -> None:
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

    All is saved before anything is drawn: a second signal may end the process at any time.
    """
    run.loop.save()
    weights, kept = run.model.state_dict(), "best" if run.best else "last"
    if run.best is None and all(bool(torch.isfinite(tensor).all()) for tensor in weights.values()):
        save_weights(run.folder.path, weights, run.progress.update)
    _write_summary(run, stopped="interrupted", weights=kept)
    run.display.log(f"saved at update {run.progress.update}; drawing the report; Ctrl-C again leaves at once")
    run.model.load_state_dict(load_weights(run.folder.path))
    _draw_plots(run)
    write_pages(run.folder)


def _save_diverged(run: Run) -> None:
    """Keep the best weights; without an evaluation, those of the newest finite checkpoint, or the initial ones."""
    finite = [checkpoint for checkpoint in run.checkpoints.all() if checkpoint.finite and not checkpoint.damage()]
    if run.best is None and finite:
        save_weights(run.folder.path, finite[-1].weights(), finite[-1].update)
    run.model.load_state_dict(load_weights(run.folder.path))
    _draw_plots(run)
    _write_summary(run, stopped="diverged", weights="best" if run.best else "last")
    write_pages(run.folder)


def is_finished(folder: RunFolder, reason: str) -> bool:
    """True if the run stopped for this reason, wrote all its files, and its model is intact."""
    return folder.outcome.get("stopped") == reason and folder.report.exists() and is_intact(folder.path)


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
    save_weights(folder.path, weights, int(best["update"]) if kind == "best" else None)
    run.model.load_state_dict(weights)
    _draw_plots(run)
    _write_summary(run, stopped=reason, weights=kind, value=value, ended=True)
    write_pages(folder)
    _say_cosine(run)
    display.log(f"done: {reason}; {training.metric} {value:.4g} with the {kind} weights, in {folder.path}")
    say_problem(folder, display)


def _intact_checkpoints(run: Run, last: list[int], best: int) -> dict[int, Checkpoint]:
    """The checkpoints of the best and the last evaluations by update; damaged ones are reported and left out."""
    wanted = {best, *last}
    candidates = {checkpoint.update: checkpoint for checkpoint in run.checkpoints.all() if checkpoint.update in wanted}
    intact = {update: checkpoint for update, checkpoint in candidates.items() if checkpoint.damage() is None}
    for update in sorted(wanted - intact.keys()):
        instead = "using the weights in the model folder" if update == best else "left out of the average"
        run.display.log(f"{run.checkpoints.folder / f'{update:08d}'}: missing or damaged; {instead}")
    return intact


def _say_cosine(run: Run) -> None:
    """Log that the end of the time has cut a cosine schedule short."""
    update, updates = run.progress.update, run.loop.updates
    if run.config.training.schedule.kind == "cosine" and key_to_go_on(run) == "training.max_minutes":
        run.display.log(
            f"training.schedule: the cosine was planned for {updates:,} updates, so after {update:,} the learning "
            "rate had not yet fallen to its end; with training.max_updates near what the time allows it does"
        )


# What a run that has learnt nothing says


def say_problem(folder: RunFolder, display: Display) -> None:
    """Log what summary.json says of a run that has learnt nothing, and what to try."""
    outcome = folder.outcome
    if outcome.get("learnt", True):
        return
    display.log(f"{folder.path}: {outcome['problem']}. What to try:")
    for remedy in outcome["advice"]:
        display.log(f"  - {remedy}")


def _verdict(run: Run) -> dict[str, Any]:
    """`learnt`: the dev loss was once below that of a unigram model. If not, the problem in words, and remedies."""
    history, unigram = run.progress.history, run.loop.unigram_loss
    if has_learnt(history, unigram):
        return {"learnt": True}
    lowest = min(filter(math.isfinite, (row["dev_loss"] for row in history)))
    problem = (
        "this run has learnt nothing beyond the frequency of the output tokens: the lowest dev loss is "
        f"{lowest:.4g}, that of a unigram model {unigram:.4g}"
    )
    return {"learnt": False, "problem": problem, "advice": _remedies(run)}


def _remedies(run: Run) -> list[str]:
    """The first few things to try that fit the run."""
    training, data, update = run.config.training, run.config.data, run.progress.update
    remedies = []
    if training.schedule.warmup > update // 2:
        remedies.append(
            f"a shorter warm-up: training.schedule.warmup is {training.schedule.warmup}, of {update} updates"
        )
    if update < FEW_UPDATES:
        remedies.append(
            f"more updates: there were {update:,}; the same command with a larger {key_to_go_on(run)} goes on from here"
        )
    rate = training.learning_rate
    remedies.append(f"another learning rate: training.learning_rate is {rate:g}; try {rate / 3:.1g} and {rate * 3:.1g}")
    dropout = {key: value for key, value in flat(run.config.model.model_dump()).items() if key.endswith("dropout")}
    if high := [f"model.{key}" for key, value in dropout.items() if value >= MUCH_DROPOUT]:
        remedies.append(f"less dropout: {', '.join(high)}")
    if not isinstance(run.config.model, LanguageModelConfig):
        columns = " and ".join(f"{data.place(number)}.column" for number in range(len(data.sources)))
        remedies.append(
            f"other columns, if source and target in report.html do not belong together ({columns}, data.target.column)"
        )
    return remedies if len(remedies) <= REMEDIES else [*remedies[: REMEDIES - 1], remedies[-1]]


def key_to_go_on(run: Run) -> str:
    """The key that has ended the run: with a larger value the same command goes on."""
    training, progress = run.config.training, run.progress
    if progress.update >= run.loop.updates:
        return "training.max_updates" if run.loop.updates == training.max_updates else "training.epochs"
    minutes = training.max_minutes
    return "training.max_minutes" if minutes and progress.seconds >= 60 * minutes else "training.patience"


# Pictures and reports


def _draw_plots(run: Run) -> None:
    """Draw results.png and, if there is a source to attend to, attention/*.png."""
    metric, best, folder = run.config.training.metric, run.best, run.folder
    rows = [{**row, "best": float(row is best)} for row in run.progress.history]
    draw_curves(read_rows(folder.log), rows, metric, folder.path / "results.png", unigram_loss=run.loop.unigram_loss)
    if run.config.data.source is not None:
        _draw_attention(run)


def _draw_attention(run: Run) -> None:
    folder, trained = run.folder.attention, run.evaluator.generator
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
    sweep(folder)  # a second signal may have ended the process here before
    run.model.eval()
    # A generator that ignores signals: plots take only a moment.
    generator = Generator(LoadedModel(run.config, run.model, trained.source, trained.target_tokenizer))
    sources = [example.source for example in evenly_spaced(run.evaluator.decoded, PLOTS)]
    for number, answer in enumerate(generator.generate(sources, beam=1, heads=True), start=1):
        draw_answer(generator, answer, folder / f"{number}.png", heads=number <= HEAD_PLOTS)


def _write_summary(run: Run, *, stopped: str, weights: str, value: float | None = None, ended: bool = False) -> None:
    """Write summary.json, with a verdict of a run that has ended."""
    metric, progress, best = run.config.training.metric, run.progress, run.best
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
        "unigram_loss": run.loop.unigram_loss,
    }
    write_text(run.folder.summary, to_json(summary | (_verdict(run) if ended else {})))


def write_pages(folder: RunFolder) -> None:
    """Write card.md and, last, report.html, from the other files of the run."""
    write_card(folder.path)
    write_report(folder.path)
