"""Whatever a file of examples can have wrong with it: path, fact, remedy, and never half a cache entry."""

from __future__ import annotations

import errno
import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon import files as cache
from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data import corpus as ragged
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.data.prepare import prepare
from antiphon.errors import DataError, DiskError
from antiphon.files import TEMPORARY, publish

GOOD = "".join(f"word{number}\tw {number}\n" for number in range(40)).encode()
CHARACTERS = TextConfig(column=0)
WORDS = TextConfig(column=1, tokens="words")


def quiet(_: str) -> None: ...


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / "cache"))
    return tmp_path


def config(
    train: str | list[str] = "train.tsv",
    dev: str | None = None,
    source: TextConfig = CHARACTERS,
    target: TextConfig = WORDS,
    header: bool | None = None,
) -> DataConfig:
    return DataConfig(train=train, dev=dev, source=source, target=target, header=header)


def problem(data: DataConfig) -> str:
    """The error of `prepare`; nothing may be left in the cache."""
    with pytest.raises(DataError) as caught:
        prepare(data, quiet)
    assert not list(Path("cache").glob("data/*"))
    return "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"", ["train.tsv: the file is empty"]),
        (b"a\tb\n\x00\x01\x02", ["train.tsv, line 2: a zero byte", "not text"]),
        (b"a\tb\nc\tcaf\xe9\n", ["train.tsv, line 2: not UTF-8 (byte 0xE9 at column 6)", "save the file as UTF-8"]),
        ("a\tb\n".encode("utf-16")[:-1], ["train.tsv, line 1: half a character of UTF-16", "best as UTF-8"]),
        (gzip.compress(GOOD * 50, mtime=0)[:-40], ["train.tsv: the gzip file is cut off"]),
        (
            gzip.compress(GOOD, mtime=0)[:30] + b"xxxxx" + gzip.compress(GOOD, mtime=0)[35:],
            ["train.tsv: the gzip file is damaged"],
        ),
        (gzip.compress(b"", mtime=0), ["train.tsv: the file is empty"]),
        (
            b"only one column\n" * 5,
            [
                "train.tsv: no column 1; its lines have 0 ('only one column'); "
                "set data.target.column to one of them, or put tabs between the columns"
            ],
        ),
        (b"\n\n\n", ["train.tsv: nothing to learn from (3 x empty line)"]),
        (b"a\t\n\tb\n", ["nothing to learn from", "1 x empty target", "1 x empty source"]),
        (b"same\ta\nsame\tb\n", ["train.tsv: one source only", "set data.dev"]),
    ],
)
@pytest.mark.parametrize("tokens", ["words", "bpe"])
def test_bad_files_get_path_fact_remedy(folder: Path, content: bytes, facts: list[str], tokens: str) -> None:
    (folder / "train.tsv").write_bytes(content)
    said = problem(config(target=TextConfig.model_validate({"column": 1, "tokens": tokens})))
    assert all(fact in said for fact in facts), said
    assert len(said.splitlines()) <= 2


def test_bad_line_is_found_while_subwords_learn(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD + b"caf\xe9\tb\n")
    (folder / "dev.tsv").write_bytes(GOOD)
    bpe = TextConfig(column=0, tokens="bpe", vocabulary=300)
    assert "train.tsv, line 41: not UTF-8" in problem(config(dev="dev.tsv", source=bpe))


def test_missing_file_is_guessed(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD)
    assert "trian.tsv: no such file; did you mean train.tsv?" in problem(config("trian.tsv"))
    assert "there is no folder nowhere either" in problem(config("nowhere/train.tsv"))
    assert "dev.tsv: no such file" in problem(config(dev="dev.tsv"))


def test_folder_and_pipe_are_no_files(folder: Path) -> None:
    assert f"{folder}: this is a folder; name a file in it" in problem(config(str(folder)))
    assert "/dev/null: a pipe" in problem(config("/dev/null"))


