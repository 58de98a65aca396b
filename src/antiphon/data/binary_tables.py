"""Parquet and xlsx: tables that optional packages read (extra `tables`)."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from antiphon.data.delimited import TableRow
from antiphon.data.lines import open_bytes
from antiphon.data.records import Record, text_of
from antiphon.errors import DataError, MissingExtraError

__all__ = ["parquet_records", "sheet_rows"]

BATCH_ROWS = 1024
HEAD_ROWS = 100  # of a sheet; the widest of them gives the number of its columns


def parquet_records(path: Path, names: Sequence[str] = ()) -> Iterator[Record]:
    """The rows of a parquet file as objects; `names` are the keys that are needed, none for all."""
    parquet = _package(path, "parquet", "pyarrow", "pyarrow.parquet")
    with open_bytes(path) as file, _readable(path, "parquet"):
        table = parquet.ParquetFile(file)
        columns = [name for name in table.schema_arrow.names if any(f"{key}.".startswith(f"{name}.") for key in names)]
        covered = all(any(f"{key}.".startswith(f"{name}.") for name in columns) for key in names)
        batches = table.iter_batches(BATCH_ROWS, columns=columns if columns and covered else None, use_threads=False)
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, values in enumerate(rows, start=1):
            yield Record(number, values)


def sheet_rows(path: Path) -> Iterator[TableRow]:
    """The rows of the first sheet; shorter ones are filled up, because a sheet does not keep empty cells."""
    openpyxl = _package(path, "xlsx", "openpyxl", "openpyxl")
    with open_bytes(path) as file, _readable(path, "xlsx"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions, which do not matter here
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        if not book.worksheets:
            raise DataError(f"{path}: the file has no sheet with cells; save the table as the first sheet")
        rows = map(_texts, book.worksheets[0].iter_rows(values_only=True))
        head = list(itertools.islice(rows, HEAD_ROWS))
        width = max(map(len, head), default=0)
        for number, cells in enumerate(itertools.chain(head, rows), start=1):
            if any(map(str.strip, cells)):
                yield TableRow(number, cells + [""] * (width - len(cells)))
            else:
                yield TableRow(number, [], "empty line")


def _texts(values: Sequence[Any]) -> list[str]:
    """The cells of a row as text, without the empty ones at its end."""
    cells = [text_of(value) or "" for value in values]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _package(path: Path, kind: str, package: str, module: str) -> Any:  # noqa: ANN401 (a module)
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{path}: {kind} files are read with the package {package}, which is not installed; "
            "run: pip install 'antiphon[tables]'"
        ) from error


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    """Turn every failure of a reader into a DataError."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:  # each package has its own, and those of zip and XML besides
        reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
        raise DataError(f"{path}: not a {kind} file, or a damaged one ({reason}); write it again") from error
