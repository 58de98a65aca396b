"""Several batches at once: each core has one of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

__all__ = ["at_once"]

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
