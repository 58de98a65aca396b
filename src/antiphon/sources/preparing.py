"""One entry of the cache from the files: vocabularies, encoded pairs, dev examples and the facts about them.

The files are read as streams, once for each vocabulary and once to encode, so their text is never in memory at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from antiphon.config.schema import DataConfig
from antiphon.errors import DataError
from antiphon.sources.advice import warnings_about
from antiphon.sources.amounts import by_reason
from antiphon.sources.given import Given
from antiphon.sources.holdout import HoldOut
from antiphon.sources.pairs import Dropped, Example, Pair, file_paths, group, read_pairs
from antiphon.sources.ragged import RaggedWriter
from antiphon.sources.records import reads_lines
from antiphon.sources.streams import LINE_END, StreamTokenizer
from antiphon.sources.tokens import Tokenizer, train_tokenizer
from antiphon.sources.vocabulary import UNK

__all__ = ["build_entry"]

CHUNK = 4096
SAY_EVERY = 64  # chunks between two signs of life
LISTED = 20
V = TypeVar("V")


class Encoded(NamedTuple):
    """A pair and the ids of its two sides; a line of a stream has its line end at the end of its target."""

    pair: Pair
    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Encoder:
    """Pairs to ids; one that is too long for data.source or data.target is dropped and counted.

    A line of a stream may be of any length: the stream is cut into windows.
    """

    data: DataConfig
    source: Tokenizer
    target: Tokenizer
    dropped: Dropped

    def chunks(self, files: str | list[str], pairs: Iterable[Pair]) -> Iterator[list[Encoded]]:
        """The pairs of some files that are short enough, many at a time."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            rows = map(Encoded, chunk, self._sources(chunk), self._targets(chunk))
            yield [row for row in rows if self.data.window is not None or self._is_short(files, row)]

    def _sources(self, chunk: list[Pair]) -> list[list[int]]:
        if self.data.source is None:
            return [[] for _ in chunk]
        return self.source.encode_batch([pair.source for pair in chunk])

    def _targets(self, chunk: list[Pair]) -> list[list[int]]:
        if self.data.window is None:
            return self.target.encode_batch([pair.target for pair in chunk])
        return StreamTokenizer(self.target).encode_batch([f"{pair.target}\n" for pair in chunk])

    def _is_short(self, files: str | list[str], row: Encoded) -> bool:
        source_file, target_file = (files, files) if isinstance(files, str) else files
        source, target = self.data.source, self.data.target
        if source and len(row.source) > source.max_length:
            self.dropped.add(source_file, row.pair.line, f"source longer than {source.max_length} tokens")
            return False
        if len(row.target) > target.max_length:
            side = "target" if source else "text"
            self.dropped.add(target_file, row.pair.line, f"{side} longer than {target.max_length} tokens")
            return False
        return True


@dataclass
class Counts:
    """What the encoding pass sees; `unknown` counts the tokens of each side that became <unk>."""

    pairs: int = 0
    held_out: list[Pair] = field(default_factory=list)
    overlap: set[str] = field(default_factory=set)
    unknown: dict[str, int] = field(default_factory=lambda: {"source": 0, "target": 0})
    lengths: dict[str, dict[str, float]] = field(default_factory=dict)

    def training_rows(self, rows: list[Encoded], held: HoldOut, dev: set[str]) -> list[Encoded]:
        """The rows to learn from, counted; those that are held out are put aside."""
        kept: list[Encoded] = []
        for row in rows:
            if held.holds(row.pair):
                self.held_out.append(row.pair)
            else:
                kept.append(row)
        self.pairs += len(kept)
        self.overlap |= dev & {row.pair.source or row.pair.target for row in kept}
        self.unknown["source"] += sum(row.source.count(UNK) for row in kept)
        self.unknown["target"] += sum(row.target.count(UNK) for row in kept)
        return kept


