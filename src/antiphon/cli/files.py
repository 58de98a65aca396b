"""What several commands do with files of pairs and metrics."""

from __future__ import annotations

from typing import Any

from antiphon.cli.output import say
from antiphon.errors import UserError

__all__ = ["METRICS", "known_metrics", "pair_files", "say_dropped", "say_places"]

# Those of the configuration, written out because help must not load it; a test binds the two.
METRICS = (
    "loss", "perplexity", "word_perplexity", "bits_per_character", "exact_match", "token_accuracy", "cer", "wer", "per",
    "bleu", "bleu_1", "bleu_2", "bleu_3", "chrf", "ter", "rouge_1", "rouge_2", "rouge_l",
)  # fmt: skip


def pair_files(names: list[str]) -> str | list[str]:
    """One file of pairs, or a source and a target file."""
    if len(names) > 2:
        raise UserError(f"one file of pairs or two parallel files, got {len(names)}; join them first")
    return names[0] if len(names) == 1 else names


def known_metrics(names: list[str] | None) -> list[str] | None:
    """The metrics asked for, if they exist."""
    from antiphon.config.problems import nearest

    known = list(METRICS)
    problems = []
    for name in names or []:
        if name not in known:
            close = "exact_match" if name == "accuracy" else nearest(name, known)  # of whole answers, not of tokens
            hint = f"did you mean '{close}'?" if close else f"the metrics are {', '.join(known)}"
            problems.append(f"--metric: no metric is called '{name}'; {hint}")
    if problems:
        raise UserError(problems)
    return names or None


def say_places(facts: dict[str, Any]) -> None:
    """The first lines that were left out, and why: `Dropped.facts()`."""
    for place in facts["places"]:
        path = f"{place['path']}: " if "path" in place else ""
        say(f"{place['file']}, line {place['line']}: {path}{place['reason']}; left out")


def say_dropped(facts: dict[str, Any]) -> None:
    """The same, and how many in all if there are more."""
    say_places(facts)
    if facts["total"] > len(facts["places"]):
        reasons = ", ".join(f"{count} x {reason}" for reason, count in facts["reasons"].items())
        say(f"left out in all: {facts['total']} ({reasons})")
