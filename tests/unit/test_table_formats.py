"""The same rows in every format give the same pairs; JSON, parquet and xlsx in particular."""

from __future__ import annotations

import csv
import datetime
import gzip
import json
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pytest
from pyarrow import parquet

from antiphon.config.schema import DataConfig
from antiphon.data import records
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.data.records import MISSING, flat_keys, text_of, value_at
from antiphon.data.tables import has_columns, open_table, sample_table
from antiphon.errors import DataError, MissingExtraError

ROWS = [("one, two", "eins; zwei"), ('"three"', "drei\tvier"), ("five", "fünf"), ("six", "中文")]
OBJECTS = [{"source": source, "target": target} for source, target in ROWS]
NESTED = [{"id": number, "pair": row} for number, row in enumerate(OBJECTS)]


def with_delimiter(path: Path, delimiter: str, encoding: str = "utf-8", quoting: Any = csv.QUOTE_MINIMAL) -> None:  # noqa: ANN401
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter, quoting=quoting).writerows([("source", "target"), *ROWS])


def as_text(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def as_sheet(path: Path, rows: Sequence[Sequence[object]]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("second").append(["another", "table"])
    book.save(path)


def as_parquet(path: Path, objects: list[dict[str, Any]]) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(objects), path, row_group_size=2)


WRITERS: dict[str, Callable[[Path], None]] = {
    "comma.csv": lambda path: with_delimiter(path, ","),
    "semicolon.csv": lambda path: with_delimiter(path, ";"),
    "semicolon.txt": lambda path: with_delimiter(path, ";"),
    "pipe.csv": lambda path: with_delimiter(path, "|"),
    "tab.csv": lambda path: with_delimiter(path, "\t"),
    "minimal.tsv": lambda path: with_delimiter(path, "\t"),
    "quoted.tsv": lambda path: with_delimiter(path, "\t", quoting=csv.QUOTE_ALL),
    "excel.txt": lambda path: with_delimiter(path, "\t", "utf-16"),
    "mark.csv": lambda path: with_delimiter(path, ",", "utf-8-sig"),
    "little.csv": lambda path: with_delimiter(path, ";", "utf-16-le"),
    "big.csv": lambda path: with_delimiter(path, ";", "utf-16-be"),
    "array.json": lambda path: as_text(path, json.dumps(OBJECTS)),
    "pretty.json": lambda path: as_text(path, json.dumps(OBJECTS, indent=2)),
    "packed.json.gz": lambda path: as_text(path, json.dumps(OBJECTS)),
    "inside.json": lambda path: as_text(path, json.dumps({"version": [1], "data": OBJECTS})),
    "inside-pretty.json": lambda path: as_text(path, "\n" + json.dumps({"data": OBJECTS}, indent=2)),
    "lines.json": lambda path: as_text(path, "\n".join(map(json.dumps, OBJECTS))),
    "lines.ndjson": lambda path: as_text(path, "\n".join(map(json.dumps, OBJECTS))),
    "table.parquet": lambda path: as_parquet(path, OBJECTS),
    "table.xlsx": lambda path: as_sheet(path, [("source", "target"), *ROWS]),
    "nested.json": lambda path: as_text(path, json.dumps(NESTED)),
    "nested.jsonl": lambda path: as_text(path, "\n".join(map(json.dumps, NESTED))),
    "nested.parquet": lambda path: as_parquet(path, NESTED),
}


def columns(source: int | str, target: int | str | list[str], **more: Any) -> DataConfig:  # noqa: ANN401
    return DataConfig.model_validate({"train": "-", "source": {"column": source}, "target": {"column": target}, **more})


def pairs_of(path: Path, data: DataConfig) -> tuple[list[tuple[str, str, int]], DropLog]:
    dropped = DropLog()
    return [(pair.source, pair.target, pair.line) for pair in read_pairs(str(path), data, dropped)], dropped


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_pairs(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    above = "pair." if name.startswith("nested") else ""
    pairs, dropped = pairs_of(path, columns(f"{above}source", f"{above}target"))
    assert [pair[:2] for pair in pairs] == ROWS
    assert (dropped.total, len({line for _, _, line in pairs})) == (0, len(ROWS))
    sample = sample_table(path)
    table = open_table(path)
    assert [list(row) for row in ROWS] == [row.cells[-2:] for row in sample.rows][-len(ROWS) :]
    assert (sample.format, sample.delimiter) == (table.format, table.delimiter)
    if sample.names:
        assert sample.names[-2:] == (f"{above}source", f"{above}target")


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.json", '[{"s": "a", "t": "b"}, {"s": "c", "t": "d"}]', [1, 2]),  # the number in the array
        ("a.json", '\n{"s": "a", "t": "b"}\n\n{"s": "c", "t": "d"}\n', [2, 4]),
        ("a.json", '{\n"s": "a",\n"t": "b"}', [1]),
        ("a.tsv", 's\tt\n"a\n\n"\tb\nc\t"d ""e"""\n', [2, 5]),
    ],
)
def test_lines_are_those_of_the_file_or_the_numbers_of_the_objects(
    tmp_path: Path, name: str, text: str, lines: list[int]
) -> None:
    (tmp_path / name).write_text(text)
    pairs, dropped = pairs_of(tmp_path / name, columns("s", "t"))
    assert [line for _, _, line in pairs] == lines
    assert dropped.lines[str(tmp_path / name)] >= lines[-1]


