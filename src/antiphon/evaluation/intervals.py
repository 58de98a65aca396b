"""Bootstrap intervals of metrics, also per group of examples."""
# N sentences, d statistics, R resamples

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from antiphon.config.schema import DataConfig
from antiphon.data.records import MISSING, flat_keys, text_of, value_at
from antiphon.data.tables import is_keyed, open_table
from antiphon.errors import UserError
from antiphon.evaluation.metrics import Metric, References, Statistics
from antiphon.text import nearest

__all__ = [
    "Estimate", "Group", "estimate_groups", "estimate_value", "groups_by_column", "groups_by_lines",
    "has_header",
]  # fmt: skip

CELLS = 4_000_000  # of the table R × N that is in memory at a time
MAX_GROUPS = 1000


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def estimate_value(
    statistics: Statistics, value: Callable[[Statistics], Statistics], seed: int = 1, samples: int = 1000
) -> Estimate:
    """The value of the sum of statistics [N, d], with its interval.

    The bounds are the 2.5 and 97.5 percentiles over `samples` draws of N sentences with replacement; 0: no interval.
    """
    whole = float(value(statistics.sum(axis=0)))
    if len(statistics) == 0 or samples == 0:
        return Estimate(whole, whole, whole)
    low, high = np.percentile(value(_resampled_sums(statistics, seed, samples)), [2.5, 97.5])
    return Estimate(whole, float(low), float(high))


def _resampled_sums(statistics: Statistics, seed: int, samples: int) -> Statistics:
    """Sums [R, d]: the statistics of each sentence, times the number of its draws."""
    N = len(statistics)
    generator = np.random.default_rng(seed)
    sums = []
    at_once = max(1, CELLS // N)
    for first in range(0, samples, at_once):
        rows = min(at_once, samples - first)
        drawn = generator.integers(N, size=(rows, N)) + N * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * N).reshape(rows, N)
        sums.append(times @ statistics)
    return np.concatenate(sums)


# Groups of examples: by another column of their file, or by parts of the file.


@dataclass(frozen=True)
class Group:
    """The metric of the examples with one value of a column, or in one part of a file."""

    name: str
    metric: str
    estimate: Estimate
    examples: int


def estimate_groups(
    metric: Metric, outputs: Sequence[str], references: References, names: Sequence[str], samples: int
) -> list[Group]:
    """The metric of each group, in the order of first occurrence."""
    statistics = metric.checked_statistics(outputs, references)
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return [
        Group(name, metric.name, estimate_value(statistics[chosen], metric.value, samples=samples), len(chosen))
        for name, chosen in rows.items()
    ]


def groups_by_lines(lines: Sequence[int], each: int, first: int) -> list[str]:
    """Names such as `lines 1-1000` for parts of `each` lines; `first` is the first line after the header."""
    begins = [first + (line - first) // each * each for line in lines]
    return [f"lines {begin}-{begin + each - 1}" for begin in begins]


def has_header(path: Path, data: DataConfig) -> bool:
    """True if, according to the model's config, the first line of a file names the columns."""
    if is_keyed(path):
        return False
    if data.header is not None:
        return data.header
    sources = data.source if isinstance(data.source, list) else [data.source]
    columns = [side.column for side in (*sources, data.target) if side is not None]
    return any(isinstance(key, str) for column in columns for key in (column if isinstance(column, list) else [column]))


def groups_by_column(
    path: Path, name: str, column: str, lines: Sequence[int], data: DataConfig | None = None, *, header: bool
) -> list[str]:
    """The value of a column, given by name or number, at each of these lines."""
    cells = _values(path, name, column) if is_keyed(path) else _cells(path, name, column, data, header)
    wanted = set(lines)
    values = {line: value for line, value in cells if line in wanted}
    groups = [values.get(line, "") for line in lines]
    if (count := len(set(groups))) > MAX_GROUPS:
        raise UserError(f"--by {column}: {count:,} different values; choose a column with at most {MAX_GROUPS:,}")
    return groups


def _cells(path: Path, name: str, column: str, data: DataConfig | None, header: bool) -> Iterator[tuple[int, str]]:
    rows = (row for row in open_table(path, data).rows if not row.fault)
    first = next(rows, None)
    if first is None:
        return
    number = _column_number(name, column, [cell.strip() for cell in first.cells], header)
    if not header:
        yield first.line, first.cells[number].strip()
    for row in rows:
        if number < len(row.cells):
            yield row.line, row.cells[number].strip()


def _column_number(name: str, column: str, cells: list[str], header: bool) -> int:
    if header and column in cells:
        return cells.index(column)
    if column.isdecimal() and int(column) < len(cells):
        return int(column)
    if not header:
        raise UserError(
            f"--by {column}: {name} has columns 0 to {len(cells) - 1} and, according to the model's config, no header; "
            "give one of these numbers"
        )
    raise UserError(f"--by {column}: {_missing_column(name, column, cells)}")


def _values(path: Path, name: str, column: str) -> Iterator[tuple[int, str]]:
    keys: dict[str, None] = {}
    exists = False
    for line, values, _ in open_table(path).records:
        keys.update(dict.fromkeys(key for key, _ in flat_keys(values)))
        value = value_at(values, column)
        if value is not MISSING:
            exists = True
            text = text_of(value)
            yield line, str(value) if text is None else text
    if not exists:
        raise UserError(f"--by {column}: {_missing_column(name, column, list(keys))}")


def _missing_column(name: str, column: str, names: list[str]) -> str:
    close = nearest(column, names)
    return f"{name} has no such column; " + (f"did you mean '{close}'?" if close else f"it has {', '.join(names)}")
