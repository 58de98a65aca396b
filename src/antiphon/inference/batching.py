"""Batches of similar length, and several of them at once, each on a core of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TypeVar

import torch

__all__ = ["batch_by_length", "map_in_threads"]

Job = TypeVar("Job")
Result = TypeVar("Result")


def batch_by_length(
    lengths: Sequence[tuple[int, ...]], size: int, *, beam: int = 1, budget: int | None = None, min_batches: int = 1
) -> list[list[int]]:
    """Batches of row indices, the longest rows first, so that there is little padding.

    Lengths are those of the prompt, equal within a batch, then of the source. A batch has at most `size` rows, and
    rows x beam x the longest source fit the budget (None: any number). Rows are spread over `min_batches` batches if
    they suffice.
    """
    order = sorted(range(len(lengths)), key=lambda row: lengths[row], reverse=True)
    size = max(1, min(size, -(-len(order) // min_batches)))
    batches = []
    for _, group in groupby(order, key=lambda row: lengths[row][0]):
        rows = list(group)
        while rows:
            longest = max(1, lengths[rows[0]][1])  # the first row of a batch is its longest
            fit = size if budget is None else max(1, min(size, budget // beam // longest))
            batches.append(rows[:fit])
            rows = rows[fit:]
    return batches


def map_in_threads(work: Callable[[Job], Result], jobs: list[Job], workers: int) -> Iterator[Result]:
    """work(job) for each job, in order, by `workers` threads for which torch uses one core each.

    A step of a search is dozens of small products. Two threads that share each product wait for one another at each;
    two that have a batch each do not (decision 0018).
    """
    if workers == 1 or len(jobs) == 1:
        yield from map(work, jobs)
        return
    cores = torch.get_num_threads()
    threads = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from threads.map(work, jobs)
    finally:
        threads.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)  # new threads inherit the number that was set last, by any thread
