"""DeepL's protocol: /v2/translate, /v2/languages and /v2/usage, as its Python package and Weblate speak it."""

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
from antiphon.serve.server import Server

__all__ = ["BODIES", "DeepLTranslate", "error", "routes"]

# The client takes these for a bug of the server's.
STATUS = {401: 403, 408: 400, 413: 400, 415: 400, 422: 400}


class DeepLTranslate(BaseModel):
    """Translate texts; options of DeepL that have no meaning here are read and ignored."""

    model_config = ConfigDict(extra="ignore")

    text: list[str] | str
    target_lang: str = Field(min_length=2, max_length=12)
    source_lang: str | None = Field(None, max_length=12)
    tag_handling: str | None = None
    glossary_id: str | None = None


class DeepLTranslations(BaseModel):
    """The translations, in order."""

    translations: list[Message]


class DeepLLanguage(BaseModel):
    """A language that is read or written."""

    language: str
    name: str
    supports_formality: bool | None = None


class DeepLUsage(BaseModel):
    """Nothing is billed here."""

    character_count: int
    character_limit: int


class DeepLError(BaseModel):
    """An error."""

    message: str
    detail: str
    request_id: str


BODIES: tuple[type[BaseModel], ...] = (DeepLTranslate,)


def error(refusal: Refusal, request_id: str) -> tuple[int, Message]:
    """Status and body of an error."""
    return STATUS.get(refusal.status, refusal.status), {
        "message": refusal.message,
        "detail": refusal.code,
        "request_id": request_id,
    }


def routes(server: Server) -> APIRouter:
    """The routes, bound to a server."""
    router, answering = APIRouter(tags=["DeepL"]), Answering(server)

    async def translate(request: Request) -> Response:
        body = parse(DeepLTranslate, await server.read(request))
        if body.glossary_id:
            problem = "glossary_id: this server keeps no glossaries; leave it out, or send one to /v1/generate"
            raise Refusal(400, "invalid_value", problem, param="glossary_id")
        texts: list[Any] = body.text if isinstance(body.text, list) else [body.text]
        server.check_texts(texts, "text")
        model = find_model(server, body.source_lang or None, body.target_lang)
        outputs = await answering.answers(request, model, Wanted(texts, {}, protect=True))
        pair = model.served.languages
        source = body.source_lang or (pair.source if pair else UNKNOWN)
        translations = [
            {"detected_source_language": source.upper(), "text": output["text"], "billed_characters": len(text)}
            for text, output in zip(texts, outputs, strict=True)
        ]
        return native.json_response({"translations": translations})

    async def languages(request: Request) -> Response:
        values = await server.read(request)
        pairs = known_pairs(server) or [(UNKNOWN, UNKNOWN)]
        column = 1 if values.get("type") == "target" else 0
        rows = [
            {"language": code.upper(), "name": language_name(code)} for code in dict.fromkeys(p[column] for p in pairs)
        ]
        formality = {"supports_formality": False} if column else {}
        return native.json_rows([row | formality for row in rows])

    async def usage(request: Request) -> Response:
        await server.read(request)
        return native.json_response({"character_count": 0, "character_limit": 10**12})

    errors = (400, 403, 404, 429, 500, 503, 504)
    known = native.documented(DeepLTranslate, DeepLTranslations, DeepLError, errors)
    router.add_api_route(
        "/v2/translate", translate, methods=["POST"], name="deepl-translate", summary=DeepLTranslate.__doc__, **known
    )
    reading = (400, 403, 500, 503)
    plain: tuple[tuple[str, Any, Any, str], ...] = (
        ("languages", languages, list[DeepLLanguage], "Languages that are read, or with type=target written."),
        ("usage", usage, DeepLUsage, "Characters that were billed: none."),
    )
    for method in ("GET", "POST"):
        for name, handler, response, told in plain:
            unique = f"deepl-{name}-{method.lower()}"
            known = native.documented(None, response, DeepLError, reading)
            router.add_api_route(
                f"/v2/{name}", handler, methods=[method], operation_id=unique, name=unique, summary=told, **known
            )
    return router
