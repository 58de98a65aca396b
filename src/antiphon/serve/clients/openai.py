"""OpenAI's protocol: /v1/models, /v1/completions and /v1/chat/completions, also as streams."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from antiphon.inference.conversation import TurnFormat
from antiphon.serve import native
from antiphon.serve.answering import Answering, Wanted
from antiphon.serve.api_responses import ErrorResponse, ModelList
from antiphon.serve.attachments import ClientInput
from antiphon.serve.clients.completion_stream import (
    chat_log_probs,
    chunks,
    cut_at_stop,
    finish_reason,
    new_texts,
    stopped,
    token_log_probs,
    usage,
)  # fmt: skip
from antiphon.serve.frames import Message
from antiphon.serve.models import Model
from antiphon.serve.reader import parse
from antiphon.serve.refusals import Refusal, invalid
from antiphon.serve.server import Server, first_event

__all__ = ["BODIES", "ChatCompletion", "Completion", "error", "routes"]


class StreamOptions(BaseModel):
    """Extra parts of a stream."""

    model_config = ConfigDict(extra="ignore")

    include_usage: bool = False


class CompletionFields(BaseModel):
    """The fields of both kinds of completion; fields of OpenAI that have no meaning here are read and ignored."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2, description="0: search; above 0: sample.")
    top_p: float | None = Field(None, gt=0, le=1)
    n: int = Field(1, ge=1, le=20)
    seed: int | None = Field(None, ge=0)
    stop: str | list[str] | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None

    def options(self, model: Model) -> Any:  # noqa: ANN401 (SearchKeywords)
        """The options of the search; the longest answer is the model's own at most."""
        most = model.facts.get("decoding", {}).get("max_length")
        options: dict[str, Any] = {"n_best": self.n} if self.n > 1 else {}
        free = model.facts.get("kind") != "tagger"  # a tagger writes one label for each token
        if free and self.max_tokens is not None and (most is None or self.max_tokens < most):
            options["max_length"] = self.max_tokens
        top_p = self.top_p if self.top_p is not None and self.top_p < 1 else None  # 1: all tokens
        if self.temperature or (self.temperature is None and top_p is not None):
            options |= {"sample": True, "temperature": self.temperature or 1.0}
            options |= {"top_p": top_p} if top_p is not None else {}
            options |= {"seed": self.seed} if self.seed is not None else {}
        elif self.n > 1:
            options["beam"] = max(self.n, model.facts.get("decoding", {}).get("beam", 1))
        return options

    @property
    def stops(self) -> list[str]:
        """The texts that end an answer."""
        return [stop for stop in ([self.stop] if isinstance(self.stop, str) else self.stop or []) if stop]


class Completion(CompletionFields):
    """Complete one prompt or several."""

    prompt: str | list[str]
    echo: bool = False
    logprobs: int | None = Field(None, ge=0, le=20)


class ChatMessage(BaseModel):
    """A turn of a conversation; of a list of parts the texts are read."""

    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text of the turn."""
        if isinstance(self.content, list):
            return " ".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")
        return self.content or ""


class ChatCompletion(CompletionFields):
    """Answer the last turn of a conversation; a dialogue model reads as many turns as it was trained with."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=1000)
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: bool | None = None