def test_forbidden_file(folder: Path) -> None:
    """Root may read everything, so as root another user tries."""
    folder.chmod(0o755)  # the file is forbidden, not the folder
    forbidden = folder / "train.tsv"
    forbidden.write_bytes(GOOD)
    forbidden.chmod(0)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            said = problem(config())
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "train.tsv: cannot be opened (Permission denied)" in os.read(reader, 10_000).decode()


def test_unequal_parallel_files(folder: Path) -> None:
    (folder / "a.en").write_bytes(b"one\ntwo\nthree\n")
    (folder / "a.de").write_bytes(b"eins\nzwei\n")
    said = problem(config(["a.en", "a.de"]))
    assert "a.en has 3 lines but a.de has 2; line n of one file answers line n of the other, so find the" in said


def test_unknown_columns_name_the_known(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(b"word\tphones\n" + GOOD)
    source, target = TextConfig(column="wrod"), TextConfig(column="phones")
    said = problem(config(source=source, target=target))
    fact = "train.tsv: no column 'wrod'; did you mean 'word'? it has 'word', 'phones'"
    assert f"{fact}; set data.source.column to one of them" in said
    assert "data.header is false" in problem(config(header=False, source=source, target=target))


def test_unknown_keys_name_the_known(folder: Path) -> None:
    (folder / "train.jsonl").write_text('{"en": "a", "de": "b"}\n', encoding="utf-8")
    named = config("train.jsonl", source=TextConfig(column="en"), target=TextConfig(column="fr"))
    assert "train.jsonl: no key 'fr'; it has 'en', 'de'; set data.target.column to one of them" in problem(named)
    assert "no key '0'" in problem(config("train.jsonl"))


@pytest.mark.parametrize(
    ("name", "content", "reasons"),
    [
        ("a.tsv", "a\tb\nc\nd\te\tf\n\n\tg\nh\t \n", {
            "too few columns": 1, "too many columns": 1, "empty line": 1, "empty source": 1, "empty target": 1,
        }),
        ("b.tsv", "\n\na\tb\n", {"empty line": 2}),
        ("a.csv", 'x,y\na,"b" c\na,b\n', {"not CSV: ',' expected after '\"'": 1}),
        ("a.jsonl", '{"0": "a", "1": "b"}\n{"0"\n[1]\n{"0": "a"}\n{"0": {}, "1": "b"}\n{"0": "a", "1": [[]]}\n'
                    '{"0": "\\ud800", "1": "b"}\n\n{"0": ["a"], "1": "b"}\n' + "[" * 100_000, {
            "a value of '0' is an object": 1, "a value of '1' is a list": 1, "a value of '0' is a list": 1,
            "not JSON": 2, "not a JSON object": 1, "no key '1'": 1,
            "half of a surrogate pair": 1, "empty line": 1,
        }),
    ],
)  # fmt: skip
def test_bad_lines_are_dropped_counted_and_listed(name: str, content: str, reasons: dict[str, int]) -> None:
    Path(name).write_bytes(content.encode())
    dropped = DropLog()
    pairs = list(read_pairs(name, config(name), dropped))
    assert dict(dropped.reasons) == reasons
    assert len(dropped.listed) == sum(reasons.values())
    assert {place.file for place in dropped.listed} == {name}
    lines = content.count("\n") + (not content.endswith("\n"))
    assert len(pairs) == lines - dropped.total


def test_vocabulary_too_small_is_said_with_its_path(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD)
    small = TextConfig(column=0, tokens="bpe", vocabulary=100)
    assert "data.source.vocabulary: 100 is too small for bpe" in problem(config(source=small))
    rare = TextConfig(column=1, tokens="words", min_count=1000)
    assert "data.target.min_count: none of the words is seen 1000 times" in problem(config(target=rare))


def test_all_too_long(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD)
    said = problem(config(source=TextConfig(column=0, max_length=2)))
    assert "nothing left to learn from" in said
    assert "source longer than 2 tokens" in said


def test_dev_without_examples(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD)
    (folder / "dev.tsv").write_bytes(b"a\t\n")
    assert "dev.tsv: no usable dev examples (1 x empty target); check" in problem(config(dev="dev.tsv"))


def test_dev_all_too_long(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD + b"\n")
    (folder / "dev.tsv").write_bytes(b"a\t" + b"b " * 1000 + b"\n")
    said = problem(config(dev="dev.tsv"))
    assert "dev.tsv: no usable dev examples (1 x target longer than 200 tokens); check" in said


def test_held_out_all_too_long(folder: Path) -> None:
    train = folder / "train.tsv"
    train.write_bytes(b"a\tx\nb\tx\n")
    [held] = prepare(config(), quiet).dev
    train.write_text("".join(f"{source}\t{'x ' * (500 if source == held.source else 1)}\n" for source in "ab"))
    with pytest.raises(DataError) as caught:
        prepare(config(), quiet)
    fact = "train.tsv: no usable dev examples were held out (1 x target longer than 200 tokens)"
    assert str(caught.value) == f"{fact}; set data.dev, or raise data.hold_out or max_length"


def test_configuration_made_in_python_is_checked_too(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD)
    said = problem(config(source=TextConfig(column=[0, 1]), target=TextConfig(column=-1)))
    assert "data.source.column: a source has one column, got a list of 2" in said
    assert "column -1 in data: columns are counted from 0" in said


def test_full_disk_is_a_sentence_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (folder / "train.tsv").write_bytes(GOOD)
    with monkeypatch.context() as patch:
        patch.setattr(ragged.RaggedWriter, "add", full)
        with pytest.raises(DiskError, match=r"No space left on device.*free some space"):
            prepare(config(), quiet)
    assert not list(Path("cache/data").iterdir())
    assert len(prepare(config(), quiet).train) == 38


def test_cache_that_is_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "train.tsv").write_bytes(GOOD)
    monkeypatch.setenv("ANTIPHON_CACHE", str(folder / "train.tsv"))
    with pytest.raises(DiskError, match="a part of this path is a file"):
        prepare(config(), quiet)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


