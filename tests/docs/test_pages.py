"""Every command of docs/search.md and docs/engines.md runs, on a model that has learnt nothing."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tiny_generators import BLOCKS, MODELS, SOURCE, TARGET, tiny_config, tiny_folder
from tiny_models import fill

from antiphon.cli.main import run
from antiphon.model_folder import save_model
from antiphon.models.build import build_model

DOCS = Path(__file__).parents[2] / "docs"
LINES = ["a b c", "", "d e", "f"]


def commands(page: str) -> list[list[str]]:
    """The words of every command in a page's shell blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (DOCS / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.split("\n") if line.startswith("antiphon ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def example_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("\n".join(LINES) + "\n", "utf-8")
    Path("pairs.tsv").write_text("a b\tK L\nc d e\tM N O\nf\tK\ng h\tO\n", "utf-8")
    return tmp_path


@pytest.mark.parametrize("words", commands("search.md"), ids=" ".join)
def test_search(words: list[str], example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny_folder("bahdanau", example_folder / "RUN")
    if "--joint" in words:
        assert run(["joint", "RUN"]) == 0
        capsys.readouterr()
    assert run(words) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    if words[0] == "generate" and "--n-best" not in words:
        assert len(out.split("\n")) == len(LINES) + 1
        assert out.split("\n")[1] == ""
    if "--out" in words:
        assert Path(words[-1]).stat().st_size > 1000


def test_engines(example_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """In order: later ones use what earlier ones made."""
    post = {**BLOCKS, "order": "post", "layers": 2}
    monkeypatch.setitem(MODELS, "transformer", {"encoder": post, "decoder": post})
    config = tiny_config("transformer")
    model = build_model(config.model, source_tokens=SOURCE.size, target_tokens=TARGET.size).eval()
    fill(model, scale=1.1)
    save_model(example_folder / "RUN", config, model.state_dict(), SOURCE, TARGET)
    told = [words for words in commands("engines.md") if words[0] != "import"]
    assert len(told) == 8
    for words in told:
        more = ["--file", "lines.txt", "--rounds", "1"] if words[0] == "bench" else []
        assert run([*words, *more]) == 0, capsys.readouterr().err
    for folder in ("model.onnx", "model.ct2", "model.hf"):
        assert run(["generate", folder, "lines.txt", "--beam", "1"]) == 0
        assert capsys.readouterr().out.split("\n")[-5:] == _answers(capsys)


def _answers(capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert run(["generate", "RUN", "lines.txt", "--beam", "1"]) == 0
    return capsys.readouterr().out.split("\n")
