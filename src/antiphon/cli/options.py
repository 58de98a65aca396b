"""Flags that several commands share: those of a search, made from its table of options, and those of an ensemble."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar, get_type_hints

import typer

from antiphon.errors import UserError
from antiphon.inference.options import (
    FLOAT32,
    HALF_WEIGHTS,
    OPTIONS,
    Option,
    SearchKeywords,
    is_given,
    keyword_problems,
)

if TYPE_CHECKING:
    from antiphon.inference.generator import Generator

__all__ = [
    "CombineOption", "PrecisionOption", "RunArgument", "WithOption", "given_options", "load_generator",
    "with_search_flags",
]  # fmt: skip

Command = TypeVar("Command", bound=Callable[..., None])


class EnsembleMean(StrEnum):
    """The mean that an ensemble takes of the probabilities of its models."""

    arithmetic = "arithmetic"
    geometric = "geometric"


class WeightPrecision(StrEnum):
    """The precision of the weights of a run in matrix products."""

    float32 = FLOAT32
    float16_weights = HALF_WEIGHTS


RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run, a model folder or an export.")]
WithOption = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RUN", help="Answer together with this run, as an ensemble; repeatable."),
]
CombineOption = Annotated[
    EnsembleMean | None, typer.Option(help="With --with: the kind of mean of the probabilities. Default: arithmetic.")
]
PrecisionOption = Annotated[
    WeightPrecision | None,
    typer.Option(
        help="The weights of a run in matrix products. Default: float16-weights if this machine is faster with them."
    ),
]


def with_search_flags(command: Command) -> Command:
    """Replace the `**options` of a command by a flag for each option of a search."""
    signature = inspect.signature(command, eval_str=True)
    own = [
        parameter for parameter in signature.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    flags = [
        inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(option))
        for option in OPTIONS.values()
        if option.flag
    ]
    command.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *flags)}
    return command


def _annotation(option: Option) -> Any:  # noqa: ANN401 (a type for typer)
    flag = f"--{option.name.replace('_', '-')}"
    hint = get_type_hints(SearchKeywords)[option.name]
    if option.choices:
        hint = Optional[StrEnum(option.name, list(option.choices))]  # noqa: UP045 (a type made here)
    if hint == bool | None and option.configured:
        flag += f"/--no-{option.name.replace('_', '-')}"
    return Annotated[hint, typer.Option(flag, help=_help(option), show_default=False)]


def _help(option: Option) -> str:
    needed = option.needs or ("sample" if option.search == "sampling" else "")
    text = f"With --{needed}: {option.help[0].lower()}{option.help[1:]}" if needed else option.help
    if option.configured:
        return f"{text} Default: the model's decoding.{option.name}."
    return text if option.default in (None, False, ()) else f"{text} Default: {option.default:g}."


def given_options(options: SearchKeywords) -> list[str]:
    """The flags of a search that were given."""
    return [f"--{name.replace('_', '-')}" for name, value in options.items() if is_given(value)]


@contextmanager
def uncollected() -> Iterator[None]:
    """Make objects that stay, modules and a model, without a search for garbage among them, now or later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def load_generator(
    run: Path,
    also: list[Path] | None,
    combine: EnsembleMean | None,
    options: SearchKeywords,
    problems: list[str],
    precision: WeightPrecision | None = None,
) -> Generator:
    """The model of RUN, or its ensemble with those of --with; UserError for `problems` and wrong search options."""
    problems = [*problems, *keyword_problems(options)]
    if combine is not None and not also:
        problems.append("--combine: only for several runs; add --with RUN, or leave it out")
    if problems:
        raise UserError(problems)
    with uncollected():
        from antiphon.model_folder import load

        runs = [run, *also] if also else run
        weights = None if precision is None else precision.value
        generator = load(runs, combine=(combine or EnsembleMean.arithmetic).value, precision=weights)
    generator.search_options(options)
    return generator
