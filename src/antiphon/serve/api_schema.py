"""Requests of the API; the options of a search come from their one table."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from antiphon.inference.options import OPTIONS, SearchKeywords, is_given, keyword_problems
from antiphon.serve.frames import Message
from antiphon.serve.refusals import Refusal, invalid
from antiphon.text import nearest

__all__ = [
    "OPTION_NAMES", "AlternativesRequest", "GenerateRequest", "MapRequest", "OcclusionRequest", "ScoreRequest",
    "SearchRequestBody", "SourceRequest", "StepRequest", "StreamRequest", "parse", "search_keywords", "too_many",
]  # fmt: skip

SERVER_DECIDES = ("batch_size", "log_probs")
OPTION_NAMES = tuple(name for name in OPTIONS if name not in SERVER_DECIDES)
Returned = Literal["tokens", "token_ids", "log_probs", "attention", "heads", "tree", "flags"]
MOST_PIECES = 64  # entries of a glossary
RETURNED: Any = Field(
    [],
    alias="return",
    description="What each output has beside text, score and flags. `attention` is the mean of all layers and heads; "
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

    return hint, Field(None, description=option.help + only + default, json_schema_extra=extend)


_OPTIONS: dict[str, Any] = {name: _option(name) for name in OPTION_NAMES}
_Options = cast("type[_Body]", create_model("_Options", __base__=_Body, **_OPTIONS))


class GenerateRequest(_Options):  # type: ignore[valid-type, misc]
    """Answer one input or many."""

    inputs: Input | list[Input] = Field(description="One input or a list; `outputs` has the same shape and order.")
    prefix: Prefix = ""
    returned: list[Returned] = RETURNED
    glossary: dict[str, str] = Field(
        {}, max_length=MOST_PIECES, description="Where a key occurs in an input, its value must occur in the answer."
    )
    protect: bool = Field(
        False, description="Bring placeholders and tags, such as {name}, %d and <b>, into the answer unchanged."
    )


class StreamRequest(_Options):  # type: ignore[valid-type, misc]
    """Answer one input while it is searched."""

    inputs: Input
    prefix: Prefix = ""
    returned: list[Returned] = RETURNED
    search: bool = Field(False, description="Also send each node of the search tree.")
    pruned: int = PRUNED


class SearchRequestBody(_Options):  # type: ignore[valid-type, misc]
    """Search for the answer to one input and return the tree."""

    inputs: Input
    prefix: Prefix = ""
    returned: list[Returned] = RETURNED
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

    inputs: list[Input] = Field(min_length=3)
    pool: Literal["mean", "last"] | None = None


Body = TypeVar("Body", bound=BaseModel)


def parse(body: type[Body], values: Message) -> Body:
    """The request in a body; Refusal (422) with a sentence for each field that is wrong."""
    try:
        return body.model_validate(values)
    except ValidationError as error:
        names = [field.alias or name for name, field in body.model_fields.items()]
        found: dict[str, tuple[str, Any, Any]] = {}
        for one in error.errors(include_url=False):
            place = ".".join(str(part) for part in one["loc"] if not _is_branch(part))
            found.setdefault(place, (_sentence(place, one["type"], one["msg"], names), _limit(one), one["input"]))
    [(first, (_, limit, given)), *_] = found.items()
    refusal = invalid([sentence for sentence, _, _ in found.values()], param=first.split(".")[0])
    refusal.limit, refusal.given = limit, given if isinstance(given, int | float | bool) else None
    raise refusal


def _is_branch(part: str | int) -> bool:
    """A part of pydantic's path that names a member of a union."""
    return isinstance(part, str) and (part in ("str", "int", "float", "bool") or "[" in part)


def _sentence(place: str, kind: str, message: str, names: list[str]) -> str:
    if kind == "extra_forbidden":
        close = nearest(place, names)
        return f"{place}: there is no such field" + (f"; did you mean {close!r}?" if close else "")
    if kind == "missing":
        return f"{place}: is missing; give it"
    plain = message.removeprefix("Input ").removeprefix("should be ").removeprefix("should ")
    return f"{place}: must be {plain}" if message.startswith("Input should be") else f"{place}: {message.lower()}"


def _limit(error: Any) -> Any:  # noqa: ANN401 (of pydantic, any number)
    return next((value for name, value in error.get("ctx", {}).items() if name in ("ge", "gt", "le", "lt")), None)


def search_keywords(body: BaseModel) -> SearchKeywords:
    """The options of a search that a request gives; Refusal with all that is wrong, its limit and the value."""
    given = {name: value for name in OPTION_NAMES if is_given(value := getattr(body, name, None))}
    problems = keyword_problems(given)
    if not problems:
        return cast("SearchKeywords", given)
    refusal = invalid(problems)
    name = str(refusal.param)
    if (option := OPTIONS.get(name)) is not None:
        limits = (option.least, option.above, option.most, option.choices or None)
        refusal.limit, refusal.given = next((one for one in limits if one is not None), None), given.get(name)
    raise refusal


def too_many(name: str, given: int, limit: int) -> Refusal:
    """413 for a request that is too large."""
    return Refusal(
        413, "too_large", f"{name}: {given:,} is more than this server takes at once, {limit:,}; send less",
        param=name, limit=limit, given=given,
    )  # fmt: skip
