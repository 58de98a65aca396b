"""The choices of one search."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.decoding.sample import Sampling

__all__ = ["SearchOptions"]


@dataclass(frozen=True)
class SearchOptions:
    """How answers are searched for: greedily (a beam of 1), with a beam, or by sampling."""

    beam: int
    n_best: int
    max_length: int
    length_penalty: float
    batch_size: int
    sampling: Sampling | None = None

    def problems(self) -> list[str]:
        """A sentence for each value that makes no sense, alone or with another."""
        numbers = (("beam", self.beam), ("n_best", self.n_best), ("max_length", self.max_length))
        found = [f"{name}: must be at least 1, not {value}" for name, value in numbers if value < 1]
        if self.batch_size < 1:
            found.append(f"batch_size: must be at least 1, not {self.batch_size}")
        if self.length_penalty < 0:
            found.append(f"length_penalty: must not be negative, not {self.length_penalty}")
        if self.sampling is not None:
            return [*found, *self.sampling.problems()]
        if self.n_best > self.beam:
            found.append(f"n_best: {self.n_best} answers need a beam of at least {self.n_best}, not {self.beam}")
        return found
