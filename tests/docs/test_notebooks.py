"""The notebooks in examples/ run from the first cell to the last, and are kept without outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"


def shown(cells: list[Any], kind: str) -> str:
    """The outputs of code cells, of one MIME type; `stream` for what was printed."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "\n".join(one.get("text", "") if kind == "stream" else one.get("data", {}).get(kind, "") for one in outputs)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.name)
def test_it_is_kept_without_outputs(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in cells] == [[]] * len(cells)
    assert {cell.execution_count for cell in cells} == {None}


@pytest.mark.filterwarnings("default")  # of other packages
def test_names(tmp_path: Path) -> None:
    book = nbformat.read(EXAMPLES / "names.ipynb", as_version=4)
    NotebookClient(book, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    html, printed = shown(book.cells, "text/html"), shown(book.cells, "stream")
    assert "JSONL: russian is the source, latin the target" in printed
    assert "★" in html, "the display of a notebook"
    assert html.count('src="data:image/png;base64,') == 2, "two answers with their attention"
    assert "exact_match" in printed
    [score] = [float(line.split()[1]) for line in printed.splitlines() if line.startswith("exact_match")]
    assert score > 30, "it has learnt"
    assert (tmp_path / "runs" / "names" / "report.html").is_file()
    assert "Generation(" in shown(book.cells[-1:], "text/plain"), "the export answers"
