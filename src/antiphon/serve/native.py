"""The API of this project: /v1 and the routes that tell how the server is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from antiphon._version import __version__
from antiphon.serve import api_page, api_schema, server_metrics
from antiphon.serve.answering import Answering
from antiphon.serve.frames import Message
from antiphon.serve.models import Model
from antiphon.serve.refusals import Refusal
from antiphon.serve.server import Server, first_event

__all__ = ["BODIES", "TimedStream", "documented", "event_stream", "json_response", "json_rows", "model_facts", "routes"]

BODIES: tuple[type[BaseModel], ...] = (
    api_schema.GenerateRequest, api_schema.StreamRequest, api_schema.SearchRequestBody, api_schema.ScoreRequest,
    api_schema.AlternativesRequest, api_schema.StepRequest, api_schema.MapRequest,
)  # fmt: skip
ERRORS = (400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 504)


def json_response(message: Message, status: int = 200) -> Response:
    """A JSON answer; NaN and infinity become null."""
    return Response(to_json(message, inf_nan_mode="null"), status, media_type="application/json")


def json_rows(rows: list[Message]) -> Response:
    """A JSON list, as some protocols answer."""
    return Response(to_json(rows, inf_nan_mode="null"), media_type="application/json")


def documented(
    body: type[BaseModel] | None, response: type[BaseModel], error: type[BaseModel], errors: tuple[int, ...] = ERRORS
) -> dict[str, Any]:
    """The entry of a route in the OpenAPI schema."""
    known: dict[str, Any] = {"responses": {200: {"model": response}, **{status: {"model": error} for status in errors}}}
    if body is not None:
        reference = {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
        kinds = ("application/json", "multipart/form-data", "application/x-www-form-urlencoded")
        content = dict.fromkeys(kinds, reference)
        known["openapi_extra"] = {"requestBody": {"required": True, "content": content}}
    return {**known, "response_model": None}


def routes(server: Server) -> APIRouter:
    """The routes, bound to a server."""
    router, answering = APIRouter(tags=["antiphon"]), Answering(server)
    bodies: tuple[tuple[str, Any, type[BaseModel], type[BaseModel]], ...] = (
        ("generate", answering.generate, api_schema.GenerateRequest, api_schema.GenerateResponse),
        ("score", answering.score, api_schema.ScoreRequest, api_schema.ScoreResponse),
        ("alternatives", answering.alternatives, api_schema.AlternativesRequest, api_schema.AlternativesResponse),
        ("search", answering.search, api_schema.SearchRequestBody, api_schema.SearchResponse),
        ("explain/step", answering.step, api_schema.StepRequest, api_schema.StepResponse),
        ("map", answering.map, api_schema.MapRequest, api_schema.MapResponse),
    )
    for path, handler, body, response in bodies:
        known = documented(body, response, api_schema.ErrorResponse)
        router.add_api_route(
            f"/v1/{path}", _handler(handler), methods=["POST"], name=path, summary=body.__doc__, **known
        )
    stream = documented(api_schema.StreamRequest, api_schema.ErrorResponse, api_schema.ErrorResponse)
    stream["responses"][200] = {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
    router.add_api_route(
        "/v1/generate/stream", partial(_stream, answering), methods=["POST"], name="stream",
        summary=api_schema.StreamRequest.__doc__, **stream,
    )  # fmt: skip
    _add_state_routes(router, server)
    return router


def _handler(work: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        return json_response(await work(request))

    return handle


def _add_state_routes(router: APIRouter, server: Server) -> None:
    """The routes that tell how the server is."""

    async def info(request: Request) -> Response:
        await server.read(request)
        return json_response(server_facts(server))

    async def livez() -> Response:
        return json_response({"status": "alive"})

    async def readyz() -> Response:
        states = {model.name: "ready" if model.ready else "loading" for model in server.models}
        state = "draining" if server.draining else "ready" if server.ready else "loading"
        return json_response({"status": state, "models": states}, 200 if server.ready else 503)

    async def numbers(request: Request) -> Response:
        await server.read(request)
        return Response(server.metrics.text(), media_type=server_metrics.CONTENT_TYPE)

    async def docs(request: Request) -> Response:
        return Response(api_page.render(request.app.openapi()), media_type="text/html; charset=utf-8")

    async def style() -> Response:
        return Response(api_page.STYLE, media_type="text/css; charset=utf-8")

    async def openapi(request: Request) -> Response:
        return json_response(request.app.openapi())

    state: dict[int | str, dict[str, Any]] = {200: {"description": "Yes."}, 503: {"description": "Not now."}}
    router.add_api_route(
        "/info", info, **documented(None, api_schema.InfoResponse, api_schema.ErrorResponse, (401, 403))
    )
    router.add_api_route("/livez", livez, responses={200: {"description": "Yes."}}, response_model=None)
    for path in ("/readyz", "/health"):
        router.add_api_route(path, readyz, responses=state, response_model=None, name=path[1:])
    router.add_api_route("/metrics", numbers, response_model=None, responses={401: {"model": api_schema.ErrorResponse}})
    for path, handler in (("/docs", docs), ("/docs/style.css", style), ("/openapi.json", openapi)):
        router.add_api_route(path, handler, include_in_schema=False)


def server_facts(server: Server) -> Message:
    """The content of /info."""
    settings = server.settings
    names = ("max_bytes", "max_inputs", "max_characters", "max_positions", "queue", "wait", "timeout")
    return {
        "version": __version__,
        "limits": {name: getattr(settings, name) for name in names},
        "models": [model_facts(model) for model in server.models],
    }


def model_facts(model: Model) -> Message:
    """A model as /info and /v1/models show it."""
    pair = model.served.languages
    languages = None if pair is None else {"source": pair.source, "target": pair.target}
    return {"name": model.name, "ready": model.ready, "languages": languages, **model.facts}


async def _stream(answering: Answering, request: Request) -> Response:
    """The events of a search: text, search, then the answer."""
    model, payload, timeout = await answering.stream_request(request)
    events = answering.events(model, payload, timeout)
    first = await first_event(request, events)  # a refusal is an error with its status, not an event
    return event_stream(_named_events(first, events, model, str(request.scope["state"]["request_id"])), timeout)


async def _named_events(
    first: Message, events: AsyncGenerator[Message, None], model: Model, number: str
) -> AsyncGenerator[tuple[str, Message], None]:
    async with aclosing(events):
        message: Message | None = first
        try:
            while message is not None:
                if "result" in message:
                    yield "done", {**message["result"], "model": model.name}
                else:
                    yield message["event"], message["data"]
                message = await anext(events, None)
        except Refusal as refusal:
            yield "error", refusal.envelope(number)


def event_stream(events: AsyncGenerator[tuple[str, Message], None], timeout: float) -> Response:
    """Server-sent events; a reader that takes longer than the request may last is left."""

    async def lines() -> AsyncGenerator[bytes, None]:
        async with aclosing(events):
            async for name, data in events:
                yield b"event: " + name.encode() + b"\ndata: " + to_json(data, inf_nan_mode="null") + b"\n\n"

    return TimedStream(lines(), timeout)


class TimedStream(StreamingResponse):
    """A stream that ends when its time is over, however slowly it is read."""

    def __init__(self, lines: AsyncGenerator[bytes, None], timeout: float) -> None:
        super().__init__(lines, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self.timeout, self.lines = timeout, lines

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 (of ASGI)
        """Send the stream."""
        try:
            async with asyncio.timeout(self.timeout + 1.0):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            pass
        finally:
            await self.lines.aclose()
