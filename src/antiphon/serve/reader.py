"""Reads what clients send: JSON, forms, queries, files, also a body on GET; bounded in bytes and time."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from pydantic_core import from_json
from starlette.datastructures import FormData, QueryParams, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message as ASGIMessage

from antiphon.serve.frames import Message
from antiphon.serve.refusals import Refusal

__all__ = ["ClientGone", "read_body", "read_values"]

BODY_SECONDS = 30.0  # for the whole body
MOST_FILES, MOST_FIELDS = 64, 256
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


class ClientGone(Exception):  # noqa: N818 - nobody waits for an answer any more
    """The client has closed the connection."""


async def read_values(request: Request, most: int) -> Message:
    """The fields of the body and of the query; those of the body win.

    A field that a form or query has several times is a list; a file is its base64. Refusal if the body is too large,
    too slow or not what its content type says.
    """
    body = await read_body(request, most)
    return {**_fields(request.query_params), **await _parse(request, body, most)}


async def read_body(request: Request, most: int) -> bytes:
    """The bytes of the body; Refusal if there are too many, or they come too slowly."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    chunks, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > most:
                    raise _too_large(most)
                chunks.append(chunk)
    except TimeoutError:
        raise Refusal(
            408, "slow_body", f"the body did not come within {BODY_SECONDS:g} seconds; send it at once"
        ) from None
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
    try:
        values = from_json(body)
    except ValueError as error:
        raise Refusal(400, "invalid_json", f"the body is not JSON: {error}; send an object in UTF-8") from None
    if not isinstance(values, dict):
        raise Refusal(400, "invalid_json", 'the body is not a JSON object; send one, such as {"inputs": "hello"}')
    return values


async def _parse_form(request: Request, body: bytes, most: int) -> Message:
    async def receive() -> ASGIMessage:
        return {"type": "http.request", "body": body, "more_body": False}

    again = Request(request.scope, receive)
    try:
        async with again.form(max_files=MOST_FILES, max_fields=MOST_FIELDS, max_part_size=most) as form:
            return {name: await _field(form, name) for name in dict.fromkeys(form.keys())}
    except (MultiPartException, ValueError, KeyError) as error:
        raise Refusal(400, "invalid_form", f"the form cannot be read: {error}; check its boundary and fields") from None
    except Exception as error:  # of the parser: each version has others
        if type(error).__module__.partition(".")[0] not in ("python_multipart", "multipart", "starlette"):
            raise
        raise Refusal(400, "invalid_form", "the form cannot be read; check its boundary and its fields") from None


async def _field(form: FormData, name: str) -> str | list[str]:
    values = [await _value(value) for value in form.getlist(name)]
    return values[0] if len(values) == 1 else values


async def _value(value: UploadFile | str) -> str:
    return value if isinstance(value, str) else base64.b64encode(await value.read()).decode()


def _fields(query: QueryParams) -> dict[str, Any]:
    """A field that occurs several times is a list."""
    values = {name: query.getlist(name) for name in query}
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}
