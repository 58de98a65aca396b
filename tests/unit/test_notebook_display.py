"""The display in a notebook, and which display `train` chooses."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import IPython.display
import pytest

from antiphon.training import notebook
from antiphon.training.display import DevSample, Display, LiveDisplay, PlainDisplay
from antiphon.training.notebook import NotebookDisplay, chosen_display

UPDATE = {"update": 7, "epoch": 0, "loss": 1.5, "tokens_per_second": 4321.0, "padding": 0.0, "remaining": 61.0}
ROW = {"update": 8, "epoch": 1.0, "train_loss": 0.5, "dev_loss": 0.25, "exact_match": 75.0}
SAMPLES = [DevSample("<script>a", "b\x1b[2J", ("b",)), DevSample("a", "<b>", ("<b>",))]


class Output:
    """Instead of the output of a cell: what was shown first, and each time it was renewed."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, content: dict[str, str], *, raw: bool, display_id: bool) -> Output:
        assert raw
        assert display_id
        assert self.shown == [], "one output"
        self.shown.append(content)
        return self

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(content)


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    found = Output()
    monkeypatch.setattr(IPython.display, "display", found.display)
    monkeypatch.setattr(notebook, "EVERY", -1.0)
    return found


class Tags(HTMLParser):
    """The tags of a text of HTML."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ANN401, ARG002
        self.found.append(tag)


def test_one_output_is_renewed(output: Output) -> None:
    display = NotebookDisplay()
    display.log("warning: 1 line <left> out")
    display.update(UPDATE, 10)
    assert '<progress value="7" max="10">' in output.shown[-1]["text/html"]
    assert "update 7 of 10 · epoch 1 · loss 1.500 · 4,321 tokens/s · 1 min 01 s left" in output.shown[-1]["text/plain"]
    display.evaluating()
    assert "update 7 of 10 · evaluating" in output.shown[-1]["text/html"]
    display.evaluation(ROW, ["exact_match"], True, SAMPLES)
    display.close()
    last = output.shown[-1]
    assert last["text/plain"].splitlines() == [
        "warning: 1 line <left> out",
        "    update       epoch  train loss    dev loss  exact match",
        "         8         1.0       0.500       0.250       75.00           ★",
        "✗ <script>a → b␛[2J (right: b)",
        "✓ a → <b>",
    ]
    assert len(output.shown) == 5
    assert {*Tags(last["text/html"]).found} == {"div", "table", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;script&gt;a → b␛[2J" in last["text/html"]


def test_updates_are_shown_now_and_then(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "EVERY", 1e9)
    display = NotebookDisplay()
    display.log("begun")
    display.update(UPDATE, 10)
    assert len(output.shown) == 1


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        (None, Display),
        ("plain", PlainDisplay),
        ("terminal", LiveDisplay),
        ("notebook", NotebookDisplay),
        ("auto", PlainDisplay),  # pytest is neither a terminal nor a notebook
    ],
)
def test_displays_by_name(wanted: str | None, kind: type[Display]) -> None:
    display, problem = chosen_display(wanted)
    assert (type(display), problem) == (kind, None)


def test_an_object_is_taken_as_it_is() -> None:
    own = Display()
    assert chosen_display(own) == (own, None)
    assert str(chosen_display("bar")[1]).startswith(
        "display: 'bar' is none of auto, plain, terminal, notebook, None or"
    )


@pytest.mark.parametrize(("shell", "kind"), [({"kernel": 1}, NotebookDisplay), ({}, PlainDisplay)])
def test_a_kernel_is_a_notebook(shell: dict[str, int], kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace(**shell))
    assert type(chosen_display("auto")[0]) is kind


def test_a_notebook_needs_ipython(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "_has_ipython", lambda: False)
    assert str(chosen_display("notebook")[1]).startswith("display: notebook needs IPython, which is not installed")
