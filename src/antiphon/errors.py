"""The exceptions, drawn as a tree.

AntiphonError
├── UserError             what the user can mend: exit code 2, never a traceback
│   ├── ConfigError       a key, a value, a combination
│   ├── DataError         a file of examples
│   ├── ModelFolderError  a model folder with a file missing, damaged or foreign
│   ├── RunError          a run folder that belongs to another run
│   ├── DivergedError     the loss is no longer a number
│   ├── DiskError         no space, no permission
│   └── MissingExtraError an optional package is not installed
└── Interrupted           Ctrl-C (130) or SIGTERM (143), after saving
"""

from __future__ import annotations

__all__ = [
    "AntiphonError",
    "ConfigError",
    "DataError",
    "DiskError",
    "DivergedError",
    "Interrupted",
    "MissingExtraError",
    "ModelFolderError",
    "RunError",
    "UserError",
]


class AntiphonError(Exception):
    """Anything this package raises on purpose."""

    exit_code = 1


class UserError(AntiphonError):
    """One or more facts, each with its path and its remedy; all of them at once."""

    exit_code = 2

    def __init__(self, problems: str | list[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


class ConfigError(UserError):
    """A key, a value or a combination of them is wrong."""


class DataError(UserError):
    """A file of examples is missing, unreadable or holds nothing to learn from."""


class ModelFolderError(UserError):
    """A model folder misses a file, or a file in it is damaged or foreign."""


class RunError(UserError):
    """A run folder belongs to another configuration."""


class DivergedError(UserError):
    """Training stopped because the loss was not a number several times in a row."""


class DiskError(UserError):
    """The disk is full or may not be written."""


class MissingExtraError(UserError):
    """An optional package is not installed; the sentence says which."""


class Interrupted(AntiphonError):  # noqa: N818 - not an error
    """The user or the system asked to stop; everything is saved."""

    def __init__(self, exit_code: int, sentence: str) -> None:
        self.exit_code = exit_code
        super().__init__(sentence)
