"""Inputs from clients as the texts that a model reads: a file that was sent gets a temporary name, and no other."""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from antiphon.config.schema import Config
from antiphon.serve.refusals import invalid, too_many

__all__ = ["Attachments", "ClientInput", "source_names"]

ClientInput = str | dict[str, str]


def source_names(config: Config) -> list[str]:
    """A name for each source: that of its column, or else its kind, with a number where two are alike."""
    names: Counter[str] = Counter()
    found = []
    for source in config.data.sources:
        name = source.column if isinstance(source.column, str) else source.kind
        names[name] += 1
        found.append(name if names[name] == 1 else f"{name}_{names[name]}")
    return found


class Attachments:
    """Knows the sources of a model."""

    def __init__(self, config: Config, most_characters: int) -> None:
        """`most_characters` is the length of the longest text that is read."""
        self.most_characters = most_characters
        self.kinds = [source.kind for source in config.data.sources]
        self.names = source_names(config)

    def translated(self, given: ClientInput) -> str | None:
        """The text of an input, if the model reads one text; None for files, several sources and prompts."""
        if self.kinds != ["text"]:
            return None
        return given if isinstance(given, str) else given.get(self.names[0], "")

    @contextmanager
    def texts(self, inputs: list[ClientInput]) -> Iterator[list[str]]:
        """The texts of the inputs, which hold as long as the context; Refusal for what cannot be one."""
        # A folder only where files are read: while a lane computes, each system call here costs a wait for the GIL.
        reads_files = any(kind != "text" for kind in self.kinds)
        with tempfile.TemporaryDirectory(prefix="antiphon-") if reads_files else nullcontext("") as folder:
            yield [self._text(given, f"inputs[{number}]", Path(folder)) for number, given in enumerate(inputs)]

    def _text(self, given: ClientInput, place: str, folder: Path) -> str:
        if len(self.kinds) < 2:
            kind = self.kinds[0] if self.kinds else "text"
            if isinstance(given, dict):
                if not self.names or list(given) != self.names:
                    raise invalid(f"{place}: this model reads one {kind}; give it as a string", param="inputs")
                given = given[self.names[0]]
            return self._checked(given, place) if kind == "text" else self._file(given, place, folder)
        if not isinstance(given, dict) or set(given) != set(self.names):
            wanted = ", ".join(self.names)
            raise invalid(f"{place}: this model reads several sources; give an object with {wanted}", param="inputs")
        rows = zip(self.names, self.kinds, strict=True)
        cells = [
            " ".join(self._checked(given[name], f"{place}.{name}").split("\t"))
            if kind == "text"
            else self._file(given[name], f"{place}.{name}", folder)
            for name, kind in rows
        ]
        return "\t".join(cells)

    def _checked(self, text: str, place: str) -> str:
        if len(text) > self.most_characters:
            raise too_many(f"{place} in characters", len(text), self.most_characters)
        return text

    @staticmethod
    def _file(given: str, place: str, folder: Path) -> str:
        """The path of a file with the bytes of a base64 string or of a data: URL."""
        encoded = given.partition(",")[2] if given.startswith("data:") else given
        try:
            content = base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            raise invalid(f"{place}: not base64; encode the bytes of the file", param="inputs") from None
        if not content:
            raise invalid(f"{place}: an empty file; give one with content", param="inputs")
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        return file.name
