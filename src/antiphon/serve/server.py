"""The server as an object: its models, its manners, and the way of a request through them."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
from collections.abc import AsyncGenerator, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request

from antiphon.errors import UserError
from antiphon.serve.attachments import ClientInput
from antiphon.serve.frames import Message
from antiphon.serve.models import Log, Model
from antiphon.serve.opened_runs import OpenedRuns
from antiphon.serve.reader import ClientGone, read_values
from antiphon.serve.refusals import Refusal, invalid, too_many
from antiphon.serve.serve_settings import ServeSettings
from antiphon.serve.server_metrics import Metrics

__all__ = ["LEAST_CROWD", "Server", "first_event", "unless_gone"]

Result = TypeVar("Result")
CROWD, LEAST_CROWD = 4, 64  # requests: a multiple of the inputs that may wait (--queue), and the least limit
MOST_HELD = 16  # of the largest bodies: what all requests together may hold
KEYS = ("bearer", "deepl-auth-key")  # schemes of the Authorization header


class Server:
    """The state that the routes share."""

    def __init__(self, settings: ServeSettings, log: Log) -> None:
        self.settings, self._log = settings, log
        self.metrics = Metrics()
        self.models = [
            Model(served, settings, log=self.log, report=partial(self.metrics.report, served.name))
            for served in settings.models
        ]
        for model in self.models:
            self.metrics.watch(model.name, partial(_used, model), partial(_ready, model))
        self.runs = OpenedRuns(settings, log=log, metrics=self.metrics)
        self.draining = False  # new requests are refused
        self.active = 0  # requests that are being answered
        self.held = 0  # bytes of their bodies

    def log(self, text: str) -> None:
        """Log one line; a log that nobody reads any more is no reason to stop."""
        with contextlib.suppress(OSError):
            self._log(text)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Start the models, and stop them at the end; UserError if one cannot be loaded."""
        try:
            results = await asyncio.gather(*(model.start() for model in self.models), return_exceptions=True)
            errors = [result for result in results if result is not None]
            problems = [problem for error in errors if isinstance(error, UserError) for problem in error.problems]
            if problems:
                raise UserError(problems)
            for error in errors:
                raise error
            yield
        finally:
            await asyncio.gather(self.runs.stop(), *(model.stop() for model in self.models))

    @property
    def overcrowded(self) -> bool:
        """True if a new request would only hold up those that are being answered or wait."""
        return self.active >= max(LEAST_CROWD, CROWD * self.settings.queue * max(1, len(self.models)))

    @property
    def ready(self) -> bool:
        return not self.draining and all(model.ready for model in self.models)

    async def read(self, request: Request) -> Message:
        """The fields of a request whose key is right; Refusal otherwise."""
        known = not self.settings.api_keys or self._has_key(request.headers)
        hold = partial(self._hold, request)
        values = await read_values(request, self.settings.max_bytes, self.settings.timeout, hold)
        key = values.pop("api_key", None)
        if not known:
            self._check_key(key)
        return values

    def _hold(self, request: Request, size: int) -> None:
        """Count bytes of a body until its request is answered; Refusal if those of all requests are too many."""
        if self.held + size > MOST_HELD * self.settings.max_bytes:
            problem = "the bodies of other requests fill the memory that is meant for them; try again soon"
            raise Refusal(429, "too_many_bytes", problem, retry_after=1, limit=MOST_HELD * self.settings.max_bytes)
        self.held += size
        request.scope["state"]["held"] = request.scope["state"].get("held", 0) + size

    def _has_key(self, headers: Any) -> bool:  # noqa: ANN401 (starlette's Headers)
        """True if a header has a key; Refusal if it is wrong."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() not in KEYS:
            key = headers.get("x-api-key", "")
        if not key:
            return False
        self._check_key(key.strip())
        return True

    def _check_key(self, key: object) -> None:
        if not isinstance(key, str) or not key:
            raise Refusal(401, "no_api_key", "this server needs a key; send it as `Authorization: Bearer KEY`")
        same = [hmac.compare_digest(key.encode(), known.encode()) for known in self.settings.api_keys]
        if not any(same):  # each was compared, so that the time tells nothing
            raise Refusal(401, "wrong_api_key", "this is not a key of this server; check it")

    def model(self, name: str | None) -> Model:
        """The model of this name; the only one needs none."""
        names = [*(model.name for model in self.models), *self.runs.listing.paths()]
        if name is None:
            if len(names) != 1:
                raise invalid(f"model: this server has several; give one of {', '.join(names)}", param="model")
            name = names[0]
        found = next((model for model in self.models if model.name == name), None) or self.runs.open(name)
        if found is None:
            problem = f"model: there is no {name[:100]!r}; this server has {', '.join(names)}"
            raise Refusal(404, "unknown_model", problem, param="model")
        return found

    def timeout(self, asked: float | None) -> float:
        """Seconds for a request."""
        return self.settings.timeout if asked is None else min(asked, self.settings.timeout)

    def check_size(self, inputs: Sequence[ClientInput], name: str = "inputs") -> None:
        """Refusal (413) if there are too many inputs; the model knows which of them are texts, and may be too long."""
        if len(inputs) > self.settings.max_inputs:
            raise too_many(name, len(inputs), self.settings.max_inputs)

    def check_texts(self, texts: Sequence[str], name: str) -> None:
        """Refusal (413) if there are too many texts or one of them is too long."""
        self.check_size(texts, name)
        for number, text in enumerate(texts):
            self.check_answer(text, f"{name}[{number}]")

    def check_answer(self, answer: str | list[int] | None, name: str = "answer") -> None:
        """Refusal (413) if a given answer, or the beginning of one, is too long."""
        if answer is not None and len(answer) > self.settings.max_characters:
            unit = "characters" if isinstance(answer, str) else "tokens"
            raise too_many(f"{name} in {unit}", len(answer), self.settings.max_characters)

    async def call(
        self, request: Request, model: Model, operation: str, payload: Message, *, timeout: float | None = None
    ) -> Message:
        """The result of an operation, unless the client goes away."""
        inputs = max(1, len(payload.get("inputs", ())))
        return await unless_gone(request, model.call(operation, payload, inputs=inputs, timeout=self.timeout(timeout)))


def _used(model: Model) -> float:
    return model.queue.used


def _ready(model: Model) -> float:
    return float(model.ready)


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work, which is given up when the client closes the connection."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientGone
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def first_event(request: Request, events: AsyncGenerator[Message, None]) -> Message:
    """The first event of a stream, which is given up when the client goes away before it; Refusal if there is none."""

    async def first() -> Message:
        return await anext(events)

    return await unless_gone(request, first())


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
