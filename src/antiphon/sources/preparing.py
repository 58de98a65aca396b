"""One entry of the cache from the files: vocabularies, encoded pairs, dev examples and the facts about them.

The files are read as streams, once for each vocabulary and once to encode, so their text is never in memory at once.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from antiphon.config.schema import DataConfig
from antiphon.errors import DataError
from antiphon.sources.pairs import Dropped, Example, Pair, group, read_pairs
from antiphon.sources.ragged import RaggedWriter
from antiphon.sources.tokens import Tokenizer, train_tokenizer

__all__ = ["build_entry"]

CHUNK = 4096
SAY_EVERY = 64 * CHUNK  # pairs between two signs of life
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


@dataclass
class Counts:
    """What the encoding pass sees."""

    pairs: int
    held_out: list[Pair]
    overlap: set[str]


def build_entry(data: DataConfig, hashes: dict[str, str], folder: Path, say: Callable[[str], None]) -> None:
    """Fill `folder` with everything `prepare` needs. `hashes` are the SHA-256 of the files by name."""
    _require_pairs(data)
    dropped = Dropped()
    dev = group(read_pairs(data.dev, data, dropped)) if data.dev is not None else []
    held = HoldOut.choose(data)
    say(f"learning the vocabulary from {_label(data.train)}")
    source, target = _vocabularies(data, held)
    say(f"encoding {_label(data.train)}")
    with RaggedWriter(folder, "source") as sources, RaggedWriter(folder, "target") as targets:
        dev_sources = {example.source for example in dev}
        counts = _encode(data, held, dropped, (source, target), (sources, targets), dev_sources, say)
        lengths = {"source": sources.facts(), "target": targets.facts()}
        sources.finish()
        targets.finish()
    dev = dev or group(counts.held_out)
    if not counts.pairs:
        raise _nothing(data.train, "nothing left to learn from", dropped)
    if not dev:
        raise _nothing(data.dev or data.train, "no usable dev examples", dropped)
    source.save(folder / "source.json")
    target.save(folder / "target.json")
    facts = {
        "files": _files(data, hashes, dropped, counts, dev),
        "pairs": counts.pairs,
        "lengths": lengths,
        "vocabulary": {"source": source.size, "target": target.size, "shared": data.shared_vocabulary},
        **_dev_facts(data, dev, counts, source, target),
        "dropped": dropped.facts(),
    }
    facts["warnings"] = _warnings(facts)
    _write(folder / "dev.json", [astuple(example) for example in dev])
    _write(folder / "facts.json", facts)


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


def _encode(
    data: DataConfig,
    held: HoldOut,
    dropped: Dropped,
    tokenizers: tuple[Tokenizer, Tokenizer],
    writers: tuple[RaggedWriter, RaggedWriter],
    dev_sources: set[str],
    say: Callable[[str], None],
) -> Counts:
    """Write the ids of all training pairs; too long ones are dropped, held out ones are put aside."""
    counts = Counts(0, [], set())
    pairs = read_pairs(data.train, data, dropped)
    while chunk := list(islice(pairs, CHUNK)):
        if counts.pairs and counts.pairs // SAY_EVERY != (counts.pairs - CHUNK) // SAY_EVERY:
            say(f"encoded {counts.pairs:,} pairs")
        kept: list[Pair] = []
        for pair in chunk:
            (counts.held_out if held.holds(pair.source) else kept).append(pair)
        counts.overlap |= dev_sources & {pair.source for pair in kept}
        sources = tokenizers[0].encode_batch([pair.source for pair in kept])
        targets = tokenizers[1].encode_batch([pair.target for pair in kept])
        rows = [
            (source, target)
            for pair, source, target in zip(kept, sources, targets, strict=True)
            if _short_enough(data, pair, source, target, dropped)
        ]
        counts.pairs += len(rows)
        writers[0].add([source for source, _ in rows])
        writers[1].add([target for _, target in rows])
    return counts


def _short_enough(data: DataConfig, pair: Pair, source: list[int], target: list[int], dropped: Dropped) -> bool:
    for ids, side, limit in (
        (source, "source", data.source.max_length),
        (target, "target", data.target.max_length),
    ):
        if len(ids) > limit:
            dropped.add(_label(data.train), pair.line, f"{side} longer than {limit} tokens")
            return False
    return True


def _require_pairs(data: DataConfig) -> None:
    """At least one usable pair, before anything is learnt from them."""
    dropped = Dropped()
    if next(read_pairs(data.train, data, dropped), None) is None:
        raise _nothing(data.train, "nothing to learn from", dropped)


def _nothing(files: str | list[str], fact: str, dropped: Dropped) -> DataError:
    """No examples, and the reasons why each was dropped."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.reasons.most_common())
    remedy = "check data.source and data.target (column, max_length)"
    return DataError(f"{_label(files)}: {fact} ({reasons or 'only a header'}); {remedy}")


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


def _dev_facts(
    data: DataConfig, dev: list[Example], counts: Counts, source: Tokenizer, target: Tokenizer
) -> dict[str, Any]:
    return {
        "dev": {"sources": len(dev), "references": _references(dev), "held_out": data.dev is None},
        "dev_overlap": len(counts.overlap),
        "dev_unknown": _dev_unknown(dev, source, target),
    }


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


def _warnings(facts: dict[str, Any]) -> list[str]:
    """What the user should know before training, in sentences."""
    warnings = []
    if total := facts["dropped"]["total"]:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in facts["dropped"]["reasons"].items())
        first = facts["dropped"]["places"][0]
        warnings.append(f"{total:,} examples left out: {reasons} (the first: {first['file']}, line {first['line']})")
    if overlap := facts["dev_overlap"]:
        sources = facts["dev"]["sources"]
        warnings.append(f"{overlap:,} of {sources:,} dev sources are also in train, so dev results look too good")
    for side, unknown in facts["dev_unknown"].items():
        if unknown["count"]:
            listed = " ".join(repr(symbol) for symbol in unknown["listed"][:5])
            more = " ..." if unknown["count"] > 5 else ""
            warnings.append(
                f"{unknown['count']:,} symbols of the dev {side}s are not in the vocabulary "
                f"({unknown['times']:,} times): {listed}{more}"
            )
    return warnings


def _references(dev: list[Example]) -> int:
    return sum(len(example.references) for example in dev)


def _hash(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "big")


def _label(files: str | list[str]) -> str:
    return files if isinstance(files, str) else files[0]


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")