class CompletionResponse(BaseModel):
    """Completions."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["text_completion", "chat.completion"]
    choices: list[Message]


class OneModel(BaseModel):
    """A model of this server."""

    model_config = ConfigDict(extra="allow")

    id: str
    object: Literal["model"]


BODIES: tuple[type[BaseModel], ...] = (Completion, ChatCompletion)


def error(refusal: Refusal, request_id: str) -> tuple[int, Message]:
    """Status and body of an error."""
    return refusal.status, refusal.envelope(request_id)


def routes(server: Server) -> APIRouter:
    """The routes, bound to a server."""
    router, completions = APIRouter(tags=["OpenAI"]), Completions(server)
    started = int(time.time())

    def described(model: Model) -> Message:
        return {"id": model.name, "object": "model", "created": started, "owned_by": "antiphon",
                **native.model_facts(model)}  # fmt: skip

    async def models(request: Request) -> Response:
        await server.read(request)
        return native.json_response({"object": "list", "data": [described(model) for model in server.models]})

    async def one_model(request: Request) -> Response:
        await server.read(request)
        return native.json_response(described(server.model(request.path_params["name"])))

    errors = (*native.READING, 404)
    listed = native.documented(None, ModelList, ErrorResponse, native.READING)
    router.add_api_route("/v1/models", models, name="models", summary=ModelList.__doc__, **listed)
    single = native.documented(None, OneModel, ErrorResponse, errors)
    single["openapi_extra"] = {
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    }
    router.add_api_route("/v1/models/{name}", one_model, name="model", summary=OneModel.__doc__, **single)
    for path, handler, body in (
        ("completions", completions.complete, Completion),
        ("chat/completions", completions.chat, ChatCompletion),
    ):
        known = native.documented(body, CompletionResponse, ErrorResponse, kinds=("application/json",))
        known["responses"][200]["content"] = {"text/event-stream": {}}
        router.add_api_route(f"/v1/{path}", handler, methods=["POST"], name=path, summary=body.__doc__, **known)
    return router


@dataclass(frozen=True)
class Completed:
    """An answer as a choice of a completion."""

    prompt: str
    text: str
    finish_reason: str
    output: Message
    read: int  # tokens of the prompt, which its first choice counts


class Completions:
    """The two routes."""

    def __init__(self, server: Server) -> None:
        self.server, self.answering = server, Answering(server)

    async def complete(self, request: Request) -> Response:
        """Complete prompts."""
        body = parse(Completion, await self.server.read(request))
        model = self.server.model(body.model)
        prompts = body.prompt if isinstance(body.prompt, list) else [body.prompt]
        self.server.check_size(prompts, "prompt")
        if body.stream:
            return await self._stream(request, model, body, one_prompt(prompts, body.n))
        found = await self._answers(request, model, body, list(prompts), logprobs=body.logprobs is not None)
        choices = []
        for number, completed in enumerate(found):
            text = completed.prompt + completed.text if body.echo else completed.text
            shown = token_log_probs(completed.output) if body.logprobs is not None else None
            choices.append({"index": number, "text": text, "finish_reason": completed.finish_reason, "logprobs": shown})
        return self._reply(request, model, "text_completion", "cmpl", choices, found)

    async def chat(self, request: Request) -> Response:
        """Answer the last turn."""
        body = parse(ChatCompletion, await self.server.read(request))
        body.max_tokens = body.max_completion_tokens or body.max_tokens
        model = self.server.model(body.model)
        given = conversation_source(model, body.messages)
        self.server.check_size([given], "messages")
        if body.stream:
            return await self._stream(request, model, body, one_prompt([given], body.n))
        found = await self._answers(request, model, body, [given], logprobs=bool(body.logprobs))
        choices = []
        for number, completed in enumerate(found):
            message = {"role": "assistant", "content": completed.text, "refusal": None}
            shown = chat_log_probs(completed.output) if body.logprobs else None
            choices.append(
                {"index": number, "message": message, "finish_reason": completed.finish_reason, "logprobs": shown}
            )
        return self._reply(request, model, "chat.completion", "chatcmpl", choices, found)

    async def _answers(
        self, request: Request, model: Model, body: CompletionFields, prompts: list[ClientInput], *, logprobs: bool
    ) -> list[Completed]:
        """The choices for each prompt, in order."""
        returned = ("usage", "tokens", "log_probs") if logprobs else ("usage", "tokens")
        outputs = await self.answering.answers(request, model, Wanted(prompts, body.options(model), returned))
        return [
            completed_of(model, str(prompt), {**output, **one}, body.stops, first=number == 0)
            for prompt, output in zip(prompts, outputs, strict=True)
            for number, one in enumerate((output.get("alternatives") or [output])[: body.n])
        ]

    def _reply(
        self, request: Request, model: Model, kind: str, prefix: str, choices: list[Message], found: list[Completed]
    ) -> Response:
        return native.json_response(
            {
                "id": f"{prefix}-{request.scope['state']['request_id']}",
                "object": kind,
                "created": int(time.time()),
                "model": model.name,
                "choices": choices,
                "usage": usage(sum(one.read for one in found), sum(len(one.output["tokens"]) for one in found)),
            }
        )

    async def _stream(self, request: Request, model: Model, body: Completion | ChatCompletion, prompt: str) -> Response:
        chat, shown = isinstance(body, ChatCompletion), body.logprobs not in (None, False)
        returned = ["usage", "tokens", "log_probs"] if shown else ["usage"]
        payload: Message = {"inputs": [prompt], "options": body.options(model), "return": returned}
        timeout = self.server.timeout(None)
        events = self.answering.events(model, payload, timeout)
        first = await first_event(request, events)
        head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{request.scope['state']['request_id']}",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": int(time.time()), "model": model.name,
        }  # fmt: skip
        counted = body.stream_options is not None and body.stream_options.include_usage
        deltas = stopped(new_texts(first, events, repeated(model, prompt)), body.stops, to_end=counted or shown)
        echoed = prompt if isinstance(body, Completion) and body.echo else ""
        lines = chunks(deltas, head, chat=chat, echoed=echoed, counted=counted, log_probs=shown)
        return native.TimedStream(lines, timeout)


def repeated(model: Model, prompt: str) -> str:
    """The prompt, if the model's text begins with it, as that of a language model does."""
    return prompt if model.facts.get("kind") == "language-model" else ""


def completed_of(model: Model, prompt: str, output: Message, stops: list[str], *, first: bool) -> Completed:
    """An answer without its prompt, up to the first stop."""
    text = output["text"].removeprefix(repeated(model, prompt))
    kept = cut_at_stop(text, stops)
    reason = "stop" if kept != text else finish_reason(output)
    return Completed(prompt, kept, reason, output, output["usage"]["read"] if first else 0)


def one_prompt(prompts: list[str], n: int) -> str:
    """The prompt of a stream."""
    if len(prompts) != 1 or n != 1:
        raise invalid("stream: one prompt and one answer at a time; leave out n, or stream", param="stream")
    return prompts[0]


def conversation_source(model: Model, messages: list[ChatMessage]) -> str:
    """The input of the model: as many turns as it was trained with, up to the last of the user; others read that one.

    Only users and assistants have turns: there is no place for instructions in the training data.
    """
    last = max((place for place, message in enumerate(messages) if message.role == "user"), default=-1)
    if last < 0:
        raise invalid("messages: none has the role user; add one", param="messages")
    turns, latest = model.facts.get("turns"), messages[last].text
    if turns is None or not latest.strip():
        return latest
    said = [message.text for message in messages[:last] if message.role in ("user", "assistant")]
    return TurnFormat(**turns).source([*said, latest])
