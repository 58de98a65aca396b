from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.data.lines import Line, lines_of, read_lines
from antiphon.errors import DataError

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0")), min_size=1)


def texts_of(path: Path) -> list[str]:
    return [line.text for line in read_lines(path)]


def test_lines_are_numbered_from_one(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"one\ntwo\n")
    assert list(read_lines(path)) == [Line(1, "one"), Line(2, "two")]


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r", ["a\r"]),
        (b"a\rb\n", ["a\rb"]),
        (b"\n\na\n", ["", "", "a"]),
        ("a\u2028b\u2029c\x85d\x0be\x1cf\n".encode(), ["a\u2028b\u2029c\x85d\x0be\x1cf"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
def test_only_newline_ends_a_line(tmp_path: Path, raw: bytes, texts: list[str]) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(raw)
    assert texts_of(path) == texts


@given(texts=TEXTS)
def test_what_is_written_is_read_plain_and_packed(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("lines")
    raw = ("\n".join(texts) + "\n").encode()
    (folder / "plain").write_bytes(raw)
    (folder / "packed").write_bytes(gzip.compress(raw, mtime=0))
    expected = [texts[0].removeprefix("\ufeff"), *texts[1:]]
    assert texts_of(folder / "plain") == expected
    assert texts_of(folder / "packed") == expected


def test_gzip_is_known_by_its_bytes_not_its_name(tmp_path: Path) -> None:
    named = tmp_path / "a.tsv.gz"
    named.write_bytes(b"plain\n")
    assert texts_of(named) == ["plain"]


def test_reading_is_lazy(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n\xff\n")
    lines = read_lines(path)
    assert next(lines) == Line(1, "fine")
    lines.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_any_binary_file_has_lines_and_stays_open(pack: Callable[[bytes], bytes]) -> None:
    file = io.BytesIO(pack(b"\xef\xbb\xbfone\r\ntwo"))
    assert list(lines_of(file, "stdin")) == [Line(1, "one"), Line(2, "two")]
    assert not file.closed


def test_lines_of_a_pipe_come_when_they_are_written() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as file, open(writer, "wb", buffering=0) as pen:
        lines = lines_of(file, "stdin")
        pen.write(b"one\n")
        assert next(lines) == Line(1, "one")
        pen.write(b"two\n")
        assert next(lines) == Line(2, "two")


def test_an_open_file_without_lines_has_none_and_its_faults_have_its_name() -> None:
    assert list(lines_of(io.BytesIO(b""), "stdin")) == []
    with pytest.raises(DataError, match=r"stdin, line 2: not UTF-8 \(byte 0xE9 at column 1\)"):
        list(lines_of(io.BytesIO(b"a\n\xe9\n"), "stdin"))


def test_a_file_closed_halfway_is_no_trouble() -> None:
    file = io.BytesIO(b"one\ntwo\n")
    lines = lines_of(file, "stdin")
    assert next(lines) == Line(1, "one")
    file.close()
    del lines


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8", "utf-8-sig"])
@pytest.mark.parametrize(
    "text", ["a\tb\r\nc\td\n", "Привет, мир\tHello\n", "中文句子很长没有空格\t日本\n" * 40, "😀\n\n\nx", "a"]
)
def test_utf_16_is_read_with_its_mark_and_without(text: str, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    file = io.BytesIO(pack(text.encode(encoding)))
    lines = [line.text for line in lines_of(file, "stdin")]
    assert lines == text.replace("\r", "").removesuffix("\n").split("\n")
    assert not file.closed


@pytest.mark.parametrize("raw", [b"abc\0def\n", b"abcd\n\0ef\n", b"\0\0\0\0", b"a\0\x01\0\n\0", b"a\0\0a"])
def test_a_zero_byte_alone_makes_no_utf_16(raw: bytes) -> None:
    with pytest.raises(DataError, match="a zero byte, so this is not text"):
        list(lines_of(io.BytesIO(raw), "stdin"))


def test_half_a_character_of_utf_16_has_its_line() -> None:
    text = "line\n" * 5000
    for raw in (text + "a").encode("utf-16")[:-1], (text + "\ud83d\n" + text).encode("utf-16", "surrogatepass"):
        lines = lines_of(io.BytesIO(raw), "stdin")
        assert [next(lines).text for _ in range(5000)] == ["line"] * 5000
        with pytest.raises(DataError, match="stdin, line 5001: half a character of UTF-16"):
            next(lines)
