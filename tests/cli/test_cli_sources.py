"""Every command with a source that is no text, and with several sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from feature_tables import values, write_table

from antiphon.api import train

COUNT: dict[str, Any] = {"kind": "text", "column": "count", "tokens": "words"}
FEATURES: dict[str, Any] = {"kind": "features", "column": "path"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and a model of one source and one of two."""
    folder = tmp_path_factory.mktemp("sources")
    table = write_table(folder / "data")
    for name, source in (("one", FEATURES), ("two", [COUNT, FEATURES])):
        written = values(table)
        written["data"]["source"] = source
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(written))
        train(folder / f"{name}.yaml", folder / name)
    return folder


def test_init_sees_a_column_of_paths(antiphon, place: Path, tmp_path: Path) -> None:  # noqa: ANN001
    out = tmp_path / "config.yaml"
    ended = antiphon("init", str(place / "data" / "table.tsv"), "--out", str(out))
    assert ended.code == 0, ended.err
    assert "path is the source, text the target; path has paths of arrays: data.source.kind features" in ended.err
    written = yaml.safe_load(out.read_text())
    assert written["data"]["source"]["kind"] == "features"
    assert written["data"]["target"]["column"] == "text"
    checked = antiphon("check", str(out))
    assert checked.code == 0, checked.err
    assert "source: features, vectors of 4 values" in checked.out


def test_init_of_a_table_without_a_header(antiphon, place: Path, tmp_path: Path) -> None:  # noqa: ANN001
    table = place / "data" / "bare.tsv"
    table.write_text("".join(f"arrays/{number}.npy\tword{number}\n" for number in range(30)))
    ended = antiphon("init", str(table), "--out", str(tmp_path / "c.yaml"))
    assert (
        "column 0 is the source, column 1 the target; column 0 has paths of arrays: data.source.kind features"
        in ended.err
    )
    assert antiphon("check", str(tmp_path / "c.yaml")).code == 0


def test_init_reads_questions_beside_files(antiphon, place: Path, tmp_path: Path) -> None:  # noqa: ANN001
    table = place / "data" / "asked.tsv"
    rows = [
        f"arrays/{number}.npy\twhat is {'it' if number % 2 else 'this'}?\tno {number % 3}\n" for number in range(30)
    ]
    table.write_text("features\tquestion\tanswer\n" + "".join(rows))
    ended = antiphon("init", str(table), "--out", str(tmp_path / "c.yaml"))
    assert "features and question are the sources, answer the target; features has paths of arrays" in ended.err
    kinds = [source["kind"] for source in yaml.safe_load((tmp_path / "c.yaml").read_text())["data"]["source"]]
    assert kinds == ["features", "text"]
    assert antiphon("check", str(tmp_path / "c.yaml")).code == 0


def test_check_lists_all_missing_files(antiphon, place: Path, tmp_path: Path) -> None:  # noqa: ANN001
    table = tmp_path / "t.tsv"
    table.write_text("path\ttext\na.npy\ta\nb.npy\tb\n")
    ended = antiphon("check", str(place / "one.yaml"), f"data.train={table}")
    assert ended.code == 2
    assert f"{table}, line 2: {tmp_path / 'a.npy'}: no such file" in ended.err
    assert f"{table}, line 3: {tmp_path / 'b.npy'}: no such file" in ended.err
    assert "2 examples cannot be read" in ended.err
    table.write_text(f"path\ttext\na.npy\ta\n{''.join(f'{n}.npy{chr(9)}b{chr(10)}' for n in range(9))}")
    for number in range(9):
        np.save(tmp_path / f"{number}.npy", np.ones((2, 4), np.float32))
    skipped = antiphon("check", str(place / "one.yaml"), f"data.train={table}", "data.skip_unreadable=true")
    assert skipped.code == 0, skipped.err
    assert f"{table}, line 2: {tmp_path / 'a.npy'}: unreadable: no such file; left out" in skipped.err


def test_generate_takes_paths_relative_to_their_file(antiphon, place: Path) -> None:  # noqa: ANN001
    paths = place / "data" / "paths.txt"
    paths.write_text("arrays/0.npy\narrays/1.npy\n")
    ended = antiphon("generate", str(place / "one"), str(paths))
    assert ended.code == 0, ended.err
    assert len(ended.lines) == 2
    absolute = "".join(f"{place / 'data' / 'arrays' / name}\n" for name in ("0.npy", "1.npy"))
    assert antiphon("generate", str(place / "one"), stdin=absolute.encode()).lines == ended.lines


def test_generate_from_stdin_begins_where_the_user_is(
    antiphon,  # noqa: ANN001
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place / "data")
    ended = antiphon("generate", str(place / "two"), "--json", "--weights", stdin=b"2\tarrays/0.npy\n")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    length = len(np.load("arrays/0.npy"))
    assert found["source_tokens"] == ["2", "</s>", *(str(number + 1) for number in range(length))]
    assert np.shape(found["weights"]) == (len(found["tokens"]), len(found["source_tokens"]))


