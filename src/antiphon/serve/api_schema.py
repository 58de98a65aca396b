"""Requests of the API; the options of a search come from their one table."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model
from pydantic_core import from_json

from antiphon.inference.options import OPTIONS, SearchKeywords, is_given, keyword_problems
from antiphon.serve.frames import Message
from antiphon.serve.refusals import invalid

__all__ = [
    "OPTION_NAMES", "AlternativesRequest", "GenerateRequest", "MapRequest", "OcclusionRequest", "ScoreRequest",
    "SearchRequestBody", "SourceRequest", "StepRequest", "StreamRequest", "json_type", "search_keywords",
]  # fmt: skip

SERVER_DECIDES = ("batch_size", "log_probs")
OPTION_NAMES = tuple(name for name in OPTIONS if name not in SERVER_DECIDES)
Returned = Literal["tokens", "token_ids", "log_probs", "attention", "heads", "tree", "flags"]
MOST_TERMS = 64  # entries of a glossary
Term = Annotated[str, Field(max_length=200, pattern=r"\S")]
RETURNED: Any = Field(
    [],
    alias="return",
    description="What each output has beside text, score and flags. `flags` adds those that need the attention, which "
    "take another pass. `attention` is the mean of all layers and heads; "
    "`heads` has each of them, and then a long text is not split. Both have the words that the tokens make.",
)
PRUNED: Any = Field(3, ge=0, le=50, description="Pruned candidates that each step of the tree shows.")
Prefix = Annotated[str | list[int], Field(description="A text, or ids of tokens, that every answer begins with.")]
Input = Annotated[
    str | dict[str, str],
    Field(
        description="A text; or for images, sounds and arrays the base64 of the file; or, for several sources, an "
        "object with one of these for each name in `sources` of /info.",
    ),
]


GivenAnswer = Annotated[
    str | list[int] | None, Field(description="A text, or ids of tokens, instead of the model's own answer.")
]


def _listed(value: object) -> object:
    """A form has a list of one as its item."""
    return [value] if isinstance(value, str) else value


def _from_text(value: object) -> object:
    """A form has an object as JSON."""
    try:
        return from_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


ReturnedList = Annotated[list[Returned], BeforeValidator(_listed)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str | None = Field(None, description="The name of a model; needed if there are several.")
    timeout: float | None = Field(None, gt=0, description="Seconds for this request; at most those of the server.")


def _option(name: str) -> tuple[Any, Any]:
    """The field of a search option; its range stands in the schema, the sentences come from the table."""
    option, hint = OPTIONS[name], get_type_hints(SearchKeywords)[name]
    found: dict[str, Any] = {"minimum": option.least, "exclusiveMinimum": option.above, "maximum": option.most}
    known = {key: value for key, value in found.items() if value is not None}
    default = f" Default: the model's decoding.{name}." if option.configured else ""
    needs = option.needs or ("sample" if option.search == "sampling" else "")
    only = f" Only with {needs}." if needs else ""

    def extend(schema: dict[str, Any]) -> None:
        for part in schema.get("anyOf", []):
            if part.get("type") in ("integer", "number"):
                part |= known

    if "list" in str(hint):
        hint = Annotated[hint, BeforeValidator(_listed)]
    return hint, Field(None, description=option.help + only + default, json_schema_extra=extend)


_OPTIONS: dict[str, Any] = {name: _option(name) for name in OPTION_NAMES}
_Options = cast("type[_Body]", create_model("_Options", __base__=_Body, **_OPTIONS))


class GenerateRequest(_Options):  # type: ignore[valid-type, misc]
    """Answer one input or many."""

    inputs: Input | list[Input] = Field(description="One input or a list; `outputs` has the same shape and order.")
    prefix: Prefix = ""
    returned: ReturnedList = RETURNED
    glossary: Annotated[dict[Term, Term], BeforeValidator(_from_text)] = Field(
        {},
        max_length=MOST_TERMS,
        description="Where a key occurs in an input as a word, its value must occur in the answer; flags name those "
        "that do not.",
    )
    protect: bool = Field(
        False,
        description="Bring placeholders and tags, such as {name}, %d and <b>, into the answer unchanged. Where the "
        "model loses one, the text is answered without them and they are put back by their places.",
    )


class StreamRequest(_Options):  # type: ignore[valid-type, misc]
    """Answer one input while it is searched."""

    inputs: Input
    prefix: Prefix = ""
    returned: ReturnedList = RETURNED
    search: bool = Field(False, description="Also send each node of the search tree.")
    pruned: int = PRUNED


class SearchRequestBody(_Options):  # type: ignore[valid-type, misc]
    """Search for the answer to one input and return the tree."""

    inputs: Input
    prefix: Prefix = ""
    returned: ReturnedList = RETURNED
    pruned: int = PRUNED


class ScoreRequest(_Body):
    """log p of given targets."""

    inputs: Input | list[Input] = Field([], description="The sources; none for a language model.")
    targets: str | list[str]


class AlternativesRequest(_Body):
    """Other tokens for a position of the answer."""

    inputs: Input
    position: int = Field(ge=0, description="The number of the token in the answer, from 0.")
    count: int = Field(5, ge=1, le=100)
    answer: GivenAnswer = None


class StepRequest(_Body):
    """One step of the decoder, worked out."""

    inputs: Input
    position: int = Field(ge=0, description="The number of the token in the answer, from 0.")
    answer: GivenAnswer = None
    count: int = Field(10, ge=1, le=100, description="Tokens shown, the most probable first.")
    layer: int | None = Field(None, ge=1, description="Of a Transformer, from 1. Default: the last.")
    head: int | None = Field(None, ge=1, description="Of a Transformer, from 1. Default: the first.")
    dimensions: int | None = Field(
        64, ge=1, description="Values shown of each vector, those with the largest variance; null: all."
    )


class OcclusionRequest(_Body):
    """log p of an answer without each part of its source."""

    inputs: Input
    answer: GivenAnswer = None
    by: Literal["token", "word"] = Field("token", description="The parts of a text; those of a file are positions.")


class SourceRequest(_Body):
    """The sources of an input as the model reads them."""

    inputs: Input


class MapRequest(_Body):
    """Sentences as points in the plane."""

    inputs: list[Input] = Field(min_length=2)
    pool: Literal["last", "mean", "max"] | None = Field(
        None, description="The vector of a sentence: the last of its states, their mean or their maximum."
    )


def json_type(field: Message) -> str:
    """The types of a field of a schema in words."""
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    if "const" in field:
        return str(field["const"])
    if "anyOf" in field:
        return " or ".join(dict.fromkeys(json_type(part) for part in field["anyOf"] if part.get("type") != "null"))
    if field.get("type") == "array":
        return f"list of {json_type(field.get('items', {}))}"
    return str(field.get("type", field.get("$ref", "any").rpartition("/")[2]))


def search_keywords(body: BaseModel) -> SearchKeywords:
    """The options of a search that a request gives; Refusal with all that is wrong, its limit and the value."""
    given = {name: value for name in OPTION_NAMES if is_given(value := getattr(body, name, None))}
    problems = keyword_problems(given)
    if not problems:
        return cast("SearchKeywords", given)
    refusal = invalid(problems)
    option, value = OPTIONS.get(str(refusal.param)), given.get(str(refusal.param))
    if option is not None and isinstance(value, int | float):
        refusal.limit = option.bound(value)
        refusal.given = None if refusal.limit is None else value
    raise refusal
