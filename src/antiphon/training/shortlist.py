"""Which target tokens a source token gives: IBM model 1 (Brown et al. 1993) on the training pairs."""
# P pairs, N co-occurrences: one for each pair, source token and target token

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.config.models import EncoderDecoderConfig
from antiphon.errors import UserError
from antiphon.folder import SOURCE_TOKENIZER, TARGET_TOKENIZER, is_whole, load_model, read_folder_config
from antiphon.sources.shortlist import Ints, Shortlist
from antiphon.sources.tokens import load_tokenizer
from antiphon.sources.vocabulary import EOS, SPECIALS
from antiphon.training.counting import Pair, counted_pairs

__all__ = ["learn_shortlist", "make_shortlist"]

ROUNDS = 4  # of expectation and maximisation
LEAST = 1e-3  # of p(t | s); rarer ones are left out


def make_shortlist(
    run: str | Path, *, per_token: int = 40, always: int = 100, say: Callable[[str], None] = lambda _: None
) -> Shortlist:
    """Learns it from the run's training pairs and saves it in its folder."""
    for name, value in (("per_token", per_token), ("always", always)):
        if value < 1:
            raise UserError(f"{name}: must be at least 1, not {value}")
    folder = Path(run)
    if not is_whole(folder):
        load_model(folder)  # which says what is missing; a shortlist that cannot be read is no hindrance here
    config = read_folder_config(folder)
    data = config.data
    if isinstance(config.model, EncoderDecoderConfig) and config.model.copying:
        raise UserError(f"{folder}: this run copies, and words of its source may be on no list; use it without one")
    if data.source is None:
        raise UserError(f"{folder}: a language model has no source that could tell what it will say")
    if data.text is None:
        raise UserError(f"{folder}: a shortlist is learnt from one text to another, and this run reads no single text")
    source, target = (load_tokenizer(folder / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    pairs = counted_pairs(data, source, target, say)
    found = learn_shortlist(pairs, (source.size, target.size), per_token=per_token, always=always, say=say)
    found.save(folder)
    return found


def learn_shortlist(
    pairs: list[Pair],
    sizes: tuple[int, int],
    *,
    per_token: int,
    always: int,
    say: Callable[[str], None] = lambda _: None,
) -> Shortlist:
    """The `per_token` likeliest tokens of each source token, and the `always` most frequent of all."""
    sources, targets = sizes
    keys, pair_targets = _together(pairs, targets)
    entries, place = np.unique(keys, return_inverse=True)  # each (source token, target token) once
    source_of = entries // targets
    p = np.ones(len(entries))
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}")
        share = p[place] / np.bincount(pair_targets, weights=p[place])[pair_targets]  # who gave this target token?
        counts = np.bincount(place, weights=share, minlength=len(entries))
        p = counts / np.bincount(source_of, weights=counts, minlength=sources)[source_of]
    kept = _best(source_of, p, per_token)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(source_of[kept], minlength=sources))]).astype(np.int64)
    return Shortlist(offsets, (entries % targets)[kept].astype(np.int64), _frequent(pairs, targets, always))


def _together(pairs: list[Pair], targets: int) -> tuple[Ints, Ints]:
    """For each co-occurrence its key s · targets + t, and the number of its target token in its pair [N]."""
    keys, numbers, first = [], [], 0
    for source, target in pairs:
        s, t = np.unique(source), np.unique(target)
        if len(s) and len(t):
            keys.append((s[:, None] * targets + t).ravel())
            numbers.append(np.tile(np.arange(first, first + len(t)), len(s)))
            first += len(t)
    nothing = np.zeros(0, dtype=np.int64)
    return np.concatenate([nothing, *keys]), np.concatenate([nothing, *numbers])


def _best(groups: Ints, p: NDArray[np.float64], count: int) -> Ints:
    """The places of the `count` highest p of each group, by group; ties: the lower place."""
    order = np.lexsort((np.arange(len(p)), -p, groups))
    sorted_groups = groups[order]
    starts = np.searchsorted(sorted_groups, sorted_groups)
    rank = np.arange(len(order)) - starts
    return np.asarray(order[(rank < count) & (p[order] >= LEAST)])


def _frequent(pairs: list[Pair], targets: int, count: int) -> Ints:
    """The most frequent target tokens, and </s>."""
    everything = np.concatenate([np.zeros(0, dtype=np.int64), *(np.array(target, np.int64) for _, target in pairs)])
    counts = np.bincount(everything, minlength=targets)
    counts[: len(SPECIALS)] = 0
    best = np.argsort(-counts, kind="stable")[:count]
    return np.unique(np.append(best[counts[best] > 0], EOS)).astype(np.int64)
