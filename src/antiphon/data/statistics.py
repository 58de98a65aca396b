"""The facts about prepared data, and warnings about what is odd in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeVar

from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data.encode import Encoded, Encoder, HoldOut, source_names
from antiphon.data.pairs import Dropped, Example, Pair
from antiphon.data.tokenizers import UNK
from antiphon.text import amount, visible

__all__ = ["Counts", "data_facts", "text_of_example", "unit_of", "warnings_about"]

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


def text_of_example(example: Example) -> str:
    """What is known of an example before the answer: its source, or the text itself."""
    return example.source or example.references[0]


def data_facts(encoder: Encoder, hashes: dict[str, str], counts: Counts, dev: list[Example]) -> dict[str, Any]:
    """What the run's data.json says, but for the warnings."""
    data, target = encoder.data, encoder.target
    sizes = {**{name: one.size for name, one in encoder.texts.items()}, "target": target.size}
    unknown = {name: counts.unknown[name] for name in (*encoder.texts, "target")}
    vocabulary = {**sizes, "shared": data.shared_vocabulary} if data.source else sizes
    references = {"sources": len(dev), "references": _references(dev)} if data.source else {"texts": len(dev)}
    return {
        "files": _files(data, hashes, encoder.dropped, counts, dev),
        unit_of(data): counts.pairs,
        "lengths": _sides(data, counts.lengths),
        "vocabulary": _sides(data, vocabulary),
        **_tokenizers(data),
        "train_unknown": _sides(data, unknown),
        "dev": {**references, "held_out": data.dev is None},
        "dev_overlap": sum(text_of_example(example) in counts.overlap for example in dev),
        "dev_unknown": _sides(data, _unknown_in_dev(dev, encoder)),
        "dropped": encoder.dropped.facts(),
    }


def _tokenizers(data: DataConfig) -> dict[str, dict[str, str]]:
    """The runs that tokenizers were taken from, if any."""
    sides = {**dict(zip(source_names(data), data.sources, strict=False)), "target": data.target}
    runs = {name: side.tokenizer for name, side in sides.items() if isinstance(side, TextConfig) and side.tokenizer}
    return {"tokenizers": runs} if runs else {}


def unit_of(data: DataConfig) -> str:
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
        {"part": part, "path": name, "sha256": hashes[name], "lines": dropped.lines[name], unit_of(data): pairs[part]}
        for part, files in parts
        for name in ([files] if isinstance(files, str) else files)
    ]


def _unknown_in_dev(dev: list[Example], encoder: Encoder) -> dict[str, dict[str, Any]]:
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


# The facts about prepared data in sentences: what is odd, where, and what to do about it.

REASONS = 3  # so many reasons are named with a place
SYMBOLS = 5  # so many unknown symbols are shown
EFFECTS = {
    "source": "the model reads each of them as <unk>",
    "target": "the model can never say them, unless it copies them (model.copy with decoding.replace_unknown)",
    "text": "to the model they are all <unk>",
}


def warnings_about(facts: dict[str, Any]) -> list[str]:
    """What the user should know before training; `facts` is what goes to RUN/data.json."""
    return [*_left_out(facts["dropped"]), *_train_unknown(facts), *_overlap(facts), *_dev_unknown(facts)]


def _left_out(dropped: dict[str, Any]) -> list[str]:
    """How many lines were dropped, and the first of each of the commonest reasons."""
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
    return [f"{amount(dropped['total'], 'examples')} left out: {', '.join(named)}{rest}"]


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
    what = "texts" if "texts" in facts["dev"] else "sources"
    return [
        f"{file}: {facts['dev_overlap']:,} of {facts['dev'][what]:,} dev {what} are also in train, so dev "
        f"results look too good; take them out of {train}, or set data.dev to null to hold other examples out"
    ]


def _dev_unknown(facts: dict[str, Any]) -> list[str]:
    """Symbols of dev that the model has never seen."""
    warnings = []
    for side, unknown in facts["dev_unknown"].items():
        if unknown["count"]:
            listed = " ".join(f"'{visible(symbol)}'" for symbol in unknown["listed"][:SYMBOLS])
            more = " ..." if unknown["count"] > SYMBOLS else ""
            symbols, times = amount(unknown["count"], f"symbols of the dev {side}s"), amount(unknown["times"], "times")
            warnings.append(
                f"{_file(facts, 'dev', side)}: {symbols} {'is' if unknown['count'] == 1 else 'are'} not in the "
                f"vocabulary ({times}): {listed}{more}; check that dev is spelt like train, or add training examples "
                "with them"
            )
    return warnings


def _file(facts: dict[str, Any], part: str, side: str) -> str:
    """The file that holds one side of train or dev; dev that was held out stands in train's."""
    wanted = "train" if facts["dev"]["held_out"] else part
    paths: list[str] = [file["path"] for file in facts["files"] if file["part"] == wanted]
    return paths[0] if side.startswith("source") else paths[-1]
