"""The process that has one model: it reads requests from stdin and writes results to stdout, as frames.

    python -m antiphon.serve.worker

The first frame has its settings. It ends when its stdin does, so no worker outlives its server.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch

from antiphon.errors import UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import load
from antiphon.serve.batcher import Batcher, BatchLimits, Request
from antiphon.serve.frames import Message, pack, read_frame
from antiphon.serve.model_facts import model_facts
from antiphon.serve.operations import Operations, refusal_of_error
from antiphon.serve.refusals import Refusal, bug, report_bug

__all__ = ["ModelWorker", "main"]

SWITCH_SECONDS = 2e-4  # Python lets the thread that reads requests hold up a lane for 5 ms at each of its operations


class ModelWorker:
    """Plans each request as it comes, and lets the lanes compute it."""

    def __init__(
        self, generator: Generator, runs: list[Path], output: BinaryIO, settings: Message, threads: int
    ) -> None:
        """`settings` are those of the first frame."""
        self.operations = Operations(generator, settings["most_positions"], settings["most_characters"])
        self._output, self._writing = output, threading.Lock()
        self._requests: dict[int, Request] = {}
        ours = generator.engine.name == "torch"
        # Not one lane more, to turn answers into text meanwhile: it would take what comes next, as a small batch.
        self.batcher = Batcher(
            min(threads, generator.engine.workers),
            BatchLimits(generator.engine.budget, generator.config.decoding.batch_size),
            prepare=partial(torch.set_num_threads, 1 if ours else threads),
            report=self._report,
        )
        self._facts = model_facts(generator, runs, threads)

    def send(self, message: Message) -> None:
        """Write a frame; the server that has gone needs none."""
        left = memoryview(pack(message))
        try:
            with self._writing:
                while left:  # a pipe takes a part of it when this process is stopped and continued
                    left = left[self._output.write(left) :]
        except OSError:
            os._exit(0)

    def run(self, stream: BinaryIO) -> None:
        """Read and serve requests until the end of the stream."""
        self.send({"ready": self._facts})
        while (message := read_frame(stream)) is not None:
            if message["operation"] == "cancel":
                if request := self._requests.pop(message["id"], None):
                    self.batcher.cancel(request)
            else:
                self._begin(message)
        self.batcher.close()

    def _begin(self, message: Message) -> None:
        number: int = message["id"]
        fail = partial(self._fail, number, message["request"])
        try:
            plan = self.operations.plan(message["operation"], message["payload"], partial(self._emit, number))
        except Exception as error:
            fail(error)
            return
        if not plan.parts:
            self.send({"id": number, "result": plan.answer([])})
            return

        def finish(results: list[Any]) -> None:
            self._requests.pop(number, None)
            self.send({"id": number, "result": plan.answer(results)})

        request = Request(len(plan.parts), finish, fail)
        self._requests[number] = request
        self.batcher.submit(request, plan.parts)

    def _emit(self, number: int, event: str, data: Message) -> None:
        self.send({"id": number, "event": event, "data": data})

    def _fail(self, number: int, request_id: str, error: Exception) -> None:
        self._requests.pop(number, None)
        if isinstance(error, UserError):
            error = refusal_of_error(error)
        if not isinstance(error, Refusal):
            report_bug(error, request_id)
            error = bug()
        self.send({"id": number, "error": error.as_message()})

    def _report(self, inputs: int, seconds: float) -> None:
        self.send({"batch": {"inputs": inputs, "seconds": seconds}})


def claim_output() -> BinaryIO:
    """The stdout of this process for frames alone; whatever a library prints goes to stderr."""
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return output


def main() -> int:
    """Load the model that the first frame names, and serve it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    output, stream = claim_output(), sys.stdin.buffer
    settings = read_frame(stream)
    if settings is None:
        return 0
    threads: int = settings["threads"]
    sys.setswitchinterval(SWITCH_SECONDS)
    torch.set_num_threads(threads)
    workers: list[ModelWorker] = []

    def check() -> None:
        for worker in workers:
            worker.batcher.check()

    runs = [Path(run) for run in settings["runs"]]
    try:
        generator = load(runs if len(runs) > 1 else runs[0], combine=settings["combine"], check=check)
    except UserError as error:
        output.write(pack({"failed": error.problems}))
        return 2
    generator.name = settings["name"]
    worker = ModelWorker(generator, runs, output, settings, threads)
    workers.append(worker)
    worker.run(stream)
    return 0


if __name__ == "__main__":
    sys.exit(main())
