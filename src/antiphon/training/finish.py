"""The end of a run: which weights it keeps, and the pictures and pages to look at."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.folder import save_weights
from antiphon.pictures.attention import draw_attention
from antiphon.pictures.curves import draw_results
from antiphon.training.card import write_card
from antiphon.training.checkpoints import Checkpoints, average
from antiphon.training.evaluator import Evaluator
from antiphon.training.progress import Progress, best_row, is_better, value_of
from antiphon.training.report import write_report

__all__ = ["finish", "write_pictures"]

PICTURES = 4


def finish(evaluator: Evaluator, progress: Progress, checkpoints: Checkpoints, reason: str) -> None:
    """The best or the averaged weights go to the model folder, with everything that shows them."""
    training, display = evaluator.config.training, evaluator.display
    best = best_row(progress.history, training.metric)
    assert best is not None, "the loop evaluates before it ends"
    by_update = {checkpoint.update: checkpoint for checkpoint in checkpoints.all()}
    weights, kind, value = by_update[int(best["update"])].weights(), "best", value_of(best, training.metric)
    if training.average > 1 and len(progress.history) > 1:
        chosen = [by_update[int(row["update"])] for row in progress.history[-training.average :]]
        averaged = average(chosen)
        figures = _figures(evaluator, averaged)
        figure = value_of(figures, training.metric)
        display.say(f"last {len(chosen)} evaluations averaged: {training.metric} {figure:.4g} (best: {value:.4g})")
        if is_better(training.metric, figure, value):
            weights, kind, value = averaged, "averaged", figure
    save_weights(evaluator.folder.path, weights)
    _load(evaluator, weights)
    write_pictures(evaluator, progress, stopped=reason, weights=kind, value=value)
    display.say(f"done: {reason}; {training.metric} {value:.4g} with the {kind} weights, in {evaluator.folder.path}")


def _figures(evaluator: Evaluator, weights: dict[str, Tensor]) -> dict[str, float]:
    _load(evaluator, weights)
    figures, _ = evaluator.figures()
    return figures


def _load(evaluator: Evaluator, weights: dict[str, Tensor]) -> None:
    with torch.no_grad():
        evaluator.generator.model.load_state_dict(weights)


def write_pictures(
    evaluator: Evaluator, progress: Progress, *, stopped: str, weights: str, value: float | None = None
) -> None:
    """results.png, attention/*.png, summary.json, card.md and report.html."""
    folder, metric = evaluator.folder, evaluator.config.training.metric
    best = best_row(progress.history, metric)
    if best:
        rows = [{**row, "best": float(row is best)} for row in progress.history]
        draw_results(rows, "dev_loss" if metric == "loss" else metric, folder.path / "results.png")
    _draw_attention(evaluator)
    folder.write_summary(
        {
            "parameters": evaluator.generator.model.parameter_count,
            "best_update": int(best["update"]) if best else None,
            "metric": metric,
            "best_value": value if value is not None else (value_of(best, metric) if best else None),
            "updates": progress.update,
            "epochs": progress.epoch,
            "seconds": round(progress.seconds, 1),
            "stopped": stopped,
            "weights": weights,
            "skipped_updates": progress.skipped,
        }
    )
    write_card(folder.path)
    write_report(folder.path)


def _draw_attention(evaluator: Evaluator) -> None:
    folder = evaluator.folder.attention
    folder.mkdir(exist_ok=True)
    generator = evaluator.generator
    generator.model.eval()
    generator.check, check = None, generator.check  # pictures take a moment; a signal has been heard already
    sources = [example.source for example in evaluator.decoded[:PICTURES]]
    for number, answer in enumerate(generator.generate(sources, beam=1), start=1):
        if answer.weights is not None:
            path = folder / f"{number}.png"
            draw_attention(answer.weights, answer.source_tokens, answer.tokens, path, title=answer.text)
    generator.check = check
