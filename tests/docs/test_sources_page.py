"""Every configuration and every command of docs/sources.md runs, on files that are drawn and sounded here."""

from __future__ import annotations

import re
import shlex
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from antiphon.cli.main import run
from antiphon.cli.train import NOTHING_LEARNT

PAGE = (Path(__file__).parents[2] / "docs" / "sources.md").read_text("utf-8")
COUNT = 10  # examples of each table
FEW = ["training.max_updates=2", "training.schedule.warmup=1", "training.dev_examples=2", "decoding.max_length=5"]
TABLES = {
    "captions.tsv": ("image\tcaption", "images/{n}.png\t{colour} circle left of {colour} square"),
    "lines.tsv": ("image\ttext", "lines/{n}.png\t{colour}"),
    "sounds.tsv": ("audio\ttext", "sounds/{n}.wav\tlow {colour}"),
    "videos.tsv": ("frames\tcaption", "videos/{n}.npy\t{colour} moves left"),
    "arrays.tsv": ("features\tlabel", "arrays/{n}.npy\t{colour}"),
    "questions.tsv": ("image\tquestion\tanswer", "images/{n}.png\twhat shape is it\t{colour}"),
    "tagged.tsv": ("a dog\tD N", "the {colour} dog runs {n}\tD A N V M"),
    "entail.tsv": ("premise\thypothesis\tlabel", "a dog runs {n}\ta dog sleeps\t{colour}"),
}
SAID_OF_FILES = ("cut.png", "notes.png", "none.png")


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language; "": of none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def commands() -> list[list[str]]:
    """The words of every command, in the order of the page."""
    lines = [line for block in blocks("sh") for line in block.split("\n") if line.startswith("antiphon ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def overrides(words: list[str]) -> list[str]:
    """Those that make a training short; a tagger's answers have a length of their own."""
    few = FEW[:-1] if "tag" in words else FEW
    return few if words[0] == "train" else []


def write_files() -> None:
    """Pictures, lines, sounds of one pitch, videos and arrays, a few of each."""
    chance = np.random.default_rng(5)
    for folder in ("images", "lines", "sounds", "videos", "arrays"):
        Path(folder).mkdir()
    for n in range(COUNT):
        picture = Image.new("RGB", (32, 32), "white")
        ImageDraw.Draw(picture).ellipse((n, n, n + 10, n + 10), fill="red" if n % 2 else "blue")
        picture.save(f"images/{n}.png")
        picture.resize((60 + 8 * n, 16)).save(f"lines/{n}.png")
        write_tone(Path(f"sounds/{n}.wav"), pitch=200.0 * (n + 1))
        np.save(f"videos/{n}.npy", chance.integers(0, 255, (4, 32, 32), dtype=np.uint8))
        np.save(f"arrays/{n}.npy", chance.normal(size=(5 + n, 3)).astype(np.float32))


def write_tone(path: Path, *, pitch: float) -> None:
    """A third of a second at 8,000 samples a second."""
    samples = 8_000 * np.sin(2 * np.pi * pitch * np.arange(2_600) / 8_000)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(samples.astype("<i2").tobytes())


def write_tables() -> None:
    for name, (header, row) in TABLES.items():
        rows = [row.format(n=n, colour="red" if n % 2 else "blue") for n in range(COUNT)]
        Path(name).write_text("\n".join([header, *rows]) + "\n", "utf-8")
    Path("paths.txt").write_text("images/1.png\nimages/2.png\n", "utf-8")
    Path("words.txt").write_text("the red dog\nruns\n", "utf-8")
    Path("both.txt").write_text("a dog runs\ta dog sleeps\na dog\ta cat\n", "utf-8")


@pytest.fixture
def example_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "cache"))
    write_files()
    write_tables()
    for block in blocks("yaml"):
        Path(block.split("\n", 1)[0].removeprefix("# ")).write_text(block, "utf-8")


@pytest.mark.usefixtures("example_folder")
def test_every_command_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Later ones use what earlier ones made; each picture that is promised is there."""
    told = commands()
    assert [words[0] for words in told].count("train") == 3 + len(blocks("yaml"))
    for words in told:
        # Two updates teach nothing, which `train` says.
        codes = (0, NOTHING_LEARNT) if words[0] == "train" else (0,)
        assert run([*words, *overrides(words)]) in codes, capsys.readouterr().err
        out, said = capsys.readouterr()
        if words[0] == "generate":
            assert out.count("\n") == 2
        if words[:2] == ["evaluate", "ARRAYS"]:
            assert "accuracy" in out
            assert "F1" in out
        if "--out" in words and words[0] == "explain":
            assert "wrote" in said
    made = ["looks", "heard", "seen", "confusion", "values", "why-1", "why-2"]
    assert all(Path(f"{name}.png").stat().st_size > 1_000 for name in made)
    assert Path("confusion.tsv").is_file()
    _only_texts_are_exported(capsys)
    for front, encoder in re.findall(r"`\{(kind: patches.*?)\}`.*?`encoder: \{(.*?)\}`", PAGE, flags=re.DOTALL):
        assert run(["check", "captions.yaml", f"model.front={{{front}}}", f"model.encoder={{{encoder}}}"]) == 0
    assert "patches" in PAGE


def _only_texts_are_exported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "SOUNDS", "--to", "onnx", "--out", "sounds.onnx"]) == 2
    assert "an export reads one text" in capsys.readouterr().err
    assert not Path("sounds.onnx").exists()


@pytest.mark.usefixtures("example_folder")
def test_what_is_said_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentences on the page are those that `check` says; and what is to be left out is counted."""
    picture = Path("images/0.png").read_bytes()
    Path("images/cut.png").write_bytes(picture[: len(picture) // 2])
    Path("images/notes.png").write_text("not a picture\n", "utf-8")
    good = [f"images/{n % COUNT}.png\tred" for n in range(14)]
    bad = [f"images/{name}\tred" for name in SAID_OF_FILES]
    Path("captions.tsv").write_text("\n".join(["image\tcaption", *good, *bad]) + "\n", "utf-8")
    assert run(["init", "captions.tsv", "--out", "captions.yaml"]) == 0
    capsys.readouterr()
    assert run(["check", "captions.yaml"]) == 2
    said = [line.removeprefix("antiphon: ") for line in capsys.readouterr().err.splitlines()]
    promised = next(block for block in blocks("") if "cut.png" in block).splitlines()
    assert said[-len(promised) :] == promised
    assert run(["check", "captions.yaml", "data.skip_unreadable=true"]) == 0
    assert "3 examples left out" in capsys.readouterr().err
