"""Lines of a text file, one at a time: plain or gzip, UTF-8 or UTF-16, ended by \n and by nothing else.

U+2028, U+0085 and friends are ordinary characters here, which is why `str.splitlines` is not used.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from io import BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from antiphon.errors import DataError
from antiphon.text import nearest

__all__ = ["Line", "lines_of", "open_bytes", "read_lines"]

GZIP_MAGIC = b"\x1f\x8b"
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
HEAD = 4096  # bytes that tell UTF-16 without a mark


class Line(NamedTuple):
    """A line without its end; the first has number 1."""

    number: int
    text: str


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a file, decoded one by one; every fault of the file is a DataError."""
    with open_bytes(path) as file:
        lines = lines_of(file, str(path))
        first = next(lines, None)
        if first is None:
            raise DataError(f"{path}: the file is empty; put one example on each line")
        yield first
        yield from lines


def lines_of(file: BinaryIO, name: str) -> Iterator[Line]:
    """The lines of an open file or of stdin as they come; errors call it `name`. An empty file is no error."""
    try:
        for number, raw in enumerate(_raw_lines(file, name), start=1):
            yield Line(number, _decode(name, number, raw if number > 1 else raw.removeprefix(UTF8_MARK)))
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error}); check the file") from error


def open_bytes(path: Path) -> BufferedReader:
    """The file, open for reading bytes; DataError if it is missing, a folder or forbidden."""
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; {_suggestion(path)}") from error
    except IsADirectoryError as error:
        raise DataError(f"{path}: this is a folder; name a file in it") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DataError(f"{path}: cannot be opened ({reason}); check its name and permissions") from error


def _suggestion(path: Path) -> str:
    """A remedy for a file that does not exist: a similar name in its folder, or a hint."""
    if not path.parent.is_dir():
        return f"there is no folder {path.parent} either; check the path (relative paths start from where you are)"
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return "check the path"
    close = nearest(path.name, names)
    if close is not None:
        return f"did you mean {path.parent / close}?"
    return "check the path (relative paths start from where you are)"


def _raw_lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """Lines with their ends, decompressed if the first bytes are those of gzip, whatever the name."""
    buffered = file if isinstance(file, BufferedReader) else BufferedReader(cast("RawIOBase", file))
    try:
        if not buffered.peek(2).startswith(GZIP_MAGIC):  # peek, not seek: pipes cannot go back
            yield from _utf8_lines(buffered, name)
            return
        with gzip.GzipFile(fileobj=buffered) as unpacked:
            yield from _utf8_lines(unpacked, name)
    except EOFError as error:
        raise DataError(f"{name}: the gzip file is cut off; copy or compress it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name}: the gzip file is damaged ({error}); copy or compress it again") from error
    finally:
        if buffered is not file and not buffered.closed:
            buffered.detach()  # otherwise the caller's file would be closed, too


def _utf8_lines(file: BufferedReader | gzip.GzipFile, name: str) -> Iterable[bytes]:
    """The lines as they are, or recoded if they are UTF-16."""
    codec = _utf16_codec(file.peek(HEAD)[:HEAD])
    return file if codec is None else _recoded(file, codec, name)


def _utf16_codec(head: bytes) -> str | None:
    """The codec of UTF-16 by its mark, or by zero bytes that are the upper halves of characters; else None."""
    for mark, codec in UTF16_MARKS.items():
        if head.startswith(mark):
            return codec
    for codec, upper, lower in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        zeros = upper.count(0)
        if zeros > 2 * lower.count(0) and _is_text(head, codec):
            # A zero byte that slipped into a text of one byte a character is a fault of that text.
            stray = 3 * zeros < len(upper) and _is_text(head.replace(b"\0", b""), "utf-8")
            return None if stray else codec
    return None


def _is_text(head: bytes, codec: str) -> bool:
    """True if bytes decode to characters that occur in texts; the last one may be cut off."""
    try:
        return not CONTROL.search(codecs.getincrementaldecoder(codec)().decode(head))
    except UnicodeDecodeError:
        return False


def _recoded(file: BufferedReader | gzip.GzipFile, codec: str, name: str) -> Iterator[bytes]:
    """The lines of UTF-16 as UTF-8."""
    # Halves of surrogate pairs pass the decoder, which reads ahead, and stop at the encoder, which knows the line.
    text, number = TextIOWrapper(cast("BinaryIO", file), codec, errors="surrogatepass", newline="\n"), 0
    try:
        for line in text:
            number += 1
            yield line.encode()
    except UnicodeError as error:
        number += isinstance(error, UnicodeDecodeError)  # an odd byte at the end of the file
        fact = "half a character of UTF-16, so the file is damaged or cut off"
        raise DataError(f"{name}, line {number}: {fact}; save it again, best as UTF-8") from error
    finally:
        if not file.closed:
            text.detach()  # otherwise the file would be closed, too


def _decode(name: str, number: int, raw: bytes) -> str:
    """The text of a line, without \\n or \\r\\n."""
    if b"\0" in raw:
        raise DataError(f"{name}, line {number}: a zero byte, so this is not text; give TSV, CSV, JSONL or plain lines")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte 0x{raw[error.start]:02X} at column {error.start + 1}"
        raise DataError(f"{name}, line {number}: not UTF-8 ({place}); save the file as UTF-8") from error
    if text.endswith("\n"):
        return text[:-2] if text.endswith("\r\n") else text[:-1]
    return text