@pytest.mark.parametrize("damage", [cut, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("name", ["source.ids.npy", "target.offsets.npy", "facts.json", "dev.json", "target.json"])
def test_damaged_cache_is_noticed_and_made_again(folder: Path, name: str, damage: Callable[[Path], None]) -> None:
    (folder / "train.tsv").write_bytes(GOOD)
    before = prepare(config(), quiet).train.target.ids.tolist()
    [entry] = (folder / "cache" / "data").iterdir()
    damage(entry / name)
    said: list[str] = []
    assert prepare(config(), said.append).train.target.ids.tolist() == before
    assert "the cached data is damaged" in said[0]
    assert [path.name for path in (folder / "cache" / "data").iterdir()] == [entry.name]


def test_an_interrupted_preparation_leaves_nothing(folder: Path) -> None:
    (folder / "train.tsv").write_bytes(GOOD)

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(config(), interrupt)
    assert not list(Path("cache/data").iterdir())


def test_the_slower_of_two_processes_keeps_the_quicker_ones_folder(folder: Path) -> None:
    entry = folder / "cache" / "entry"
    with publish(entry) as slow:
        (slow / "file").write_text("slow", encoding="utf-8")
        with publish(entry) as quick:
            (quick / "file").write_text("quick", encoding="utf-8")
    assert (entry / "file").read_text(encoding="utf-8") == "quick"
    assert [path.name for path in entry.parent.iterdir()] == ["entry"]


def test_what_a_killed_process_left_is_removed_after_a_day(folder: Path) -> None:
    parent = folder / "cache"
    for name, age in (("old", 2 * 24 * 3600), ("new", 60)):
        left = parent / f"{TEMPORARY}{name}"
        left.mkdir(parents=True)
        os.utime(left, (time.time() - age,) * 2)
    with publish(parent / "entry"):
        pass
    assert {path.name for path in parent.iterdir()} == {"entry", f"{TEMPORARY}new"}


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("ANTIPHON_CACHE", "/own")
    assert cache.cache_folder() == Path("/own")
    monkeypatch.delenv("ANTIPHON_CACHE")
    assert cache.cache_folder() == Path("/xdg/antiphon")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path("/home/someone/.cache/antiphon")
