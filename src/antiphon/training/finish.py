"""The end of a run: choose its weights, draw plots, write reports."""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
from torch import Tensor

from antiphon.errors import DivergedError
from antiphon.files import disk_errors, to_json, write_text
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, is_whole, load_weights, save_weights
from antiphon.plots.attention_views import draw_answer
from antiphon.plots.curves import draw_curves
from antiphon.reports.card import write_card
from antiphon.reports.report import write_report
from antiphon.training.checkpoints import Checkpoint, Checkpoints, average
from antiphon.training.evaluator import Evaluator
from antiphon.training.progress import Progress, best_evaluation, is_better, metric_value
from antiphon.training.run_folder import RunFolder

__all__ = ["draw_plots", "finish", "is_finished", "load_weights_into", "write_reports"]

PLOTS = 4
HEAD_PLOTS = 2  # of them, those with a plot of every head


def is_finished(folder: RunFolder, reason: str) -> bool:
    """True if the run stopped for this reason, wrote all its files, and its model is intact."""
    try:
        stopped = json.loads(folder.summary.read_bytes())["stopped"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return stopped == reason and folder.report.exists() and is_whole(folder.path)


def finish(evaluator: Evaluator, progress: Progress, checkpoints: Checkpoints, *, epochs: float, reason: str) -> None:
    """Save the best or the averaged weights, and write plots and reports of them."""
    training, display, folder = evaluator.config.training, evaluator.display, evaluator.folder
    best = best_evaluation(progress.history, training.metric)
    if best is None:
        raise DivergedError(
            f"{folder.path}: the dev loss was not finite at any evaluation; lower training.learning_rate "
            f"(now {training.learning_rate}) and start again with --fresh or another --out"
        )
    folder.report.unlink(missing_ok=True)  # written last: without it the run is not finished
    intact = _intact_checkpoints(progress, checkpoints, training.average, int(best["update"]), display.log)
    checkpoint = intact.get(int(best["update"]))
    weights = checkpoint.weights() if checkpoint else load_weights(folder.path)
    kind, value = "best", metric_value(best, training.metric)
    updates = [int(row["update"]) for row in progress.history[-training.average :]]
    chosen = [intact[update] for update in updates if update in intact]
    if training.average > 1 and len(chosen) > 1:
        averaged = average(chosen)
        load_weights_into(evaluator, averaged)
        figure = metric_value(evaluator.evaluate()[0], training.metric)
        display.log(f"average of the last {len(chosen)} weights: {training.metric} {figure:.4g} (best: {value:.4g})")
        if is_better(training.metric, figure, value):
            weights, kind, value = averaged, "averaged", figure
    save_weights(folder.path, weights)
    load_weights_into(evaluator, weights)
    draw_plots(evaluator, progress)
    write_reports(evaluator, progress, epochs=epochs, stopped=reason, weights=kind, value=value)
    display.log(f"done: {reason}; {training.metric} {value:.4g} with the {kind} weights, in {folder.path}")


def _intact_checkpoints(
    progress: Progress, checkpoints: Checkpoints, last: int, best: int, log: Callable[[str], None]
) -> dict[int, Checkpoint]:
    """The checkpoints of the best and the last evaluations by update; damaged ones are reported and left out."""
    wanted = {best, *(int(row["update"]) for row in progress.history[-last:])}
    candidates = {checkpoint.update: checkpoint for checkpoint in checkpoints.all() if checkpoint.update in wanted}
    intact = {update: checkpoint for update, checkpoint in candidates.items() if checkpoint.damage() is None}
    for update in sorted(wanted - intact.keys()):
        instead = "using the weights in the model folder" if update == best else "left out of the average"
        log(f"{checkpoints.folder / f'{update:08d}'}: missing or damaged; {instead}")
    return intact


def load_weights_into(evaluator: Evaluator, weights: dict[str, Tensor]) -> None:
    """Load weights into the evaluator's model."""
    with torch.no_grad():
        evaluator.generator.model.load_state_dict(weights)


def draw_plots(evaluator: Evaluator, progress: Progress) -> None:
    """Draw results.png and attention/*.png."""
    metric = evaluator.config.training.metric
    best = best_evaluation(progress.history, metric)
    if best:
        rows = [{**row, "best": float(row is best)} for row in progress.history]
        draw_curves(rows, "dev_loss" if metric == "loss" else metric, evaluator.folder.path / "results.png")
    _draw_attention(evaluator)


def write_reports(
    evaluator: Evaluator, progress: Progress, *, epochs: float, stopped: str, weights: str, value: float | None = None
) -> None:
    """Write summary.json, card.md and, last, report.html."""
    folder, metric = evaluator.folder, evaluator.config.training.metric
    best = best_evaluation(progress.history, metric)
    summary = {
        "parameters": evaluator.generator.model.parameter_count,
        "best_update": int(best["update"]) if best else None,
        "metric": metric,
        "best_value": value if value is not None else (metric_value(best, metric) if best else None),
        "updates": progress.update,
        "epochs": round(epochs, 4),
        "seconds": round(progress.seconds, 1),
        "stopped": stopped,
        "weights": weights,
        "skipped_updates": progress.skipped,
    }
    write_text(folder.summary, to_json(summary))
    write_card(folder.path)
    write_report(folder.path)


def _draw_attention(evaluator: Evaluator) -> None:
    if evaluator.config.data.source is None:
        return  # a language model has no source to attend to
    folder = evaluator.folder.attention
    with disk_errors(folder):
        folder.mkdir(exist_ok=True)
    trained = evaluator.generator
    trained.model.eval()
    # A generator that ignores signals: plots take only a moment.
    generator = Generator(LoadedModel(trained.config, trained.model, trained.source, trained.target_tokenizer))
    sources = [example.source for example in evaluator.decoded[:PLOTS]]
    for number, answer in enumerate(generator.generate(sources, beam=1, heads=True), start=1):
        draw_answer(generator, answer, folder / f"{number}.png", heads=number <= HEAD_PLOTS)
