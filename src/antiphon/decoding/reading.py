"""What a model reads, as questions: one text, files, or several sources; and how it is all named."""

from __future__ import annotations

from collections.abc import Sequence as Items

from antiphon.config.schema import Config, SourceConfig
from antiphon.decoding.generation import Part
from antiphon.decoding.wording import AnswerWording, PairWording, Question, TextWording, Wording, room_of, unknown_flag
from antiphon.encoders.front import Front
from antiphon.folder import text_source
from antiphon.sources.source import Read, Source, Values, positions
from antiphon.sources.tokens import Tokenizer
from antiphon.sources.vocabulary import EOS

__all__ = ["SourceWording", "wording_of"]


class SourceWording(AnswerWording):
    """The source is a file, or there are several; `fronts` know the positions of files, tokenizers those of texts."""

    one_text = False

    def __init__(self, configs: list[SourceConfig], source: Source, target: Tokenizer, fronts: Items[Front]) -> None:
        self.configs = configs
        self.source = source
        self.target = target
        self.fronts = fronts

    def question(self, text: str) -> Question:
        """Each source is cut at its longest. UnreadableError if a file cannot be read, or a cell is missing."""
        parts: list[Values] = []
        flags: list[str] = []
        rows = zip(self.source.parts, self.configs, self.source.cells(text), strict=True)
        for number, (source, config, cell) in enumerate(rows):
            name = f"source {number + 1}" if len(self.configs) > 1 else "source"
            read = source.read(cell)
            assert not isinstance(read, tuple)
            if isinstance(source, Tokenizer):
                flags += unknown_flag(name, source.unknown(cell))
            if len(read) > config.max_length:
                unit = "tokens" if isinstance(read, list) else "positions"
                only = f"only the first {config.max_length} were read"
                flags.append(f"truncated: the {name} has {len(read)} {unit}, {only}")
            parts.append(read[: config.max_length])
        silent = all(isinstance(part, list) and not part for part in parts)
        flags += ["empty source"] if silent else []
        return Question(text, tuple(parts) if len(parts) > 1 else parts[0], prompt=[], flags=flags, silent=silent)

    def read(self, question: Question) -> list[str]:
        parts = _parts(question.source)
        return [name for number, part in enumerate(parts) for name in self._names(number, part)]

    def remembered(self, source: Read) -> int:
        return sum(self._remembered(number, part) for number, part in enumerate(_parts(source)))

    def pieces(self, question: Question) -> list[Part]:
        found, first = [], 0
        cells = self.source.cells(question.text)
        for number, part in enumerate(_parts(question.source)):
            last = first + self._remembered(number, part) - 1
            grid = self.fronts[number].grid(positions(part))
            found.append(Part(number, self.configs[number].kind, cells[number], first, last, grid))
            first = last + 1
        return found

    def _names(self, number: int, part: Values) -> list[str]:
        source = self.source.parts[number]
        if isinstance(source, Tokenizer) and isinstance(part, list):
            return source.symbols([*part, EOS])
        return self.fronts[number].names(len(part))

    def _remembered(self, number: int, part: Values) -> int:
        return len(self.fronts[number].names(positions(part)))


def _parts(source: Read) -> tuple[Values, ...]:
    return source if isinstance(source, tuple) else (source,)


def wording_of(config: Config, source: Source, target: Tokenizer, fronts: Items[Front] = ()) -> Wording:
    """How a model reads and writes; only sources that are no single text need the `fronts` of its network."""
    if config.data.source is None:
        return TextWording(target, stream=config.data.window is not None, room=room_of(config))
    if config.data.text is not None:
        return PairWording(text_source(source), target, config.data.text.max_length)
    return SourceWording(config.data.sources, source, target, fronts)
