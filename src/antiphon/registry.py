"""Parts from outside the package: scores, encoders and metrics under a name that a configuration may use.

    antiphon.register_score("distance", DistanceScore)

Code from outside runs only if Python imported it, or if a configuration or a command has a name that is not built in
and an installed package has an entry point in the group `antiphon.plugins`: load_plugins imports its module.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from antiphon.errors import UserError

__all__ = [
    "ENTRY_POINTS", "Group", "RegisteredPart", "known_names", "load_plugins", "register_encoder", "register_metric",
    "register_score", "registered", "registered_names", "reserve",
]  # fmt: skip

Group = Literal["score", "encoder", "metric"]
ENTRY_POINTS = "antiphon.plugins"
NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True)
class RegisteredPart:
    """A class or a function and the module that defines it."""

    part: Any
    module: str
    higher_is_better: bool = True  # of metrics


_parts: dict[tuple[Group, str], RegisteredPart] = {}
_built_in: dict[Group, tuple[str, ...]] = {}


def register_score(name: str, score: type[Any]) -> None:
    """Make `score` available as `model.context.score: name`. It is built as score(query=..., key=..., size=...)."""
    _register("score", name, RegisteredPart(score, score.__module__))


def register_encoder(name: str, encoder: Callable[..., Any]) -> None:
    """Make `encoder` available as `model.encoder: {kind: name, size: 256, options: {...}}`.

    It is built as encoder(size=size, **options), reads vectors of this size and returns states of this size. The
    options are its other parameters; a configuration is checked against their annotations.
    """
    _register("encoder", name, RegisteredPart(encoder, encoder.__module__))


def register_metric(name: str, metric: Callable[..., float], *, higher_is_better: bool = True) -> None:
    """Make `metric` available in `evaluation.metrics`, as `training.metric` and for `--metric` of `antiphon evaluate`.

    A function takes one output and its references; the metric is the mean over all outputs. A metric that is no mean is
    an antiphon.evaluation.metrics.Metric, which knows itself what is better.
    """
    module = getattr(metric, "statistics", metric).__module__  # of a Metric, the module of its function
    _register("metric", name, RegisteredPart(metric, module, getattr(metric, "higher_is_better", higher_is_better)))


def _register(group: Group, name: str, part: RegisteredPart) -> None:
    if not NAME.fullmatch(name):
        raise ValueError(f"register_{group}: {name!r} is no name; use a-z, 0-9, - and _, beginning with a letter")
    _refuse_built_in(group, name)
    known = _parts.get((group, name))
    if known is not None and _identity(known) != _identity(part):  # a cell of a notebook may run twice
        raise ValueError(f"register_{group}: '{name}' is {' '.join(_identity(known))}; choose another name")
    _parts[group, name] = part


def _identity(part: RegisteredPart) -> tuple[str, str]:
    return part.module, getattr(part.part, "__qualname__", repr(part.part))


def _refuse_built_in(group: Group, name: str) -> None:
    if name in _built_in.get(group, ()):
        raise ValueError(f"register_{group}: Antiphon has its own {group} '{name}'; choose another name")


def reserve(group: Group, names: Sequence[str]) -> None:
    """Declare the built-in names of a group, which cannot be registered."""
    _built_in[group] = tuple(names)
    for name in registered_names(group):
        _refuse_built_in(group, name)


def registered_names(group: Group) -> list[str]:
    """The registered names of a group, in order of registration."""
    return [name for kind, name in _parts if kind == group]


def known_names(group: Group) -> list[str]:
    """The built-in names of a group, then the registered ones."""
    return [*_built_in.get(group, ()), *registered_names(group)]


def registered(group: Group, name: str) -> RegisteredPart:
    """The part of this name; UserError if there is none."""
    if (group, name) not in _parts:
        raise UserError(
            f"the {group} '{name}' is neither built in nor registered; import the module that calls "
            f"antiphon.register_{group}('{name}', ...) first, or install the package that provides it"
        )
    return _parts[group, name]


def load_plugins() -> list[str]:
    """Import the plugins of the installed packages; a sentence for each that cannot be imported."""
    problems = []
    for plugin in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            plugin.load()
        except Exception as error:
            problems.append(
                f"plugin '{plugin.name}' ({plugin.value}): cannot be imported ({type(error).__name__}: {error}); "
                "repair or uninstall its package"
            )
    return problems
