"""generate, score, evaluate and map read a table in any format as training does."""

from __future__ import annotations

import json
from pathlib import Path

import openpyxl
import pyarrow
import pytest
from cli_calls import call
from pyarrow import parquet
from tiny_generators import tiny_folder

ROWS = [("a b c", "K L", "x"), ("d e", "M", "y"), ("f", "N O", "x"), ("a b c", "O", "y")]
NAMES = ("side.in", "side.out", "part")
OBJECTS = [{"side": {"in": source, "out": target}, "part": part} for source, target, part in ROWS]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    sides = {
        side: {"tokens": "words", "column": f"side.{name}"} for side, name in (("source", "in"), ("target", "out"))
    }
    return tiny_folder("bahdanau", tmp_path_factory.mktemp("runs") / "tiny", **sides)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for name, delimiter, encoding in (("a.tsv", "\t", "utf-8"), ("a.csv", ";", "utf-16")):
        lines = "".join(f"{delimiter.join(row)}\n" for row in (NAMES, *ROWS))
        (folder / name).write_text(lines, encoding=encoding)
    (folder / "a.json").write_text(json.dumps(OBJECTS))
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, OBJECTS)))
    parquet.write_table(pyarrow.Table.from_pylist(OBJECTS), folder / "a.parquet")
    book = openpyxl.Workbook()
    for row in (NAMES, *ROWS):
        book.active.append(row)
    book.save(folder / "a.xlsx")
    return folder


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.jsonl", "a.parquet", "a.xlsx"])
@pytest.mark.parametrize(
    "words",
    [["generate"], ["score"], ["map"], ["evaluate", "--by", "part"], ["evaluate", "--metric", "loss"]],
    ids=" ".join,
)
def test_all_commands_read_all_formats(words: list[str], name: str, run: str, tables: Path) -> None:
    plain, other = (call(words[0], run, str(tables / file), *words[1:]) for file in ("a.tsv", name))
    assert (other.code, other.out) == (0, plain.out), other.err
    assert len(plain.lines) >= {"generate": 4, "score": 4, "map": 3}.get(words[0], 1)


def test_generate_answers_the_sources_of_a_table_and_says_what_it_leaves_out(run: str, tmp_path: Path) -> None:
    lines = call("generate", run, stdin=b"a b c\nd e\n")
    (tmp_path / "a.json").write_text(json.dumps([{"side.in": "a b c"}, {"side.in": None}, {"side": {"in": "d e"}}]))
    table = call("generate", run, str(tmp_path / "a.json"))
    assert (table.code, table.out) == (0, lines.out)
    assert f"{tmp_path / 'a.json'}, line 2: empty source; left out\n" in table.err
    (tmp_path / "a.tsv").write_text("a b c\nd e\n")  # the sources alone
    assert call("generate", run, str(tmp_path / "a.tsv")).out == lines.out


def test_a_cut_json_is_a_sentence(run: str, tables: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text((tables / "a.json").read_text()[:-9])
    for command in ("generate", "score", "map", "evaluate"):
        ended = call(command, run, str(tmp_path / "cut.json"))
        assert (ended.code, ended.out) == (2, "")
        assert "cut.json, line 1: not JSON, or cut off" in ended.err
