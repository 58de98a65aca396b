"""init, check and recipes."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from antiphon.cli.io import print_sections, program
from antiphon.config.load import read_config, recipe_names, recipe_text

RECIPES = ", ".join(recipe_names())


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_init_writes_a_config_that_check_accepts(antiphon, pairs: Path) -> None:  # noqa: ANN001
    ended = antiphon("init", str(pairs))
    assert (ended.code, ended.out) == (0, "")
    assert "data.source.tokens words: only 4 different words" in ended.err
    assert "wrote config.yaml" in ended.err
    checked = antiphon("check", "config.yaml")
    assert checked.code == 0
    assert checked.out.startswith("train: ")
    assert "no problems" in checked.err


def test_init_overwrites_nothing_unless_forced(antiphon, pairs: Path) -> None:  # noqa: ANN001
    Path("config.yaml").write_text("mine")
    ended = antiphon("init", str(pairs))
    assert ended.code == 2
    assert "config.yaml: already exists" in ended.err
    assert Path("config.yaml").read_text() == "mine"
    assert antiphon("init", str(pairs), "--force").code == 0
    assert read_config("config.yaml").data.train == str(pairs)


def test_init_to_stdout(antiphon, pairs: Path) -> None:  # noqa: ANN001
    ended = antiphon("init", str(pairs), "--out", "-")
    Path("copy.yaml").write_text(ended.out)
    assert read_config("copy.yaml").data.train == str(pairs)
    assert not Path("config.yaml").exists()


def test_init_names_what_it_does_not_use(antiphon) -> None:  # noqa: ANN001
    rows = "".join(f"{number}\t{'ab' * (number + 1)}\t{'ba' * (number + 1)}\n" for number in range(20))
    Path("numbered.tsv").write_text(f"id\tword\tplural\n{rows}")
    ended = antiphon("init", "numbered.tsv")
    assert ended.code == 0
    assert "antiphon: warning: column 'id' is not used; --source and --target choose others\n" in ended.err
    assert [source.column for source in read_config("config.yaml").data.sources] == ["word"]


def test_init_with_columns_that_the_user_chose(antiphon) -> None:  # noqa: ANN001
    rows = "".join(f"{'ab' * number}\t{'ba' * number}\t{'c' * number}\n" for number in range(1, 20))
    Path("three.tsv").write_text(f"one\ttwo\tthree\n{rows}")
    ended = antiphon("init", "three.tsv", "--source", "two", "--source", "three", "--target", "0", "--out", "-")
    assert ended.out.startswith("# Written by: antiphon init three.tsv --source=two --source=three --target=0\n")
    wrong = antiphon("init", "three.tsv", "--source", "twoo", "--target", "one")
    assert (wrong.code, wrong.err) == (
        2,
        "antiphon: three.tsv: no column 'twoo' for --source; did you mean 'two'? it has 'one', 'two', 'three'\n",
    )


def test_init_of_what_is_not_there(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("init", "nowhere.tsv")
    assert ended.code == 2
    assert ended.err.startswith("antiphon: nowhere.tsv: no such file")
    assert not Path("config.yaml").exists()


def test_init_of_three_files(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("init", "a", "b", "c")
    assert (ended.code, ended.err) == (
        2,
        "antiphon: 3 files: give one file of pairs or two parallel files; join them first\n",
    )


def test_check_says_what_is_wrong_with_config_and_data_together(antiphon, tiny: Path) -> None:  # noqa: ANN001
    ended = antiphon("check", str(tiny), "training.epoch=3", "decoding.beam=0", "data.dev=nowhere.tsv")
    assert (ended.code, ended.out) == (2, "")
    assert "training.epoch: 'training' has no such key" in ended.err
    assert "decoding.beam: should be greater than 0, got 0" in ended.err
    assert "nowhere.tsv: no such file" in ended.err


def test_check_of_a_broken_data_section(antiphon, tiny: Path) -> None:  # noqa: ANN001
    ended = antiphon("check", str(tiny), "data.tran=3")
    assert ended.code == 2
    assert ended.err == "antiphon: data.tran: 'data' has no such key; did you mean 'train'?\n"


def test_check_lists_the_lines_that_are_left_out(antiphon, tiny: Path, pairs: Path) -> None:  # noqa: ANN001
    Path("gaps.tsv").write_text("\ta\n" + pairs.read_text() + "b\t\n" * 30)
    ended = antiphon("check", str(tiny), "data.train=gaps.tsv")
    assert ended.code == 0, ended.err
    assert "antiphon: gaps.tsv, line 1: empty source; left out\n" in ended.err
    assert "antiphon: gaps.tsv, line 202: empty target; left out\n" in ended.err
    assert len(re.findall(r"line \d+: empty (source|target); left out\n", ended.err)) == 21  # 20 of each reason
    assert any(" 31 " in line for line in ended.err.split("\n") if line.startswith("antiphon: warning: "))


def test_check_says_why_no_line_can_be_used(antiphon, tiny: Path) -> None:  # noqa: ANN001
    Path("empty.tsv").write_text("a\t\n\tb\nc\t\n")
    ended = antiphon("check", str(tiny), "data.train=empty.tsv")
    assert ended.code == 2
    assert "empty.tsv: not one line can be used (2 x empty target, 1 x empty source); check data.source" in ended.err
    assert "{" not in ended.err


@pytest.mark.parametrize("found", [True, False])
def test_the_next_command_can_be_typed(
    antiphon,  # noqa: ANN001
    pairs: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: bool,
) -> None:
    """Also where the shell does not find the program, as after `make demo`, and with a space in a name."""
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/antiphon" if found else None)
    monkeypatch.setattr(sys, "argv", ["/my venv/bin/antiphon", "init"])
    name = "antiphon" if found else "'/my venv/bin/antiphon'"
    ended = antiphon("init", str(pairs), "--out", "my config.yaml")
    assert f"next: {name} check 'my config.yaml', then: {name} train 'my config.yaml' --out RUN\n" in ended.err
    checked = antiphon("check", "my config.yaml", "training.epochs=3")
    assert f"next: {name} train 'my config.yaml' training.epochs=3 --out RUN\n" in checked.err
    assert f"next: {name} train reverse.yaml --out RUN\n" in antiphon("recipes", "cp", "reverse").err


def test_a_program_without_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["/lib/antiphon/cli/main.py"])
    assert program() == shlex.join([sys.executable, "-m", "antiphon.cli.main"])


def test_recipes_ls_cat_cp(antiphon) -> None:  # noqa: ANN001
    listed = antiphon("recipes")
    assert [line.split("\t")[0] for line in listed.lines] == recipe_names()
    assert "demo" in recipe_names()
    assert listed.out == antiphon("recipes", "ls").out
    assert antiphon("recipes", "cat", "reverse").out == recipe_text("reverse")
    assert antiphon("recipes", "cp", "reverse").code == 0
    assert Path("reverse.yaml").read_text() == recipe_text("reverse")
    again = antiphon("recipes", "cp", "reverse")
    assert again.code == 2
    assert "reverse.yaml: already exists" in again.err
    assert antiphon("recipes", "cp", "reverse", "--force").code == 0
    Path("folder").mkdir()
    assert antiphon("recipes", "cp", "reverse", "folder").code == 0
    assert read_config("folder/reverse.yaml") == read_config("reverse")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cat"], f"antiphon: recipes cat: NAME is missing; the recipes are {RECIPES}\n"),
        (["cat", "revers"], "antiphon: revers: no such recipe; did you mean 'reverse'?\n"),
        (["cp", "../../errors"], f"antiphon: ../../errors: no such recipe; the recipes are {RECIPES}\n"),
    ],
)
def test_recipes_that_are_not_there(antiphon, arguments: list[str], words: str) -> None:  # noqa: ANN001
    ended = antiphon("recipes", *arguments)
    assert (ended.code, ended.err) == (2, words)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_writes_no_run(antiphon, tiny: Path, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("train", str(tiny), "--dry-run", "--out", str(tmp_path / "run"))
    assert ended.code == 0
    assert not (tmp_path / "run").exists()
    rows = [line.split("\t") for line in ended.lines]
    assert {row[0] for row in rows} == {"parameters", "an epoch", "training", "memory"}
    values = {name: value for _, name, value in rows}
    assert {"encoder.layers", "decoder.output", "all", "target tokens", "updates", "weights", "optimizer"} <= {*values}
    assert [name for name in values if name.startswith("peak after a few updates")]
    assert "nothing was written" in ended.err
    before = contents(Path(model))
    assert antiphon("train", str(tiny), "--dry-run", "--out", model).code == 0
    assert contents(Path(model)) == before


def test_a_dry_run_of_what_cannot_be_trained(antiphon, tiny: Path) -> None:  # noqa: ANN001
    ended = antiphon("train", str(tiny), "data.train=nowhere.tsv", "--dry-run")
    assert (ended.code, ended.out) == (2, "")
    assert "nowhere.tsv" in ended.err
    ended = antiphon("train", str(tiny), "--dry-run", "--fresh")
    assert (ended.code, ended.out) == (2, "")
    assert "--fresh has nothing to do" in ended.err


def test_sections_are_a_table_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    print_sections({"memory": [("weights", "1 MB"), ("[peak]", "1,000 MB")]})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", sys.stdout.getvalue()).splitlines()
    assert [line.split() for line in lines] == [["memory", "weights", "1", "MB"], ["[peak]", "1,000", "MB"]]
    assert lines[0].index("weights") == lines[1].index("[peak]")
    assert len(lines[0]) == len(lines[1])
