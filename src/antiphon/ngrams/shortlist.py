"""The few hundred target tokens that a source can give, learnt by IBM model 1 (Brown et al. 1993)."""
# P pairs, N co-occurrences: one for each pair, source token and target token

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from antiphon.data.tokenizers import EOS, SPECIALS
from antiphon.errors import ModelFolderError
from antiphon.files import write_bytes
from antiphon.ngrams.joint import IdPair

__all__ = ["SHORTLIST", "Ints", "Shortlist", "learn_shortlist", "load_shortlist"]

SHORTLIST = "shortlist.safetensors"
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shortlist:
    """tokens[offsets[s] : offsets[s + 1]] are those of source token s."""

    offsets: Ints
    tokens: Ints
    always: Ints

    def alone(self, token: int) -> Ints:
        """The target tokens listed for one source token."""
        return self.tokens[self.offsets[token] : self.offsets[token + 1]]

    def of(self, source: list[int]) -> Ints:
        """The tokens that a source can give, ascending."""
        lists = [self.alone(token) for token in set(source)]
        return np.unique(np.concatenate([self.always, *lists]))

    def save(self, folder: Path) -> None:
        """Write it into a model folder, in place of the one there."""
        write_bytes(folder / SHORTLIST, save(asdict(self)))


def load_shortlist(folder: Path, *, source_tokens: int, target_tokens: int) -> Shortlist | None:
    """The shortlist of a model folder, if it has one."""
    path, again = folder / SHORTLIST, f"make it again: antiphon shortlist {folder}"
    if not path.is_file():
        return None
    try:
        arrays = load_file(path)
        shortlist = Shortlist(arrays["offsets"], arrays["tokens"], arrays["always"])
    except (SafetensorError, KeyError, OSError) as error:
        raise ModelFolderError(f"{path}: cannot be read ({error}); {again}") from error
    highest = max(int(shortlist.tokens.max(initial=0)), int(shortlist.always.max(initial=0)))
    if len(shortlist.offsets) != source_tokens + 1 or highest >= target_tokens:
        raise ModelFolderError(f"{path}: made for another vocabulary; {again}")
    return shortlist


# IBM model 1 on the training pairs.

ROUNDS = 4  # of expectation and maximisation
LEAST = 1e-3  # of p(t | s); rarer ones are left out


def learn_shortlist(
    pairs: list[IdPair],
    sizes: tuple[int, int],
    *,
    per_token: int,
    always: int,
    say: Callable[[str], None] = lambda _: None,
) -> Shortlist:
    """The `per_token` likeliest tokens of each source token, and the `always` most frequent of all."""
    sources, targets = sizes
    keys, pair_targets = _cooccurrences(pairs, targets)
    entries, place = np.unique(keys, return_inverse=True)  # each (source token, target token) once
    source_of = entries // targets
    p = np.ones(len(entries))
    for number in range(ROUNDS):
        say(f"round {number + 1} of {ROUNDS}")
        share = p[place] / np.bincount(pair_targets, weights=p[place])[pair_targets]  # posterior of each source token
        counts = np.bincount(place, weights=share, minlength=len(entries))
        p = counts / np.bincount(source_of, weights=counts, minlength=sources)[source_of]
    kept = _best(source_of, p, per_token)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(source_of[kept], minlength=sources))]).astype(np.int64)
    return Shortlist(offsets, (entries % targets)[kept].astype(np.int64), _frequent(pairs, targets, always))


def _cooccurrences(pairs: list[IdPair], targets: int) -> tuple[Ints, Ints]:
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


def _frequent(pairs: list[IdPair], targets: int, count: int) -> Ints:
    """The most frequent target tokens, and </s>."""
    everything = np.concatenate([np.zeros(0, dtype=np.int64), *(np.array(target, np.int64) for _, target in pairs)])
    counts = np.bincount(everything, minlength=targets)
    counts[: len(SPECIALS)] = 0
    best = np.argsort(-counts, kind="stable")[:count]
    return np.unique(np.append(best[counts[best] > 0], EOS)).astype(np.int64)
