"""Kinds of columns by their cells: texts, labels, numbers, dates, identifiers, web addresses, paths of files."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from antiphon.autoconfig.column_names import Role, is_identifier, role_of
from antiphon.data.image import SUFFIXES as IMAGE_SUFFIXES

__all__ = ["DESCRIPTIONS", "FILE_KINDS", "ColumnSample", "Kind", "is_missing", "is_number"]

Kind = Literal[
    "text", "label", "features-of-words", "number", "date", "id", "running", "url", "constant", "empty",
    "image", "audio", "features", "frames",
]  # fmt: skip
MIN_SHARE = 0.9  # of the cells that have to be of a kind
MIN_FILLED = 0.5  # of the cells of a column that is worth reading
MIN_FILLED_NAMED = 0.1  # if its name is that of a source or target, such as the optional input of an instruction
SAMPLE_FILES = 40
FILE_SUFFIXES = {
    "image": IMAGE_SUFFIXES,
    "audio": (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aiff"),
    "features": (".npy", ".npz"),
}
FILE_KINDS = ("image", "audio", "features", "frames")
DESCRIPTIONS: dict[Kind, str] = {
    "text": "text",
    "label": "labels",
    "features-of-words": "grammatical features",
    "number": "numbers",
    "date": "dates",
    "id": "identifiers",
    "running": "running numbers",
    "url": "web addresses",
    "constant": "always the same",
    "empty": "mostly empty",
    "image": "images",
    "audio": "recordings",
    "features": "arrays",
    "frames": "videos",
}
MISSING = {"", "na", "n/a", "nan", "null", "none", "-", "–", "?", "\\n"}
NUMBER = re.compile(r"[-+−]?[$€£¥₽]?\s?(\d+|\d{1,3}([,. '’]\d{3})+)([.,]\d+)?(e[-+]?\d+)?\s?[%$€£¥₽]?", re.IGNORECASE)
CLOCK = r"\d{1,2}:\d{2}(:\d{2})?([.,]\d+)?"
DATE = re.compile(
    rf"(\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](\d{{4}}|\d{{2}})|\d{{4}}年.*日)"
    rf"([ T]{CLOCK} ?([AaPp][Mm]|Z|[-+]\d\d:?\d\d|UTC)?)?|{CLOCK}( ?[AaPp][Mm])?( ?-->? ?{CLOCK})?|"
    r"(\w{3,9},? )?\d{1,2}(\.|st|nd|rd|th)? \w{3,9}\.?,? \d{4}|\w{3,9}\.? \d{1,2}(st|nd|rd|th)?,? \d{4}"
)
WEB = re.compile(r"https?://|www\.\w|\b\w+\.(org|com|net)\b|\bCC[- ]BY\b", re.IGNORECASE)
UUID = re.compile(r"\{?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}?", re.IGNORECASE)
HASH = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{8,}", re.IGNORECASE)
CODE = re.compile(r"[A-Za-z][\w.:/-]*\d[\w.:/-]*")
TAGS = re.compile(r"[^\s;|]+([;|][^\s;|]+)+|[A-Z]+|\w+=\S+")  # V;PST;3;SG and Case=Nom|Number=Sing


@dataclass(frozen=True)
class ColumnSample:
    """A column of a table or a key of JSONL: its number, its name if it has one, and the values seen."""

    number: int
    title: str
    cells: list[str]
    folder: Path = field(default=Path(), compare=False)  # that paths are relative to
    lists: bool = False  # of texts: several references, so the column can only be a target

    @cached_property
    def values(self) -> list[str]:
        """The cells that are not empty."""
        return [cell for cell in self.cells if cell.strip()]

    @cached_property
    def role(self) -> Role:
        """The role that the name suggests."""
        role = role_of(self.title) if self.title else ""
        return "target" if self.lists and role not in ("id", "other") else role

    @cached_property
    def distinct(self) -> int:
        """The number of different values."""
        return len(set(self.values))

    @cached_property
    def words(self) -> float:
        """The words of a value, on average."""
        return sum(len(value.split()) for value in self.values) / max(1, len(self.values))

    @cached_property
    def characters(self) -> float:
        """The characters of a value, on average."""
        return sum(map(len, self.values)) / max(1, len(self.values))

    @property
    def unique(self) -> bool:
        """True if hardly any value occurs twice."""
        return len(self.values) > 2 and self.distinct >= 0.95 * len(self.values)

    @property
    def named_identifier(self) -> bool:
        """True if the name says that these are identifiers."""
        compact = self.kind in ("running", "id") or (self.kind == "number" and self.unique)
        return is_identifier(self.title, looks_unique=compact and bool(self.title))

    @cached_property
    def kind(self) -> Kind:
        """The kind of most values, the most telling first."""
        filled = MIN_FILLED_NAMED if self.role in ("source", "target") else MIN_FILLED
        if len(self.values) < filled * len(self.cells) or not self.values:
            return "empty"
        if file := file_kind(self.values, self.folder):
            return file
        if self.distinct == 1 and len(self.values) > 2:
            return "constant"
        checks: tuple[tuple[Kind, Callable[[], bool]], ...] = (
            ("running", lambda: is_running(self.values)),
            ("date", lambda: most(self.values, lambda cell: DATE.fullmatch(cell) is not None)),
            ("url", lambda: most(self.values, lambda cell: WEB.search(cell) is not None)),
            ("id", self._is_id),
            ("features-of-words", self._is_features),
            ("label", self._is_label),
            ("number", lambda: most(self.values, is_number)),
        )
        return next((kind for kind, check in checks if check()), "text")

    def fits(self, cell: str) -> bool:
        """True if one more cell would be of the kind of the others: another number, date, address or path."""
        if self.kind in ("number", "running"):
            return is_number(cell) and not is_missing(cell)
        if self.kind == "id":
            shape, other = (re.sub(r"\d+", "0", text) for text in (cell, self.values[0]))
            return shape == other or bool(UUID.fullmatch(cell) or HASH.fullmatch(cell))
        if self.kind in FILE_KINDS:
            return file_kind([cell], self.folder) == self.kind
        pattern = {"date": DATE.fullmatch, "url": WEB.search}.get(self.kind)
        return pattern is not None and pattern(cell) is not None

    def _is_id(self) -> bool:
        """True for UUIDs, hashes, and codes of one shape such as train-0012."""
        if most(self.values, lambda cell: bool(UUID.fullmatch(cell) or HASH.fullmatch(cell))):
            return self.unique or self.distinct > 2
        shapes = {re.sub(r"\d+", "0", value) for value in self.values}
        return self.unique and len(shapes) == 1 and CODE.fullmatch(self.values[0]) is not None

    def _is_features(self) -> bool:
        if not most(self.values, lambda cell: TAGS.fullmatch(cell) is not None):
            return False
        return sum(";" in value or "|" in value or "=" in value for value in self.values) > 0.5 * len(self.values)

    def _is_label(self) -> bool:
        """True for short values of which there are few."""
        few = 2 if len(self.values) < 9 else max(2, min(50, len(self.values) // 4))
        return len(self.values) > 3 and self.distinct <= few and self.words <= 3 and self.characters <= 30


def most(values: Sequence[str], check: Callable[[str], bool]) -> bool:
    """True if a check holds for almost all values."""
    return sum(check(value.strip()) for value in values) >= MIN_SHARE * len(values)


def is_missing(cell: str) -> bool:
    """True for the ways of writing that there is no value."""
    return cell.strip().lower() in MISSING


def is_number(cell: str) -> bool:
    """True for numbers, prices and percentages."""
    return is_missing(cell) or NUMBER.fullmatch(cell.strip()) is not None


def is_running(values: list[str]) -> bool:
    """True for 1, 2, 3, ..., also with gaps where lines were removed."""
    if len(values) < 3 or not all(re.fullmatch(r"\d{1,15}", value.strip()) for value in values):
        return False
    numbers = [int(value) for value in values]
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    return sum(step == 1 for step in steps) >= 0.8 * len(steps) and min(steps) > 0


def file_kind(cells: list[str], folder: Path) -> Kind | None:
    """The kind of the files of a column; None if the cells are not paths to files of one kind."""
    kinds: tuple[Kind, ...] = ("image", "audio", "features")
    for kind in kinds:
        if sum(cell.strip().lower().endswith(FILE_SUFFIXES[kind]) for cell in cells) >= MIN_SHARE * len(cells):
            return "frames" if kind == "features" and array_rank(folder / cells[0].strip()) > 2 else kind
    # os.path, unlike pathlib, accepts a sentence that is too long for a path.
    folders = most(cells[:SAMPLE_FILES], lambda cell: bool(cell) and os.path.isdir(folder / cell))
    return "frames" if folders else None


def array_rank(path: Path) -> int:
    """The rank of an .npy array; 0 if it cannot be read."""
    try:
        return int(np.load(path, mmap_mode="r", allow_pickle=False).ndim)
    except (OSError, ValueError, EOFError, AttributeError):
        return 0
