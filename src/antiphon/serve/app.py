"""The application: routes, errors in the shape of each protocol, and the gate that every request passes."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as ASGIMessage

from antiphon._version import __version__
from antiphon.serve import native, page_files
from antiphon.serve.clients import deepl, libretranslate, openai
from antiphon.serve.models import REQUEST_ID, Log
from antiphon.serve.reader import ClientGone
from antiphon.serve.refusals import Refusal, bug, draining, report_bug
from antiphon.serve.serve_settings import ServeSettings, is_loopback
from antiphon.serve.server import Server

__all__ = ["HEADERS", "HEADER_BYTES", "create_app", "error_response"]

PROTOCOLS = (native, openai, deepl, libretranslate)
ID_OF_CLIENT = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HEADER_BYTES = 32 * 1024  # of the first line and the headers of a request
OPEN_WHILE_DRAINING = ("/livez", "/readyz", "/health", "/metrics")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def create_app(settings: ServeSettings, log: Log) -> FastAPI:
    """The application of a server; its models start with it."""
    server = Server(settings, log)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with server.running():
            yield

    app = FastAPI(
        title="Antiphon", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None,
        redirect_slashes=False,
        description="Answers, scores and explanations of sequence-to-sequence models.",
    )  # fmt: skip
    app.state.server = server
    for protocol in PROTOCOLS:
        app.include_router(protocol.routes(server))
    app.include_router(page_files.routes())
    app.openapi = partial(openapi_schema, app)  # type: ignore[method-assign]
    for kind in (Refusal, HTTPException, ClientGone):
        app.add_exception_handler(kind, _answer_error)
    if settings.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=list(settings.cors), allow_methods=["GET", "POST"], allow_headers=["*"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )  # fmt: skip
    app.add_middleware(Gate, server=server)
    return app


class Gate:
    """Every request passes here: it gets an id, its host is checked, and it is counted and logged by its path."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self.app, self.server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        number = given if ID_OF_CLIENT.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = number
        REQUEST_ID.set(number)
        began, status = time.perf_counter(), 0

        async def send_with_headers(message: ASGIMessage) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = MutableHeaders(scope=message)
                for name, value in {**HEADERS, "X-Request-ID": number}.items():
                    own.setdefault(name, value)
                if self.server.draining:  # the next request of this client goes elsewhere
                    own["Connection"] = "close"
            await send(message)

        refusal = self._refusal(scope, headers)
        accepted = refusal is None
        self.server.active += accepted
        try:
            if refusal is None:
                await self._run(scope, receive, send_with_headers, lambda: status)
            else:
                await error_response(Request(scope, receive), refusal)(scope, receive, send_with_headers)
        finally:
            self.server.active -= accepted
            self.server.held -= scope["state"].get("held", 0)
            self._count(scope, status, time.perf_counter() - began, number)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        if scope["http_version"] not in ("1.0", "1.1"):
            return Refusal(505, "invalid_http", "this version of HTTP is not spoken here; send HTTP/1.1")
        parts = [*headers.raw, (scope["raw_path"], scope["query_string"])]
        size = sum(len(name) + len(value) for name, value in parts)
        if size > HEADER_BYTES:
            problem = f"the address and the headers have {size:,} bytes, at most {HEADER_BYTES:,} are read; send a body"
            return Refusal(431, "too_large", problem, limit=HEADER_BYTES, given=size)
        settings, host = self.server.settings, headers.get("host", "").lower()
        name = re.sub(r":\d+$", "", host)
        if (settings.loopback or settings.allowed_hosts) and not (is_loopback(name) or name in settings.allowed_hosts):
            problem = "the Host header names no host of this server; use localhost, or start it with --allow-host NAME"
            return Refusal(403, "wrong_host", problem)
        if settings.loopback and self._is_foreign(headers.get("origin", ""), host):
            problem = "the Origin header names a page of another host; start the server with --cors ORIGIN if it may"
            return Refusal(403, "wrong_origin", problem)
        if self.server.draining and scope["path"] not in OPEN_WHILE_DRAINING:
            return draining()
        if scope["method"] == "POST" and self.server.overcrowded:  # to read it would take the time of the others
            many = f"{self.server.active:,} requests are being answered or wait; try again soon"
            return Refusal(429, "queue_full", many, retry_after=max(1, round(settings.wait)), depth=self.server.active)
        return None

    def _is_foreign(self, origin: str, host: str) -> bool:
        """True for a page of another host: its form or script could make a browser on this machine send requests.

        Programs send no Origin; an extension of a browser has one that no page can have.
        """
        scheme, _, place = origin.partition("://")
        known = {"*", origin} & {*self.server.settings.cors}
        return not known and (origin == "null" or (scheme in ("http", "https") and place.lower() != host))

    async def _run(self, scope: Scope, receive: Receive, send: Send, status: Any) -> None:  # noqa: ANN401
        """The routes; a bug of ours is logged without what the client has sent."""
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:  # the time to drain is over
            if not status():
                await error_response(Request(scope, receive), draining())(scope, receive, send)
        except Exception as error:
            report_bug(error, scope["state"]["request_id"])
            if not status():
                await error_response(Request(scope, receive), bug())(scope, receive, send)

    def _count(self, scope: Scope, status: int, seconds: float, number: str) -> None:
        """The route, never the query: some clients put their texts there."""
        route = getattr(scope.get("route"), "path", "unknown")
        self.server.metrics.request(route, status, seconds)
        if route not in OPEN_WHILE_DRAINING:
            method = scope["method"] if scope["method"] in METHODS else "-"
            self.server.log(f"{method} {route} {status} {1000 * seconds:.0f} ms {number}")


