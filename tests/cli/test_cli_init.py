"""init, check and recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.config.read import read_config, recipe_text


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_init_writes_a_config_that_check_accepts(antiphon, pairs: Path) -> None:  # noqa: ANN001
    ended = antiphon("init", str(pairs))
    assert (ended.code, ended.out) == (0, "")
    assert "data.source.tokens words: only 4 different symbols" in ended.err
    assert "wrote config.yaml" in ended.err
    checked = antiphon("check", "config.yaml")
    assert checked.code == 0
    assert checked.out.startswith("train: ")
    assert "nothing wrong" in checked.err


def test_init_overwrites_nothing_unless_forced(antiphon, pairs: Path) -> None:  # noqa: ANN001
    Path("config.yaml").write_text("mine")
    ended = antiphon("init", str(pairs))
    assert ended.code == 2
    assert "config.yaml: already there" in ended.err
    assert Path("config.yaml").read_text() == "mine"
    assert antiphon("init", str(pairs), "--force").code == 0
    assert read_config("config.yaml").data.train == str(pairs)


def test_init_to_stdout(antiphon, pairs: Path) -> None:  # noqa: ANN001
    ended = antiphon("init", str(pairs), "--out", "-")
    Path("copy.yaml").write_text(ended.out)
    assert read_config("copy.yaml").data.train == str(pairs)
    assert not Path("config.yaml").exists()


def test_init_of_what_is_not_there(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("init", "nowhere.tsv")
    assert ended.code == 2
    assert ended.err.startswith("antiphon: nowhere.tsv: no such file")
    assert not Path("config.yaml").exists()


def test_init_of_three_files(antiphon) -> None:  # noqa: ANN001
    assert antiphon("init", "a", "b", "c").code == 2


def test_check_says_what_is_wrong_with_config_and_data_together(antiphon, tiny: Path) -> None:  # noqa: ANN001
    ended = antiphon("check", str(tiny), "training.epoch=3", "decoding.beam=0", "data.dev=nowhere.tsv")
    assert (ended.code, ended.out) == (2, "")
    assert "training.epoch: 'training' has no such key" in ended.err
    assert "decoding.beam: expected a whole number above 0, got 0" in ended.err
    assert "nowhere.tsv: no such file" in ended.err


def test_check_of_a_broken_data_section(antiphon, tiny: Path) -> None:  # noqa: ANN001
    ended = antiphon("check", str(tiny), "data.tran=3")
    assert ended.code == 2
    assert ended.err == "antiphon: data.tran: 'data' has no such key; did you mean 'train'?\n"


def test_recipes_ls_cat_cp(antiphon) -> None:  # noqa: ANN001
    listed = antiphon("recipes")
    assert [line.split("\t")[0] for line in listed.lines] == ["g2p", "reverse", "translate"]
    assert listed.out == antiphon("recipes", "ls").out
    assert antiphon("recipes", "cat", "reverse").out == recipe_text("reverse")
    assert antiphon("recipes", "cp", "reverse").code == 0
    assert Path("reverse.yaml").read_text() == recipe_text("reverse")
    again = antiphon("recipes", "cp", "reverse")
    assert again.code == 2
    assert "reverse.yaml: already there" in again.err
    assert antiphon("recipes", "cp", "reverse", "--force").code == 0
    Path("folder").mkdir()
    assert antiphon("recipes", "cp", "reverse", "folder").code == 0
    assert read_config("folder/reverse.yaml") == read_config("reverse")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cat"], "antiphon: recipes cat: which one? The recipes are g2p, reverse, translate\n"),
        (["cat", "revers"], "antiphon: revers: no such recipe; did you mean 'reverse'?\n"),
        (["cp", "../../errors"], "antiphon: ../../errors: no such recipe; the recipes are g2p, reverse, translate\n"),
    ],
)
def test_recipes_that_are_not_there(antiphon, arguments: list[str], words: str) -> None:  # noqa: ANN001
    ended = antiphon("recipes", *arguments)
    assert (ended.code, ended.err) == (2, words)