def build_entry(
    data: DataConfig, hashes: dict[str, str], given: Given, folder: Path, say: Callable[[str], None]
) -> None:
    """Fill `folder` with everything `prepare` needs. `hashes` are the SHA-256 of the files by name."""
    _require_pairs(data)
    dropped = Dropped()
    dev_pairs = list(read_pairs(data.dev, data, dropped)) if data.dev is not None else []
    held = HoldOut.choose(data)
    if "target" not in given or (data.source is not None and "source" not in given):
        say(f"learning the vocabulary from {_label(data.train)}")
    encoder = Encoder(data, *_vocabularies(data, held, given), dropped)
    say(f"encoding {_label(data.train)}")
    dev = _dev_examples(encoder, data.dev, dev_pairs) if data.dev is not None else []
    counts = _encode(encoder, held, folder, _known(data, dev), say)
    if not counts.pairs:
        raise _nothing(data, data.train, "nothing left to learn from", dropped)
    dev = dev or group(counts.held_out)
    if not dev:
        remedy = "set data.dev, or raise data.hold_out or max_length"
        raise _nothing(data, data.train, "no usable dev examples were held out", dropped, remedy)
    encoder.source.save(folder / "source.json")
    encoder.target.save(folder / "target.json")
    facts = _facts(encoder, hashes, counts, dev)
    _write(folder / "dev.json", [astuple(example) for example in dev])
    _write(folder / "facts.json", {**facts, "warnings": warnings_about(facts)})


def _dev_examples(encoder: Encoder, files: str | list[str], pairs: list[Pair]) -> list[Example]:
    """Dev has the limits of train: one endless line would cost every evaluation its time and memory."""
    dev = group(row.pair for rows in encoder.chunks(files, pairs) for row in rows)
    if not dev:
        raise _nothing(encoder.data, files, "no usable dev examples", encoder.dropped)
    return dev


def _known(data: DataConfig, dev: list[Example]) -> set[str]:
    """What train should not have, too: the sources of dev, or its texts. Lines of a stream may well come again."""
    if data.window is not None:
        return set()
    return {_text(example) for example in dev}


def _text(example: Example) -> str:
    """What is known of an example before the answer: its source, or the text itself."""
    return example.source or example.references[0]


def _vocabularies(data: DataConfig, held: HoldOut, given: Given) -> tuple[Tokenizer, Tokenizer]:
    """Those of other runs, where they are given; the rest is learnt from the training pairs only."""

    def pairs() -> Iterator[Pair]:
        return (pair for pair in read_pairs(data.train, data, Dropped()) if not held.holds(pair))

    if data.source is None:
        end = LINE_END if data.window is not None and data.target.tokens == "characters" else ""
        lines = (pair.target + end for pair in pairs())
        text = given.get("target") or train_tokenizer(lines, data.target, "data.target", always=[end] if end else [])
        return text, text
    if data.shared_vocabulary and not given:
        texts = chain.from_iterable((pair.source, pair.target) for pair in pairs())
        shared = train_tokenizer(texts, data.source, where="data.source")
        return shared, shared
    source, target = given.get("source"), given.get("target")
    return (
        source or train_tokenizer((pair.source for pair in pairs()), data.source, where="data.source"),
        target or train_tokenizer((pair.target for pair in pairs()), data.target, where="data.target"),
    )


def _encode(encoder: Encoder, held: HoldOut, folder: Path, dev: set[str], say: Callable[[str], None]) -> Counts:
    """Write the ids of all training pairs."""
    counts = Counts()
    data = encoder.data
    chunks = encoder.chunks(data.train, read_pairs(data.train, data, encoder.dropped))
    with RaggedWriter(folder, "source") as sources, RaggedWriter(folder, "target") as targets:
        for number, rows in enumerate(chunks, start=1):
            kept = counts.training_rows(rows, held, dev)
            sources.add([row.source for row in kept])
            targets.add([row.target for row in kept])
            if number % SAY_EVERY == 0:
                say(f"encoded {counts.pairs:,} {_unit(data)}")
        counts.lengths = {"source": sources.facts(), "target": targets.facts()}
        sources.finish()
        targets.finish()
    return counts


