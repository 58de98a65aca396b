"""From the options of a search to its rules."""

from __future__ import annotations

from antiphon.decoding.constraints import Rule
from antiphon.decoding.options import SearchOptions
from antiphon.decoding.required import Phrases, Required
from antiphon.decoding.rules import Forbidden, ForbiddenPhrases, LeastLength, MostLength, NoRepeat
from antiphon.decoding.wording import Question, Wording
from antiphon.sources.vocabulary import UNK

__all__ = ["rules_of"]


def rules_of(options: SearchOptions, wording: Wording, batch: list[Question]) -> tuple[Rule, ...]:
    """What may not be said in answers to these questions."""
    sources = [question.length for question in batch]
    longest = tuple(options.longest(source) for source in sources)
    shortest = tuple(min(options.shortest(source), most) for source, most in zip(sources, longest, strict=True))
    rules: list[Rule] = [Forbidden(never(options, wording))]
    if options.forbid:
        rules.append(ForbiddenPhrases(options.forbid))
    if options.no_repeat is not None:
        rules.append(NoRepeat(options.no_repeat))
    if max(shortest, default=1) > 1:
        rules.append(LeastLength(wording.end, shortest))
    if options.max_ratio is not None:
        rules.append(MostLength(longest))
    if options.require:
        rules.append(Required(Phrases(options.require), wording.end, longest))
    return tuple(rules)


def never(options: SearchOptions, wording: Wording) -> tuple[int, ...]:
    """Tokens that are no words; <unk> is one if it will be replaced."""
    return tuple(token for token in wording.forbidden if not (options.unknown and token == UNK))
