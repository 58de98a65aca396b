"""The base of every section of a configuration, types of numbers, and the positions that several networks have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

__all__ = [
    "DecoderPositions",
    "EncoderPositions",
    "LearntPositionsConfig",
    "Natural",
    "NoPositionsConfig",
    "Odd",
    "Positive",
    "Section",
    "Share",
    "SinusoidalPositionsConfig",
    "odd",
    "usual_kind",
]


class Section(BaseModel):
    """A part of the configuration: unknown keys and wrong types are errors.

    A key that is a reserved word of Python (`from`) has a second name for Python alone; files are read without them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


def usual_kind(usual: str | None = None) -> BeforeValidator:
    """Let a section that chooses between kinds be written as a kind alone: `lstm`; one without a kind is the usual."""

    def complete(value: Any) -> Any:  # noqa: ANN401 (any YAML value)
        if isinstance(value, str):
            return {"kind": value}
        return {"kind": usual, **value} if usual and isinstance(value, dict) else value

    return BeforeValidator(complete)


def odd(number: int) -> int:
    """The number itself; ValueError if it is even."""
    if number % 2 == 0:
        raise ValueError(f"{number} is even, so there is no middle; set it to {number - 1} or {number + 1}")
    return number


Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Odd = Annotated[int, Field(ge=3), AfterValidator(odd)]


# Positions of a Transformer or a convolutional encoder.


class SinusoidalPositionsConfig(Section):
    """sin and cos of the position."""

    kind: Literal["sinusoidal"] = Field("sinusoidal", description="sinusoidal: sin and cos of the position")


class LearntPositionsConfig(Section):
    """A table of position embeddings."""

    kind: Literal["learnt"] = Field("learnt", description="learnt: a table of position embeddings")
    longest: Positive = Field(512, description="rows of the table: the longest sequence, </s> included")


class NoPositionsConfig(Section):
    """No positions: a set, or a front end that has added them."""

    kind: Literal["none"] = Field("none", description="none: a set, or the front end adds the positions")


DecoderPositions = Annotated[
    SinusoidalPositionsConfig | LearntPositionsConfig, Field(discriminator="kind"), usual_kind("sinusoidal")
]
EncoderPositions = Annotated[
    SinusoidalPositionsConfig | LearntPositionsConfig | NoPositionsConfig,
    Field(discriminator="kind"),
    usual_kind("sinusoidal"),
]
