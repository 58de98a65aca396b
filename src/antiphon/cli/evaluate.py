"""antiphon evaluate"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

import typer

from antiphon.cli.io import METRICS, check_metrics, pair_files, print_json, print_line, print_table, say, say_dropped
from antiphon.cli.options import (
    CombineOption,
    PrecisionOption,
    RunArgument,
    WithOption,
    load_generator,
    with_search_flags,
)
from antiphon.cli.predictions import predictions_problems, say_worst, write_predictions
from antiphon.inference.options import SearchKeywords

if TYPE_CHECKING:
    from antiphon.data.pairs import Example
    from antiphon.evaluation.classes import Classes, ClassScore
    from antiphon.evaluation.evaluate import Evaluation
    from antiphon.inference.generator import Generator

__all__ = ["evaluate"]

THREE_DIGITS = ("loss", "bits_per_character")  # small numbers, shown with three digits
MAX_CLASSES = 30  # in the table

ByOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Also report the first metric for each value of this column of PAIRS (its name, or its number from 0).",
    ),
]
ByLinesOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Also report the first metric for every N lines."),
]
ConfusionOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Write the confusion matrix of the classes: PNG, SVG or TSV by suffix; repeatable.",
    ),
]
OrderOption = Annotated[
    str | None,
    typer.Option(
        metavar="ORDER",
        help="With --confusion: name, size (the largest class first), or classes in the order you want, with commas "
        "between them (the others follow by name). Default: name.",
    ),
]
PredictionsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write source, reference, answer, score, flags and metrics of each example: TSV or JSONL by suffix.",
    ),
]
WorstOption = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Show the N worst answers by the first metric (BLEU: by chrF) on stderr."),
]


@with_search_flags
def evaluate(
    run: RunArgument,
    pairs: Annotated[
        list[str],
        typer.Argument(
            metavar="PAIRS", help="A file of pairs, or a source and a target file; for a language model a text file."
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help=f"One of {', '.join(METRICS)}; repeatable. Default: the model's evaluation.metrics.",
        ),
    ] = None,
    by: ByOption = None,
    by_lines: ByLinesOption = None,
    confusion: ConfusionOption = None,
    order: OrderOption = None,
    predictions: PredictionsOption = None,
    worst: WorstOption = 3,
    also: WithOption = None,
    combine: CombineOption = None,
    precision: PrecisionOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    **options: Unpack[SearchKeywords],
) -> None:
    """Metrics on pairs or texts, with 95 % bootstrap intervals.

    If the targets are classes (at most 100 different ones, each of them frequent), precision, recall and F1 of each
    class are reported, too, and exact_match is called accuracy.
    """
    from antiphon import api
    from antiphon.data.pairs import file_paths
    from antiphon.evaluation.evaluate import evaluate_examples

    files, metrics, pictures = pair_files(pairs), check_metrics(metrics), confusion or []
    file_paths(files, say)
    problems = [*option_problems(files, by, by_lines, pictures, order), *predictions_problems(predictions)]
    generator = load_generator(run, also, combine, options, problems, precision)
    examples, dropped = api.read_examples(generator, files)
    metrics = metrics or list(generator.config.evaluation.metrics)
    if predictions is not None:
        check_decoded("--predictions", generator, metrics)
    if pictures:
        check_classes(generator, examples, metrics, order)
    result = evaluate_examples(
        generator,
        examples,
        metrics=metrics,
        group_names=group_names(generator, examples, files, by, by_lines),
        dropped=dropped.facts(),
        **options,
    )
    say_dropped(result.dropped)
    say_flagged(generator, result)
    if as_json:
        print_json_result(result, worst)
    else:
        print_result(result, by or "lines")
        say_worst(result, worst)
    if predictions is not None:
        write_predictions(result.predictions, predictions)
    if result.classes is not None:
        write_confusion(in_order(result.classes, order), pictures)


def option_problems(
    files: str | list[str], by: str | None, by_lines: int | None, pictures: list[Path], order: str | None
) -> list[str]:
    """Flags that exclude each other, and pictures that cannot be written."""
    from antiphon.plots.style import PICTURES, folder_problems, suffix_problems

    problems = [problem for path in pictures for problem in suffix_problems(path, (*PICTURES, ".tsv"))]
    problems += [problem for path in pictures for problem in folder_problems(path)]
    if by is not None and by_lines is not None:
        problems.append("--by and --by-lines: one at a time; leave one out")
    if by is not None and not isinstance(files, str):
        problems.append("--by: two parallel files have no other columns; join them to one table, or use --by-lines")
    if order is not None and not pictures:
        problems.append("--order: only for a confusion matrix; add --confusion FILE, or leave it out")
    return problems


def check_classes(generator: Generator, examples: list[Example], metrics: list[str], order: str | None) -> None:
    """UserError if there can be no confusion matrix; checked before anything is decoded."""
    from antiphon.errors import UserError
    from antiphon.evaluation.classes import class_names, not_classes
    from antiphon.evaluation.evaluate import normalized_references

    references = normalized_references(
        [example.references for example in examples], generator.config.data.target.tokens
    )
    names = class_names(references)
    if names is None:
        raise UserError(f"--confusion: {not_classes(references)}")
    if unknown := [name for name in given_order(order) if name not in names]:
        raise UserError(f"--order: {', '.join(unknown)}: no such class; give name, size, or some of {', '.join(names)}")
    check_decoded("--confusion", generator, metrics)


def given_order(order: str | None) -> list[str]:
    """The classes that --order names; `name` and `size` name none."""
    return [] if order in (None, "name", "size") else list(dict.fromkeys(map(str.strip, str(order).split(","))))


def in_order(classes: Classes, order: str | None) -> Classes:
    """The classes as --order says."""
    return classes.ordered(classes.by_size if order == "size" else given_order(order))


def check_decoded(option: str, generator: Generator, metrics: list[str]) -> None:
    """UserError if there are no answers for an option; checked before anything is computed."""
    from antiphon.errors import UserError
    from antiphon.evaluation.likelihood import LIKELIHOOD_METRICS

    if generator.config.data.source is None:
        why = "a language model gives no answers to compare"
        raise UserError(f"{option}: {why}; leave it out (`antiphon score` gives log p of each text)")
    if all(name in LIKELIHOOD_METRICS for name in metrics):
        raise UserError(f"{option}: nothing is decoded for {', '.join(metrics)}; add --metric exact_match")


def group_names(
    generator: Generator, examples: list[Example], files: str | list[str], by: str | None, by_lines: int | None
) -> list[str] | None:
    """The group of each example; None without --by and --by-lines."""
    from antiphon.data.pairs import file_paths
    from antiphon.evaluation.intervals import groups_by_column, groups_by_lines, has_header

    name, path = file_paths(files)[0]
    header, lines = has_header(path, generator.config.data), [example.line for example in examples]
    if by is not None:
        return groups_by_column(path, name, by, lines, generator.config.data, header=header)
    return None if by_lines is None else groups_by_lines(lines, by_lines, first=2 if header else 1)


def say_flagged(generator: Generator, result: Evaluation) -> None:
    """Log the number of flagged answers."""
    from antiphon.text import format_reasons, plural

    if result.flagged and generator.config.data.source is None:
        texts = plural(result.flagged, "texts")
        say(f"{texts} with symbols the model does not know (<unk>); `antiphon score` names them")
    elif result.flagged:
        kinds = Counter(flag.partition(":")[0] for found in result.predictions for flag in found.flags)
        flagged = plural(result.flagged, "answers")
        say(f"{flagged} flagged ({format_reasons(kinds)}); --predictions FILE lists them")


def print_result(result: Evaluation, by: str = "lines") -> None:
    """Name, value and interval of each metric, then classes and groups."""
    from antiphon.text import plural

    shown = {name: "accuracy" if name == "exact_match" and result.classes else name for name in result.values}
    width = max(len(name) for name in shown.values())
    digits = {name: 3 if name in THREE_DIGITS else 2 for name in result.values}
    values = {name: f"{estimate.value:.{digits[name]}f}" for name, estimate in result.values.items()}
    widest = max(8, *(len(value) for value in values.values()))
    for name, estimate in result.values.items():
        interval = f"[{estimate.low:.{digits[name]}f}, {estimate.high:.{digits[name]}f}]"
        print_line(f"{shown[name]:<{width}}  {values[name]:>{widest}}  {interval}")
    if result.classes is not None:
        print_classes(result.classes)
    if result.groups:
        print_groups(result, by, shown[result.groups[0].metric])
    for name, signature in result.signatures.items():
        say(f"{shown[name]}: {signature}")
    counted = plural(result.examples, result.unit)
    say(f"{counted} in {result.seconds:.1f} s; brackets: 95 % bootstrap interval, 1,000 samples")


def print_classes(classes: Classes) -> None:
    """A line for each class, at most the 30 most frequent, and the mean over all classes."""
    frequent = sorted(classes.scores, key=lambda score: -score.count)[:MAX_CLASSES]
    names = {score.name for score in frequent}
    shown = [score for score in classes.scores if score.name in names]
    print_line("")
    print_table(
        ("class", "precision", "recall", "F1", "count"),
        [*(score_cells(score) for score in shown), score_cells(classes.mean)],
    )
    if more := len(classes.scores) - len(shown):
        say(f"{more} rarer classes are not shown; --json has them all")
    if classes.others:
        say(f"{classes.others} of {classes.mean.count} answers are none of the classes")


def score_cells(score: ClassScore) -> tuple[str, ...]:
    precision = "-" if score.precision is None else f"{score.precision:.2f}"
    return score.name, precision, f"{score.recall:.2f}", f"{score.f1:.2f}", str(score.count)


def print_groups(result: Evaluation, by: str, metric: str) -> None:
    """A line for each group."""
    print_line("")
    print_table(
        (by, metric, "", "count"),
        [
            (
                group.name or "(empty)",
                f"{group.estimate.value:.2f}",
                f"[{group.estimate.low:.2f}, {group.estimate.high:.2f}]",
                str(group.examples),
            )
            for group in result.groups
        ],
    )


def write_confusion(classes: Classes, paths: list[Path]) -> None:
    """Write the confusion matrix to each of these files."""
    from antiphon.plots.confusion import save_confusion

    title = f"{classes.accuracy:.1f} % of {classes.mean.count:,} right"
    for path in paths:
        save_confusion(classes.names, classes.confusion, path, title=title)
        say(f"wrote {path}")


def print_json_result(result: Evaluation, worst: int) -> None:
    """The result as one JSON object."""
    record: dict[str, Any] = {
        "metrics": {name: asdict(estimate) for name, estimate in result.values.items()},
        "signatures": result.signatures,
        "examples": result.examples,
        "unit": result.unit,
        "seconds": result.seconds,
        "flagged": result.flagged,
        "dropped": result.dropped,
        "worst": [asdict(found) for found in result.worst(worst)],
    }
    if (classes := result.classes) is not None:
        record["classes"] = {
            "scores": [asdict(score) for score in classes.scores],
            "mean": asdict(classes.mean),
            "others": classes.others,
            "names": classes.names,
            "confusion": classes.confusion.tolist(),
        }
    if result.groups:
        record["groups"] = [
            {"name": group.name, "metric": group.metric, **asdict(group.estimate), "examples": group.examples}
            for group in result.groups
        ]
    print_json(record)
