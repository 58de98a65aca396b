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
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from antiphon._version import __version__
from antiphon.serve import api_page, api_responses, api_schema, server_metrics
from antiphon.serve.answering import Answering, answered_by
from antiphon.serve.frames import Message
from antiphon.serve.models import Model
from antiphon.serve.refusals import Refusal, invalid
from antiphon.serve.server import Server, first_event

__all__ = [
    "BODIES", "READING", "TimedStream", "documented", "event_stream", "json_response", "json_rows", "model_facts",
    "routes",
]  # fmt: skip

BODIES: tuple[type[BaseModel], ...] = (
    api_schema.GenerateRequest, api_schema.StreamRequest, api_schema.SearchRequestBody, api_schema.ScoreRequest,
    api_schema.AlternativesRequest, api_schema.StepRequest, api_schema.OcclusionRequest, api_schema.SourceRequest,
    api_schema.MapRequest,
)  # fmt: skip
READING = (400, 401, 403, 408, 413, 415, 500, 503)  # of a route that only reads the key
ERRORS = (400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 504)


def json_response(message: Message, status: int = 200) -> Response:
    """A JSON answer; NaN and infinity become null."""
    return Response(to_json(message, inf_nan_mode="null"), status, media_type="application/json")


def json_rows(rows: list[Message]) -> Response:
    """A JSON list, as some protocols answer."""
    return Response(to_json(rows, inf_nan_mode="null"), media_type="application/json")


MEANINGS = {
    200: "The answer.",
    400: "The body cannot be read; for clients of DeepL and LibreTranslate also: a value is wrong.",
    401: "The key is missing or wrong.",
    403: "The Host header is wrong; for clients of DeepL and LibreTranslate: the key is missing or wrong.",
    404: "There is no such model.",
    408: "The body has come too slowly.",
    413: "There is too much of something: the error says of what, and how much is taken.",
    415: "The content type is not read here.",
    422: "A value is wrong: the error says which, why, and what to do.",
    429: "The queue is full; Retry-After says when to try again.",
    500: "A bug in Antiphon; its log has the details, beside the id of the request.",
    503: "A model is loading, or the server is stopping; Retry-After says when to try again.",
    504: "There was no answer in time.",
}


