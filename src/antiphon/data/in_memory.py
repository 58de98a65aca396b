"""Examples in memory: lists of pairs, pandas DataFrames and Hugging Face Datasets become a JSONL file in the cache.

The file is named by its content, so the same examples are the same file in every process: a run resumes, and its
config.yaml names where its data are. pandas and datasets are recognised by the name of their module, not imported.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from antiphon.cache import hold_entry, trim_cache
from antiphon.config.schema import DataConfig
from antiphon.errors import DataError
from antiphon.files import cache_folder, disk_errors, write_bytes
from antiphon.text import nearest, plural

if TYPE_CHECKING:
    import datasets
    import pandas as pd

__all__ = ["Examples", "RowItem", "is_in_memory", "kind_problem", "store_all", "store_examples"]

RowItem: TypeAlias = str | Sequence[str]
Examples: TypeAlias = Union[
    str, Path, Sequence[str], Sequence[Path], Sequence[Sequence[RowItem]], "pd.DataFrame", "datasets.Dataset"
]
"""A file, a source and a target file, a list of pairs (source, target), a DataFrame or a Dataset."""

TABLES = {("pandas", "DataFrame"), ("datasets", "Dataset")}
SHOWN = 20  # column names in an error
PROBLEMS = 5  # values that cannot be used; the others are counted
WANTED = (
    "give a file, [a source file, a target file], a list of pairs (source, target), a pandas DataFrame or a "
    "datasets.Dataset"
)


def is_in_memory(examples: object) -> bool:
    """True for rows in a list and for tables; False for the names of files."""
    return _is_table(examples) or (isinstance(examples, list | tuple) and not _are_files(examples))


def kind_problem(name: str, examples: object) -> str | None:
    """The sentence for an argument that cannot be examples; None if it can."""
    if isinstance(examples, str | Path) or _is_table(examples):
        return None
    if type(examples).__name__ == "DatasetDict":
        return f"{name}: a DatasetDict has several splits; give one of them, such as data['train']"
    if not isinstance(examples, list | tuple):
        return f"{name}: {_kind(examples)} is given; {WANTED}"
    if not examples:
        return f"{name}: the list is empty; {WANTED}"
    if _are_files(examples):
        known = len(examples) == 2
        remedy = "for texts of a language model give a list of tuples with one text each: [(text,), ...]"
        return (
            None if known else f"{name}: a list of {plural(len(examples), 'texts')}, not of pairs; {WANTED}; {remedy}"
        )
    return None


def _are_files(examples: Sequence[object]) -> bool:
    return all(isinstance(one, str | Path) for one in examples)


def _is_table(value: object) -> bool:
    return any((base.__module__.split(".")[0], base.__name__) in TABLES for base in type(value).__mro__)


def store_examples(examples: Any, data: DataConfig) -> str:  # noqa: ANN401 (a DataFrame or a Dataset, not imported)
    """The JSONL file of the examples with the columns that `data` reads; DataError with everything that is wrong."""
    column = data.target.column
    both: list[int | str] = [source.column for source in data.sources if not isinstance(source.column, list)]
    both += column if isinstance(column, list) else [column]
    wanted = list(dict.fromkeys(both))
    if _is_table(examples):
        return _write(_pick(_columns(examples), wanted))
    return _write(_transpose(examples, [str(column) for column in wanted]))


def store_all(examples: Any) -> tuple[str, list[str], list[str]]:  # noqa: ANN401
    """The JSONL file of examples with all their columns, and the names of the sources and the target of a list."""
    if _is_table(examples):
        return _write(_columns(examples)), [], []
    width = len(examples[0]) if isinstance(examples[0], list | tuple) else 0
    if width < 2:
        raise DataError(
            "init: pairs (source, target) are needed; for a language model of texts write for example "
            "antiphon.train('lm-lstm', data=[(text,), ...])"
        )
    sources = ["source"] if width == 2 else [f"source {number}" for number in range(1, width)]
    return _write(_transpose(examples, [*sources, "target"])), sources, ["target"]


# Columns by name.


def _columns(table: Any) -> dict[str, list[Any]]:  # noqa: ANN401
    """The columns of a DataFrame or a Dataset."""
    if hasattr(table, "column_names"):
        return {str(name): _named(list(values), table.features[name]) for name, values in table.to_dict().items()}
    names = [str(name) for name in table.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"the DataFrame has several columns called {', '.join(map(repr, twice))}; rename them")
    return {name: table.iloc[:, number].tolist() for number, name in enumerate(names)}


def _named(values: list[Any], feature: object) -> list[Any]:
    """The names of the classes of a Dataset in place of their numbers, of which -1 stands for none."""
    if type(feature).__name__ != "ClassLabel":
        return values
    names: list[str] = feature.names  # type: ignore[attr-defined]
    return [None if value is None or value < 0 else names[value] for value in values]


def _pick(columns: dict[str, list[Any]], wanted: list[int | str]) -> dict[str, list[Any]]:
    """The wanted columns: a number counts the columns of the table, and `a.b` is key b of the objects in column a."""
    found, problems, names = dict[str, list[Any]](), list[str](), list(columns)
    for column in wanted:
        head = str(column).partition(".")[0]
        if str(column) in columns:
            found[str(column)] = columns[str(column)]
        elif isinstance(column, int) and column < len(names):
            found[str(column)] = columns[names[column]]
        elif head in columns:
            found[head] = columns[head]
        else:
            close = nearest(str(column), names)
            guess = f"did you mean {close!r}? " if close else ""
            known = ", ".join(map(repr, names[:SHOWN])) or "none"
            problems.append(
                f"the table has no column {column!r}; {guess}it has {known}; rename it, or set data.source.column and "
                "data.target.column"
            )
    if problems:
        raise DataError(problems)
    return found


def _transpose(rows: Sequence[Any], names: list[str]) -> dict[str, list[Any]]:
    """The columns of rows, each with one item a name; DataError if a row has others."""
    wrong = [
        f"row {number}: {plural(len(row), 'items') if isinstance(row, list | tuple) else _kind(row)}"
        for number, row in enumerate(rows, start=1)
        if not isinstance(row, list | tuple) or len(row) != len(names)
    ]
    if wrong:
        wanted = f"each row needs {plural(len(names), 'items')} ({', '.join(names)})"
        where = "data.source.column and data.target.column, in this order"
        raise DataError([*_first_few(wrong), f"{wanted}: {where}"])
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


# The file.


def _write(columns: Mapping[str, list[Any]]) -> str:
    """A JSONL file named by its content; a value that is not there is null, which is read as an empty text."""
    problems: list[str] = []
    plain = {
        name: [_plain(value, name, row, problems) for row, value in enumerate(columns[name], start=1)]
        for name in columns
    }
    if problems:
        remedy = "write texts, numbers or lists of texts, for example with str()"
        raise DataError([*_first_few(problems), remedy])
    rows = (dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True))
    content = b"".join(_json_line(row) for row in rows)
    path = cache_folder() / "examples" / f"{hashlib.sha256(content).hexdigest()[:32]}.jsonl"
    if not hold_entry(path):
        with disk_errors(path, "set ANTIPHON_CACHE to another folder"):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)
        hold_entry(path)
        trim_cache()
    return str(path)


def _json_line(row: dict[str, Any]) -> bytes:
    # Half of a surrogate pair cannot be written as UTF-8; JSON can spell it, and it is counted where it is read.
    return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _plain(value: Any, column: str, row: int, problems: list[str]) -> Any:  # noqa: ANN401
    """The value as JSON has it; NaN, NaT and NA are null."""
    if (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in ("NAType", "NaTType")
    ):
        return None
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(inner, f"{column}.{key}", row, problems) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, column, row, problems) for item in value]
    if isinstance(value, Path):
        return str(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist(), column, row, problems)
    problems.append(f"row {row}, column {column!r}: {_kind(value)} is no text")
    return None


def _kind(value: object) -> str:
    return f"a value of type {type(value).__name__}"


def _first_few(problems: Iterable[str]) -> list[str]:
    listed = list(problems)
    more = len(listed) - PROBLEMS
    return listed if more <= 0 else [*listed[:PROBLEMS], f"and {more:,} more"]
