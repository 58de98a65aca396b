"""What every part of a configuration has in common, and the types of its values."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Natural", "Positive", "Section", "Share"]

Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class Section(BaseModel):
    """A part of the configuration: unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)
