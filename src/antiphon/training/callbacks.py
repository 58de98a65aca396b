"""Callbacks: objects that are told of the updates and evaluations of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from antiphon.training.display import DevSample, Display, Figures

__all__ = ["Callback", "DisplayWithCallbacks"]


class Callback:
    """Is told of a run; override what you need, and give an object to `train(..., callbacks=[...])`.

    A callback that raises an exception is reported once and then left alone, and the training goes on. To stop the
    training, raise KeyboardInterrupt: the run is saved as after Ctrl-C. Random numbers that a callback draws from torch
    do not change the weights.
    """

    def on_update(self, row: dict[str, float]) -> None:
        """Called after every update: update, epoch, loss, learning_rate, tokens_per_second, seconds, remaining, ..."""

    def on_evaluation(self, row: dict[str, float], samples: list[DevSample]) -> None:
        """Called after every evaluation: update, epoch, train_loss, dev_loss and the metrics, and a few answers.

        A sample has `source`, `output` and `references`, and all of them in one `line`.
        """

    def on_end(self, outcome: dict[str, Any]) -> None:
        """Called once, when the training has ended or is interrupted: the content of the run's summary.json."""


class DisplayWithCallbacks(Display):
    """Passes everything on to a display, and tells the callbacks.

    `outcome` returns the content of summary.json; `stop` asks the run to stop, as Ctrl-C does.
    """

    def __init__(
        self,
        display: Display,
        callbacks: Sequence[Callback],
        *,
        outcome: Callable[[], dict[str, Any]],
        stop: Callable[[], None],
    ) -> None:
        self.display = display
        self.callbacks = list(callbacks)
        self.outcome = outcome
        self.stop = stop

    def log(self, message: str) -> None:
        self.display.log(message)

    def evaluating(self) -> None:
        self.display.evaluating()

    def update(self, row: Figures, total: int) -> None:
        self.display.update(row, total)
        self._tell(lambda callback: callback.on_update(dict(row)))

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None:
        self.display.evaluation(row, metrics, best, samples)
        self._tell(lambda callback: callback.on_evaluation(dict(row), list(samples)))

    def close(self) -> None:
        self.display.close()
        self._tell(lambda callback: callback.on_end(self.outcome()))

    def _tell(self, call: Callable[[Callback], None]) -> None:
        """Call each callback; one that fails is named and left out from now on."""
        for callback in list(self.callbacks):
            try:
                with torch.random.fork_rng(devices=[]):
                    call(callback)
            except KeyboardInterrupt:
                self.stop()
            except Exception as error:
                self.callbacks.remove(callback)
                fact = f"the callback {type(callback).__name__} raised {type(error).__name__}: {error}"
                self.display.log(f"warning: {fact}; it is not called again, and the training goes on")