@pytest.mark.parametrize(
    ("values", "name", "value"),
    [
        ({"a": 1}, "a", 1),
        ({"a": {"b": {"c": 1}}}, "a.b.c", 1),
        ({"a": {"b": 1}, "a.b": 2}, "a.b", 2),  # an exact key wins
        ({"a.b": {"c": 1}}, "a.b.c", 1),
        ({"a": {"b.c": 1}}, "a.b.c", 1),
        ({"a": {"x": 1}, "a.b": {"c": 1}}, "a.b.c", 1),
        ({"a": None}, "a", None),
        ({"a": None}, "a.b", MISSING),
        ({"a": "text"}, "a.b", MISSING),
        ({"a": {"b": 1}}, "a.", MISSING),
        ({}, "a", MISSING),
    ],
)
def test_a_dot_walks_into_objects(values: dict[str, Any], name: str, value: object) -> None:
    assert value_at(values, name) is value


def test_flat_keys_are_the_names_that_value_at_finds() -> None:
    values = {"a": {"b": {"c": 1}, "d": []}, "e.f": {"g": "x"}, "h": {}}
    assert dict(flat_keys(values)) == {"a.b.c": 1, "a.d": [], "e.f.g": "x", "h": {}}
    assert all(value_at(values, name) is value for name, value in flat_keys(values))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (" a ", " a "), (None, ""), (float("nan"), ""), (True, "true"), (False, "false"),
        (3, "3"), (-0.5, "-0.5"), (1e100, "1e+100"),
        (datetime.date(2026, 1, 2), "2026-01-02"), (Decimal("1.50"), "1.50"), ({}, None), ([], None), (b"a", None),
    ],
)  # fmt: skip
def test_values_as_text(value: object, text: str | None) -> None:
    assert text_of(value) == text


def test_numbers_are_labels_and_null_is_empty(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"s": "a", "t": 1}, {"s": "b", "t": True}, {"s": "c", "t": None}, {"s": None, "t": 2}, {"s": 3, "t": [4, "x"]},
    ]  # fmt: skip
    (tmp_path / "a.json").write_text(json.dumps(rows))
    pairs, dropped = pairs_of(tmp_path / "a.json", columns("s", "t"))
    assert pairs == [("a", "1", 1), ("b", "true", 2), ("3", "4", 5), ("3", "x", 5)]
    assert dropped.reasons == {"empty target": 1, "empty source": 1}


