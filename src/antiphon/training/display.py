"""Progress display of a training: a live bar in a terminal, plain lines elsewhere; and its signal handling."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from antiphon.text import visible

__all__ = [
    "DevSample", "Display", "Figures", "LiveDisplay", "PlainDisplay", "StopRequested", "StopSignals", "open_display",
]  # fmt: skip

# Ctrl-C and SIGTERM are remembered; the loop checks between batches whether to stop.

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopRequested(Exception):  # noqa: N818 - not an error
    """A signal asks to stop: save the state and leave."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(exit_code)


class StopSignals:
    """Inside this context the first signal is remembered, and the second ends the process at once."""

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
            os._exit(code)  # every write is a rename, so no file is left half written
        self.exit_code = code

    def stop(self) -> None:
        """Stop as after Ctrl-C."""
        self.exit_code = EXIT_CODES[signal.SIGINT]

    def check(self) -> None:
        """Raise StopRequested after a signal."""
        if self.exit_code is not None:
            raise StopRequested(self.exit_code)


Figures = dict[str, float]


class DevSample(NamedTuple):
    """The output for a dev example; without references it is neither right nor wrong."""

    source: str
    output: str
    references: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        if not self.references:
            return "·"
        return "✓" if self.output in self.references else "✗"


COLOURS = {"✓": "green", "✗": "red", "·": "dim"}


class Display:
    """Receives the messages, updates and evaluations of a run. This one shows nothing: for use as a library."""

    def log(self, message: str) -> None: ...

    def update(self, row: Figures, total: int) -> None: ...

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None: ...

    def close(self) -> None: ...


class PlainDisplay(Display):
    """Prints lines for a file or a pipe: one per `every` updates and one per evaluation."""

    def __init__(self, console: Console, every: int = 50) -> None:
        self.console = console
        self.every = every

    def log(self, message: str) -> None:
        self._print(message)

    def update(self, row: Figures, total: int) -> None:
        if int(row["update"]) % self.every == 0:
            self._print(
                f"update {int(row['update'])}/{total}  epoch {int(row['epoch']) + 1}  loss {row['loss']:.3f}  "
                f"{row['tokens_per_second']:.0f} tokens/s  padding {row['padding']:.1%}  "
                f"learning rate {row['learning_rate']:.2e}  {_clock(row['remaining'])} left"
            )

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None:
        values = "  ".join(f"{name} {row[name]:.2f}" for name in metrics)
        losses = f"train loss {row['train_loss']:.3f}  dev loss {row['dev_loss']:.3f}"
        star = "  ★ best so far" if best else ""
        self._print(f"evaluation at update {int(row['update'])}  epoch {row['epoch']:.1f}  {losses}  {values}{star}")
        for sample in samples:
            self._print(f"    {sample.mark} {visible(sample.source, keep=' ')} → {visible(sample.output, keep=' ')}")

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveDisplay(PlainDisplay):
    """Shows a progress bar below a growing table of evaluations."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bar = Progress(
            TextColumn("[bold]epoch {task.fields[epoch]}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[speed]} tokens/s"),
            TextColumn("padding {task.fields[padding]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=None, epoch="1", loss="–", speed="–", padding="–")
        self.has_header = False
        self.started = False

    def update(self, row: Figures, total: int) -> None:
        if not self.started:
            self.bar.start()
            self.started = True
        self.bar.update(
            self.task,
            completed=int(row["update"]),
            total=total,
            epoch=str(int(row["epoch"]) + 1),
            loss=f"{row['loss']:.3f}",
            speed=f"{row['tokens_per_second']:,.0f}",
            padding=f"{row['padding']:.1%}",
        )

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None:
        cells = {
            "update": f"{int(row['update'])}",
            "epoch": f"{row['epoch']:.1f}",
            "train loss": f"{row['train_loss']:.3f}",
            "dev loss": f"{row['dev_loss']:.3f}",
            **{name: f"{row[name]:.2f}" for name in metrics},
        }
        if not self.has_header:
            self.console.print("[bold]" + "".join(f"{name:>{_width(name)}}" for name in cells) + "[/bold]")
            self.has_header = True
        line = "".join(f"{cell:>{_width(name)}}" for name, cell in cells.items())
        self.console.print(line + (" [yellow]★[/yellow]" if best else ""), highlight=False)
        for sample in samples:
            source, output = (escape(visible(text, keep=" ")) for text in (sample.source, sample.output))
            mark = f"[{COLOURS[sample.mark]}]{sample.mark}[/{COLOURS[sample.mark]}]"
            self.console.print(f"    {mark} {source} [dim]→[/dim] {output}", highlight=False)

    def close(self) -> None:
        self.bar.stop()


def _width(name: str) -> int:
    return max(8, len(name) + 3)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def open_display() -> Display:
    """A live display if stderr is a terminal, else a plain one."""
    console = Console(stderr=True)
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)
