"""Runs the server: one process for HTTP, signals, and the order in which it stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Generator, Sequence
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from antiphon.errors import UserError
from antiphon.serve.app import HEADER_BYTES, create_app
from antiphon.serve.connection import Connection
from antiphon.serve.models import Log
from antiphon.serve.refusals import report_bug
from antiphon.serve.serve_settings import ServedModel, ServeSettings
from antiphon.serve.server import Server
from antiphon.text import plural

__all__ = ["bind", "serve", "serve_app"]

IDLE = 75  # seconds that a connection without a request stays open: more than the usual proxy's


class Runner(uvicorn.Server):
    """On SIGTERM or Ctrl-C: not ready, answer what was accepted, leave. On the second signal: leave now."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self.server = server
        self._deadline: float | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle signals while the server runs; the exit code is ours."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 (a signal handler)
        """Begin to stop, or stop at once. It logs nothing: it may interrupt a line that is being written."""
        if self.server.draining:
            for model in self.server.models:
                if model.pid is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(model.pid, signal.SIGKILL)
            os._exit(130 if sig == signal.SIGINT else 143)
        self.server.draining = True

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second: True ends the server."""
        if self.server.draining and self._deadline is None:
            self._deadline = time.monotonic() + self.server.settings.drain
            count = self.server.active
            self.server.log(f"stopping: {plural(count, 'requests')} left to answer; a second signal leaves at once")
        late = self._deadline is not None and time.monotonic() > self._deadline
        done = self.server.draining and (self.server.active == 0 or late)
        return await super().on_tick(counter) or done


def serve(settings: ServeSettings, log: Log) -> None:
    """Serve until a signal comes; UserError if a model or the address cannot be used."""
    with bind(settings.host, settings.port) as listening:
        serve_app(create_app(settings, log), settings.models, listening)


def serve_app(app: FastAPI, models: Sequence[ServedModel], listening: socket.socket) -> None:
    """Serve an application until a signal comes; UserError if one of its models cannot be loaded."""
    server: Server = app.state.server
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, date_header=True, lifespan="off", ws="none",
        http=cast("type[asyncio.Protocol]", partial(Connection, server=server)), timeout_keep_alive=IDLE,
        h11_max_incomplete_event_size=HEADER_BYTES, timeout_graceful_shutdown=1,
    )  # fmt: skip
    asyncio.run(_serve(Runner(config, server), server, models, listening))


async def _serve(runner: Runner, server: Server, models: Sequence[ServedModel], listening: socket.socket) -> None:
    """Answer while the models are loading, with 503; a model that cannot be loaded is an error of the command."""
    log_without_texts(server.log)
    host, port, *_ = listening.getsockname()
    shown = f"[{host}]" if ":" in host else host
    names = [*(model.name for model in models), *(f"the runs in {folder}" for folder in server.settings.folders)]
    ready = f"serving {', '.join(names)} at http://{shown}:{port}; "
    loading = asyncio.create_task(_run_models(runner, server, f"{ready}open it in a browser, or call its API: /docs"))
    try:
        await runner.serve(sockets=[listening])
    finally:
        loading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loading


async def _run_models(runner: Runner, server: Server, ready: str) -> None:
    """Load the models, and keep them until this task is cancelled; the server ends with it."""
    try:
        async with server.running():
            server.log(ready)
            await asyncio.get_running_loop().create_future()
    finally:
        runner.should_exit = True


def log_without_texts(log: Log) -> None:
    """Log errors of the libraries below by their place and kind: their messages may quote what a client has sent."""

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        log(f"error: {context['message']}")
        if (error := context.get("exception")) is not None:
            report_bug(error, "-")

    asyncio.get_running_loop().set_exception_handler(report)
    library = logging.getLogger("uvicorn.error")
    library.handlers, library.propagate = [_Bare(log)], False


class _Bare(logging.Handler):
    """Logs the kind of an error instead of its message."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        self._log(f"error: {record.getMessage().strip()}")
        if record.exc_info and record.exc_info[1] is not None:
            report_bug(record.exc_info[1], "-")


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; UserError if the address is taken or unknown."""
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"--host {host}: cannot be used ({reason}); give an address of this machine") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise UserError(f"--port {port}: cannot be used ({reason}); give another, or 0 for any that is free") from None
    return listening
