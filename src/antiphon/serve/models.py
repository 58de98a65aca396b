"""The models of a server: each has a process of its own, which is started again if it dies, and a bounded queue."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

from antiphon.errors import UserError
from antiphon.serve.frames import Message, pack, receive_frame
from antiphon.serve.refusals import Refusal, draining
from antiphon.serve.serve_settings import ServedModel, ServeSettings
from antiphon.text import plural

__all__ = ["REQUEST_ID", "TOO_OFTEN", "Call", "Log", "Model", "Queue"]

REQUEST_ID = ContextVar("REQUEST_ID", default="-")  # of the request that a task answers

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0  # seconds before a dead process is started again
GOOD_LIFE = 60.0  # seconds after which a process counts as healthy
RECENT = 64  # batches by which the speed of a model is known
LAST_SECONDS = 2.0  # that a process has to leave after it has closed its output
TOO_OFTEN = 2  # processes that a request may have taken with it
MOST_EVENTS = 1024  # of a stream that its client has not read yet
MOST_WAITING = 1024  # requests that wait for room; more would only fill the memory

SLOW_READER = Refusal(408, "slow_reader", "the stream is read more slowly than it is written; ask for less of it")

Report = Callable[[str, float], None]  # of a fact and its value, for the metrics
Log = Callable[[str], None]


class Queue:
    """Admits inputs up to a limit, in the order of their requests; those beyond it wait for a while."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, inputs: int, wait: float) -> bool:
        """False if there is no room within `wait` seconds."""
        if not self._waiting and self._fits(inputs):
            self.used += inputs
            return True
        if len(self._waiting) >= MOST_WAITING:
            return False
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((inputs, room))
        try:
            async with asyncio.timeout(wait):
                await room
        except TimeoutError:
            return room.done() and not room.cancelled()  # admitted in the moment in which its time was over
        except asyncio.CancelledError:
            if room.done() and not room.cancelled():  # admitted in the moment in which it gave up
                self.leave(inputs)
            raise
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove((inputs, room))
            self._admit()
        return True

    def leave(self, inputs: int) -> None:
        """The inputs are answered or given up."""
        self.used -= inputs
        self._admit()

    def _admit(self) -> None:
        while self._waiting and (self._waiting[0][1].done() or self._fits(self._waiting[0][0])):
            inputs, room = self._waiting.popleft()
            if not room.done():
                self.used += inputs
                room.set_result(None)

    def _fits(self, inputs: int) -> bool:
        return self.used == 0 or self.used + inputs <= self.limit


@dataclass(eq=False)
class Call:
    """A request that a model's process works at."""

    operation: str
    payload: Message
    request_id: str = field(default_factory=REQUEST_ID.get)
    events: asyncio.Queue[Message] = field(default_factory=asyncio.Queue)  # the last is a result or an error
    streamed: bool = False  # an event was sent, so it cannot be begun again
    deaths: int = 0  # of processes that had it


