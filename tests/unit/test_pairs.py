from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data.pairs import LISTED, DropLog, Example, Pair, group, read_pairs
from antiphon.data.tables import HEAD
from antiphon.errors import DataError

Columns = int | str | list[int | str]


def config(source: Columns = 0, target: Columns = 1, header: bool | None = None) -> DataConfig:
    return DataConfig(train="-", source=TextConfig(column=source), target=TextConfig(column=target), header=header)


def read(path: Path, data: DataConfig | None = None) -> tuple[list[tuple[str, str, int]], DropLog]:
    dropped = DropLog()
    return [(pair.source, pair.target, pair.line) for pair in read_pairs(str(path), data or config(), dropped)], dropped


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_tsv_by_number_keeps_text_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", 'b "x\t a \r\n\u2028c\td\n')
    pairs, dropped = read(path)
    assert pairs == [('b "x', " a ", 1), ("\u2028c", "d", 2)]
    assert dropped.total == 0
    assert dropped.lines == {str(path): 2}


def test_unknown_suffix_is_tsv_and_gzip_keeps_the_format(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b'"a,b",c\n', mtime=0))
    assert read(written(tmp_path / "a.dat", "a\tb\n"))[0] == [("a", "b", 1)]
    assert read(tmp_path / "a.csv.gz")[0] == [("a,b", "c", 1)]


def test_columns_by_name_mean_a_header(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "id\tword\tphones\n1\tcat\tK AE T\n")
    assert read(path, config("word", "phones"))[0] == [("cat", "K AE T", 2)]
    assert read(path, config(1, 2, header=True))[0] == [("cat", "K AE T", 2)]
    assert read(path, config(1, 2))[0] == [("word", "phones", 1), ("cat", "K AE T", 2)]


def test_several_target_columns_are_several_references(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "a\tb\tc\nd\t\te\nf\t\t\n")
    pairs, dropped = read(path, config(0, [1, 2]))
    assert pairs == [("a", "b", 1), ("a", "c", 1), ("d", "e", 2)]
    assert dropped.reasons == {"empty target": 1}


def test_csv_quotes_commas_and_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", 'en,de\n"a, ""b""",c\n"two\nlines",x\nlast,y\n5" disk,z\n')
    pairs, dropped = read(path, config("en", "de"))
    assert pairs == [('a, "b"', "c", 2), ("two\nlines", "x", 3), ("last", "y", 5), ('5" disk', "z", 6)]
    assert dropped.total == 0


def test_csv_quote_that_never_closes_costs_one_line(tmp_path: Path) -> None:
    lines = ["a,b", '"open,c', *(f"s{number},t{number}" for number in range(300))]
    pairs, dropped = read(written(tmp_path / "a.csv", "\n".join(lines)))
    assert dropped.reasons == {"a quote is not closed": 1}
    assert [(place.line, place.reason) for place in dropped.listed] == [(2, "a quote is not closed")]
    assert len(pairs) == 301
    assert pairs[-1] == ("s299", "t299", 302)


def test_jsonl_values_and_lists(tmp_path: Path) -> None:
    rows = [{"x": "a", "y": "b"}, {"y": ["c", "d"], "x": "e\nf", "more": 1}]
    path = written(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert read(path, config("x", "y"))[0] == [("a", "b", 1), ("e\nf", "c", 2), ("e\nf", "d", 2)]


def test_parallel_files_ignore_columns(tmp_path: Path) -> None:
    source = written(tmp_path / "a.en", "one\ttab\n\nthree\nfour\n")
    target = written(tmp_path / "a.de", "eins\nzwei\n \nvier\n")
    dropped = DropLog()
    pairs = list(read_pairs([str(source), str(target)], config(), dropped))
    assert pairs == [Pair(("one\ttab",), "eins", 1), Pair(("four",), "vier", 4)]
    assert [(place.file, place.line, place.reason) for place in dropped.listed] == [
        (str(source), 2, "empty source"),
        (str(target), 3, "empty target"),
    ]


def test_relative_paths_start_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "a.tsv", "a\tb\n")
    monkeypatch.chdir(tmp_path)
    assert len(list(read_pairs("a.tsv", config(), DropLog()))) == 1


def test_group_keeps_order_and_unique_references() -> None:
    pairs = [Pair(("b",), "1", 1), Pair(("a",), "2", 2), Pair(("b",), "3", 3), Pair(("b",), "1", 4)]
    assert group(pairs) == [Example(("b",), ("1", "3"), 1), Example(("a",), ("2",), 2)]


def test_dropped_counts_all_and_lists_some_of_each_reason() -> None:
    dropped = DropLog()
    for number in range(50):
        dropped.add("a.tsv", number, "empty line" if number % 2 else "empty source")
    dropped.add("b.tsv", 1, "not JSON")
    assert dropped.total == 51
    listed = [place.reason for place in dropped.listed]
    assert [listed.count(reason) for reason in dropped.reasons] == [LISTED, LISTED, 1]
    assert dropped.facts()["reasons"] == {"empty source": 25, "empty line": 25, "not JSON": 1}
    assert dropped.facts()["files"] == {"a.tsv": {"empty source": 25, "empty line": 25}, "b.tsv": {"not JSON": 1}}
    assert json.loads(json.dumps(dropped.facts()))["places"][0] == {
        "file": "a.tsv",
        "line": 0,
        "reason": "empty source",
    }


def test_a_list_of_source_columns_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "a\tb\n")
    with pytest.raises(DataError, match=r"data\.source\.column: a source has one column, got a list of 2"):
        read(path, config([0, 1], 1))


@pytest.mark.parametrize("stray", [0, 1, 50])
def test_one_stray_tab_costs_one_line(tmp_path: Path, stray: int) -> None:
    lines = [f"s{number}\tt{number}" for number in range(1001)]
    lines[stray] += "\tmore"
    pairs, dropped = read(written(tmp_path / "a.tsv", "\n\n" + "\n".join(lines)))
    assert len(pairs) == 1000
    assert dropped.reasons == {"empty line": 2, "too many columns": 1}
    assert dropped.listed[-1].line == stray + 3
    assert [line for _, _, line in pairs] == [line for line in range(3, 1004) if line != stray + 3]


def test_the_header_sets_the_width(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "x\ty\tz\na\tb\nc\td\ne\tf\tg\n")
    for data in (config("x", "y"), config(0, 1, header=True)):
        pairs, dropped = read(path, data)
        assert pairs == [("e", "f", 4)]
        assert dropped.reasons == {"too few columns": 2}


def test_only_the_first_lines_tell_the_width(tmp_path: Path) -> None:
    pairs, dropped = read(written(tmp_path / "a.tsv", "a\tb\n" * HEAD + "a\tb\tc\n" * 3 * HEAD))
    assert (len(pairs), dropped.reasons) == (HEAD, {"too many columns": 3 * HEAD})


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('a\rb,"c"', "a carriage return in a line with quotes"),
        (f'a,"{"b" * 200_000}"', "a quoted field of more than 131,072 characters"),
    ],
)
def test_what_the_csv_module_cannot_read_costs_its_line(tmp_path: Path, line: str, fault: str) -> None:
    pairs, dropped = read(written(tmp_path / "a.csv", f"{line}\nx,y\n"))
    assert pairs == [("x", "y", 2)]
    assert dropped.reasons == {fault: 1}


def test_without_quotes_a_carriage_return_and_a_long_field_are_text(tmp_path: Path) -> None:
    pairs, dropped = read(written(tmp_path / "a.csv", f"a\rb,{'c' * 200_000}\n"))
    assert pairs == [("a\rb", "c" * 200_000, 1)]
    assert dropped.total == 0
