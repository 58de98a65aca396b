"""The base of every section of a configuration, types of values, formats of files, registered names, positions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticKnownError, core_schema

from antiphon.registry import Group, known_names, registered, registered_names, reserve

__all__ = [
    "BUILT_IN", "DELIMITERS", "REGISTERED", "WITH_DELIMITERS", "DecoderPositions", "Delimiter", "EncoderPositions",
    "Format", "Freeze", "FromRun", "LearntPositionsConfig", "Natural", "Ngrams", "NgramsConfig", "Odd", "OrRegistered",
    "Positive", "Section", "Share", "SinusoidalPositionsConfig", "choose_encoder", "default_kind", "file_format",
    "known_encoder", "odd", "option_problems",
]  # fmt: skip


class Section(BaseModel):
    """A part of the configuration: unknown keys and wrong types are errors.

    A key that is a reserved word of Python (`from`) has a second name for Python alone; files are read without them.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


def default_kind(usual: str | None = None) -> BeforeValidator:
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


Format = Literal["text", "tsv", "csv", "jsonl", "json", "parquet", "xlsx", "conll"]
FORMATS: dict[str, Format] = {
    ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".parquet": "parquet",
    ".xlsx": "xlsx", ".conll": "conll", ".conllu": "conll", ".iob": "conll", ".bio": "conll",
}  # fmt: skip
WITH_DELIMITERS = ("text", "tsv", "csv", "conll")
DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


def file_format(path: Path) -> Format:
    """The format by the suffix (before .gz); a file of any other name is text."""
    suffix = Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()
    return FORMATS.get(suffix, "text")


def delimiter(text: str) -> str:
    """The character itself or the one of this name; ValueError if it cannot stand between columns."""
    character = DELIMITERS.get(text, text)
    if len(character) != 1 or character in '"\r\n':
        raise ValueError(f"{text!r} is no delimiter; give {', '.join(DELIMITERS)} or another single character")
    return character


Delimiter = Annotated[str, AfterValidator(delimiter)]
Positive = Annotated[int, Field(gt=0)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0.0, lt=1.0)]
Odd = Annotated[int, Field(ge=3), AfterValidator(odd)]


# Names of parts from outside the package (antiphon.registry), accepted beside the built-in ones.

BUILT_IN, REGISTERED = "a built-in encoder", "a registered encoder"  # tags of the union of encoders


@dataclass(frozen=True)
class OrRegistered:
    """Annotation of a Literal of built-in names: the registered names of a group are valid, too."""

    group: Group

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:  # noqa: ANN401 (a type)
        reserve(self.group, get_args(source))
        return core_schema.no_info_wrap_validator_function(
            self._validate, handler(source), serialization=core_schema.simple_ser_schema("str")
        )

    def _validate(self, value: Any, built_in: core_schema.ValidatorFunctionWrapHandler) -> Any:  # noqa: ANN401 (any YAML value)
        try:
            return built_in(value)
        except ValidationError:
            if value in registered_names(self.group):
                return value
            names = ", ".join(map(repr, known_names(self.group)))
            raise PydanticKnownError("literal_error", {"expected": names}) from None


def choose_encoder(built_in: tuple[str, ...]) -> Callable[[Any], str]:
    """The discriminator of the union of encoders: any kind that is not built in must be registered."""
    reserve("encoder", built_in)

    def choose(value: Any) -> str:  # noqa: ANN401 (any YAML value or a section)
        kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
        return REGISTERED if isinstance(kind, str) and kind not in built_in else BUILT_IN

    return choose


def known_encoder(kind: str) -> str:
    """The kind itself, if it is registered."""
    if kind in registered_names("encoder"):
        return kind
    names = ", ".join(map(repr, known_names("encoder")))
    facts = {"discriminator": "'kind'", "tag": kind, "expected_tags": names}
    raise PydanticKnownError("union_tag_invalid", facts)


@functools.cache
def _options_model(encoder: Any) -> type[BaseModel]:  # noqa: ANN401 (a class or a function)
    """The options of a registered encoder as a section, from the annotations and defaults of its parameters."""
    hints = get_type_hints(encoder.__init__ if inspect.isclass(encoder) else encoder)
    fields: dict[str, Any] = {
        name: (hints.get(name, Any), ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(encoder).parameters.items()
        if name != "size"
    }
    return create_model("Options", __config__=Section.model_config, **fields)


def option_problems(path: str, kind: str, options: dict[str, Any]) -> list[str]:
    """A sentence for each option of a registered encoder that is unknown, missing or of a wrong type."""
    model = _options_model(registered("encoder", kind).part)
    try:
        model.model_validate(options)
    except ValidationError as error:
        known = ", ".join(model.model_fields) or "none"
        facts = {
            "extra_forbidden": f"'{kind}' has no such option; its options are {known}",
            "missing": f"missing; '{kind}' needs this option",
        }
        return [
            f"{path}.options.{'.'.join(map(str, item['loc']))}: "
            + facts.get(item["type"], f"{item['msg'].removeprefix('Input ')}, got {item['input']!r}")
            for item in error.errors(include_url=False)
        ]
    return []


# What every encoder can have: n-grams of its tokens, and weights of another run.


def different(lengths: list[int]) -> list[int]:
    """The lengths themselves; ValueError if one occurs twice."""
    if len(set(lengths)) < len(lengths):
        raise ValueError(f"{lengths} has a length twice; name each once")
    return lengths


def _ngrams(value: Any) -> Any:  # noqa: ANN401 (any YAML value)
    """Read `[3, 5]` as the lengths, and an empty list as none."""
    return ({"lengths": value} if value else None) if isinstance(value, list) else value


class NgramsConfig(Section):
    """Embeddings of the n-grams around each token."""

    lengths: Annotated[list[Odd], Field(min_length=1), AfterValidator(different)] = Field(
        description="lengths of the n-grams, odd numbers from 3; the token is in the middle"
    )
    rows: Positive = Field(32768, description="rows of the table of each length; n-grams share them by a hash")


Ngrams = Annotated[
    NgramsConfig | None,
    Field(description="add embeddings of the n-grams around each token: [3, 5], or {lengths, rows}; null: none"),
    BeforeValidator(_ngrams),
]
FromRun = Annotated[
    str | None, Field(alias="from", description="a run whose weights this part starts with; null: random weights")
]
Freeze = Annotated[bool, Field(description="true: do not train this part; it runs without dropout")]


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
    SinusoidalPositionsConfig | LearntPositionsConfig, Field(discriminator="kind"), default_kind("sinusoidal")
]
EncoderPositions = Annotated[
    SinusoidalPositionsConfig | LearntPositionsConfig | NoPositionsConfig,
    Field(discriminator="kind"),
    default_kind("sinusoidal"),
]
