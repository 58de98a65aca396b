"""Progress display of a training: a live bar in a terminal, plain lines elsewhere; and its signal handling."""

from __future__ import annotations

import os
import re
import signal
import threading
from itertools import accumulate
from types import FrameType, TracebackType
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from antiphon.text import HANGING, cut, pack, visible

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

    @property
    def texts(self) -> list[str]:
        """Source, output and, if that is wrong, the right answer; control characters are visible."""
        right = self.references[:1] if self.mark == "✗" else ()
        return [visible(text, keep=" ") for text in (self.source, self.output, *right)]

    @property
    def line(self) -> str:
        """`✗ source → output (right: reference)`"""
        source, output, *right = self.texts
        return f"{self.mark} {source} → {output}" + "".join(f" (right: {text})" for text in right)


COLOURS = {"✓": "green", "✗": "red", "·": "dim"}
NARROWEST = 8  # characters of a column of the table
SPEED_WIDTH, PADDING_WIDTH = 76, 100  # a narrower terminal has no room for these parts of the bar


class Display:
    """Receives the messages, updates and evaluations of a run. This one shows nothing: for use as a library."""

    def log(self, message: str) -> None: ...

    def update(self, row: Figures, total: int) -> None: ...

    def evaluating(self) -> None:
        """An evaluation begins; `evaluation` ends it."""

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None: ...

    def close(self) -> None: ...


class PlainDisplay(Display):
    """Prints lines for a file or a pipe: one per `every` updates and one or two per evaluation."""

    def __init__(self, console: Console, every: int = 50) -> None:
        self.console = console
        self.every = every

    def log(self, message: str) -> None:
        self._print(message)

    def update(self, row: Figures, total: int) -> None:
        if int(row["update"]) % self.every == 0:
            parts = [
                f"update {int(row['update'])}/{total}", f"epoch {int(row['epoch']) + 1}", f"loss {row['loss']:.3f}",
                f"{_clock(row['remaining'])} left", f"{row['tokens_per_second']:,.0f} tokens/s",
                f"rate {row['learning_rate']:.2e}", f"padding {row['padding']:.1%}",
            ]  # fmt: skip
            self._print(pack(parts, self.console.width)[0])

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None:
        parts = [f"evaluation at update {int(row['update'])}", f"epoch {row['epoch']:.1f}"]
        parts += [f"train loss {row['train_loss']:.3f}", f"dev loss {row['dev_loss']:.3f}"]
        parts += [*(f"{name} {row[name]:.2f}" for name in metrics), *(["★ best so far"] if best else [])]
        for line in pack(parts, self.console.width):
            self._print(line)
        for sample in samples:
            self._print(_sample_text(sample, self.console.width).plain)

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
            TextColumn("updates  {task.fields[activity]}"),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=None, epoch="1", activity="")
        self.has_header = False

    def log(self, message: str) -> None:
        for line in message.split("\n"):
            self._print("\n".join(pack(line.split(" "), self.console.width, gap=" ")))

    def update(self, row: Figures, total: int) -> None:
        parts = [f"loss {row['loss']:.3f}"]
        if self.console.width >= SPEED_WIDTH:
            parts.append(f"{row['tokens_per_second']:,.0f} tokens/s")
        if self.console.width >= PADDING_WIDTH:
            parts.append(f"padding {row['padding']:.1%}")
        parts.append(f"{_clock(row['remaining'])} left")
        epoch = str(int(row["epoch"]) + 1)
        self.bar.update(
            self.task, completed=int(row["update"]), total=total, epoch=epoch, activity="  ".join(parts)
        )  # fmt: skip
        self.bar.start()  # again has no effect

    def evaluating(self) -> None:
        self.bar.update(self.task, activity="evaluating", refresh=True)

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None:
        cells = {
            "update": f"{int(row['update'])}",
            "epoch": f"{row['epoch']:.1f}",
            "train loss": _figure(row["train_loss"], 3),
            "dev loss": _figure(row["dev_loss"], 3),
            **{name: _figure(row[name], 2) for name in metrics},
        }
        shown = _columns_that_fit(list(cells), self.console.width - 2)
        if not self.has_header:
            for line in _header(shown, more=len(shown) < len(cells)):
                self.console.print(f"[bold]{line}[/bold]")
            self.has_header = True
        line = "".join(f"{cells[name]:>{_width(name)}}" for name in shown)
        self.console.print(line + (" [yellow]★[/yellow]" if best else ""), highlight=False)
        for sample in samples:
            self.console.print(_sample_text(sample, self.console.width), highlight=False)

    def close(self) -> None:
        self.bar.stop()


# Lines that fit the terminal


def _sample_text(sample: DevSample, width: int) -> Text:
    """`✗ source → output (right: reference)` in one line; the longest of the three are cut."""
    texts = sample.texts
    around = cell_len(f"{HANGING}{sample.line}") - sum(map(cell_len, texts))
    source, output, *right = cut_together(texts, width - around)
    text = Text(HANGING)
    text.append(sample.mark, COLOURS[sample.mark]).append(f" {source}").append(" → ", "dim").append(output)
    return text.append("".join(f" (right: {one})" for one in right), "dim")


def cut_together(texts: list[str], room: int) -> list[str]:
    """The texts in at most `room` columns together: the longest are cut with …, to the same width."""
    left = max(room, len(texts))
    shown = dict.fromkeys(range(len(texts)), "")
    for count, number in enumerate(sorted(shown, key=lambda number: cell_len(texts[number]))):
        shown[number] = cut(texts[number], left // (len(texts) - count))
        left -= cell_len(shown[number])
    return [shown[number] for number in range(len(texts))]


def _columns_that_fit(names: list[str], width: int) -> list[str]:
    """The first of the columns, as many as there is room for, but at least one."""
    ends = accumulate(_width(name) for name in names)
    return [name for name, end in zip(names, ends, strict=True) if end <= width or name == names[0]]


def _header(names: list[str], *, more: bool) -> list[str]:
    """The names of the columns, word below word; with … if there are more of them."""
    words = [re.split("[ _]", name) for name in names]
    height = max(map(len, words))
    padded = [[""] * (height - len(column)) + column for column in words]
    rows = zip(*padded, strict=True)
    *upper, last = ("".join(f"{word:>{_width(name)}}" for name, word in zip(names, row, strict=True)) for row in rows)
    return [*upper, last + (" …" if more else "")]


def _width(name: str) -> int:
    return max(NARROWEST, *(len(word) + 2 for word in re.split("[ _]", name)))


def _figure(value: float, digits: int) -> str:
    """1.937, or 1.6e+04 where a column has no room for the digits."""
    text = f"{value:.{digits}f}"
    return text if len(text) < NARROWEST else f"{value:.1e}"


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def open_display() -> Display:
    """A live display if stderr is a terminal, else a plain one."""
    console = Console(stderr=True)
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)
