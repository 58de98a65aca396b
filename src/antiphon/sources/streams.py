"""A text as one stream of tokens, in which a line end is a token like any other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any

from antiphon.sources.tokens import Tokenizer
from antiphon.sources.vocabulary import EOS

__all__ = ["LINE_END", "StreamTokenizer", "line_end"]

LINE_END = "\n"


def line_end(tokenizer: Tokenizer) -> int:
    """The id of a line end: "\\n" is a character; to words and sub-words it is </s>."""
    return tokenizer.encode(LINE_END)[0] if tokenizer.spells else EOS


class StreamTokenizer(Tokenizer):
    """Texts of any number of lines, by the tokenizer of their lines; it is never saved."""

    def __init__(self, lines: Tokenizer) -> None:
        self.lines = lines
        self.kind, self.spells = lines.kind, lines.spells
        self.size = lines.size
        self.line_end = line_end(lines)

    def encode(self, text: str) -> list[int]:
        """The ids of the lines, with a line end between them."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts."""
        if self.spells:
            return self.lines.encode_batch(texts)
        split = [text.split(LINE_END) for text in texts]
        rows = iter(self.lines.encode_batch(list(chain.from_iterable(split))))
        return [self._joined(lines, islice(rows, len(lines))) for lines in split]

    def _joined(self, lines: list[str], rows: islice[list[int]]) -> list[int]:
        """An empty line has no tokens but its end, whatever a sub-word tokenizer makes of nothing."""
        ids: list[int] = []
        for number, (line, row) in enumerate(zip(lines, rows, strict=True)):
            ids += [self.line_end] if number else []
            ids += row if line else []
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text, line by line."""
        if self.spells:
            return self.lines.decode(ids)
        lines: list[list[int]] = [[]]
        for number in ids:
            if number == self.line_end:
                lines.append([])
            else:
                lines[-1].append(number)
        return LINE_END.join(self.lines.decode(line) for line in lines)

    def joined(self, pieces: Sequence[str]) -> str:
        return self.lines.joined(pieces)

    def symbols(self, ids: Sequence[int]) -> list[str]:
        return self.lines.symbols(ids)

    def unknown(self, text: str) -> list[str]:
        """Line ends are known."""
        return self.lines.unknown(text if self.spells else text.replace(LINE_END, " "))

    def content(self) -> dict[str, Any]:
        return self.lines.content()
