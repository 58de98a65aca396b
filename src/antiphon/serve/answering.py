"""Requests become calls of the model, and its results responses; glossaries and placeholders are applied here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.requests import Request

from antiphon.inference.options import SearchKeywords
from antiphon.serve import api_schema, protect
from antiphon.serve.attachments import ClientInput
from antiphon.serve.frames import Message
from antiphon.serve.models import Model
from antiphon.serve.refusals import Refusal
from antiphon.serve.server import Server, unless_gone

__all__ = ["Answering", "Wanted"]


@dataclass(frozen=True)
class Wanted:
    """A request for the answers to several inputs."""

    inputs: list[ClientInput]
    options: SearchKeywords
    returned: tuple[str, ...] = ()
    prefix: str | list[int] = ""
    glossary: dict[str, str] | None = None
    protect: bool = False
    timeout: float | None = None


class Answering:
    """The routes of /v1, as functions from a request to a message."""

    def __init__(self, server: Server) -> None:
        self.server = server

    async def generate(self, request: Request) -> Message:
        """Answers in the shape of the inputs."""
        values = await self.server.read(request)
        self._take_files(values)
        body = api_schema.parse(api_schema.GenerateRequest, values)
        model, inputs = self.server.model(body.model), _listed(body.inputs)
        self.server.check_size(inputs)
        wanted = Wanted(
            inputs, api_schema.search_keywords(body), tuple(body.returned), body.prefix, body.glossary, body.protect,
            body.timeout,
        )  # fmt: skip
        outputs = await self.answers(request, model, wanted)
        return {"outputs": _shaped(outputs, body.inputs), "model": model.name}

    def _take_files(self, values: Message) -> None:
        """A form has the sources of one input as its fields."""
        if "inputs" in values:
            return
        known = {source["name"] for model in self.server.models for source in model.facts.get("sources", ())}
        given = {name: values.pop(name) for name in known & values.keys()}
        if given:
            values["inputs"] = given

    async def answers(self, request: Request, model: Model, wanted: Wanted) -> list[Message]:
        """An answer to each input; glossary entries and pieces that are missing stand in its flags."""
        if not wanted.inputs:
            await unless_gone(request, self._call(model, "generate", wanted, []))  # the options are checked
            return []
        work = self._with_glossary(model, wanted) if wanted.glossary else self._plain(model, wanted)
        outputs = await unless_gone(request, work)
        lost = [
            protect.missing(given, output["text"]) if isinstance(given, str) and _is_text(model) else []
            for given, output in zip(wanted.inputs, outputs, strict=True)
        ]
        if wanted.protect and any(lost):
            outputs = await unless_gone(request, self._with_pieces(model, wanted, outputs, lost))
        elif _is_text(model):
            for output, pieces in zip(outputs, lost, strict=True):
                output["flags"] += [f"placeholder: {piece} is not in the answer" for piece in pieces]
        return outputs

    async def _plain(self, model: Model, wanted: Wanted) -> list[Message]:
        return await self._call(model, "generate", wanted, wanted.inputs)

    async def _call(
        self, model: Model, operation: str, wanted: Wanted, inputs: list[ClientInput], *,
        options: SearchKeywords | None = None, returned: tuple[str, ...] | None = None,
    ) -> list[Message]:  # fmt: skip
        payload: Message = {
            "inputs": inputs,
            "options": wanted.options if options is None else options,
            "prefix": wanted.prefix,
            "return": list(wanted.returned if returned is None else returned),
        }
        seconds = self.server.timeout(wanted.timeout)
        result = await model.call(operation, payload, inputs=max(1, len(inputs)), timeout=seconds)
        outputs: list[Message] = result["outputs"]
        return outputs

    async def _with_glossary(self, model: Model, wanted: Wanted) -> list[Message]:
        """Each input with the phrases of its own entries; entries that cannot be kept stand in the flags."""
        return list(await asyncio.gather(*(self._with_entries(model, wanted, one) for one in wanted.inputs)))

    async def _with_entries(self, model: Model, wanted: Wanted, given: ClientInput) -> Message:
        phrases = protect.glossary_phrases(wanted.glossary or {}, given) if isinstance(given, str) else []
        required = [*(wanted.options.get("require") or []), *phrases]
        try:
            [output] = await self._call(
                model, "generate", wanted, [given],
                options={**wanted.options, "require": required} if phrases else wanted.options,
            )  # fmt: skip
        except Refusal as refusal:
            if refusal.status != 422 or not phrases:
                raise
            [output] = await self._call(model, "generate", wanted, [given])
        lost = [phrase for phrase in phrases if phrase not in output["text"]]
        known = [flag for flag in output["flags"] if not any(phrase in flag for phrase in lost)]
        output["flags"] = [*known, *(f"glossary: {phrase!r} is not in the answer" for phrase in lost)]
        return output

    async def _with_pieces(
        self, model: Model, wanted: Wanted, outputs: list[Message], lost: list[list[str]]
    ) -> list[Message]:
        """Answers to the texts without their pieces, which are put back by the attention."""
        rows = [row for row, pieces in enumerate(lost) if pieces]
        texts = [protect.strip(str(wanted.inputs[row])) for row in rows]
        attends = bool(model.facts.get("attention"))
        returned = tuple({*wanted.returned, *(("attention",) if attends else ())})
        inputs: list[ClientInput] = [text.text for text in texts]
        found = await self._call(model, "generate", wanted, inputs, returned=returned)
        for row, text, output in zip(rows, texts, found, strict=True):
            source = str(wanted.inputs[row])
            output["text"] = protect.put_back(source, text, output["text"], output.get("attention"))
            output["flags"] += [f"placeholder: {piece} was put back by its place" for _, piece in text.pieces]
            if "attention" not in wanted.returned:
                output.pop("attention", None)
            outputs[row] = output
        return outputs

    async def stream_request(self, request: Request) -> tuple[Model, Message, float]:
        """The model, the payload and the seconds of a stream."""
        values = await self.server.read(request)
        self._take_files(values)
        body = api_schema.parse(api_schema.StreamRequest, values)
        self.server.check_size([body.inputs])
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
        body = api_schema.parse(api_schema.SearchRequestBody, await self.server.read(request))
        self.server.check_size([body.inputs])
        payload: Message = {
            "inputs": [body.inputs], "options": api_schema.search_keywords(body), "prefix": body.prefix,
            "return": list(body.returned), "pruned": body.pruned,
        }  # fmt: skip
        return await self._result(request, "search", body.model, payload, body.timeout)

    async def score(self, request: Request) -> Message:
        """log p of targets, in their shape."""
        body = api_schema.parse(api_schema.ScoreRequest, await self.server.read(request))
        inputs = _listed(body.inputs)
        targets = body.targets if isinstance(body.targets, list) else [body.targets]
        self.server.check_size(inputs)
        self.server.check_size(targets, "targets")
        result = await self._result(request, "score", body.model, {"inputs": inputs, "targets": targets}, body.timeout)
        return {**result, "outputs": _shaped(result["outputs"], body.targets)}

    async def alternatives(self, request: Request) -> Message:
        """Other tokens for a position."""
        body = api_schema.parse(api_schema.AlternativesRequest, await self.server.read(request))
        payload = {**self._about_one(body), "position": body.position, "count": body.count}
        return await self._result(request, "alternatives", body.model, payload, body.timeout)

    async def step(self, request: Request) -> Message:
        """One step of the decoder."""
        body = api_schema.parse(api_schema.StepRequest, await self.server.read(request))
        payload = {
            **self._about_one(body), "position": body.position, "count": body.count, "layer": body.layer,
            "head": body.head, "dimensions": body.dimensions,
        }  # fmt: skip
        return await self._result(request, "step", body.model, payload, body.timeout)

    async def occlusion(self, request: Request) -> Message:
        """The loss of log p without each part of the source."""
        body = api_schema.parse(api_schema.OcclusionRequest, await self.server.read(request))
        payload = {**self._about_one(body), "by": body.by}
        return await self._result(request, "occlusion", body.model, payload, body.timeout)

    async def source(self, request: Request) -> Message:
        """The sources of an input as the model reads them."""
        body = api_schema.parse(api_schema.SourceRequest, await self.server.read(request))
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
        body = api_schema.parse(api_schema.MapRequest, await self.server.read(request))
        self.server.check_size(body.inputs)
        return await self._result(request, "map", body.model, {"inputs": body.inputs, "pool": body.pool}, body.timeout)

    async def _result(
        self, request: Request, operation: str, name: str | None, payload: Message, timeout: float | None
    ) -> Message:
        model = self.server.model(name)
        result = await self.server.call(request, model, operation, payload, timeout=timeout)
        return {**result, "model": model.name}


def _is_text(model: Model) -> bool:
    return [source["kind"] for source in model.facts.get("sources", ())] == ["text"]


def _listed(items: ClientInput | list[ClientInput]) -> list[ClientInput]:
    return items if isinstance(items, list) else [items]


def _shaped(outputs: list[Message], like: object) -> Message | list[Message]:
    """A list for a list, one for one."""
    return outputs if isinstance(like, list) else outputs[0]
