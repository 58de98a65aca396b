"""Connections of clients: limits on their time, and errors of HTTP itself in JSON."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from typing import Any

import h11
from pydantic_core import to_json
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from antiphon.serve.app import HEADERS
from antiphon.serve.refusals import Refusal
from antiphon.serve.server import Server

__all__ = ["Connection"]

DISCARDED = 8  # times the largest body that is read
REASONS = {431: "its headers are too long", 501: "its transfer encoding is unknown"}


class Connection(H11Protocol):
    """A connection of uvicorn's with three more limits.

    A request must begin within `seconds` of the connection, or of the first byte behind the request before it. A body
    that was refused is read on for as long, and for a number of bytes, since many clients read no answer before they
    have sent everything. A client that takes nothing of its answer for `seconds` is left.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        server: Server,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.seconds, self.most_discarded = server.settings.timeout, DISCARDED * server.settings.max_bytes
        self._count = server.metrics.request
        self._log = server.log
        self._beginning: asyncio.TimerHandle | None = None  # runs while no request is answered
        self._reading: asyncio.TimerHandle | None = None  # runs while the client has not taken all of an answer
        self._discarded = 0  # bytes of a refused body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # so that any byte that waits for the client is known
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, also after an error."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        for timer in (self._beginning, self._reading):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        if self._answers and self._beginning is not None:
            self._beginning.cancel()
            self._beginning, self._discarded = None, 0
        elif not self._answers:
            self._await_request()
            self._discarded += len(data)
            if self._discarded > self.most_discarded:
                self.transport.abort()

    def on_response_complete(self) -> None:
        """Wait for the next request if it has begun, or for the rest of a body that nobody reads."""
        super().on_response_complete()
        if not self._answers and (self.conn.their_state is h11.SEND_BODY or self.conn.trailing_data[0]):
            self._await_request()

    @property
    def _answers(self) -> bool:
        """A request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_request(self) -> None:
        if self._beginning is None:
            self._beginning = self.loop.call_later(self.seconds, self.transport.abort)

    def pause_writing(self) -> None:
        """The client does not take what it is sent: watch it."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The client has taken everything."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()

    def _watch(self, waiting: int) -> None:
        def look() -> None:
            left = self.transport.get_write_buffer_size()
            if left < waiting:
                self._watch(left)
            else:
                self.transport.abort()

        self._reading = self.loop.call_later(self.seconds, look)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, and close the connection."""
        status = getattr(sys.exception(), "error_status_hint", 400)
        number = uuid.uuid4().hex
        problem = f"the request is not read: {REASONS.get(status, msg.lower())}; send HTTP/1.1"
        body = to_json(Refusal(status, "invalid_http", problem).envelope(number))
        headers = {
            **HEADERS, "X-Request-ID": number, "Content-Type": "application/json", "Content-Length": str(len(body)),
            "Connection": "close",
        }  # fmt: skip
        with contextlib.suppress(h11.LocalProtocolError):  # half an answer was already sent
            start = h11.Response(status_code=status, headers=list(headers.items()), reason=STATUS_PHRASES[status])
            for event in (start, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self._count("unknown", status, 0.0)
        self._log(f"- unknown {status} 0 ms {number}")
        self.transport.close()

    def shutdown(self) -> None:
        """Close the connection, after the answer that is being sent."""
        with contextlib.suppress(h11.LocalProtocolError):
            super().shutdown()
        if not self._answers:
            self.transport.close()
