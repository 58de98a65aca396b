"""The reasons why a request is not answered: a status, a code, and sentences with the remedy."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from antiphon.serve.frames import Message

__all__ = ["Refusal", "bug", "draining", "invalid", "report_bug", "too_many"]


class Refusal(Exception):  # noqa: N818 - an answer of the server, not an error of it
    """A request that is not answered."""

    def __init__(
        self,
        status: int,
        code: str,
        problems: str | Iterable[str],
        *,
        param: str | None = None,
        limit: Any = None,  # noqa: ANN401 (any JSON)
        given: Any = None,  # noqa: ANN401
        retry_after: int | None = None,
        depth: int | None = None,
    ) -> None:
        self.status, self.code, self.param, self.limit, self.given = status, code, param, limit, given
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        self.retry_after = retry_after  # seconds
        self.depth = depth  # inputs that were waiting
        super().__init__("\n".join(self.problems))

    @property
    def message(self) -> str:
        return "\n".join(self.problems)

    def envelope(self, request_id: str) -> Message:
        """The body of an error of /v1, which is that of OpenAI's API with more in it."""
        known = {"param": self.param, "limit": self.limit, "given": self.given, "queue_depth": self.depth}
        error = {
            "code": self.code,
            "message": self.message,
            "type": "server_error" if self.status >= 500 else "invalid_request_error",
            "problems": self.problems,
            "request_id": request_id,
        }
        return {"error": error | {name: value for name, value in known.items() if value is not None}}

    def as_message(self) -> Message:
        """The part that a worker sends to the server."""
        message = {"status": self.status, "code": self.code, "problems": self.problems, "param": self.param}
        return {**message, "limit": self.limit, "given": self.given}


def invalid(problems: str | Iterable[str], *, code: str = "invalid_value", param: str | None = None) -> Refusal:
    """422: a value is wrong; the parameter is read from the first sentence, which begins with it."""
    refusal = Refusal(422, code, problems, param=param)
    first, colon, _ = refusal.problems[0].partition(":")
    if param is None and colon and first.replace("_", "").isalnum():
        refusal.param = first
    return refusal


def too_many(name: str, given: int, limit: int) -> Refusal:
    """413 for a request that is too large."""
    return Refusal(
        413, "too_large", f"{name}: {given:,} is more than this server takes at once, {limit:,}; send less",
        param=name, limit=limit, given=given,
    )  # fmt: skip


def bug() -> Refusal:
    """500: a bug of ours; the details stand in the server's log, beside the id of the request."""
    return Refusal(500, "internal_error", "this is a bug in Antiphon; its log has the details, beside the request id")


def draining() -> Refusal:
    """503: the server is stopping."""
    return Refusal(503, "draining", "the server is stopping; try another", retry_after=5)


def report_bug(error: BaseException, request_id: str) -> None:
    """Log where an error came from, without its message, which may quote what the client has sent."""
    lines = "".join(traceback.format_tb(error.__traceback__))
    with contextlib.suppress(OSError):  # a log that nobody reads must not take a lane of the worker with it
        sys.stderr.write(f"{lines}{type(error).__name__}, request {request_id}\n")
