"""The facts about prepared data, and warnings about what is odd in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data.corpus import FileCell
from antiphon.data.encode import EncodedPair, HoldOut, PairEncoder, source_names
from antiphon.data.pairs import Example, Pair
from antiphon.data.source import Cells
from antiphon.data.tokenizers import UNK
from antiphon.text import plural, visible

__all__ = ["EncodingCounts", "TurnCounts", "data_facts", "data_warnings", "example_unit"]

LISTED = 20  # unknown symbols of dev in the facts

V = TypeVar("V")


@dataclass
class EncodingCounts:
    """Counts of the encoding pass; `unknown` counts the tokens of each side that became <unk>."""

    pairs: int = 0
    held_out: list[Pair] = field(default_factory=list)
    overlap: set[Cells] = field(default_factory=set)
    unknown: Counter[str] = field(default_factory=Counter)
    lengths: dict[str, dict[str, float]] = field(default_factory=dict)
    turns: TurnCounts | None = None  # of a dialogue

    def add(
        self, rows: list[EncodedPair], held_out: HoldOut, dev: set[Cells], names: list[str], sizes: dict[str, int]
    ) -> list[EncodedPair]:
        """Count the rows and return those to learn from; `dev` are the keys of the dev examples.

        `sizes` are the vocabularies of the texts among the sources, by their names.
        """
        kept: list[EncodedPair] = []
        for row in rows:
            if held_out.holds(row.pair):
                self.held_out.append(row.pair)
            else:
                kept.append(row)
        self.pairs += len(kept)
        self.overlap |= dev & {row.pair.key for row in kept}
        for number, name in enumerate(names):
            parts = [row.sources[number] for row in kept if row.sources]
            self.unknown[name] += sum(_unknown_tokens(part, sizes.get(name)) for part in parts)
        self.unknown["target"] += sum(row.target.count(UNK) for row in kept)
        if self.turns is not None:
            self.turns.add(row.pair.source for row in kept)
        return kept


@dataclass
class TurnCounts:
    """Counts of the marks between the turns of a dialogue, and of the turns of its sources."""

    mark: str
    most: int = 1
    separators: Counter[str] = field(default_factory=Counter)  # the mark with the spaces around it

    def add(self, sources: Iterable[str]) -> None:
        mark = self.mark.strip() or self.mark
        between = re.compile(rf"(?<=\S)\s*{re.escape(mark)}\s*(?=\S)")
        for source in sources:
            if mark in source:
                self.most = max(self.most, sum(bool(turn.strip()) for turn in source.split(mark)))
                self.separators.update(between.findall(source))

    def facts(self) -> dict[str, Any]:
        """The usual separator, and the turns of the longest dialogue."""
        [(separator, _)] = self.separators.most_common(1) or [(self.mark, 0)]
        return {"separator": separator, "most": self.most}


def _unknown_tokens(source: list[int] | FileCell, size: int | None) -> int:
    """The unknown tokens of a text; those that are known by their affixes have ids beyond the vocabulary."""
    if size is None or not isinstance(source, list):
        return 0
    return sum(number == UNK or number >= size for number in source)


def example_unit(data: DataConfig) -> str:
    return "pairs" if data.source else "texts"


def data_facts(
    encoder: PairEncoder, hashes: dict[str, str], counts: EncodingCounts, dev: list[Example]
) -> dict[str, Any]:
    """The content of the run's data.json, but for the warnings."""
    data, target = encoder.data, encoder.target
    sizes = {**{name: tokenizer.size for name, tokenizer in encoder.texts.items()}, "target": target.size}
    unknown = {name: counts.unknown[name] for name in (*encoder.texts, "target")}
    vocabulary = {**sizes, "shared": data.shared_vocabulary} if data.source else sizes
    references = sum(len(example.references) for example in dev)
    dev_counts = {"sources": len(dev), "references": references} if data.source else {"texts": len(dev)}
    return {
        "files": _files(encoder, hashes, {"train": counts.pairs, "dev": references}),
        example_unit(data): counts.pairs,
        "lengths": _by_side(data, counts.lengths),
        "vocabulary": _by_side(data, vocabulary),
        **_reused_runs(data),
        "train_unknown": _by_side(data, unknown),
        "dev": {**dev_counts, "held_out": data.dev is None},
        "dev_overlap": sum(example.key in counts.overlap for example in dev),
        "dev_unknown": _by_side(data, _unknown_in_dev(dev, encoder)),
        "dropped": encoder.dropped.facts(),
        **({"turns": counts.turns.facts()} if counts.turns is not None else {}),
    }


def _by_side(data: DataConfig, values: dict[str, V]) -> dict[str, V]:
    """The values by side; a language model has only its text."""
    return values if data.source else {"text": values["target"]}


def _reused_runs(data: DataConfig) -> dict[str, dict[str, str]]:
    """The runs whose tokenizers are reused, if any."""
    sides = {**dict(zip(source_names(data), data.sources, strict=False)), "target": data.target}
    runs = {name: side.tokenizer for name, side in sides.items() if isinstance(side, TextConfig) and side.tokenizer}
    return {"tokenizers": runs} if runs else {}


def _files(encoder: PairEncoder, hashes: dict[str, str], pairs: dict[str, int]) -> list[dict[str, Any]]:
    """Path, hash, lines and usable pairs of each file."""
    data, lines = encoder.data, encoder.dropped.lines
    parts = [("train", data.train)] + ([("dev", data.dev)] if data.dev is not None else [])
    return [
        {"part": part, "path": name, "sha256": hashes[name], "lines": lines[name], example_unit(data): pairs[part]}
        for part, files in parts
        for name in ([files] if isinstance(files, str) else files)
    ]


