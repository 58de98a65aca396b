"""Requests of /v1 become calls of the model, and its results responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from starlette.requests import Request

from antiphon.inference.options import SearchKeywords
from antiphon.serve import api_schema
from antiphon.serve.attachments import ClientInput
from antiphon.serve.frames import Message
from antiphon.serve.models import Model
from antiphon.serve.reader import Body, parse
from antiphon.serve.server import Server

__all__ = ["Answering", "Wanted", "answered_by"]


@dataclass(frozen=True)
class Wanted:
    """A request for the answers to several inputs."""

    inputs: list[ClientInput]
    options: SearchKeywords
    returned: tuple[str, ...] = ()
    prefix: str | list[int] = ""
    glossary: dict[str, str] = field(default_factory=dict)
    protect: bool = False
    timeout: float | None = None


class Answering:
    """The routes of /v1, as functions from a request to a message."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def generate(self, request: Request) -> Message:
        """Answers in the shape of the inputs."""
        body = await self._read(request, api_schema.GenerateRequest)
        model, inputs = self.server.model(body.model), _listed(body.inputs)
        self.server.check_size(inputs)
        self.server.check_answer(body.prefix, "prefix")
        wanted = Wanted(
            inputs, api_schema.search_keywords(body), tuple(body.returned), body.prefix, body.glossary, body.protect,
            body.timeout,
        )  # fmt: skip
        outputs = await self.answers(request, model, wanted)
        return {"outputs": _shaped(outputs, body.inputs), **answered_by(model)}

    async def _read(self, request: Request, body: type[Body]) -> Body:
        """The fields of a request; a form has the sources of one input as fields of their own."""
        values = await self.server.read(request)
        models = [*self.server.models, *self.server.runs.models]
        known = {source["name"] for model in models for source in model.facts.get("sources", ())}
        given = {name: values.pop(name) for name in known & values.keys() if "inputs" not in values}
        return parse(body, {**values, "inputs": given} if given else values)

    async def answers(self, request: Request, model: Model, wanted: Wanted) -> list[Message]:
        """An answer to each input, in order."""
        payload: Message = {
            "inputs": wanted.inputs, "options": wanted.options, "prefix": wanted.prefix,
            "return": list(wanted.returned), "glossary": wanted.glossary, "protect": wanted.protect,
        }  # fmt: skip
        result = await self.server.call(request, model, "generate", payload, timeout=wanted.timeout)
        outputs: list[Message] = result["outputs"]
        return outputs

    async def stream_request(self, request: Request) -> tuple[Model, Message, float]:
        """The model, the payload and the seconds of a stream."""
        body = await self._read(request, api_schema.StreamRequest)
        self.server.check_size([body.inputs])
        self.server.check_answer(body.prefix, "prefix")
        payload: Message = {
            "inputs": [body.inputs], "options": api_schema.search_keywords(body), "prefix": body.prefix,
            "return": list(body.returned), "search": body.search, "pruned": body.pruned,
        }  # fmt: skip
        return self.server.model(body.model), payload, self.server.timeout(body.timeout)

    def events(self, model: Model, payload: Message, timeout: float) -> AsyncGenerator[Message, None]:
        """The events of a search; the last is its result."""
        return model.stream("stream", payload, inputs=1, timeout=timeout)

    async def search(self, request: Request) -> Message:
        """The answer with the tree of its search."""
        body = await self._read(request, api_schema.SearchRequestBody)
        self.server.check_size([body.inputs])
        self.server.check_answer(body.prefix, "prefix")
        payload: Message = {
            "inputs": [body.inputs], "options": api_schema.search_keywords(body), "prefix": body.prefix,
            "return": list(body.returned), "pruned": body.pruned,
        }  # fmt: skip
        return await self._result(request, "search", body.model, payload, body.timeout)

    async def score(self, request: Request) -> Message:
        """log p of targets, in their shape."""
        body = await self._read(request, api_schema.ScoreRequest)
        inputs = _listed(body.inputs)
        targets = body.targets if isinstance(body.targets, list) else [body.targets]
        self.server.check_size(inputs)
        self.server.check_texts(targets, "targets")
        result = await self._result(request, "score", body.model, {"inputs": inputs, "targets": targets}, body.timeout)
        return {**result, "outputs": _shaped(result["outputs"], body.targets)}

    async def alternatives(self, request: Request) -> Message:
        """Other tokens for a position."""
        body = await self._read(request, api_schema.AlternativesRequest)
        payload = {**self._about_one(body), "position": body.position, "count": body.count}
        return await self._result(request, "alternatives", body.model, payload, body.timeout)

    async def step(self, request: Request) -> Message:
        """One step of the decoder."""
        body = await self._read(request, api_schema.StepRequest)
        payload = {
            **self._about_one(body), "position": body.position, "count": body.count, "layer": body.layer,
            "head": body.head, "dimensions": body.dimensions,
        }  # fmt: skip
        return await self._result(request, "step", body.model, payload, body.timeout)

    async def occlusion(self, request: Request) -> Message:
        """The loss of log p without each part of the source."""
        body = await self._read(request, api_schema.OcclusionRequest)
        payload = {**self._about_one(body), "by": body.by}
        return await self._result(request, "occlusion", body.model, payload, body.timeout)

    async def source(self, request: Request) -> Message:
        """The sources of an input as the model reads them."""
        body = await self._read(request, api_schema.SourceRequest)
        self.server.check_size([body.inputs])
        return await self._result(request, "source", body.model, {"inputs": [body.inputs]}, body.timeout)

    def _about_one(
        self, body: api_schema.AlternativesRequest | api_schema.StepRequest | api_schema.OcclusionRequest
    ) -> Message:
        self.server.check_size([body.inputs])
        self.server.check_answer(body.answer)
        return {"inputs": [body.inputs], "answer": body.answer}

    async def map(self, request: Request) -> Message:
        """Sentences as points."""
        body = await self._read(request, api_schema.MapRequest)
        self.server.check_size(body.inputs)
        return await self._result(request, "map", body.model, {"inputs": body.inputs, "pool": body.pool}, body.timeout)

    async def _result(
        self, request: Request, operation: str, name: str | None, payload: Message, timeout: float | None
    ) -> Message:
        model = self.server.model(name)
        result = await self.server.call(request, model, operation, payload, timeout=timeout)
        return {**result, **answered_by(model)}


def answered_by(model: Model) -> Message:
    """The fields of an answer that tell which weights it comes from."""
    return {"model": model.name, "update": model.update}


def _listed(items: ClientInput | list[ClientInput]) -> list[ClientInput]:
    return items if isinstance(items, list) else [items]


def _shaped(outputs: list[Message], like: object) -> Message | list[Message]:
    """A list for a list, one for one."""
    return outputs if isinstance(like, list) else outputs[0]