def documented(
    body: type[BaseModel] | None, response: object, error: type[BaseModel], errors: tuple[int, ...] = ERRORS,
    kinds: tuple[str, ...] = ("application/json", "multipart/form-data", "application/x-www-form-urlencoded"),
) -> dict[str, Any]:  # fmt: skip
    """The entry of a route in the OpenAPI schema; `response` is a model, or a list of one."""
    models = {200: response, **dict.fromkeys(errors, error)}
    responses = {status: {"model": model, "description": MEANINGS[status]} for status, model in models.items()}
    known: dict[str, Any] = {"responses": responses}
    if body is not None:
        reference = {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
        known["openapi_extra"] = {"requestBody": {"required": True, "content": dict.fromkeys(kinds, reference)}}
    return {**known, "response_model": None}


def routes(server: Server) -> APIRouter:
    """The routes, bound to a server."""
    router, answering = APIRouter(tags=["antiphon"]), Answering(server)
    bodies: tuple[tuple[str, Any, type[BaseModel], type[BaseModel]], ...] = (
        ("generate", answering.generate, api_schema.GenerateRequest, api_responses.GenerateResponse),
        ("score", answering.score, api_schema.ScoreRequest, api_responses.ScoreResponse),
        ("alternatives", answering.alternatives, api_schema.AlternativesRequest, api_responses.AlternativesResponse),
        ("search", answering.search, api_schema.SearchRequestBody, api_responses.SearchResponse),
        ("explain/step", answering.step, api_schema.StepRequest, api_responses.StepResponse),
        ("explain/occlusion", answering.occlusion, api_schema.OcclusionRequest, api_responses.OcclusionResponse),
        ("explain/source", answering.source, api_schema.SourceRequest, api_responses.SourceResponse),
        ("map", answering.map, api_schema.MapRequest, api_responses.MapResponse),
    )
    for path, handler, body, response in bodies:
        known = documented(body, response, api_responses.ErrorResponse)
        router.add_api_route(
            f"/v1/{path}", _handler(handler), methods=["POST"], name=path, summary=body.__doc__, **known
        )
    stream = documented(api_schema.StreamRequest, api_responses.ErrorResponse, api_responses.ErrorResponse)
    stream["responses"][200] = {"description": "Server-sent events.", "content": {"text/event-stream": {}}}
    router.add_api_route(
        "/v1/generate/stream", partial(_stream, answering), methods=["POST"], name="stream",
        summary=api_schema.StreamRequest.__doc__, **stream,
    )  # fmt: skip
    _add_state_routes(router, server)
    _add_run_routes(router, server)
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
    alive: dict[int | str, dict[str, Any]] = {200: {"description": "Yes."}}
    known = documented(None, api_responses.InfoResponse, api_responses.ErrorResponse, READING)
    router.add_api_route("/info", info, summary="Limits, languages, versions and models.", **known)
    router.add_api_route("/livez", livez, summary="The process runs.", responses=alive, response_model=None)
    for path in ("/readyz", "/health"):
        told = "Every model is loaded and the server is not stopping."
        router.add_api_route(path, readyz, summary=told, responses=state, response_model=None, name=path[1:])
    metrics = documented(None, api_responses.ErrorResponse, api_responses.ErrorResponse, READING)
    metrics["responses"][200] = {"description": "In the text format of Prometheus.", "content": {"text/plain": {}}}
    told = "Requests, batches, queues and models as numbers."
    router.add_api_route("/metrics", numbers, summary=told, response_class=PlainTextResponse, **metrics)
    for path, handler in (("/docs", docs), ("/docs/style.css", style), ("/openapi.json", openapi)):
        router.add_api_route(path, handler, include_in_schema=False)


def _add_run_routes(router: APIRouter, server: Server) -> None:
    """The routes of the runs below the folders that are served."""
    listing = server.runs.listing

    async def runs(request: Request) -> Response:
        await server.read(request)
        return json_response({"runs": await asyncio.to_thread(listing.rows)})

    async def run(request: Request) -> Response:
        values = await server.read(request)
        return json_response(await asyncio.to_thread(listing.facts, run_name(values)))

    async def log(request: Request) -> Response:
        values = await server.read(request)
        after = values.get("after", "0")
        if not str(after).isdecimal() or len(str(after)) > 15:
            raise invalid("after: must be the `next` of the response before", param="after")
        return json_response(await asyncio.to_thread(listing.log, run_name(values), int(after)))

    async def compare(request: Request) -> Response:
        values = await server.read(request)
        names = run_name(values, "one"), run_name(values, "other")
        return json_response({"differences": await asyncio.to_thread(listing.differences, *names)})

    async def open_run(request: Request) -> Response:
        model = server.model(run_name(await server.read(request)))
        await model.wait_until_ready(server.settings.timeout)
        return json_response(model_facts(model))

    added: tuple[tuple[str, str, Any, Any, tuple[str, ...], str], ...] = (
        ("GET", "runs", runs, api_responses.RunsResponse, (), "Runs below the folders that are served."),
        ("GET", "run", run, Message, ("name",), "Configuration, scores and samples of a run."),
        ("GET", "run/log", log, Message, ("name", "after"), "Lines of a run's log behind the `next` of the last."),
        ("GET", "runs/compare", compare, Message, ("one", "other"), "Keys in which two configurations differ."),
        ("POST", "run/open", open_run, Message, ("name",), "Load the weights of a run, so that it can be asked."),
    )
    for method, path, handler, response, fields, told in added:
        known = documented(None, response, api_responses.ErrorResponse, (*READING, 404, 422))
        known["openapi_extra"] = {"parameters": [query_parameter(name) for name in fields]}
        router.add_api_route(f"/v1/{path}", handler, methods=[method], name=path, summary=told, **known)


def query_parameter(name: str) -> Message:
    """A field of a query in the OpenAPI schema; only `after` may be left out."""
    return {"name": name, "in": "query", "required": name != "after", "schema": {"type": "string"}}


def run_name(values: Message, field: str = "name") -> str:
    """The name of a run in a request."""
    name = values.get(field)
    if not isinstance(name, str):
        raise invalid(f"{field}: is missing; give the name of a run, as /v1/runs lists it", param=field)
    return name


def server_facts(server: Server) -> Message:
    """The content of /info."""
    settings = server.settings
    names = ("max_bytes", "max_inputs", "max_characters", "max_positions", "queue", "wait", "timeout")
    return {
        "version": __version__,
        "limits": {name: getattr(settings, name) for name in names},
        "models": [model_facts(model) for model in (*server.models, *server.runs.models)],
        "runs": bool(server.settings.folders),
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
                    yield "done", {**message["result"], **answered_by(model)}
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
