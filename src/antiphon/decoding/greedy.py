"""Greedy search: the most probable token, again and again."""
# N sentences, B those still open, V vocabulary, T steps

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from antiphon.decoding.constraints import IMPOSSIBLE, Constraints
from antiphon.decoding.hypothesis import Check, Hypothesis, State, Step

__all__ = ["greedy_search"]

S = TypeVar("S", bound=State)


def greedy_search(
    step: Step[S],
    state: S,
    *,
    sentences: int,
    start: int,
    end: int,
    max_length: int,
    length_penalty: float = 0.0,
    prefixes: list[list[int]] | None = None,
    forbidden: tuple[int, ...] = (),
    check: Check | None = None,
) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, x), until </s> or `max_length` tokens (</s> counts); one answer per sentence.

    Equal probabilities: the lower token. A sentence that is done leaves the batch.
    """
    constraints = Constraints(sentences, prefixes, forbidden)
    live = torch.arange(sentences)
    tokens = torch.full((sentences,), start, dtype=torch.long)
    columns: list[tuple[Tensor, Tensor, Tensor]] = []
    with torch.no_grad():
        for position in range(max_length):
            if live.numel() == 0:
                break
            if check is not None:
                check()
            log_probs, state = step(tokens, state)
            values, tokens = _best(log_probs, constraints, live.to(log_probs.device), position)
            possible = values > IMPOSSIBLE
            columns.append((live[possible.to(live.device)], tokens[possible], values[possible]))
            going = possible & (tokens != end)
            if not bool(going.all()):
                rows = going.nonzero()  # [B', 1]
                live, tokens = live[going.to(live.device)], tokens[going]
                if live.numel():
                    state = state.select(rows)
    return _collect(columns, sentences, end, length_penalty)


def _best(log_probs: Tensor, constraints: Constraints, live: Tensor, position: int) -> tuple[Tensor, Tensor]:
    """The highest log probability of each row [B] and the first token that has it [B]."""
    scores = log_probs.clone()  # the step may still own its tensor
    constraints.apply(scores.unsqueeze(1), live, position)
    values, tokens = scores.max(dim=1)
    if bool(values.isnan().any()):  # a token whose probability is not a number is impossible
        values, tokens = scores.masked_fill(scores.isnan(), IMPOSSIBLE).max(dim=1)
    return values, tokens


def _collect(
    columns: list[tuple[Tensor, Tensor, Tensor]], sentences: int, end: int, length_penalty: float
) -> list[Hypothesis]:
    tokens: list[list[int]] = [[] for _ in range(sentences)]
    log_probs: list[list[float]] = [[] for _ in range(sentences)]
    for live, column, values in columns:
        for sentence, token, value in zip(live.tolist(), column.tolist(), values.tolist(), strict=True):
            tokens[sentence].append(token)
            log_probs[sentence].append(value)
    return [
        Hypothesis.of(row, values, finished=bool(row) and row[-1] == end, length_penalty=length_penalty)
        for row, values in zip(tokens, log_probs, strict=True)
    ]
