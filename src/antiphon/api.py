"""The verbs of Antiphon, for Python: the same as on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from antiphon.config.read import read_config
from antiphon.config.schema import Config
from antiphon.decoding.generation import Generation
from antiphon.decoding.generator import Generator
from antiphon.errors import DataError
from antiphon.evaluation.evaluate import Evaluation, evaluate_examples
from antiphon.folder import load_model
from antiphon.pictures.attention import draw_attention
from antiphon.sources.pairs import Dropped, Example, group, read_pairs
from antiphon.training.check import CheckReport, check_run
from antiphon.training.display import Display, SilentDisplay
from antiphon.training.train import train_run

__all__ = ["CheckReport", "check", "evaluate", "explain", "load", "read_examples", "train"]


def load(run: str | Path) -> Generator:
    """A trained model, ready to answer."""
    return Generator(load_model(run))


def train(
    config: Config | str | Path,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    fresh: bool = False,
    display: Display | None = None,
) -> Path:
    """Trains (or goes on with) a run; returns its folder, which `load` takes."""
    chosen = config if isinstance(config, Config) else read_config(config, overrides)
    name = "run" if isinstance(config, Config) else Path(config).stem
    folder = Path(out) if out is not None else Path("runs") / name
    train_run(chosen, folder, display=display or SilentDisplay(), fresh=fresh)
    return folder


def read_examples(generator: Generator, files: str | list[str]) -> tuple[list[Example], Dropped]:
    """The pairs of a file, read as the model's config says; lines that cannot be used are counted."""
    dropped = Dropped()
    examples = group(read_pairs(files, generator.config.data, dropped))
    if not examples:
        raise DataError(f"{files}: not one line can be used; {dropped.total} dropped: {dict(dropped.reasons)}")
    return examples, dropped


def evaluate(
    generator: Generator,
    files: str | list[str],
    *,
    beam: int | None = None,
    batch_size: int | None = None,
    metrics: list[str] | None = None,
) -> Evaluation:
    """Metrics on a file of pairs, with 95 % bootstrap intervals."""
    examples, dropped = read_examples(generator, files)
    return evaluate_examples(
        generator,
        examples,
        metrics=metrics or list(generator.config.evaluation.metrics),
        beam=beam,
        batch_size=batch_size,
        dropped=dropped.facts(),
    )


def explain(generator: Generator, text: str, out: str | Path, *, beam: int | None = None) -> Generation:
    """Answers, and draws where the model looked: PNG or SVG by the file's suffix."""
    answer = generator.generate(text, beam=beam)
    if answer.weights is None:
        raise DataError(f"{text!r}: {', '.join(answer.flags)}; there is nothing to draw")
    draw_attention(answer.weights, answer.source_tokens, answer.tokens, Path(out), title=answer.text)
    return answer


def check(config: Config, say: Callable[[str], None] = lambda _: None) -> CheckReport:
    """Everything wrong with the data and the sizes of a config, before any training."""
    return check_run(config, say)
