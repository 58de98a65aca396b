"""The facts about prepared data in sentences: what is odd, where, and what to do about it."""

from __future__ import annotations

from typing import Any

from antiphon.sources.amounts import amount
from antiphon.visible import visible

__all__ = ["warnings_about"]

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