async def _answer_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientGone):
        return Response(status_code=499)
    if isinstance(error, Refusal):
        return error_response(request, error)
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        problem = f"there is no {request.url.path[:100]!r} here; /docs lists what there is"
        return error_response(request, Refusal(404, "unknown_path", problem))
    if error.status_code == 405:
        refusal = Refusal(405, "wrong_method", f"{request.method} is not for this path; /docs says what is")
        return error_response(request, refusal, {"Allow": _allowed(request) or (error.headers or {}).get("allow", "")})
    return error_response(request, Refusal(error.status_code, "invalid_request", str(error.detail)))


def _allowed(request: Request) -> str:
    """The methods of a path, of which some have a route each."""
    path = getattr(request.scope.get("route"), "path", "")
    return ", ".join(sorted(method.upper() for method in request.app.openapi()["paths"].get(path, ())))


def error_response(request: Request, refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
    """An error in the shape that the clients of this path read."""
    number = request.scope["state"]["request_id"]
    path = request.scope["path"]
    shapes = {"/v2/": deepl, **dict.fromkeys(libretranslate.PATHS, libretranslate)}
    shape = next((module for start, module in shapes.items() if path.startswith(start)), openai)
    status, body = shape.error(refusal, number)
    extra = dict(headers or {})
    if refusal.retry_after is not None:
        extra["Retry-After"] = str(refusal.retry_after)
    if status == 401:
        extra["WWW-Authenticate"] = "Bearer"
    return Response(to_json(body, inf_nan_mode="null"), status, extra, media_type="application/json")


def openapi_schema(app: FastAPI) -> dict[str, Any]:
    """The schema with the bodies of requests, which the routes read themselves."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version="1", description=app.description, routes=app.routes)
        every: list[type[BaseModel]] = [body for module in PROTOCOLS for body in module.BODIES]
        bodies: list[tuple[type[BaseModel], Literal["validation"]]] = [(body, "validation") for body in every]
        _, definitions = models_json_schema(bodies, ref_template="#/components/schemas/{model}")
        made.setdefault("components", {}).setdefault("schemas", {}).update(definitions.get("$defs", {}))
        app.openapi_schema = made
    return app.openapi_schema
