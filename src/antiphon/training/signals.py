"""Ctrl-C and SIGTERM as a polite question: the loop asks between batches whether to stop."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

__all__ = ["StopRequested", "StopSignals"]

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopRequested(Exception):  # noqa: N818 - not an error
    """A signal has come; whoever holds the state saves it and leaves."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(exit_code)


class StopSignals:
    """While it is open, the first signal is remembered and the second leaves at once."""

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._remember) for number in EXIT_CODES}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _remember(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature is given
        code = EXIT_CODES[signal.Signals(number)]
        if self.exit_code is not None:
            os._exit(code)  # every write is a rename: nothing can be left half written
        self.exit_code = code

    def check(self) -> None:
        """Raises StopRequested if a signal has come."""
        if self.exit_code is not None:
            raise StopRequested(self.exit_code)
