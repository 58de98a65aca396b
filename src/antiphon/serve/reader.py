"""Reads what clients send: JSON, forms, queries, files, also a body on GET; bounded in bytes and time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message as ASGIMessage

from antiphon.serve.api_schema import json_type
from antiphon.serve.frames import Message
from antiphon.serve.refusals import Refusal, invalid
from antiphon.text import nearest

__all__ = ["Body", "ClientGone", "parse", "read_body", "read_values"]

BOM = b"\xef\xbb\xbf"
LONGEST_NAME = 100  # of a field in a sentence
MOST_FILES, MOST_FIELDS = 64, 256  # of a form or of a query
MOST_VALUES = 32_768  # in the lists and objects of a JSON body
MOST_MARKS = 8 * MOST_VALUES  # brackets and commas: what they stand for takes memory before it can be counted
MOST_ERRORS = 1000  # that are looked at: each takes a thousand bytes
MOST_PROBLEMS = 20  # that an answer names
Body = TypeVar("Body", bound=BaseModel)
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class ClientGone(Exception):  # noqa: N818 - nobody waits for an answer any more
    """The client has closed the connection."""


async def read_values(request: Request, most: int, seconds: float, hold: Callable[[int], None]) -> Message:
    """The fields of the body and of the query; those of the body win.

    A field that a form or query has several times is a list; a file is its base64, or its text. Refusal if the body has
    more than `most` bytes, takes longer than `seconds`, or is not what its content type says. `hold` is called with the
    number of bytes whenever some have come.
    """
    body = await read_body(request, most, seconds, hold)
    return {**_fields(request.query_params), **await _parse(request, body, most)}


async def read_body(request: Request, most: int, seconds: float, hold: Callable[[int], None] = lambda _: None) -> bytes:
    """The bytes of the body; Refusal if there are too many, they come too slowly, or they are packed."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):  # a few packed bytes could fill the memory
        problem = f"content-encoding: {encoding[:80]!r} is not unpacked here; send the body as it is"
        raise Refusal(415, "wrong_content_encoding", problem)
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                hold(len(chunk))
                chunks.append(chunk)
    except TimeoutError:
        raise Refusal(408, "slow_body", f"the body did not come within {seconds:g} seconds; send it at once") from None
    except ClientDisconnect:
        raise ClientGone from None
    return b"".join(chunks)


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"body: this server takes at most {most:,} bytes; send less at once", limit=most)


async def _parse(request: Request, body: bytes, most: int) -> Message:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if not body.strip():
        return {}
    if kind in FORMS and not body.lstrip().startswith(b"{"):  # curl -d '{...}' calls JSON a form
        return await _parse_form(request, body, most)
    if kind not in (*FORMS, "", "application/json", "text/json", "text/plain", "application/octet-stream"):
        problem = f"content-type: {kind[:80]!r} is not read here; send application/json or multipart/form-data"
        raise Refusal(415, "wrong_content_type", problem)
    return _parse_json(body)


def _parse_json(body: bytes) -> Message:
    if sum(map(body.count, (b"{", b"[", b","))) > MOST_MARKS:
        raise _too_many("brackets and commas", MOST_MARKS)
    try:
        values = from_json(body.removeprefix(BOM))
    except ValueError as error:
        raise Refusal(400, "invalid_json", f"the body is not JSON: {error}; send an object in UTF-8") from None
    if not isinstance(values, dict):
        raise Refusal(400, "invalid_json", 'the body is not a JSON object; send one, such as {"inputs": "hello"}')
    if _has_more_values(values, MOST_VALUES):
        raise _too_many("values", MOST_VALUES)
    return values


def _too_many(what: str, most: int) -> Refusal:
    return Refusal(413, "too_large", f"body: it has more than {most:,} {what}; send less at once", limit=most)


def _has_more_values(values: Message, most: int) -> bool:
    """True if the lists and objects of a body have more than `most` values together; stops there."""
    left: list[Any] = [values]
    count = 0
    while left and count <= most:
        here = left.pop()
        inside = here.values() if isinstance(here, dict) else here
        count += len(inside)
        if count <= most:
            left += [value for value in inside if isinstance(value, dict | list)]
    return count > most