def _unknown_in_dev(dev: list[Example], encoder: PairEncoder) -> dict[str, dict[str, Any]]:
    """Symbols of dev that the vocabularies do not have, the most frequent first."""
    unknown: dict[str, Counter[str]] = {}
    for number, name in enumerate(source_names(encoder.data)):
        if name in encoder.texts:
            cells = (example.cells[number] for example in dev if example.cells)
            unknown[name] = Counter(symbol for cell in cells for symbol in encoder.texts[name].unknown(cell))
    references = (text for example in dev for text in example.references)
    unknown["target"] = Counter(symbol for text in references for symbol in encoder.target.unknown(text))
    return {
        side: {
            "count": len(symbols),
            "times": symbols.total(),
            "listed": [symbol for symbol, _ in symbols.most_common(LISTED)],
        }
        for side, symbols in unknown.items()
    }


# Warnings: the fact, the file and line, and the remedy.

REASONS = 3  # named with a file and line
SYMBOLS = 5  # unknown ones that are shown
EFFECTS = {
    "source": "the model reads each of them as <unk>",
    "target": "the model can never generate them, unless it copies them (model.copy with decoding.replace_unknown)",
    "text": "to the model they are all <unk>",
}


def data_warnings(facts: dict[str, Any]) -> list[str]:
    """Sentences about what is odd in the data; `facts` goes to RUN/data.json."""
    return [
        *_left_out(facts["dropped"]), *_train_unknown(facts), *_overlap(facts), *_dev_unknown(facts),
        *_single_turns(facts),
    ]  # fmt: skip


def _left_out(dropped: dict[str, Any]) -> list[str]:
    """The number of dropped lines, and the first line of each of the commonest reasons."""
    reasons = dropped["reasons"]
    if not reasons:
        return []
    named = []
    for reason, count in list(reasons.items())[:REASONS]:
        place = next(place for place in dropped["places"] if place["reason"] == reason)
        named.append(f"{count:,} x {reason} ({'first: ' if count > 1 else ''}{place['file']}, line {place['line']})")
    if len(reasons) > REASONS:
        others = sum(list(reasons.values())[REASONS:])
        named.append(f"{others:,} for other reasons")
    rest = "; data.json of the run has the rest by reason" if dropped["total"] > min(len(reasons), REASONS) else ""
    return [f"{plural(dropped['total'], 'examples')} left out: {', '.join(named)}{rest}"]


def _train_unknown(facts: dict[str, Any]) -> list[str]:
    """Tokens of train that are too rare for the vocabulary."""
    warnings = []
    for side, count in facts["train_unknown"].items():
        tokens, key = facts["lengths"][side]["tokens"], "target" if side == "text" else side
        run = facts.get("tokenizers", {}).get(key)
        learnt = f"raise data.{key}.vocabulary or lower data.{key}.min_count"
        if count:
            warnings.append(
                f"{_file(facts, 'train', side)}: {count:,} of {tokens:,} {side} tokens ({count / tokens:.2%}) are not "
                f"in the vocabulary, so {EFFECTS[side.partition('[')[0]]}; "
                + (f"data.{key}.tokenizer: null learns a new one (now that of {run})" if run else learnt)
            )
    return warnings


def _overlap(facts: dict[str, Any]) -> list[str]:
    """Dev examples that train has too; there are none when dev is held out of train."""
    if not facts["dev_overlap"]:
        return []
    file, train = _file(facts, "dev", "source"), _file(facts, "train", "source")
    unit = "texts" if "texts" in facts["dev"] else "sources"
    return [
        f"{file}: {facts['dev_overlap']:,} of {facts['dev'][unit]:,} dev {unit} are also in train, so dev "
        f"results look too good; take them out of {train}, or set data.dev to null to hold other examples out"
    ]


def _dev_unknown(facts: dict[str, Any]) -> list[str]:
    """Symbols of dev that the model has never seen."""
    warnings = []
    for side, unknown in facts["dev_unknown"].items():
        if unknown["count"]:
            listed = " ".join(f"'{visible(symbol)}'" for symbol in unknown["listed"][:SYMBOLS])
            more = " ..." if unknown["count"] > SYMBOLS else ""
            symbols, times = plural(unknown["count"], f"symbols of the dev {side}s"), plural(unknown["times"], "times")
            warnings.append(
                f"{_file(facts, 'dev', side)}: {symbols} {'is' if unknown['count'] == 1 else 'are'} not in the "
                f"vocabulary ({times}): {listed}{more}; check that dev is spelt like train, or add training examples "
                "with them"
            )
    return warnings


def _single_turns(facts: dict[str, Any]) -> list[str]:
    """A dialogue whose mark is in no source."""
    turns = facts.get("turns")
    if turns is None or turns["most"] > 1:
        return []
    mark = f"no source has two turns with {visible(turns['separator'], keep=' ')!r} (data.turns) between them"
    return [f"{_file(facts, 'train', 'source')}: {mark}; give the mark as it is in the file, or set data.turns to null"]


def _file(facts: dict[str, Any], part: str, side: str) -> str:
    """The file with one side of train or dev; examples that were held out are in the file of train."""
    wanted = "train" if facts["dev"]["held_out"] else part
    paths: list[str] = [file["path"] for file in facts["files"] if file["part"] == wanted]
    return paths[0] if side.startswith("source") else paths[-1]
