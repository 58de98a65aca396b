"""OpenAI's protocol: /v1/models, /v1/completions and /v1/chat/completions, also as streams."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from antiphon.inference.conversation import TurnFormat
from antiphon.serve import native
from antiphon.serve.answering import Answering, Wanted
from antiphon.serve.api_responses import ErrorResponse, ModelList
from antiphon.serve.api_schema import parse
from antiphon.serve.attachments import ClientInput
from antiphon.serve.frames import Message
from antiphon.serve.models import Model
from antiphon.serve.refusals import Refusal, invalid
from antiphon.serve.server import Server

__all__ = ["BODIES", "ChatCompletion", "Completion", "error", "routes"]


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

    def options(self, model: Model) -> Any:  # noqa: ANN401 (SearchKeywords)
        """The options of the search; the longest answer is the model's own at most."""
        most = model.facts.get("decoding", {}).get("max_length")
        options: dict[str, Any] = {"n_best": self.n} if self.n > 1 else {}
        if self.max_tokens is not None and (most is None or self.max_tokens < most):
            options["max_length"] = self.max_tokens
        if self.temperature or (self.temperature is None and self.top_p is not None and self.top_p < 1):
            options |= {"sample": True, "temperature": self.temperature or 1.0}
            options |= {"top_p": self.top_p} if self.top_p is not None else {}
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

    errors = (401, 403, 404)
    listed = native.documented(None, ModelList, ErrorResponse, errors)
    router.add_api_route("/v1/models", models, name="models", **listed)
    single = native.documented(None, OneModel, ErrorResponse, errors)
    single["openapi_extra"] = {
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}]
    }
    router.add_api_route("/v1/models/{name}", one_model, name="model", **single)
    for path, handler, body in (
        ("completions", completions.complete, Completion),
        ("chat/completions", completions.chat, ChatCompletion),
    ):
        known = native.documented(body, CompletionResponse, ErrorResponse)
        known["responses"][200]["content"] = {"text/event-stream": {}}
        router.add_api_route(f"/v1/{path}", handler, methods=["POST"], name=path, summary=body.__doc__, **known)
    return router


@dataclass(frozen=True)
class Completed:
    """An answer as a choice of a completion."""

    text: str
    finish_reason: str
    output: Message


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
            return await self._stream(request, model, body, one_prompt(prompts, body.n), chat=False)
        found = await self._answers(request, model, body, list(prompts), logprobs=body.logprobs is not None)
        choices = []
        for number, (prompt, completed) in enumerate(found):
            text = self._completion(model, prompt, completed.text, echo=body.echo)
            kept = cut_at_stop(text, body.stops)
            reason = "stop" if kept != text else completed.finish_reason
            shown = token_log_probs(completed.output) if body.logprobs is not None else None
            choices.append({"index": number, "text": kept, "finish_reason": reason, "logprobs": shown})
        return self._reply(request, model, "text_completion", "cmpl", choices, found)

    async def chat(self, request: Request) -> Response:
        """Answer the last turn."""
        body = parse(ChatCompletion, await self.server.read(request))
        body.max_tokens = body.max_completion_tokens or body.max_tokens
        model = self.server.model(body.model)
        given = conversation_source(model, body.messages)
        self.server.check_size([given], "messages")
        if body.stream:
            return await self._stream(request, model, body, one_prompt([given], body.n), chat=True)
        found = await self._answers(request, model, body, [given], logprobs=bool(body.logprobs))
        choices = []
        for number, (_, completed) in enumerate(found):
            kept = cut_at_stop(completed.text, body.stops)
            reason = "stop" if kept != completed.text else completed.finish_reason
            message = {"role": "assistant", "content": kept, "refusal": None}
            shown = chat_log_probs(completed.output) if body.logprobs else None
            choices.append({"index": number, "message": message, "finish_reason": reason, "logprobs": shown})
        return self._reply(request, model, "chat.completion", "chatcmpl", choices, found)

    async def _answers(
        self, request: Request, model: Model, body: CompletionFields, prompts: list[ClientInput], *, logprobs: bool
    ) -> list[tuple[str, Completed]]:
        """The choices for each prompt, in order."""
        returned = ("usage", "tokens", "log_probs") if logprobs else ("usage",)
        outputs = await self.answering.answers(request, model, Wanted(prompts, body.options(model), returned))
        return [
            (str(prompt), Completed(one["text"], finish_reason(output), {**output, **one}))
            for prompt, output in zip(prompts, outputs, strict=True)
            for one in (output.get("alternatives") or [output])[: body.n]
        ]

    @staticmethod
    def _completion(model: Model, prompt: str, text: str, *, echo: bool) -> str:
        """A language model's text begins with the prompt; other answers do not."""
        if model.facts.get("kind") == "language-model":
            return text if echo else text.removeprefix(prompt)
        return prompt + text if echo else text

    def _reply(
        self, request: Request, model: Model, kind: str, prefix: str, choices: list[Message],
        found: Iterable[tuple[str, Completed]],
    ) -> Response:  # fmt: skip
        counts = [completed.output.get("usage", {}) for _, completed in found]
        read, written = (sum(count.get(name, 0) for count in counts) for name in ("read", "written"))
        return native.json_response(
            {
                "id": f"{prefix}-{request.scope['state']['request_id']}",
                "object": kind,
                "created": int(time.time()),
                "model": model.name,
                "choices": choices,
                "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
            }
        )

    async def _stream(
        self, request: Request, model: Model, body: CompletionFields, prompt: str, *, chat: bool
    ) -> Response:
        payload: Message = {"inputs": [prompt], "options": body.options(model), "return": ["usage"]}
        timeout = self.server.timeout(None)
        events = self.answering.events(model, payload, timeout)
        first = await anext(events)
        head = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{request.scope['state']['request_id']}",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": int(time.time()), "model": model.name,
        }  # fmt: skip
        echoed = "" if chat or model.facts.get("kind") != "language-model" else prompt
        pieces = stopped(texts(first, events, echoed), body.stops)
        return native.TimedStream(chunks(pieces, head, chat=chat), timeout)


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


