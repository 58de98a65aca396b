"""The verbs of Antiphon, for Python: the same as on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from antiphon.config.read import read_config, usable_part
from antiphon.config.schema import Config
from antiphon.decoding.generation import Generation
from antiphon.decoding.generator import Generator
from antiphon.errors import ConfigError, DataError, UserError
from antiphon.evaluation.evaluate import Evaluation, evaluate_examples
from antiphon.folder import load_model
from antiphon.pictures.attention import draw_attention
from antiphon.sources.pairs import Dropped, Example, group, read_pairs
from antiphon.training.check import CheckReport, check_run, nothing_usable
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
    chosen = _read(config, overrides)
    name = "run" if isinstance(config, Config) else Path(config).stem
    folder = Path(out) if out is not None else Path("runs") / name
    train_run(chosen, folder, display=display or SilentDisplay(), fresh=fresh)
    return folder


def _read(config: Config | str | Path, overrides: Sequence[str]) -> Config:
    if not isinstance(config, Config):
        return read_config(config, overrides)
    if overrides:
        raise UserError("overrides: they change a file or a recipe, and a Config was given; change the Config itself")
    return config


def read_examples(generator: Generator, files: str | list[str]) -> tuple[list[Example], Dropped]:
    """The pairs of a file, read as the model's config says; lines that cannot be used are counted."""
    dropped = Dropped()
    examples = group(read_pairs(files, generator.config.data, dropped))
    if not examples:
        raise nothing_usable(files, dropped)
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


def check(
    config: Config | str | Path,
    overrides: Sequence[str] = (),
    *,
    say: Callable[[str], None] = lambda _: None,
) -> CheckReport:
    """Everything wrong with a configuration and with its data, together, before any training."""
    try:
        chosen = _read(config, overrides)
    except ConfigError as error:
        part = _usable_part(config, overrides)
        data = check_run(part, say) if part else CheckReport()
        problems = list(dict.fromkeys([*error.problems, *data.problems]))
        return CheckReport(problems, data.warnings, dropped=data.dropped)  # the model of a broken one is not the user's
    return check_run(chosen, say)


def _usable_part(config: Config | str | Path, overrides: Sequence[str]) -> Config | None:
    """The data section of a broken configuration, if that can be read."""
    try:
        return None if isinstance(config, Config) else usable_part(config, overrides)
    except ConfigError:
        return None
