"""The single answers of an evaluation: the worst on stderr, all of them in a file."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from antiphon.cli.io import one_line, say, to_json_line
from antiphon.text import cut, plural, visible

if TYPE_CHECKING:
    from antiphon.evaluation.evaluate import Evaluation
    from antiphon.evaluation.predictions import Prediction

__all__ = ["predictions_problems", "say_worst", "write_predictions"]

MAX_REFERENCES = 3  # of an example that is shown
AHEAD = 20  # characters before the first difference of two long texts


def predictions_problems(path: Path | None) -> list[str]:
    """A file of predictions that cannot be written."""
    from antiphon.plots.style import folder_problems, suffix_problems

    return [] if path is None else [*suffix_problems(path, (".tsv", ".jsonl")), *folder_problems(path)]


def write_predictions(predictions: list[Prediction], path: Path) -> None:
    """Write one line for each example: JSON, or columns below a header."""
    from antiphon.files import write_text

    if path.suffix.lower() == ".jsonl":
        text = "".join(to_json_line(asdict(found)) for found in predictions)
    else:
        most = max(len(found.references) for found in predictions)
        head = ["source", "reference", "answer", "score", "flags", *predictions[0].values]
        rows = [head + [f"reference_{number}" for number in range(2, most + 1)]]
        rows += [cells(found, most) for found in predictions]
        text = "".join("\t".join(map(one_line, row)) + "\n" for row in rows)
    write_text(path, text)
    say(f"wrote {path}")


def cells(found: Prediction, references: int) -> list[str]:
    """The columns of a prediction; the first five are always the same."""
    first, *others = found.references
    numbers = [f"{value:.4f}" for value in found.values.values()]
    missing = [""] * (references - len(found.references))
    flags = "; ".join(found.flags)
    return [found.source, first, found.answer or "", f"{found.score:.4f}", flags, *numbers, *others, *missing]


def say_worst(result: Evaluation, count: int) -> None:
    """Log the worst predictions, each text on one line of the terminal."""
    worst = result.worst(count)
    if not worst:
        return
    metric = next(iter(worst[0].values))
    kind = "examples" if worst[0].answer is None else "errors"
    wrong = plural(sum(not found.right for found in result.predictions), kind)
    instead = "" if metric in result.values else f" ({next(iter(result.values))} says little about one example)"
    say(f"the worst {len(worst)} of {wrong} by {metric}{instead}:")
    for found in worst:
        say(f"line {found.line}: {', '.join(f'{name} {value:.2f}' for name, value in found.values.items())}")
        say_texts(found)


def say_texts(found: Prediction) -> None:
    """Log source, references and answer; long ones begin shortly before the answer differs from the first reference."""
    from rapidfuzz.distance import Prefix
    from rich.cells import cell_len

    width = max(40, shutil.get_terminal_size().columns - len("antiphon:   reference  "))
    references, answer = found.references[:MAX_REFERENCES], found.answer
    equal = 0 if answer is None else Prefix.similarity(references[0], answer)
    long = any(cell_len(text) > width for text in (*references, answer or ""))
    begin, mark = (equal - AHEAD, "…") if long and equal > AHEAD else (0, "")
    rows = [("source", found.source)] if found.source else []
    rows += [("reference" if found.source else "text", mark + text[begin:]) for text in references]
    rows += [] if answer is None else [("answer", mark + answer[begin:])]
    for name, text in rows:
        say(f"  {name:<9}  {cut(visible(one_line(text), keep=' '), width)}")
