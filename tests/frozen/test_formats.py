"""A small model of each released format still loads and says the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import antiphon
from antiphon.model_folder import FORMAT

HERE = Path(__file__).parent
TEXTS = ["stone", "", "Ünit é", "photo"]
FOLDERS = sorted(HERE.glob("format*"))


def test_the_current_format_is_frozen() -> None:
    assert HERE / f"format{FORMAT}" in FOLDERS


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_it_says_the_same(folder: Path) -> None:
    expected = json.loads((folder / "answers.json").read_text("utf-8"))
    answers = antiphon.load(folder, precision="float32").generate(TEXTS)
    assert [answer.text for answer in answers] == [row["text"] for row in expected]
    assert [answer.score for answer in answers] == pytest.approx([row["score"] for row in expected], abs=1e-4)
    for answer, row in zip(answers, expected, strict=True):
        assert set(row["flags"]) <= set(answer.flags), "a later version may see more, not less"
