"""One entry of the cache from the files: vocabularies, encoded pairs, dev examples and the facts about them.

The files are read as streams, once for each vocabulary and once to encode, so their text is never in memory at once.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from antiphon.config.schema import DataConfig
from antiphon.errors import DataError
from antiphon.sources.advice import warnings_about
from antiphon.sources.pairs import Dropped, Example, Pair, group, read_pairs
from antiphon.sources.ragged import RaggedWriter
from antiphon.sources.tokens import Tokenizer, train_tokenizer
from antiphon.sources.vocabulary import UNK

__all__ = ["build_entry"]

CHUNK = 4096
SAY_EVERY = 64  # chunks between two signs of life
MOST_HELD_OUT = 2000
LISTED = 20


@dataclass(frozen=True)
class HoldOut:
    """Sources whose hash is at most `limit` go to dev, with all their references; None: nothing does."""

    limit: int | None

    @classmethod
    def choose(cls, data: DataConfig) -> HoldOut:
        """The limit that holds out data.hold_out of the different sources: at least 1, at most 2,000."""
        if data.dev is not None:
            return cls(None)
        hashes = array("Q", (_hash(pair.source) for pair in read_pairs(data.train, data, Dropped())))
        different = np.unique(np.frombuffer(hashes, np.uint64))
        if len(different) == 1:
            raise DataError(
                f"{_label(data.train)}: one source only, so none can be held out; set data.dev or add examples"
            )
        count = min(max(1, round(data.hold_out * len(different))), MOST_HELD_OUT)
        return cls(int(different[count - 1]))

    def holds(self, source: str) -> bool:
        """Whether a source belongs to dev."""
        return self.limit is not None and _hash(source) <= self.limit


class Encoded(NamedTuple):
    """A pair and the ids of its two sides."""

    pair: Pair
    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class Encoder:
    """Pairs to ids; one that is too long for data.source or data.target is dropped and counted."""

    data: DataConfig
    source: Tokenizer
    target: Tokenizer
    dropped: Dropped

    def chunks(self, files: str | list[str], pairs: Iterable[Pair]) -> Iterator[list[Encoded]]:
        """The pairs of some files that are short enough, many at a time."""
        pairs = iter(pairs)
        while chunk := list(islice(pairs, CHUNK)):
            sources = self.source.encode_batch([pair.source for pair in chunk])
            targets = self.target.encode_batch([pair.target for pair in chunk])
            rows = map(Encoded, chunk, sources, targets)
            yield [row for row in rows if self._is_short(files, row)]

    def _is_short(self, files: str | list[str], row: Encoded) -> bool:
        source_file, target_file = (files, files) if isinstance(files, str) else files
        source_limit, target_limit = self.data.source.max_length, self.data.target.max_length
        if len(row.source) > source_limit:
            self.dropped.add(source_file, row.pair.line, f"source longer than {source_limit} tokens")
        elif len(row.target) > target_limit:
            self.dropped.add(target_file, row.pair.line, f"target longer than {target_limit} tokens")
        return len(row.source) <= source_limit and len(row.target) <= target_limit


@dataclass
class Counts:
    """What the encoding pass sees; `unknown` counts the tokens of each side that became <unk>."""

    pairs: int = 0
    held_out: list[Pair] = field(default_factory=list)
    overlap: set[str] = field(default_factory=set)
    unknown: dict[str, int] = field(default_factory=lambda: {"source": 0, "target": 0})
    lengths: dict[str, dict[str, float]] = field(default_factory=dict)

    def training_rows(self, rows: list[Encoded], held: HoldOut, dev_sources: set[str]) -> list[Encoded]:
        """The rows to learn from, counted; those that are held out are put aside."""
        kept: list[Encoded] = []
        for row in rows:
            if held.holds(row.pair.source):
                self.held_out.append(row.pair)
            else:
                kept.append(row)
        self.pairs += len(kept)
        self.overlap |= dev_sources & {row.pair.source for row in kept}
        self.unknown["source"] += sum(row.source.count(UNK) for row in kept)
        self.unknown["target"] += sum(row.target.count(UNK) for row in kept)
        return kept


def build_entry(data: DataConfig, hashes: dict[str, str], folder: Path, say: Callable[[str], None]) -> None:
    """Fill `folder` with everything `prepare` needs. `hashes` are the SHA-256 of the files by name."""
    _require_pairs(data)
    dropped = Dropped()
    dev_pairs = list(read_pairs(data.dev, data, dropped)) if data.dev is not None else []
    held = HoldOut.choose(data)
    say(f"learning the vocabulary from {_label(data.train)}")
    encoder = Encoder(data, *_vocabularies(data, held), dropped)
    say(f"encoding {_label(data.train)}")
    dev = _dev_examples(encoder, data.dev, dev_pairs) if data.dev is not None else []
    counts = _encode(encoder, held, folder, {example.source for example in dev}, say)
    if not counts.pairs:
        raise _nothing(data.train, "nothing left to learn from", dropped)
    dev = dev or group(counts.held_out)
    if not dev:
        remedy = "set data.dev, or raise data.hold_out or max_length"
        raise _nothing(data.train, "no usable dev examples were held out", dropped, remedy)
    encoder.source.save(folder / "source.json")
    encoder.target.save(folder / "target.json")
    facts = _facts(encoder, hashes, counts, dev)
    _write(folder / "dev.json", [astuple(example) for example in dev])
    _write(folder / "facts.json", {**facts, "warnings": warnings_about(facts)})


def _dev_examples(encoder: Encoder, files: str | list[str], pairs: list[Pair]) -> list[Example]:
    """Dev has the limits of train: one endless line would cost every evaluation its time and memory."""
    dev = group(row.pair for rows in encoder.chunks(files, pairs) for row in rows)
    if not dev:
        raise _nothing(files, "no usable dev examples", encoder.dropped)
    return dev


def _vocabularies(data: DataConfig, held: HoldOut) -> tuple[Tokenizer, Tokenizer]:
    """Learnt from the training pairs only."""

    def pairs() -> Iterator[Pair]:
        return (pair for pair in read_pairs(data.train, data, Dropped()) if not held.holds(pair.source))

    if data.shared_vocabulary:
        texts = chain.from_iterable((pair.source, pair.target) for pair in pairs())
        shared = train_tokenizer(texts, data.source, where="data.source")
        return shared, shared
    source = train_tokenizer((pair.source for pair in pairs()), data.source, where="data.source")
    target = train_tokenizer((pair.target for pair in pairs()), data.target, where="data.target")
    return source, target


def _encode(encoder: Encoder, held: HoldOut, folder: Path, dev_sources: set[str], say: Callable[[str], None]) -> Counts:
    """Write the ids of all training pairs."""
    counts = Counts()
    data = encoder.data
    chunks = encoder.chunks(data.train, read_pairs(data.train, data, encoder.dropped))
    with RaggedWriter(folder, "source") as sources, RaggedWriter(folder, "target") as targets:
        for number, rows in enumerate(chunks, start=1):
            kept = counts.training_rows(rows, held, dev_sources)
            sources.add([row.source for row in kept])
            targets.add([row.target for row in kept])
            if number % SAY_EVERY == 0:
                say(f"encoded {counts.pairs:,} pairs")
        counts.lengths = {"source": sources.facts(), "target": targets.facts()}
        sources.finish()
        targets.finish()
    return counts


def _require_pairs(data: DataConfig) -> None:
    """At least one usable pair, before anything is learnt from them."""
    dropped = Dropped()
    if next(read_pairs(data.train, data, dropped), None) is None:
        raise _nothing(data.train, "nothing to learn from", dropped)


def _nothing(
    files: str | list[str],
    fact: str,
    dropped: Dropped,
    remedy: str = "check data.source and data.target (column, max_length)",
) -> DataError:
    """No examples, and the reasons why those of these files were dropped."""
    names = [files] if isinstance(files, str) else files
    counts = sum((dropped.files[name] for name in names), Counter[str]())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in counts.most_common())
    return DataError(f"{_label(files)}: {fact} ({reasons or 'only a header'}); {remedy}")


def _facts(encoder: Encoder, hashes: dict[str, str], counts: Counts, dev: list[Example]) -> dict[str, Any]:
    """What the run's data.json says, but for the warnings."""
    data, source, target = encoder.data, encoder.source, encoder.target
    return {
        "files": _files(data, hashes, encoder.dropped, counts, dev),
        "pairs": counts.pairs,
        "lengths": counts.lengths,
        "vocabulary": {"source": source.size, "target": target.size, "shared": data.shared_vocabulary},
        "train_unknown": counts.unknown,
        "dev": {"sources": len(dev), "references": _references(dev), "held_out": data.dev is None},
        "dev_overlap": len(counts.overlap),
        "dev_unknown": _dev_unknown(dev, source, target),
        "dropped": encoder.dropped.facts(),
    }


def _files(
    data: DataConfig, hashes: dict[str, str], dropped: Dropped, counts: Counts, dev: list[Example]
) -> list[dict[str, Any]]:
    """Path, hash, lines and usable pairs of each file."""
    pairs = {"train": counts.pairs, "dev": _references(dev)}
    parts = [("train", data.train)] + ([("dev", data.dev)] if data.dev is not None else [])
    return [
        {"part": part, "path": name, "sha256": hashes[name], "lines": dropped.lines[name], "pairs": pairs[part]}
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


def _hash(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "big")


def _label(files: str | list[str]) -> str:
    return files if isinstance(files, str) else files[0]


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")
