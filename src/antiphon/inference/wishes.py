"""What a user may wish of a search, by name: the keywords of `generate`, and from them the options."""

from __future__ import annotations

import difflib
from typing import TypedDict

from antiphon.config.schema import DecodingConfig
from antiphon.errors import UserError
from antiphon.inference.inputs import Wording
from antiphon.search.diverse import Diversity
from antiphon.search.options import SearchOptions, Utility
from antiphon.search.sampling import Sampling

__all__ = ["Wishes", "options_of"]

GROUPS = 2  # of a diverse beam, where none are given
WINDOWED = ("min_length", "no_repeat", "forbid", "require", "diversity", "max_ratio", "min_ratio", "coverage",
            "joint", "replace_unknown", "shortlist")  # fmt: skip


class Wishes(TypedDict, total=False):
    """None, or nothing: as the model's `decoding` section has it."""

    beam: int | None  # hypotheses kept at each step; 1: greedy
    n_best: int  # answers that come back; of sampling: that are drawn
    max_length: int | None  # longest answer in tokens, </s> counts
    min_length: int | None  # shortest answer, likewise
    max_ratio: float | None  # longest answer as a multiple of its source, both with </s>
    min_ratio: float | None  # shortest answer, likewise
    length_penalty: float | None  # the exponent a of sum(log p) / length^a
    patience: float | None  # the beam stays full until beam x patience answers have ended; None: it shrinks
    diversity: float | None  # what a token costs that another group of the beam has taken at the same step
    groups: int | None  # of a diverse beam; 2
    no_repeat: int | None  # no so many tokens twice in the same order
    forbid: list[str] | None  # phrases that are never said
    require: list[str] | None  # phrases that have to be said
    joint: float | None  # how much the run's joint n-grams count among the answers of a beam
    coverage: float | None  # how much it counts, among the answers of a beam, that all of the source was attended to
    replace_unknown: bool | None  # <unk> may be said, and becomes the source token that was attended to most
    shortlist: bool  # only tokens that the source can give, as `antiphon shortlist` has learnt: faster
    log_probs: bool  # of each token; some engines are faster without
    batch_size: int | None  # sentences decoded together, which makes no difference
    sample: bool  # draw the tokens instead of searching the best
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    mbr: Utility | None  # of the samples, the one that is most like the others by chrF or BLEU


def options_of(wishes: Wishes, usual: DecodingConfig, wording: Wording) -> SearchOptions:
    """The options of a search; UserError with all that makes no sense."""
    beam = wishes.get("beam")
    max_length, penalty, batch = wishes.get("max_length"), wishes.get("length_penalty"), wishes.get("batch_size")
    strength, groups = wishes.get("diversity"), wishes.get("groups")
    options = SearchOptions(
        beam=usual.beam if beam is None else beam,
        n_best=wishes.get("n_best", 1),
        max_length=usual.max_length if max_length is None else max_length,
        length_penalty=usual.length_penalty if penalty is None else penalty,
        batch_size=usual.batch_size if batch is None else batch,
        sampling=_sampling(wishes) if wishes.get("sample") else None,
        min_length=1 if (least := wishes.get("min_length")) is None else least,
        max_ratio=wishes.get("max_ratio"),
        min_ratio=wishes.get("min_ratio"),
        patience=wishes.get("patience"),
        diversity=None if strength is None else Diversity(GROUPS if groups is None else groups, strength),
        no_repeat=wishes.get("no_repeat"),
        forbid=_phrases(wishes.get("forbid"), wording),
        require=_phrases(wishes.get("require"), wording),
        joint=_joint(wishes, usual),
        coverage=wishes.get("coverage") or 0.0,
        unknown=usual.replace_unknown if (replaced := wishes.get("replace_unknown")) is None else replaced,
        shortlist=wishes.get("shortlist", False),
        log_probs=wishes.get("log_probs", True),
        mbr=wishes.get("mbr"),
    )
    against = [*_names(wishes), *_contradictions(wishes), *_windows(wishes, wording), *_unknown(wishes, wording)]
    if problems := [*against, *options.problems(), *_vocabulary(options, wording)]:
        raise UserError(problems)
    return options


def _names(wishes: Wishes) -> list[str]:
    known = list(Wishes.__annotations__)
    found = []
    for name in wishes:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            found.append(f"{name}: there is no such option" + (f"; did you mean {near[0]!r}?" if near else ""))
    return found


def _contradictions(wishes: Wishes) -> list[str]:
    """Options that speak against one another."""
    drawing = {name: wishes.get(name) for name in ("temperature", "top_k", "top_p", "seed")}
    asked = [name for name, value in drawing.items() if value is not None]
    found = []
    if not wishes.get("sample"):
        found += [f"{name}: only for sampling; add sample, or leave it out" for name in asked]
    elif (beam := wishes.get("beam")) is not None:
        found.append(f"beam: a beam of {beam} looks for the most probable answer, sample draws one; leave one out")
    if wishes.get("groups") is not None and wishes.get("diversity") is None:
        found.append("groups: only of a diverse beam; add diversity, or leave it out")
    return found


def _windows(wishes: Wishes, wording: Wording) -> list[str]:
    """A language model has no source; one that looks back only so far writes piece by piece."""
    given = [name for name in WINDOWED if wishes.get(name)]
    if wording.room is not None:
        return [
            f"{name}: this language model writes in windows and forgets what is before; leave it out" for name in given
        ]
    if wording.side != "text":
        return []
    of_source = ("max_ratio", "min_ratio", "coverage", "joint", "replace_unknown", "shortlist")
    return [f"{name}: a language model has no source; leave it out" for name in given if name in of_source]


def _vocabulary(options: SearchOptions, wording: Wording) -> list[str]:
    size = wording.target.size
    found = []
    if options.sampling is None and options.beam > size:
        found.append(f"beam: {options.beam} is more than the {size} tokens that the model knows; give at most {size}")
    return found


def _unknown(wishes: Wishes, wording: Wording) -> list[str]:
    """Phrases that the model cannot say."""
    found = []
    for name, texts in (("forbid", wishes.get("forbid")), ("require", wishes.get("require"))):
        if isinstance(texts, str):  # a text is a list of letters, too
            found.append(f"{name}: give a list of phrases, such as [{texts!r}]")
            continue
        for text in texts or []:
            if not wording.target.encode(text):
                found.append(f"{name}: an empty phrase; leave it out")
            elif unknown := wording.target.unknown(text):
                found.append(f"{name} {text!r}: the model does not know {', '.join(map(repr, unknown))}; change it")
    return found


def _joint(wishes: Wishes, usual: DecodingConfig) -> float:
    """What is usual is for a beam, and gives way to another order."""
    if (asked := wishes.get("joint")) is not None:
        return asked
    beam = usual.beam if (wished := wishes.get("beam")) is None else wished
    return 0.0 if wishes.get("sample") or wishes.get("coverage") or beam == 1 else usual.joint


def _phrases(texts: list[str] | None, wording: Wording) -> tuple[tuple[int, ...], ...]:
    found = dict.fromkeys(tuple(wording.target.encode(text)) for text in texts or [])
    return tuple(phrase for phrase in found if phrase)


def _sampling(wishes: Wishes) -> Sampling:
    usual = Sampling()
    temperature, seed = wishes.get("temperature"), wishes.get("seed")
    return Sampling(
        temperature=usual.temperature if temperature is None else temperature,
        top_k=wishes.get("top_k"),
        top_p=wishes.get("top_p"),
        seed=usual.seed if seed is None else seed,
    )
