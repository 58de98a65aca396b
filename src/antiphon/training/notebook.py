"""The display of a training in a notebook: one output that is renewed; and the choice of a display in Python."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any, Literal, get_args

from rich.console import Console

from antiphon.text import duration, visible
from antiphon.training.display import DevSample, Display, Figures, LiveDisplay, PlainDisplay, open_display

__all__ = ["DisplayName", "NotebookDisplay", "chosen_display"]

DisplayName = Literal["auto", "plain", "terminal", "notebook"]
EVERY = 0.3  # seconds between two renewals by updates
FIGURES = ("update", "epoch", "train_loss", "dev_loss")


def chosen_display(wanted: object) -> tuple[Display, str | None]:
    """The display for an argument of `train`, and the sentence for one that cannot be used."""
    if wanted is None:
        return Display(), None
    if isinstance(wanted, Display):
        return wanted, None
    name = ("notebook" if _in_notebook() else "terminal or plain") if wanted == "auto" else wanted
    match name:
        case "notebook" if _has_ipython():
            return NotebookDisplay(), None
        case "notebook":
            return Display(), "display: notebook needs IPython, which is not installed; choose plain or terminal"
        case "terminal or plain":
            return open_display(), None
        case "terminal":
            return LiveDisplay(Console(stderr=True, force_terminal=True, force_jupyter=False)), None
        case "plain":
            return PlainDisplay(Console(stderr=True, force_jupyter=False)), None
    known = ", ".join(get_args(DisplayName))
    return Display(), f"display: {wanted!r} is none of {known}, None or an object of antiphon.Display"


def _has_ipython() -> bool:
    from importlib.util import find_spec

    return find_spec("IPython") is not None


def _in_notebook() -> bool:
    """True in a process with a kernel; IPython in a terminal is a terminal."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class NotebookDisplay(Display):
    """Messages, a progress bar, a table of evaluations and the newest answers, in one output of a cell."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.progress: tuple[int, int, str] | None = None  # updates, all of them, in words
        self.rows: list[list[str]] = []
        self.head: list[str] = []
        self.samples: list[DevSample] = []
        self.handle: Any = None  # IPython's, of the output
        self.shown = 0.0

    def log(self, message: str) -> None:
        self.messages.append(message)
        self._show()

    def update(self, row: Figures, total: int) -> None:
        words = (
            f"update {int(row['update'])} of {total} · epoch {int(row['epoch']) + 1} · loss {row['loss']:.3f} · "
            f"{row['tokens_per_second']:,.0f} tokens/s · {duration(row['remaining'])} left"
        )
        self.progress = (int(row["update"]), total, words)
        if time.monotonic() - self.shown > EVERY:
            self._show()

    def evaluating(self) -> None:
        if self.progress is not None:
            done, total, _ = self.progress
            self.progress = (done, total, f"update {done} of {total} · evaluating")
            self._show()

    def evaluation(self, row: Figures, metrics: list[str], best: bool, samples: list[DevSample]) -> None:
        self.head = [name.replace("_", " ") for name in (*FIGURES, *metrics)] + [""]
        losses = [f"{int(row['update'])}", f"{row['epoch']:.1f}", f"{row['train_loss']:.3f}", f"{row['dev_loss']:.3f}"]
        self.rows.append([*losses, *(f"{row[name]:.2f}" for name in metrics), "★" if best else ""])
        self.samples = samples
        self._show()

    def close(self) -> None:
        self.progress = None
        self._show()

    def _show(self) -> None:
        from IPython.display import display

        self.shown = time.monotonic()
        content = {"text/html": self.html(), "text/plain": self.text()}
        if self.handle is None:
            self.handle = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
        else:
            self.handle.update(content, raw=True)

    def html(self) -> str:
        """The output as HTML; texts are escaped."""
        parts = [f"<div>{_shown(message)}</div>" for message in self.messages]
        if self.rows:
            cells = [f"<tr>{''.join(f'<td>{_shown(cell)}</td>' for cell in row)}</tr>" for row in self.rows]
            names = "".join(f"<th>{_shown(name)}</th>" for name in self.head)
            parts.append(f"<table><thead><tr>{names}</tr></thead><tbody>{''.join(cells)}</tbody></table>")
        parts += [f"<div>{_shown(sample.line)}</div>" for sample in self.samples]
        if self.progress is not None:
            done, total, words = self.progress
            parts.append(f'<div><progress value="{done}" max="{total}"></progress> {_shown(words)}</div>')
        return f'<div style="font-size: 90%">{"".join(parts)}</div>'

    def text(self) -> str:
        """The output as plain text."""
        rows = [
            "  ".join(f"{cell:>10}" for cell in row).rstrip() for row in ([self.head] if self.rows else []) + self.rows
        ]
        words = [self.progress[2]] if self.progress else []
        return "\n".join([*self.messages, *rows, *(sample.line for sample in self.samples), *words])


def _shown(text: str) -> str:
    return escape(visible(text, keep=" "))
