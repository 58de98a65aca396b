"""Records: the objects of JSONL, JSON and parquet, and the text at their keys."""

from __future__ import annotations

import datetime
import decimal
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.data.lines import Line
from antiphon.errors import DataError
from antiphon.text import visible

__all__ = ["MISSING", "Record", "array_records", "flat_keys", "is_unicode", "json_records", "text_of", "value_at"]

MISSING = object()  # the value of a key that is not there, unlike null
OTHER_TEXTS = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)  # of parquet and xlsx
LARGEST = 1 << 30  # characters of a JSON text that is read as a whole


class Record(NamedTuple):
    """An object and its line in JSONL, or its number in an array or a parquet file; or a fault."""

    line: int
    values: dict[str, Any]
    fault: str = ""


def value_at(values: dict[str, Any], name: str) -> Any:  # noqa: ANN401 (any JSON)
    """The value of a key, or MISSING; `a.b` is b inside a, unless there is a key of that name."""
    if name in values:
        return values[name]
    for place in (place for place, character in enumerate(name) if character == "."):
        inside = values.get(name[:place])
        value = value_at(inside, name[place + 1 :]) if isinstance(inside, dict) else MISSING
        if value is not MISSING:
            return value
    return MISSING


def flat_keys(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The keys with their values; those of objects inside as `a.b`."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat_keys(value, f"{above}{key}.")
        else:
            yield above + key, value


def text_of(value: Any) -> str | None:  # noqa: ANN401 (any JSON)
    """A value as text: numbers, true and false as JSON writes them, null and NaN as nothing. None: no single value."""
    if isinstance(value, str):
        return value
    if value is None or value != value:
        return ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return str(value) if isinstance(value, OTHER_TEXTS) else None


def is_unicode(text: str) -> bool:
    """False if a text has half a character, which JSON can spell (\\ud800) but no file can hold."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def json_records(lines: Iterator[Line]) -> Iterator[Record]:
    """JSONL: an object on each line."""
    for line in lines:
        value = _object(line.text)
        if isinstance(value, str):
            yield Record(line.number, {}, value)
        else:
            yield Record(line.number, value)


def array_records(path: Path, lines: Iterator[Line]) -> Iterator[Record]:
    """The objects of a .json file: of an array, of the array in an object, or, as in JSONL, one on each line."""
    head = _filled(lines)
    first = _object(head[-1].text) if head else {}
    more = _filled(lines) if isinstance(first, dict) else []
    if more and more[-1].text.strip():
        yield from json_records(itertools.chain(head, more, lines))
        return
    whole = first if isinstance(first, dict) else _whole(path, itertools.chain(head, lines))
    for number, value in enumerate(_array(path, whole), start=1):
        fault = "" if isinstance(value, dict) else "not a JSON object"
        yield Record(number, {} if fault else value, fault)


def _filled(lines: Iterator[Line]) -> list[Line]:
    """The lines up to the first that is not empty."""
    taken = []
    for line in lines:
        taken.append(line)
        if line.text.strip():
            break
    return taken


def _object(text: str) -> dict[str, Any] | str:
    """The object on a line, or its fault."""
    if not text.strip():
        return "empty line"
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _whole(path: Path, lines: Iterator[Line]) -> Any:  # noqa: ANN401 (any JSON)
    """The value of a JSON text over all lines."""
    texts, size = [], 0
    for line in lines:
        texts.append(line.text)
        size += len(line.text) + 1
        if size > LARGEST:
            fact = f"a JSON text of more than {LARGEST:,} characters, which is read as a whole"
            raise DataError(f"{path}: {fact}; write one object on each line instead, and name the file .jsonl")
    try:
        return json.loads("\n".join(texts))
    except json.JSONDecodeError as error:
        fact = f"not JSON, or cut off (column {error.colno}: {error.msg.removesuffix(' starting at')})"
        remedy = "write the file again, or put one object on each line and name it .jsonl"
        raise DataError(f"{path}, line {error.lineno}: {fact}; {remedy}") from error
    except RecursionError as error:
        raise DataError(f"{path}: JSON that is nested too deeply; give an array of objects") from error


def _array(path: Path, value: Any) -> list[Any]:  # noqa: ANN401 (any JSON)
    """The array that a JSON text is or has under one key; an object without one stands alone."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise DataError(f"{path}: the JSON is no array of objects; write [{{...}}, {{...}}], or JSONL")
    arrays = {key: inner for key, inner in value.items() if isinstance(inner, list) and _has_objects(inner)}
    if len(arrays) > 1:
        names = ", ".join(f"'{visible(key[:40], keep=' ')}'" for key in list(arrays)[:10])
        raise DataError(f"{path}: several arrays of objects ({names}); write each to a file of its own")
    return next(iter(arrays.values()), [value])


def _has_objects(values: list[Any]) -> bool:
    return any(isinstance(value, dict) for value in values)
