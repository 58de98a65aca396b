"""The words of a text in tokens: pieces of one word are shown as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.data.tokenizers import EOS, Tokenizer
from antiphon.inference.generator import Generator
from antiphon.inference.inputs import EncodedInput

__all__ = ["WordSpan", "words_read", "words_written"]


@dataclass(frozen=True)
class WordSpan:
    """The tokens of one word."""

    first: int
    last: int
    text: str


def words_written(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[WordSpan]:
    """The words of an answer: those of sub-words are joined, any other token is one by itself."""
    return _spell(tokenizer, tokens, tokenizer.symbols(tokens), 0)


def words_read(generator: Generator, parts: Sequence[EncodedInput]) -> list[WordSpan]:
    """The words among the source tokens of an answer to a text in parts; the positions of a file are none."""
    found: list[WordSpan] = []
    before = 0
    for part in parts:
        if not part.skip:
            symbols = generator.codec.source_symbols(part)
            found += _words_of_part(generator, part, symbols, before)
            before += len(symbols)
    return found


def _words_of_part(generator: Generator, part: EncodedInput, symbols: list[str], before: int) -> list[WordSpan]:
    if generator.config.data.source is None:
        return _spell(generator.codec.target, part.prompt, symbols, before)
    sources = part.source if isinstance(part.source, tuple) else (part.source,)
    found = []
    for span, tokenizer, ids in zip(generator.codec.spans(part), generator.source.parts, sources, strict=True):
        if isinstance(tokenizer, Tokenizer) and isinstance(ids, list):
            here = symbols[span.first : span.last + 1]
            found += _spell(tokenizer, [*ids, EOS], here, before + span.first)
    return found


def _spell(tokenizer: Tokenizer, ids: Sequence[int], symbols: list[str], before: int) -> list[WordSpan]:
    """The words of ids with these symbols, which come after `before` others."""
    found = []
    for first, last in tokenizer.words(ids):
        alone = symbols[first].removeprefix("▁") or symbols[first]
        text = alone if first == last else tokenizer.decode(ids[first : last + 1])
        found.append(WordSpan(before + first, before + last, text))
    return found