class Model:
    """A model behind a process of its own."""

    def __init__(
        self, served: ServedModel, settings: ServeSettings, *, log: Log, report: Report = lambda _fact, _value: None
    ) -> None:
        self.served, self.settings, self.log = served, settings, log
        self.facts: Message = {}
        self.queue = Queue(settings.queue)
        self.problems: list[str] = []  # why it cannot be loaded
        self.restarts = 0
        self._report = report
        self._ready = asyncio.Event()
        self._calls: dict[int, Call] = {}
        self._numbers = count(1)
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._speeds: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._stopping = False

    @property
    def name(self) -> str:
        return self.served.name

    @property
    def update(self) -> int | None:
        """The update of a training after which its weights were saved; None for several models."""
        weights = self.facts.get("weights", ())
        return weights[0]["update"] if len(weights) == 1 else None

    @property
    def ready(self) -> bool:
        return self._ready.is_set()

    @property
    def pid(self) -> int | None:
        """Of its process, while it runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else None

    async def start(self) -> None:
        """Start the process and wait until the model is loaded; UserError if it cannot be."""
        self._task = asyncio.create_task(self._keep_alive(), name=f"model {self.name}")
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()
            raise UserError(self.problems)

    async def stop(self) -> None:
        """End the process; what it still works at is given up."""
        self._stopping = True
        self._kill()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        self._fail_all(draining())

    async def call(self, operation: str, payload: Message, *, inputs: int, timeout: float) -> Message:
        """The result of an operation; Refusal if there is none."""
        async with contextlib.aclosing(self.stream(operation, payload, inputs=inputs, timeout=timeout)) as events:
            async for event in events:
                if "result" in event:
                    return cast("Message", event["result"])
        raise AssertionError("a stream ends with its result")

    async def stream(
        self, operation: str, payload: Message, *, inputs: int, timeout: float
    ) -> AsyncGenerator[Message, None]:
        """The events of an operation, the last of them its result; Refusal if there is none.

        Closing the iterator takes the request out of the queue.
        """
        end = time.monotonic() + timeout
        await self.wait_until_ready(min(self.settings.wait, timeout))
        if not await self.queue.enter(inputs, min(self.settings.wait, end - time.monotonic())):
            raise self._full()
        number, call = next(self._numbers), Call(operation, payload)
        self._calls[number] = call
        try:
            if self.ready:  # else it is sent as soon as the next process is ready
                self._send(number, call)
            while True:
                yield (event := await self._next_event(call, end, timeout))
                if "result" in event:
                    return
        finally:
            self.queue.leave(inputs)
            if self._calls.pop(number, None) is not None and self.ready:
                self._write({"id": number, "operation": "cancel"})

    async def _next_event(self, call: Call, end: float, timeout: float) -> Message:
        try:
            async with asyncio.timeout(max(0.0, end - time.monotonic())):
                event = await call.events.get()
        except TimeoutError:
            if not self.ready:
                raise self._died() from None
            raise Refusal(
                504, "deadline", f"no answer within {timeout:g} seconds; send less at once, or ask for more time",
                param="timeout", limit=timeout,
            ) from None  # fmt: skip
        if "error" in event:
            raise event["error"]
        return event

    async def wait_until_ready(self, wait: float) -> None:
        """Wait for the model to be loaded; Refusal if that takes longer than `wait` seconds."""
        try:
            async with asyncio.timeout(wait):
                await self._ready.wait()
        except TimeoutError:
            if self.problems:
                problem = f"{self.name} cannot be loaded; the server's log says why"
                raise Refusal(503, "model_failed", problem, retry_after=30) from None
            raise Refusal(503, "loading", f"{self.name} is loading; try again soon", retry_after=2) from None

    def _full(self) -> Refusal:
        inputs = sum(inputs for inputs, _ in self._speeds)
        seconds = sum(seconds for _, seconds in self._speeds) / max(1, self.settings.threads)
        soon = math.ceil(self.queue.used / 2 * seconds / inputs) if inputs else 1
        return Refusal(
            429, "queue_full", f"{self.name} has {plural(self.queue.used, 'inputs')} to answer; try again soon",
            retry_after=min(60, max(1, soon)), depth=self.queue.used, limit=self.queue.limit,
        )  # fmt: skip

    def _send(self, number: int, call: Call) -> None:
        message = {"id": number, "operation": call.operation, "payload": call.payload, "request": call.request_id}
        self._write(message)

    def _write(self, message: Message) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(pack(message))

    async def _keep_alive(self) -> None:
        """Run the process, and start it again whenever it has died."""
        pause, loaded_once = FIRST_PAUSE, False
        while not self._stopping:
            began = time.monotonic()
            loaded, reason = await self._run_process()
            if self._stopping:
                return
            if not loaded and not loaded_once:
                unknown = f"{self.name}: its process has ended ({reason}) while it was loading; is there memory for it?"
                self.problems = self.problems or [unknown]
                return
            loaded_once = True
            pause = FIRST_PAUSE if loaded and time.monotonic() - began > GOOD_LIFE else min(LONGEST_PAUSE, 2 * pause)
            self.restarts += 1
            self._report("restarts", 1)
            for problem in [*self.problems, f"{self.name}: its process has ended ({reason}); it is started again"]:
                self.log(problem)
            await asyncio.sleep(pause / 2)

    async def _run_process(self) -> tuple[bool, str]:
        """Start the process and read from it until it ends: True if the model was loaded, and how it has ended."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "antiphon.serve.worker",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                env=worker_environment(self.settings.threads), start_new_session=True,
            )  # fmt: skip
        except OSError as error:  # no memory, no process numbers: later there may be some
            return False, f"it cannot be started: {error.strerror}"
        assert self._process.stdout is not None
        self.problems = []
        self._write(
            {
                "name": self.name,
                "runs": [str(run) for run in self.served.runs],
                "combine": "arithmetic",
                "threads": self.settings.threads,
                "most_positions": self.settings.max_positions,
                "most_characters": self.settings.max_characters,
            }
        )
        try:
            while (message := await receive_frame(self._process.stdout)) is not None:
                self._receive(message)
        finally:
            loaded = self.ready
            self._ready.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_SECONDS):
                await self._process.wait()
        self._kill()
        code = await self._process.wait()
        self._after_death()
        return loaded, f"signal {-code}" if code < 0 else f"exit code {code}"

    def _kill(self) -> None:
        """End the process, if it runs."""
        self._ready.clear()
        if self._process is not None and self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def _receive(self, message: Message) -> None:
        if "ready" in message:
            self.facts = message["ready"]
            self._ready.set()
            for number, call in self._calls.items():
                self._send(number, call)
        elif "failed" in message:
            self.problems = message["failed"]
        elif "batch" in message:
            batch = message["batch"]
            self._speeds.append((batch["inputs"], batch["seconds"]))
            self._report("batch", batch["inputs"])
        elif (waiting := self._calls.get(message["id"])) is not None:
            self._hand_over(message, waiting)

    def _hand_over(self, message: Message, call: Call) -> None:
        """An event, a result or an error for the request that waits for it."""
        if "event" in message and call.events.qsize() < MOST_EVENTS:
            call.streamed = True
            call.events.put_nowait({"event": message["event"], "data": message["data"]})
            return
        if "event" in message:
            message = {"id": message["id"], "error": SLOW_READER.as_message()}
            self._write({"id": message["id"], "operation": "cancel"})
        del self._calls[message["id"]]
        if "error" in message:
            call.events.put_nowait({"error": refusal_of(message["error"])})
        else:
            call.events.put_nowait({"result": message["result"]})

    def _after_death(self) -> None:
        """Requests wait for the next process, unless they were half answered or have taken two with them."""
        for number, call in list(self._calls.items()):
            call.deaths += 1
            if call.streamed or call.deaths >= TOO_OFTEN:
                del self._calls[number]
                call.events.put_nowait({"error": self._died()})

    def _died(self) -> Refusal:
        return Refusal(503, "worker_died", f"the process of {self.name} has died; try again", retry_after=2)

    def _fail_all(self, refusal: Refusal) -> None:
        for call in self._calls.values():
            call.events.put_nowait({"error": refusal})
        self._calls.clear()


def refusal_of(message: Message) -> Refusal:
    """The refusal that a worker has sent."""
    fields: dict[str, Any] = {name: message.get(name) for name in ("param", "limit", "given")}
    return Refusal(message["status"], message["code"], message["problems"], **fields)


def worker_environment(threads: int) -> dict[str, str]:
    """The environment of a model's process: as many threads as it was given."""
    several = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    return {**os.environ, **several, "TOKENIZERS_PARALLELISM": "false"}