def test_generate_names_the_line_that_cannot_be_read(antiphon, place: Path) -> None:  # noqa: ANN001
    paths = place / "data" / "bad.txt"
    paths.write_text("arrays/0.npy\narrays/lost.npy\n")
    ended = antiphon("generate", str(place / "one"), str(paths))
    assert (ended.code, ended.out) == (2, "")
    lost = place / "data" / "arrays" / "lost.npy"
    assert f"{paths}, line 2: {lost}: no such file; give a file that can be read" in ended.err
    paths.write_text("arrays/0.npy\n\n")
    empty = antiphon("generate", str(place / "one"), str(paths))
    assert empty.code == 2
    assert f"{paths}, line 2: : an empty path" in empty.err
    ended = antiphon("generate", str(place / "two"), stdin=b"only one cell\n")
    assert ended.code == 2
    assert "stdin, line 1: only one cell: 1 cells for 2 sources; put a tab between them" in ended.err


def test_score_and_evaluate(antiphon, place: Path) -> None:  # noqa: ANN001
    table = str(place / "data" / "table.tsv")
    scored = antiphon("score", str(place / "two"), table)
    assert scored.code == 0, scored.err
    assert len(scored.lines) == 40
    evaluated = antiphon("evaluate", str(place / "two"), table, "--metric", "loss", "--metric", "exact_match")
    assert evaluated.code == 0, evaluated.err
    assert "exact_match" in evaluated.out


@pytest.mark.parametrize("model", ["one", "two"])
def test_evaluate_and_score_name_every_file_that_cannot_be_read(antiphon, place: Path, model: str) -> None:  # noqa: ANN001
    """With their lines, all at once; data.skip_unreadable leaves them out and counts them."""
    header, *rows = (place / "data" / "table.tsv").read_text().splitlines()
    number = header.split("\t").index("path")
    for row, wrong in ((1, "arrays/none.npy"), (3, "arrays/broken.npy")):
        cells = rows[row].split("\t")
        rows[row] = "\t".join([*cells[:number], wrong, *cells[number + 1 :]])
    (place / "data" / "arrays" / "broken.npy").write_bytes(b"no array")
    table = place / "data" / f"holes-{model}.tsv"
    table.write_text("".join(f"{row}\n" for row in [header, *rows[:8]]))
    for command in ("evaluate", "score"):
        ended = antiphon(command, str(place / model), str(table))
        assert (ended.code, ended.out) == (2, "")
        assert f"{table}, line 3: " in ended.err
        assert f"{table}, line 5: " in ended.err
        assert "2 examples cannot be read" in ended.err
    config = place / model / "config.yaml"
    before = config.read_text()
    config.write_text(before.replace("skip_unreadable: false", "skip_unreadable: true "))
    try:
        ended = antiphon("evaluate", str(place / model), str(table), "--json")
    finally:
        config.write_text(before)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["dropped"]["total"] == 2


@pytest.mark.parametrize(("name", "text"), [("one", "arrays/0.npy"), ("two", "2\tarrays/0.npy")])
def test_explain_and_map(
    antiphon,  # noqa: ANN001
    place: Path,
    name: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place / "data")
    ended = antiphon("explain", str(place / name), text, "--out", str(tmp_path / "a.png"))
    assert ended.code == 0, ended.err
    written = ["a.png"] if name == "one" else ["a-1.png", "a-2.png"]
    assert sorted(path.name for path in tmp_path.glob("*.png")) == sorted(written)
    assert all((tmp_path / one).stat().st_size > 1000 for one in written)
    assert antiphon("explain", str(place / name), text).code == 0
    assert antiphon("explain", str(place / name), text, "--tree").code == 0
    missing = antiphon("explain", str(place / name), "nowhere.npy")
    assert missing.code == 2
    assert "source 1: nowhere.npy: " in missing.err
    mapped = antiphon("map", str(place / name), "table.tsv")
    assert mapped.code == 0, mapped.err
    assert len(mapped.lines) == 40


def test_exports_and_shortlists_are_for_one_text(antiphon, place: Path, tmp_path: Path) -> None:  # noqa: ANN001
    for name, kind in (("one", "features"), ("two", "several")):
        ended = antiphon("export", str(place / name), "--to", "huggingface", "--out", str(tmp_path / "out"))
        assert ended.code == 2
        assert f"an export reads one text, and the source here is of kind {kind}" in ended.err
        ended = antiphon("shortlist", str(place / name))
        assert ended.code == 2
        assert "one text" in ended.err
        ended = antiphon("generate", str(place / name), "--replace-unknown", stdin=b"x\n")
        assert ended.code == 2


def test_the_card_and_the_data_say_what_the_sources_are(place: Path) -> None:
    card = (place / "two" / "card.md").read_text()
    assert "turns text and features into text" in card
    assert "- source[1]: files of kind `features`, whose paths are in column `path`" in card
    assert "a text TAB a path" in card
    facts = json.loads((place / "two" / "data.json").read_text())
    assert facts["read"]["kinds"] == ["text", "features"]
    assert "features" in (place / "two" / "report.html").read_text()


def test_two_models_of_one_kind_answer_together(antiphon, place: Path) -> None:  # noqa: ANN001
    paths = place / "data" / "paths.txt"
    paths.write_text("arrays/0.npy\n")
    run = str(place / "one")
    ended = antiphon("generate", run, str(paths), "--with", run)
    assert ended.code == 0, ended.err
    assert ended.lines == antiphon("generate", run, str(paths)).lines
    refused = antiphon("generate", run, str(paths), "--with", str(place / "two"))
    assert refused.code == 2
    assert "model 2 has a different kind of source from the first" in refused.err