def finish_reason(output: Message) -> str:
    """`length` if the answer was cut."""
    return "length" if any(flag.startswith("maximum length") for flag in output["flags"]) else "stop"


def cut_at_stop(text: str, stops: list[str]) -> str:
    """The text before the first stop."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def token_log_probs(output: Message) -> Message:
    """The log probabilities of a completion."""
    return {"tokens": output["tokens"], "token_logprobs": output["log_probs"], "top_logprobs": None, "text_offset": []}


def chat_log_probs(output: Message) -> Message:
    """The log probabilities of a chat completion."""
    rows = zip(output["tokens"], output["log_probs"], strict=True)
    content = [
        {"token": token, "logprob": log_prob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, log_prob in rows
    ]
    return {"content": content, "refusal": None}


async def texts(
    first: Message, events: AsyncGenerator[Message, None], echoed: str
) -> AsyncGenerator[tuple[str, str | None], None]:
    """The pieces of an answer, the last with the reason of its end; without the prompt that it begins with."""
    async with aclosing(events):
        message: Message | None = first
        sent = ""
        while message is not None:
            if "result" in message:
                output = message["result"]["output"]
                rest = output["text"].removeprefix(sent)
                yield rest.removeprefix(echoed[len(sent) :]) if len(sent) < len(echoed) else rest, finish_reason(output)
                return
            if message["event"] == "text":
                before, sent = sent, sent + message["data"]["text"]
                fresh = sent[max(len(before), len(echoed)) :]
                if fresh:
                    yield fresh, None
            message = await anext(events, None)


async def stopped(
    pieces: AsyncGenerator[tuple[str, str | None], None], stops: list[str]
) -> AsyncGenerator[tuple[str, str | None], None]:
    """The pieces up to the first stop; the beginning of a stop is held back until it is known not to be one."""
    held, longest = "", max(map(len, stops), default=1) - 1
    async with aclosing(pieces):
        async for text, reason in pieces:
            held += text
            kept = cut_at_stop(held, stops)
            if kept != held:
                yield kept, "stop"
                return
            if reason is not None:
                yield held, reason
                return
            ready = len(held) - longest
            if ready > 0:
                yield held[:ready], None
                held = held[ready:]


async def chunks(
    pieces: AsyncGenerator[tuple[str, str | None], None], head: Message, *, chat: bool
) -> AsyncGenerator[bytes, None]:
    """The lines of the stream."""
    if chat:
        yield data_line({**head, "choices": [one_choice("", None, chat=True, role="assistant")]})
    async with aclosing(pieces):
        try:
            async for text, reason in pieces:
                if text:
                    yield data_line({**head, "choices": [one_choice(text, None, chat=chat)]})
                if reason is not None:
                    yield data_line({**head, "choices": [one_choice("", reason, chat=chat)]})
        except Refusal as refusal:
            yield data_line(refusal.envelope(str(head["id"])))
    yield b"data: [DONE]\n\n"


def one_choice(text: str, reason: str | None, *, chat: bool, role: str | None = None) -> Message:
    """The choice of a chunk."""
    said = {"delta": ({"role": role} if role else {}) | ({"content": text} if text or role else {})}
    return {"index": 0, **(said if chat else {"text": text}), "finish_reason": reason, "logprobs": None}


def data_line(message: Message) -> bytes:
    """A line of the stream."""
    return b"data: " + to_json(message, inf_nan_mode="null") + b"\n\n"
