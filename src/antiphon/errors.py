"""The exceptions.

AntiphonError
├── UserError             something the user can repair: exit code 2, never a traceback
│   ├── ConfigError       a key, a value, a combination
│   ├── DataError         a file of examples
│   ├── ModelFolderError  a missing, damaged or foreign file in a model folder
│   ├── RunError          a run folder that belongs to another run
│   ├── DivergedError     the loss is no longer finite
│   ├── DiskError         no space, no permission
│   └── MissingExtraError an optional package is not installed
└── Interrupted           Ctrl-C (130) or SIGTERM (143), after saving
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

__all__ = [
    "AntiphonError", "ConfigError", "DataError", "DiskError", "DivergedError", "Interrupted", "MissingExtraError",
    "ModelFolderError", "RunError", "UserError", "refuse", "wrong_choice", "wrong_item", "wrong_type",
]  # fmt: skip


class AntiphonError(Exception):
    """Base class of all exceptions that this package raises."""

    exit_code = 1


class UserError(AntiphonError):
    """One or more problems, each with path, fact and remedy; all of them are reported together."""

    exit_code = 2

    def __init__(self, problems: str | list[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class ConfigError(UserError):
    """A key, a value or a combination of them is wrong."""


class DataError(UserError):
    """A file of examples is missing, unreadable or holds nothing to learn from."""


class ModelFolderError(UserError):
    """A file of a model folder is missing, damaged or foreign."""


class RunError(UserError):
    """A run folder belongs to another configuration."""


class DivergedError(UserError):
    """Training stopped because the loss was not finite several times in a row."""


class DiskError(UserError):
    """The disk is full or may not be written."""


class MissingExtraError(UserError):
    """An optional package is not installed; the message names it."""


class Interrupted(AntiphonError):  # noqa: N818 - not an error
    """A signal stopped the training; everything is saved."""

    def __init__(self, exit_code: int, message: str) -> None:
        self.exit_code = exit_code
        super().__init__(message)


# Arguments of a wrong type, in words. Any integer is an int and any number a float, also those of NumPy; True is none.

Kinds = type | tuple[type, ...]
NUMBERS: dict[type, type] = {int: Integral, float: Real}
WANTED: dict[Kinds, str] = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


def refuse(*problems: str | None) -> None:
    """Raise UserError with the problems that there are."""
    if found := [problem for problem in problems if problem is not None]:
        raise UserError(found)


def wrong_type(name: str, value: object, kinds: Kinds, wanted: str = "") -> str | None:
    """The sentence for an argument that is of none of these types; None if it is."""
    allowed = kinds if isinstance(kinds, tuple) else (kinds,)
    if isinstance(value, bool):
        fits = bool in allowed
    else:
        fits = isinstance(value, tuple(NUMBERS.get(kind, kind) for kind in allowed))
    if fits:
        return None
    return f"{name}: a value of type {type(value).__name__} is given; give {wanted or WANTED[kinds]}"


def wrong_choice(name: str, value: object, choices: Sequence[str]) -> str | None:
    """The sentence for a value that is none of these choices and not None; None if it is."""
    return None if value is None or value in choices else f"{name}: {value!r}; choose {', '.join(choices)}, or None"


def wrong_item(name: str, values: object, kinds: Kinds, wanted: str) -> str | None:
    """The sentence for an argument that is no list of these types, or for its first item of another type."""
    if not isinstance(values, list | tuple):
        return wrong_type(name, values, (list, tuple), wanted)
    return next((said for value in values if (said := wrong_type(name, value, kinds, wanted))), None)
