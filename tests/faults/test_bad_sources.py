"""Tables that name files: whatever is wrong with a path or a file is said with its row, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feature_tables import values, write_table

from antiphon import api
from antiphon.config.schema import Config, DataConfig
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.data.prepare import prepare
from antiphon.errors import DataError, UserError
from antiphon.training.display import Display
from antiphon.training.run import train_run

GOOD = np.ones((3, 4), np.float32)
BAD: dict[str, tuple[Any, str]] = {
    "rank.npy": (np.ones((2, 3, 4)), "3 instead of 2"),
    "nan.npy": (np.full((2, 4), np.nan), "vector 1, value 1 is "),
    "wide.npy": (np.ones((2, 5)), "its vectors have 5 values, the first array's have 4"),
    "words.npy": (np.array([["a", "b"]]), "not of real numbers"),
    "none.npy": (np.ones((0, 4)), "an empty array"),
    "text.npy": (b"not an array", "no array of numpy"),
}


def quiet(_: str) -> None:
    pass


def bad_table(folder: Path) -> Path:
    """Ten good rows, then one for each fault."""
    table = write_table(folder, 10)
    lines = table.read_text().splitlines()
    for name, (content, _) in BAD.items():
        if isinstance(content, bytes):
            (folder / "arrays" / name).write_bytes(content)
        else:
            np.save(folder / "arrays" / name, content)
        lines.append(f"arrays/{name}\ta\t1")
    np.save(folder.parent / "outside.npy", GOOD)
    lines += ["arrays/gone.npy\ta\t1", "../outside.npy\ta\t1", f"{folder.parent / 'outside.npy'}\ta\t1", " \ta\t1"]
    table.write_text("\n".join(lines) + "\n")
    return table


def config(table: Path, **data: Any) -> Config:  # noqa: ANN401
    written = values(table)
    return Config.model_validate({**written, "data": {**written["data"], **data}})


def test_check_lists_every_file_that_cannot_be_used(tmp_path: Path) -> None:
    table = bad_table(tmp_path / "data")
    found = api.check(config(table)).problems
    for number, (name, (_, fact)) in enumerate(BAD.items()):
        [sentence] = [one for one in found if f"/{name}: " in one]
        assert sentence.startswith(f"{table}, line {12 + number}: {tmp_path / 'data' / 'arrays' / name}: ")
        assert fact in sentence
    said = "\n".join(found)
    assert f"{table}, line 18: {tmp_path / 'data' / 'arrays' / 'gone.npy'}: no such file" in said
    assert f"{table}, line 19: ../outside.npy: it leaves the folder {tmp_path / 'data'}" in said
    assert f"line 20: {tmp_path / 'outside.npy'}: it leaves the folder" in said
    assert f"{table}, line 21: empty source" not in said  # as in any table, an empty cell is counted, not an error
    assert found[-1].startswith("9 examples cannot be read; repair or remove them, or set data.skip_unreadable to true")


def test_training_stops_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="9 examples cannot be read"):
        train_run(config(bad_table(tmp_path / "data")), tmp_path / "run", display=Display())
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_unreadable_files_are_skipped_only_if_the_config_says_so_and_counted(tmp_path: Path) -> None:
    table = bad_table(tmp_path / "data")
    prepared = prepare(config(table, skip_unreadable=True).data, quiet)
    dropped = prepared.facts["dropped"]
    assert dropped["total"] == 10
    assert dropped["reasons"]["unreadable: no such file"] == 1
    assert {"file": str(table), "line": 18, "reason": "unreadable: no such file"}.items() <= next(
        place for place in dropped["places"] if place["line"] == 18
    ).items()
    assert len(prepared.train) + len(prepared.dev) <= 10
    assert any("examples left out" in warning for warning in prepared.facts["warnings"])


def test_faults_of_dev_and_train_come_together(tmp_path: Path) -> None:
    table = bad_table(tmp_path / "data")
    dev = tmp_path / "data" / "dev.tsv"
    dev.write_text("path\ttext\tcount\narrays/lost.npy\ta\t1\n")
    with pytest.raises(DataError) as caught:
        prepare(config(table, dev=str(dev)).data, quiet)
    said = str(caught.value)
    assert "lost.npy: no such file" in said
    assert "gone.npy: no such file" in said


def test_only_unreadable_files_is_nothing_to_learn_from(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("path\ttext\na.npy\ta\nb.npy\tb\n")
    with pytest.raises(DataError, match=r"a\.npy: no such file"):
        prepare(config(table).data, quiet)
    with pytest.raises(DataError, match="nothing left to learn from"):
        prepare(config(table, skip_unreadable=True).data, quiet)


def test_paths_begin_at_the_folder_of_the_config(tmp_path: Path) -> None:
    table = write_table(tmp_path / "data", 10)
    moved = tmp_path / "tables" / "t.tsv"
    moved.parent.mkdir()
    moved.write_bytes(table.read_bytes())
    source = {"kind": "features", "column": "path", "folder": str(tmp_path / "data")}
    assert len(prepare(config(moved, source=source).data, quiet).train) == 8
    with pytest.raises(DataError, match="no such file"):
        prepare(config(moved).data, quiet)


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    """Prepared data is named by the size and time of every file; a run goes on with the same content only."""
    table = write_table(tmp_path / "data", 10)
    asked = config(table)
    first = prepare(asked.data, quiet).facts["read"]
    said: list[str] = []
    assert prepare(asked.data, said.append).facts["read"] == first
    assert said == []  # from the cache
    array = tmp_path / "data" / "arrays" / "0.npy"
    content = array.read_bytes()
    np.save(array, np.ones_like(np.load(array)))  # of the same size
    assert prepare(asked.data, said.append).facts["read"] != first
    array.write_bytes(content)
    assert prepare(asked.data, quiet).facts["read"] == first


def test_a_file_that_goes_while_training_is_named(tmp_path: Path) -> None:
    table = write_table(tmp_path / "data", 20)

    class Thief(Display):
        def update(self, row: dict[str, float], total: int) -> None:  # noqa: ARG002
            for path in (tmp_path / "data" / "arrays").iterdir():
                path.unlink()

    few = Config.model_validate(values(table, batch_tokens=8))  # so that most of an epoch has not been read ahead
    with pytest.raises(DataError, match=r"\.npy: no such file; it was readable when training began"):
        train_run(few, tmp_path / "run", display=Thief())


def test_a_tab_inside_one_of_several_sources_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\tb,c,d\ne,f,g\n")
    sources = [{"column": 0}, {"column": 1}]
    data = DataConfig.model_validate({"train": str(path), "source": sources, "target": {"column": 2}})
    dropped = DropLog()
    assert [pair.source for pair in read_pairs(str(path), data, dropped)] == ["e\tf"]
    assert dropped.reasons == {"a tab inside a source": 1}


def test_generate_names_the_line(tmp_path: Path) -> None:
    table = write_table(tmp_path / "data", 20)
    train_run(config(table), tmp_path / "run", display=Display())
    generator = api.load(tmp_path / "run")
    good = str(tmp_path / "data" / "arrays" / "0.npy")
    with pytest.raises(UserError) as caught:
        generator.generate([good, "nowhere.npy", good, "gone.npy"])
    assert caught.value.problems == [
        "source 2: nowhere.npy: no such file; give files that can be read",
        "source 4: gone.npy: no such file; give files that can be read",
    ]
    with pytest.raises(UserError, match=r"source 1: nowhere\.npy: no such file"):
        generator.score([("nowhere.npy", "a")])
    with pytest.raises(UserError, match=r"source 1: nowhere\.npy: no such file"):
        generator.tree("nowhere.npy")
