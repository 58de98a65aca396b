"""`antiphon demo`: train for a minute on real data and show the result."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from antiphon.config.load import read_config
from antiphon.data.pairs import DropLog, Example, group, read_pairs
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.inference.generator import Generator
from antiphon.model_folder import open_model
from antiphon.plots.attention_matrix import draw_attention_matrix
from antiphon.plots.terminal import attention_text
from antiphon.text import visible
from antiphon.training.display import Display
from antiphon.training.evaluator import evenly_spaced
from antiphon.training.run import train_run

__all__ = ["run_demo"]

HELD_OUT = "@cmudict/test"
SHOWN, MEASURED = 12, 1000


def run_demo(out: Path, display: Display, console: Console, *, program: str = "antiphon", fresh: bool = False) -> None:
    """Train the recipe `demo`, or resume it, and pronounce words that it has never seen.

    `program` is the command to print in suggestions.
    """
    console.print(
        "Learning to pronounce English from the CMU dictionary: spelling in, phones out. "
        "About a minute; Ctrl-C leaves a model that can be used.\n"
    )
    train_run(read_config("demo"), out, display=display, fresh=fresh)
    generator = Generator(open_model(out))
    examples = group(read_pairs(HELD_OUT, generator.config.data, DropLog()))
    chosen = evenly_spaced(examples, MEASURED)
    _show_answers(generator, evenly_spaced(chosen, SHOWN), console)
    result = evaluate_examples(generator, chosen, metrics=["per", "exact_match"])
    per, right = result.values["per"], result.values["exact_match"]
    console.print(
        f"\n[bold]{len(chosen):,} held-out words: phoneme error rate {per.value:.1f} % "
        f"({per.low:.1f} to {per.high:.1f}), {right.value:.1f} % of the words right[/bold]\n",
        highlight=False,
    )
    _show_attention(generator, out, console)
    _show_next(out, program, console)


def _show_answers(generator: Generator, examples: list[Example], console: Console) -> None:
    console.print("\n[bold]Words it has never seen[/bold]")
    answers = generator.generate([example.source for example in examples], weights=False)
    for example, answer in zip(examples, answers, strict=True):
        right = answer.text in example.references
        mark = "[green]✓[/green]" if right else "[red]✗[/red]"
        wanted = "" if right else f"   [dim](dictionary: {escape(example.references[0])})[/dim]"
        said = escape(visible(answer.text, keep=" "))
        console.print(f"  {mark} {escape(example.source):<16} {said}{wanted}", highlight=False)


def _show_attention(generator: Generator, out: Path, console: Console) -> None:
    answer = generator.generate("ANTIPHON")
    assert answer.weights is not None
    path = out / "attention" / "ANTIPHON.png"
    draw_attention_matrix(answer.weights, answer.source_tokens, answer.tokens, path, title=answer.text)
    console.print("[bold]Attention while answering ANTIPHON[/bold]")
    picture = attention_text(
        answer.weights, answer.source_tokens, answer.tokens, console.width, colour=console.is_terminal
    )
    console.file.write(picture + "\n")
    console.print(f"the same as a picture: {path}\n", markup=False, highlight=False, soft_wrap=True)


def _show_next(out: Path, program: str, console: Console) -> None:
    console.print("[bold]Next[/bold]")
    run = shlex.quote(str(out))
    lines = (
        (f"{program} serve {run}", "see it think and steer it, in a browser"),
        (f"echo HELLO | {program} generate {run}", "pronounce any word"),
        (f"{program} explain {run} HELLO --out hello.png", "draw its attention"),
        (f"{program} evaluate {run} {HELD_OUT}", "all the held-out words"),
        (f"{program} init pairs.tsv", "begin with your own pairs"),
        (str(out / "report.html"), "the whole run on one page, in a browser"),
    )
    width = max(len(command) for command, _ in lines)
    for command, meaning in lines:
        console.print(f"  {command:<{width}}   # {meaning}", markup=False, highlight=False, soft_wrap=True)