def _require_pairs(data: DataConfig) -> None:
    """At least one usable pair, before anything is learnt from them."""
    dropped = Dropped()
    if next(read_pairs(data.train, data, dropped), None) is None:
        raise _nothing(data, data.train, "nothing to learn from", dropped)


def _nothing(
    data: DataConfig, files: str | list[str], fact: str, dropped: Dropped, remedy: str | None = None
) -> DataError:
    """No examples, and the reasons why those of these files were dropped."""
    names = [files] if isinstance(files, str) else files
    counts = sum((dropped.files[name] for name in names), Counter[str]())
    remedy = remedy or _remedy(data, files)
    return DataError(f"{_label(files)}: {fact} ({by_reason(counts) or 'only a header'}); {remedy}")


def _remedy(data: DataConfig, files: str | list[str]) -> str:
    """Plain text has no columns to choose."""
    if isinstance(files, str) and reads_lines(file_paths(files)[0][1], data):
        return "put one text on each line, or raise data.target.max_length"
    sides = "data.source and data.target" if data.source else "data.target"
    return f"check {sides} (column, max_length)"


def _facts(encoder: Encoder, hashes: dict[str, str], counts: Counts, dev: list[Example]) -> dict[str, Any]:
    """What the run's data.json says, but for the warnings."""
    data, source, target = encoder.data, encoder.source, encoder.target
    sizes = {"source": source.size, "target": target.size}
    vocabulary = {**sizes, "shared": data.shared_vocabulary} if data.source else sizes
    references = {"sources": len(dev), "references": _references(dev)} if data.source else {"texts": len(dev)}
    return {
        "files": _files(data, hashes, encoder.dropped, counts, dev),
        _unit(data): counts.pairs,
        "lengths": _sides(data, counts.lengths),
        "vocabulary": _sides(data, vocabulary),
        **_tokenizers(data),
        "train_unknown": _sides(data, counts.unknown),
        "dev": {**references, "held_out": data.dev is None},
        "dev_overlap": sum(_text(example) in counts.overlap for example in dev),
        "dev_unknown": _sides(data, _dev_unknown(dev, source, target)),
        "dropped": encoder.dropped.facts(),
    }


def _tokenizers(data: DataConfig) -> dict[str, dict[str, str]]:
    """The runs that tokenizers were taken from, if any."""
    sides = {"source": data.source, "target": data.target}
    runs = {side: config.tokenizer for side, config in sides.items() if config and config.tokenizer}
    return {"tokenizers": runs} if runs else {}


def _unit(data: DataConfig) -> str:
    return "pairs" if data.source else "texts"


def _sides(data: DataConfig, values: dict[str, V]) -> dict[str, V]:
    """By side; where there is no source, the other side is the text."""
    return values if data.source else {"text": values["target"]}


def _files(
    data: DataConfig, hashes: dict[str, str], dropped: Dropped, counts: Counts, dev: list[Example]
) -> list[dict[str, Any]]:
    """Path, hash, lines and usable pairs of each file."""
    pairs = {"train": counts.pairs, "dev": _references(dev)}
    parts = [("train", data.train)] + ([("dev", data.dev)] if data.dev is not None else [])
    return [
        {"part": part, "path": name, "sha256": hashes[name], "lines": dropped.lines[name], _unit(data): pairs[part]}
        for part, files in parts
        for name in ([files] if isinstance(files, str) else files)
    ]


def _dev_unknown(dev: list[Example], source: Tokenizer, target: Tokenizer) -> dict[str, dict[str, Any]]:
    """Symbols of dev that the vocabularies miss, the most frequent first."""
    unknown = {
        "source": Counter(symbol for example in dev for symbol in source.unknown(example.source)),
        "target": Counter(symbol for example in dev for text in example.references for symbol in target.unknown(text)),
    }
    return {
        side: {
            "count": len(symbols),
            "times": symbols.total(),
            "listed": [symbol for symbol, _ in symbols.most_common(LISTED)],
        }
        for side, symbols in unknown.items()
    }


def _references(dev: list[Example]) -> int:
    return sum(len(example.references) for example in dev)


def _label(files: str | list[str]) -> str:
    return files if isinstance(files, str) else files[0]


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")
