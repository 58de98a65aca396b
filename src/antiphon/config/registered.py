"""Names of registered parts (see antiphon.registry) in a configuration, accepted beside the built-in ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError, create_model
from pydantic_core import PydanticKnownError, core_schema

from antiphon.config.sections import Section
from antiphon.registry import Group, known_names, registered, registered_names, reserve

__all__ = ["BUILT_IN", "REGISTERED", "OrRegistered", "choose_encoder", "known_encoder", "option_problems"]

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
        if value in registered_names(self.group):
            return value
        try:
            return built_in(value)
        except ValidationError:
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
