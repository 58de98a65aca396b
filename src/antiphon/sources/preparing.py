"""One entry of the cache from the files: vocabularies, encoded pairs, dev examples and the facts about them.

The files are read as streams, once for each vocabulary and once to encode, so their text is never in memory at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from antiphon.config.schema import DataConfig, SourceConfig, TextConfig
from antiphon.errors import DataError
from antiphon.sources.advice import warnings_about
from antiphon.sources.amounts import by_reason
from antiphon.sources.encoding import Encoded, Encoder, source_names, text_names
from antiphon.sources.given import Given
from antiphon.sources.holdout import HoldOut
from antiphon.sources.looking import Looked
from antiphon.sources.pairs import Dropped, Example, Pair, file_paths, group, read_pairs
from antiphon.sources.ragged import RaggedWriter
from antiphon.sources.readers import file_source, is_file
from antiphon.sources.records import reads_lines
from antiphon.sources.rows import CellsWriter, RowWriter
from antiphon.sources.source import BETWEEN
from antiphon.sources.streams import LINE_END
from antiphon.sources.tokens import Tokenizer, train_tokenizer
from antiphon.sources.vocabulary import UNK

__all__ = ["build_entry"]

SAY_EVERY = 64  # chunks between two signs of life
LISTED = 20
V = TypeVar("V")


@dataclass
class Counts:
    """What the encoding pass sees; `unknown` counts the tokens of each side that became <unk>."""

    pairs: int = 0
    held_out: list[Pair] = field(default_factory=list)
    overlap: set[str] = field(default_factory=set)
    unknown: Counter[str] = field(default_factory=Counter)
    lengths: dict[str, dict[str, float]] = field(default_factory=dict)

    def training_rows(self, rows: list[Encoded], held: HoldOut, dev: set[str], names: list[str]) -> list[Encoded]:
        """The rows to learn from, counted; those that are held out are put aside."""
        kept: list[Encoded] = []
        for row in rows:
            if held.holds(row.pair):
                self.held_out.append(row.pair)
            else:
                kept.append(row)
        self.pairs += len(kept)
        self.overlap |= dev & {row.pair.source or row.pair.target for row in kept}
        for number, name in enumerate(names):
            parts = [row.sources[number] for row in kept if row.sources]
            self.unknown[name] += sum(part.count(UNK) for part in parts if isinstance(part, list))
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
    if not {"target", *text_names(data)} <= given.keys():
        say(f"learning the vocabulary from {_label(data.train)}")
    encoder = Encoder(data, *_vocabularies(data, held, given, say), dropped)
    say(f"encoding {_label(data.train)}")
    dev = group(row.pair for rows in encoder.chunks(data.dev or "", dev_pairs) for row in rows)
    read = {"dev": _digest(encoder)}
    counts = _encode(encoder, held, folder, _known(data, dev), say)
    dropped.refuse(data)
    if data.dev is not None and not dev:
        raise _nothing(data, data.dev, "no usable dev examples", dropped)
    if not counts.pairs:
        raise _nothing(data, data.train, "nothing left to learn from", dropped)
    dev = dev or group(counts.held_out)
    if not dev:
        remedy = "set data.dev, or raise data.hold_out or max_length"
        raise _nothing(data, data.train, "no usable dev examples were held out", dropped, remedy)
    encoder.source.save(folder / "source.json")
    encoder.target.save(folder / "target.json")
    facts = _facts(encoder, hashes, counts, dev) | _read_facts(data, {**read, "train": _digest(encoder)})
    _write(folder / "dev.json", [astuple(example) for example in dev])
    _write(folder / "facts.json", {**facts, "warnings": warnings_about(facts)})


def _digest(encoder: Encoder) -> str:
    """Of all files that have been read so far."""
    return " ".join(one.digest for one in encoder.sources if isinstance(one, Looked))


def _read_facts(data: DataConfig, digests: dict[str, str]) -> dict[str, Any]:
    """What the files held; of texts the table itself tells."""
    if not any(map(is_file, data.sources)):
        return {}
    return {"read": {"kinds": [source.kind for source in data.sources], **digests}}


def _known(data: DataConfig, dev: list[Example]) -> set[str]:
    """What train should not have, too: the sources of dev, or its texts. Lines of a stream may well come again."""
    if data.window is not None:
        return set()
    return {_text(example) for example in dev}


def _text(example: Example) -> str:
    """What is known of an example before the answer: its source, or the text itself."""
    return example.source or example.references[0]


def _vocabularies(
    data: DataConfig, held: HoldOut, given: Given, say: Callable[[str], None]
) -> tuple[list[Tokenizer | Looked], Tokenizer]:
    """Those of other runs, where they are given; the rest is learnt from the training pairs only."""

    def pairs() -> Iterator[Pair]:
        return (pair for pair in read_pairs(data.train, data, Dropped()) if not held.holds(pair))

    def cells(number: int) -> Iterator[str]:
        several = len(data.sources) > 1
        return (pair.source.split(BETWEEN)[number] if several else pair.source for pair in pairs())

    if data.source is None:
        end = LINE_END if data.window is not None and data.target.tokens in ("characters", "letters") else ""
        lines = (pair.target + end for pair in pairs())
        text = given.get("target") or train_tokenizer(lines, data.target, "data.target", always=[end] if end else [])
        return [text], text
    numbers = [number for number, source in enumerate(data.sources) if not is_file(source)]
    shared = None
    if data.shared_vocabulary and not given:
        shared = train_tokenizer(_all_texts(pairs(), numbers, data), data.target, where=data.place(numbers[0]))

    def text_or_file(number: int, name: str, config: SourceConfig) -> Tokenizer | Looked:
        if not isinstance(config, TextConfig):
            return Looked(file_source(config, cells(number)), say, config.max_length)
        return shared or given.get(name) or train_tokenizer(cells(number), config, where=data.place(number))

    names = zip(source_names(data), data.sources, strict=True)
    sources = [text_or_file(number, *pair) for number, pair in enumerate(names)]
    target = shared or given.get("target")
    return sources, target or train_tokenizer((pair.target for pair in pairs()), data.target, where="data.target")


def _all_texts(pairs: Iterable[Pair], numbers: list[int], data: DataConfig) -> Iterator[str]:
    """The sources of these numbers and the targets, pair by pair."""
    for pair in pairs:
        cells = pair.source.split(BETWEEN) if len(data.sources) > 1 else [pair.source]
        yield from (cells[number] for number in numbers)
        yield pair.target


def _encode(encoder: Encoder, held: HoldOut, folder: Path, dev: set[str], say: Callable[[str], None]) -> Counts:
    """Write the sources of all training pairs, and the ids of their targets."""
    counts, data = Counts(), encoder.data
    names = source_names(data)
    chunks = encoder.chunks(data.train, read_pairs(data.train, data, encoder.dropped))
    with ExitStack() as stack:
        sources = [_writer(folder, *pair, stack) for pair in zip(names, encoder.sources, strict=True)]
        targets = stack.enter_context(RaggedWriter(folder, "target"))
        for number, rows in enumerate(chunks, start=1):
            kept = counts.training_rows(rows, held, dev, names)
            for place, writer in enumerate(sources):
                writer.add([row.sources[place] if row.sources else [] for row in kept])
            targets.add([row.target for row in kept])
            if number % SAY_EVERY == 0:
                say(f"encoded {counts.pairs:,} {_unit(data)}")
        writers: dict[str, RowWriter] = {**dict(zip(names, sources, strict=True)), "target": targets}
        counts.lengths = {name: writer.facts() for name, writer in writers.items()}
        for writer in writers.values():
            writer.finish()
    return counts


def _writer(folder: Path, name: str, source: Tokenizer | Looked, stack: ExitStack) -> RowWriter:
    if isinstance(source, Looked):
        return CellsWriter(folder, name)
    return stack.enter_context(RaggedWriter(folder, name))


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
    data, target = encoder.data, encoder.target
    sizes = {**{name: one.size for name, one in encoder.texts.items()}, "target": target.size}
    unknown = {name: counts.unknown[name] for name in (*encoder.texts, "target")}
    vocabulary = {**sizes, "shared": data.shared_vocabulary} if data.source else sizes
    references = {"sources": len(dev), "references": _references(dev)} if data.source else {"texts": len(dev)}
    return {
        "files": _files(data, hashes, encoder.dropped, counts, dev),
        _unit(data): counts.pairs,
        "lengths": _sides(data, counts.lengths),
        "vocabulary": _sides(data, vocabulary),
        **_tokenizers(data),
        "train_unknown": _sides(data, unknown),
        "dev": {**references, "held_out": data.dev is None},
        "dev_overlap": sum(_text(example) in counts.overlap for example in dev),
        "dev_unknown": _sides(data, _dev_unknown(dev, encoder)),
        "dropped": encoder.dropped.facts(),
    }


def _tokenizers(data: DataConfig) -> dict[str, dict[str, str]]:
    """The runs that tokenizers were taken from, if any."""
    sides = {**dict(zip(source_names(data), data.sources, strict=False)), "target": data.target}
    runs = {name: side.tokenizer for name, side in sides.items() if isinstance(side, TextConfig) and side.tokenizer}
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


def _dev_unknown(dev: list[Example], encoder: Encoder) -> dict[str, dict[str, Any]]:
    """Symbols of dev that the vocabularies miss, the most frequent first."""
    names, target = source_names(encoder.data), encoder.target
    unknown = {
        name: Counter(
            symbol
            for example in dev
            for symbol in tokenizer.unknown(encoder.source.cells(example.source)[names.index(name)])
        )
        for name, tokenizer in encoder.texts.items()
    }
    unknown["target"] = Counter(
        symbol for example in dev for text in example.references for symbol in target.unknown(text)
    )
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
