"""Several batches at once: each core has one of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TypeVar

import torch

__all__ = ["alike", "at_once"]

# Which rows are computed together: those of like length, so that there is little padding.


def alike(
    lengths: Sequence[tuple[int, ...]], size: int, *, beam: int = 1, budget: int | None = None, least: int = 1
) -> list[list[int]]:
    """Batches of row numbers, like lengths together, the longest first; in one, the first (of prompts) are equal.

    A batch has `size` rows at most, and no more than fit the budget: rows x beam x the longest second length (of
    sources); None: any number. Where they fit, they are dealt out to `least` batches of about one size.
    """
    order = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)
    size = max(1, min(size, -(-len(order) // least)))
    return [
        batch
        for _, group in groupby(order, key=lambda row: lengths[row][0])
        for batch in _filled(list(group), lengths, size, None if budget is None else budget // beam)
    ]


def _filled(rows: list[int], lengths: Sequence[tuple[int, ...]], size: int, budget: int | None) -> Iterator[list[int]]:
    """The first row of a batch is its longest, so it says how many there can be."""
    while rows:
        longest = max(1, lengths[rows[0]][1])
        fit = size if budget is None else max(1, min(size, budget // longest))
        yield rows[:fit]
        rows = rows[fit:]


Job = TypeVar("Job")
Done = TypeVar("Done")


def at_once(work: Callable[[Job], Done], jobs: list[Job], workers: int) -> Iterator[Done]:
    """work(job) for each, in order; so many at the same time, each with one thread.

    A step of a search is dozens of small products. Two threads that share each of them wait for one another at each;
    two that have a batch each do not (decision 0018).
    """
    if workers == 1 or len(jobs) == 1:
        yield from map(work, jobs)
        return
    threads = torch.get_num_threads()
    crew = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from crew.map(work, jobs)
    finally:
        crew.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # new threads take over the count that was set last, by whomever