def test_a_sheet_keeps_numbers_and_fills_up_short_rows(tmp_path: Path) -> None:
    as_sheet(
        tmp_path / "a.xlsx", [("s", "note", "t"), ("a", None, 1), (None, None, None), ("b",), ("c", "x", 2.5, "!")]
    )
    pairs, dropped = pairs_of(tmp_path / "a.xlsx", columns("s", "t"))
    assert pairs == [("a", "1", 2), ("c", "2.5", 5)]
    assert dropped.reasons == {"empty line": 1, "empty target": 1}
    assert pairs_of(tmp_path / "a.xlsx", columns(0, 2, header=True))[0] == pairs


def test_parquet_reads_only_the_columns_that_are_needed(tmp_path: Path) -> None:
    as_parquet(tmp_path / "a.parquet", [{"a": {"x": "1", "y": "2"}, "b": "3", "c": ["4", "5"]}])
    record = next(open_table(tmp_path / "a.parquet", names=["a.y", "c"]).records)
    assert record.values == {"a": {"x": "1", "y": "2"}, "c": ["4", "5"]}
    pairs, _ = pairs_of(tmp_path / "a.parquet", columns("a.y", "c"))
    assert pairs == [("2", "4", 1), ("2", "5", 1)]


def test_a_sample_of_records_has_a_cell_for_each_key(tmp_path: Path) -> None:
    rows = [{"id": 1, "de": ["a", "b"]}, "no object", {"id": 2, "more": {"en": "c"}}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    sample = sample_table(tmp_path / "a.json")
    assert (sample.names, sample.lists) == (("id", "de", "more.en"), {"de"})
    assert [row.cells for row in sample.rows] == [["1", "a", ""], [], ["2", "", "c"]]
    assert sample.rows[1].fault == "not a JSON object"
    assert len(sample_table(tmp_path / "a.json", count=1).rows) == 1


def test_a_delimiter_of_the_configuration_makes_columns_of_plain_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a^b\nc^d\n")
    assert pairs_of(tmp_path / "a.txt", columns(0, 1, delimiter="^"))[0] == [("a", "b", 1), ("c", "d", 2)]
    texts = DataConfig.model_validate({"train": "-", "source": None, "target": {"column": 1}, "delimiter": "^"})
    assert [pair.target for pair in read_pairs(str(tmp_path / "a.txt"), texts, DropLog())] == ["b", "d"]


@pytest.mark.parametrize(
    ("name", "text", "sources", "found"),
    [
        ("a.tsv", "a b\tK\n", [0], True),
        ("a.tsv", "a b\nc\n", [0], False),  # the sources alone
        ("a.tsv", "a\tb\n", [0, 1], False),
        ("a.tsv", "a\tb\tK\n", [0, 1], True),
        ("a.tsv", "p\th\na\tb\n", ["p", "h"], True),
        ("a.tsv", "a\tb\n", ["p", "h"], False),
        ("a.tsv", "\n", [0], False),
        ("a.txt", "a\tb\n", [0], False),
        ("a.csv", "a\n", [0], True),
        ("a.json", "[]", ["p"], True),
    ],
)
def test_a_tsv_with_the_sources_alone_has_lines(
    tmp_path: Path, name: str, text: str, sources: list[int | str], found: bool
) -> None:
    (tmp_path / name).write_text(text)
    several = [{"column": column} for column in sources]
    data = DataConfig.model_validate({"train": "-", "source": several if len(several) > 1 else several[0]})
    assert has_columns(tmp_path / name, data) == found


@pytest.mark.parametrize(("name", "package"), [("a.parquet", "pyarrow"), ("a.xlsx", "openpyxl")])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    for module in [module for module in sys.modules if module.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(MissingExtraError) as caught:
        pairs_of(tmp_path / name, columns("s", "t"))
    kind = name.split(".")[1]
    assert str(caught.value) == (
        f"{tmp_path / name}: {kind} files are read with the package {package}, which is not installed; "
        "run: pip install 'antiphon[tables]'"
    )


@pytest.mark.parametrize(
    ("name", "content", "fact"),
    [
        ("a.json", b'[{"s": "a", "t": "b"},\n{"s": "c', "line 2: not JSON, or cut off (column 7: Unterminated string)"),
        ("a.json", b'[{"s": "a", "t": "b"}', "line 1: not JSON, or cut off"),
        ("a.json", b'[{"s": "a"}]\n]', "line 2: not JSON, or cut off (column 1: Extra data); write the file again, or"),
        ("a.json", b"3\n", "the JSON is no array of objects; write [{...}, {...}], or JSONL"),
        ("a.json", b"[" * 100_000, "JSON that is nested too deeply"),
        ("a.json", b'{"train": [{"s": 1}], "test": [{"s": 2}]}', "several arrays of objects ('train', 'test'); write"),
        ("a.json", b"", "the file is empty"),
        ("a.json", '[{"s": "é"}]'.encode("latin-1"), "line 1: not UTF-8 (byte 0xE9 at column 9); save the file as"),
        ("a.json.gz", gzip.compress(mtime=0, data=b'[{"s": "a"}]')[:-9], "the gzip file is cut off"),
        ("a.json", b'[{"s": {"en": "a"}, "t": "b"}]', "'s' is an object; set data.source.column to a key in it, such "
                                                       "as 's.en'"),
        ("a.json", b'[{"z": {"en": "a"}, "t": "b"}]', "no key 's'; it has 'z.en', 't'; set data.source.column to one"),
        ("a.parquet", b"PAR1 no table", "not a parquet file, or a damaged one ("),
        ("a.xlsx", b"s,t\na,b\n", "not a xlsx file, or a damaged one (File is not a zip file); write it again"),
        ("a.csv", b"\xff\xfea\0;\0b\0\n\0c\0;\0\x3d", "line 2: half a character of UTF-16, so the file is damaged or"),
        ("a.csv", b"\xff\xfea\0\n\0\x3d\xd8\n\0", "line 2: half a character of UTF-16"),
    ],
)  # fmt: skip
def test_faults_are_sentences(tmp_path: Path, name: str, content: bytes, fact: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        pairs_of(path, columns("s", "t"))
    assert str(caught.value).startswith(f"{path}{', ' if fact.startswith('line') else ': '}{fact}")


@pytest.mark.parametrize("change", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[:200] + b"#" * 99 + raw[299:]])
@pytest.mark.parametrize("name", ["table.parquet", "table.xlsx"])
def test_damaged_binary_tables_are_sentences(tmp_path: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=r"not a (parquet|xlsx) file, or a damaged one \(.*\); write it again"):
        pairs_of(path, columns("source", "target"))


def test_a_huge_json_text_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LARGEST", 100)
    (tmp_path / "lines.json").write_text('{"s": "a", "t": "b"}\n' * 50)  # a line at a time
    assert len(pairs_of(tmp_path / "lines.json", columns("s", "t"))[0]) == 50
    (tmp_path / "array.json").write_text(json.dumps([{"s": "a", "t": "b"}] * 50, indent=1))
    with pytest.raises(DataError, match=r"more than 100 characters.*write one object on each line instead, and name"):
        pairs_of(tmp_path / "array.json", columns("s", "t"))


@pytest.mark.parametrize(("value", "character"), [("tab", "\t"), ("semicolon", ";"), ("^", "^"), ("\t", "\t")])
def test_a_delimiter_has_a_name_or_is_a_character(value: str, character: str) -> None:
    assert DataConfig(train="-", delimiter=value).delimiter == character


@pytest.mark.parametrize("value", ["", "tabs", ";;", '"', "\n"])
def test_what_is_no_delimiter(value: str) -> None:
    with pytest.raises(ValueError, match="is no delimiter; give tab, comma, semicolon, pipe or another single"):
        DataConfig(train="-", delimiter=value)