async def _parse_form(request: Request, body: bytes, most: int) -> Message:
    async def receive() -> ASGIMessage:
        return {"type": "http.request", "body": body, "more_body": False}

    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8").lower()
    if charset not in (b"utf-8", b"utf8"):  # Python's other codecs take minutes, or make what JSON cannot have
        raise Refusal(415, "wrong_charset", "content-type: only UTF-8 is read here; send it")
    again = Request(request.scope, receive)
    try:
        async with again.form(max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=most) as form:
            return {name: await _field(form, name) for name in dict.fromkeys(form.keys())}
    except HTTPException as error:
        raise _bad_form(error.detail) from None
    except Exception as error:  # of the parser: each version has others
        if type(error).__module__.partition(".")[0] not in ("builtins", "python_multipart", "multipart", "starlette"):
            raise
        raise _bad_form(type(error).__name__) from None


def _bad_form(reason: str) -> Refusal:
    problem = f"the form cannot be read ({reason}); check its boundary and its fields"
    return Refusal(400, "invalid_form", problem)


async def _field(form: FormData, name: str) -> str | list[str]:
    values = [await _value(value) for value in form.getlist(name)]
    return values[0] if len(values) == 1 else values


async def _value(value: UploadFile | str) -> str:
    """A field as it is, a file of text as its text, another file as its base64."""
    if isinstance(value, str):
        return value
    content = await value.read()
    if not (value.content_type or "").startswith("text/"):
        return base64.b64encode(content).decode()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refusal(400, "invalid_form", "a file of the form is no text in UTF-8; send it as such") from None


def _fields(query: QueryParams) -> dict[str, Any]:
    """A field that occurs several times is a list."""
    values: dict[str, list[str]] = {}
    for name, value in query.multi_items():
        values.setdefault(name, []).append(value)
    if len(values) > MOST_FIELDS:
        raise Refusal(413, "too_large", f"query: more than {MOST_FIELDS} fields; send less", limit=MOST_FIELDS)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def parse(body: type[Body], values: Message) -> Body:
    """The request in a body; Refusal (422) with a sentence for each field that is wrong."""
    try:
        return body.model_validate(values)
    except ValidationError as error:
        if (count := error.error_count()) > MOST_ERRORS:
            raise invalid(f"body: {count:,} of its values are wrong; /docs says what each must be") from None
        found: dict[str, tuple[str, Any]] = {}
        for one in error.errors(include_url=False):
            several = one["type"] != "extra_forbidden" and any(map(_is_branch, one["loc"]))
            path = ".".join(map(str, one["loc"])).removesuffix("[key]").strip(".")
            place = str(one["loc"][0]) if several else path[:LONGEST_NAME]
            if place not in found:
                found[place] = (_several(body, place) if several else _sentence(body, place, one), one)
            if len(found) == MOST_PROBLEMS:
                break
    [(first, (_, one)), *_] = found.items()
    refusal = invalid([sentence for sentence, _ in found.values()], param=first.split(".")[0])
    refusal.limit, given = _limit(one), one["input"]
    refusal.given = given if isinstance(given, int | float | bool) else None
    raise refusal


def _is_branch(part: str | int) -> bool:
    """A part of pydantic's path that names a member of a union."""
    return isinstance(part, str) and (part in ("str", "int", "float", "bool") or "[" in part[1:])


def _several(body: type[BaseModel], name: str) -> str:
    """The sentence for a field of which there are several forms."""
    return f"{name}: must be {json_type(body.model_json_schema()['properties'][name])}; /docs says more"


def _sentence(body: type[BaseModel], place: str, error: Any) -> str:  # noqa: ANN401 (of pydantic)
    kind, message = error["type"], error["msg"].replace(" after validation", "")
    if kind == "extra_forbidden":
        close = nearest(place, [field.alias or name for name, field in body.model_fields.items()])
        return f"{place}: there is no such field" + (f"; did you mean {close!r}?" if close else "")
    if kind == "missing":
        return f"{place}: is missing; give it"
    if kind == "string_pattern_mismatch":
        return f"{place}: must not be blank; leave it out"
    plain = message.removeprefix("Input ").removeprefix("should be ").removeprefix("should ")
    return f"{place}: must be {plain}" if message.startswith("Input should be") else f"{place}: {message.lower()}"


def _limit(error: Any) -> Any:  # noqa: ANN401 (of pydantic, any number)
    return next((value for name, value in error.get("ctx", {}).items() if name in ("ge", "gt", "le", "lt")), None)
