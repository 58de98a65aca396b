"""Where the files lie that a table names: below the folder of the table, or below data.source.folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from antiphon.config.schema import DataConfig, TextConfig
from antiphon.sources.reading import UnreadableError
from antiphon.sources.source import BETWEEN

__all__ = ["Paths"]


@dataclass(frozen=True)
class Paths:
    """Turns the cells of sources that are files into paths. `folders` has one for each source; None: it is a text."""

    folders: tuple[str | None, ...]
    inside: bool = True  # a path may not leave its folder

    @classmethod
    def of_table(cls, data: DataConfig, table: Path) -> Paths:
        """Those that a table names may not leave the folder: whoever wrote it may not be whoever reads it."""
        return cls(tuple(_folder(source, table) for source in data.sources))

    @classmethod
    def of_lines(cls, data: DataConfig, file: str | None) -> Paths:
        """Lines that a user gives are relative to the file they stand in, or to where the user is."""
        folder = str(Path(file).parent) if file is not None else "."
        texts = [isinstance(source, TextConfig) for source in data.sources]
        return cls(tuple(None if text else folder for text in texts), inside=False)

    @property
    def needed(self) -> bool:
        """Whether there is anything to do: a file, or several cells."""
        return len(self.folders) > 1 or any(folder is not None for folder in self.folders)

    def resolved(self, text: str) -> str:
        """The same cells with paths that can be opened; UnreadableError if one of a table leaves, or is empty."""
        if not self.needed:
            return text
        cells = text.split(BETWEEN) if len(self.folders) > 1 else [text]
        if len(cells) != len(self.folders):
            return text  # what reads them says so
        both = zip(cells, self.folders, strict=True)
        return BETWEEN.join(cell if folder is None else self._below(folder, cell) for cell, folder in both)

    def relative(self, text: str) -> str:
        """Cells as the table names them: the same wherever its folder lies."""
        if not self.needed:
            return text
        cells = text.split(BETWEEN) if len(self.folders) > 1 else [text]
        both = zip(cells, self.folders, strict=True)
        return BETWEEN.join(cell if folder is None else os.path.relpath(cell, folder) for cell, folder in both)

    def _below(self, folder: str, cell: str) -> str:
        if not cell.strip():
            if self.inside:
                raise UnreadableError("an empty path")
            return ""  # of lines, whatever reads them says so, with all else that cannot be read
        path = os.path.normpath(os.path.join(folder, cell.strip()))
        if self.inside and not _is_below(path, folder):
            raise UnreadableError(f"it leaves the folder {folder}")
        return path


def _folder(source: object, table: Path) -> str | None:
    if isinstance(source, TextConfig):
        return None
    own = getattr(source, "folder", None)
    return str(table.parent) if own is None else str(own)


def _is_below(path: str, folder: str) -> bool:
    """By their names: a link inside the folder is the user's own."""
    base, whole = os.path.abspath(folder), os.path.abspath(path)
    return whole != base and os.path.commonpath([base, whole]) == base
