"""LibreTranslate's protocol: /translate, /languages and /detect, in JSON, forms or queries."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from antiphon.serve import native
from antiphon.serve.answering import Answering, Wanted
from antiphon.serve.clients.languages import UNKNOWN, find_model, known_pairs, language_name
from antiphon.serve.frames import Message
from antiphon.serve.reader import parse
from antiphon.serve.refusals import Refusal
from antiphon.serve.serve_settings import Languages
from antiphon.serve.server import Server

__all__ = ["BODIES", "PATHS", "LibreDetect", "LibreTranslate", "error", "routes"]

PATHS = ("/translate", "/languages", "/detect")
STATUS = {401: 403, 422: 400}


class LibreTranslate(BaseModel):
    """Translate a text or a list of texts."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str]
    source: str = Field("auto", max_length=12)
    target: str = Field(max_length=12)
    format: str = "text"
    alternatives: int = Field(0, ge=0, le=20)


class LibreDetect(BaseModel):
    """Ask for the language of a text."""

    model_config = ConfigDict(extra="ignore")

    q: str | list[str]


class LibreTranslation(BaseModel):
    """The translation in the shape of `q`."""

    model_config = ConfigDict(extra="allow")

    translatedText: str | list[str]  # noqa: N815 (of the protocol)


class LibreLanguage(BaseModel):
    """A language, and those that it is translated into."""

    code: str
    name: str
    targets: list[str]


class LibreGuess(BaseModel):
    """A language that a text may have."""

    confidence: float
    language: str


class LibreError(BaseModel):
    """An error."""

    error: str
    code: str
    request_id: str


BODIES: tuple[type[BaseModel], ...] = (LibreTranslate, LibreDetect)


def error(refusal: Refusal, request_id: str) -> tuple[int, Message]:
    """Status and body of an error."""
    body = {"error": refusal.message, "code": refusal.code, "request_id": request_id}
    return STATUS.get(refusal.status, refusal.status), body


def routes(server: Server) -> APIRouter:
    """The routes, bound to a server."""
    router, answering = APIRouter(tags=["LibreTranslate"]), Answering(server)

    async def translate(request: Request) -> Response:
        body = parse(LibreTranslate, await server.read(request))
        texts: list[Any] = body.q if isinstance(body.q, list) else [body.q]
        server.check_texts(texts, "q")
        source = None if body.source == "auto" else body.source
        model = find_model(server, source, body.target)
        count = body.alternatives + 1
        options: Any = {"n_best": count, "beam": max(count, 5)} if count > 1 else {}
        outputs = await answering.answers(request, model, Wanted(texts, options, protect=True))
        return native.json_response(_translation(body, outputs, _detected(body.source, model.served.languages)))

    async def languages(request: Request) -> Response:
        await server.read(request)
        pairs = known_pairs(server) or [(UNKNOWN, UNKNOWN)]
        rows = [
            {"code": code, "name": language_name(code), "targets": [to for start, to in pairs if start == code]}
            for code in dict.fromkeys(start for start, _ in pairs)
        ]
        listed = {code for code, _ in pairs}
        rows += [
            {"code": code, "name": language_name(code), "targets": []}
            for code in dict.fromkeys(to for _, to in pairs)
            if code not in listed
        ]
        return native.json_rows(rows)

    async def detect(request: Request) -> Response:
        parse(LibreDetect, await server.read(request))
        codes = list(dict.fromkeys(code for code, _ in known_pairs(server))) or [UNKNOWN]
        return native.json_rows([{"confidence": 100.0 / len(codes), "language": code} for code in codes])

    errors = (400, 403, 404, 408, 413, 415, 429, 500, 503, 504)
    added: tuple[tuple[str, Any, Any, Any], ...] = (
        ("translate", translate, LibreTranslate, LibreTranslation),
        ("detect", detect, LibreDetect, list[LibreGuess]),
    )
    for name, handler, body, response in added:
        known = native.documented(body, response, LibreError, errors)
        router.add_api_route(
            f"/{name}", handler, methods=["POST"], name=f"libretranslate-{name}", summary=body.__doc__, **known
        )
    plain = native.documented(None, list[LibreLanguage], LibreError, (400, 403, 408, 413, 415, 500, 503))
    told = "Languages that are read, and those that each is translated into."
    router.add_api_route("/languages", languages, name="libretranslate-languages", summary=told, **plain)
    return router


def _detected(asked: str, pair: Languages | None) -> str | None:
    """The language that `auto` stands for; None if one was named."""
    if asked != "auto":
        return None
    return UNKNOWN if pair is None else pair.source


def _translation(body: LibreTranslate, outputs: list[Message], detected: str | None) -> Message:
    many = isinstance(body.q, list)
    texts = [output["text"] for output in outputs]
    message: Message = {"translatedText": texts if many else texts[0]}
    if detected is not None:
        guess = {"confidence": 100.0, "language": detected}
        message["detectedLanguage"] = [guess] * len(texts) if many else guess
    if body.alternatives:
        others = [[one["text"] for one in output.get("alternatives", [])[1:]] for output in outputs]
        message["alternatives"] = others if many else others[0]
    return message
