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

__all__ = [
    "AntiphonError", "ConfigError", "DataError", "DiskError", "DivergedError", "Interrupted", "MissingExtraError",
    "ModelFolderError", "RunError", "UserError",
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
