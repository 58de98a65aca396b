"""What every part of a configuration has in common, and the types of its values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Natural", "Positive", "Section", "Share", "with_kinds"]

Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class Section(BaseModel):
    """A part of the configuration: unknown keys and wrong types are errors.

    A key that is a word of Python has a second name here, for Python alone; a file is read without them (problems.py).
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


def with_kinds(section: Any, usual: dict[str, str]) -> Any:  # noqa: ANN401 (whatever stood in the file)
    """A section as it is written; its parts (name -> usual kind) that name no kind are of the usual one.

    A part may also be a list of parts.
    """
    if not isinstance(section, dict):
        return section
    written = {name: section[name] for name in usual if name in section}
    return section | {name: _with_kind(part, usual[name]) for name, part in written.items()}


def _with_kind(part: Any, kind: str) -> Any:  # noqa: ANN401
    if isinstance(part, list):
        return [_with_kind(one, kind) for one in part]
    return {"kind": kind, **part} if isinstance(part, dict) else part
