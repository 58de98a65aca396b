"""Greedy search: the most probable token, again and again."""
# N sentences, B those still open, V vocabulary
# B sentences still open, V vocabulary

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

from antiphon.search.beam import best_candidates
from antiphon.search.constraints import IMPOSSIBLE, Constraints, Said
from antiphon.search.hypothesis import Ask, Hypothesis, Step, first_tokens
from antiphon.sequence import State

__all__ = ["Choose", "greedy_search", "single_search"]

# Search with one hypothesis a sentence: what greedy search and sampling have in common.

S = TypeVar("S", bound=State)

Choose = Callable[[Tensor, Tensor], Tensor]
"""Log probabilities [B, V] of these sentences [B] → a token for each [B]; what is not a number is impossible."""


def single_search(step: Step[S], state: S, choose: Choose, ask: Ask) -> list[Hypothesis]:
    """One token after the other until </s> or `max_length` tokens; one answer per sentence.

    A sentence that is done leaves the batch.
    """
    constraints = Constraints(ask.sentences, ask.prefixes, ask.rules)
    live = torch.arange(ask.sentences)
    tokens = first_tokens(ask.start, ask.sentences)
    said = tokens.new_zeros(ask.sentences, 0)
    columns: list[tuple[Tensor, Tensor, Tensor]] = []
    with torch.no_grad():
        for _ in range(ask.max_length):
            if live.numel() == 0:
                break
            if ask.check is not None:
                ask.check()
            log_probs, state = step(tokens, state)
            values, tokens = _chosen(log_probs, choose, constraints, Said(live.to(log_probs.device), said.unsqueeze(1)))
            possible = values > IMPOSSIBLE
            columns.append((live[possible.to(live.device)], tokens[possible], values[possible]))
            said = torch.cat([said.to(tokens.device), tokens.unsqueeze(1)], dim=1)
            going = possible & (tokens != ask.end)
            if not bool(going.all()):
                rows = going.nonzero()  # [B', 1]
                live, tokens, said = live[going.to(live.device)], tokens[going], said[going]
                if live.numel():
                    state = state.select(rows)
    return _collect(columns, ask)


def _chosen(log_probs: Tensor, choose: Choose, constraints: Constraints, said: Said) -> tuple[Tensor, Tensor]:
    """The token of each row [B] and its log probability [B]."""
    constraints.apply(log_probs.unsqueeze(1), said)
    tokens = choose(log_probs, said.sentences)
    return log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1), tokens


def _collect(columns: list[tuple[Tensor, Tensor, Tensor]], ask: Ask) -> list[Hypothesis]:
    tokens: list[list[int]] = [[] for _ in range(ask.sentences)]
    log_probs: list[list[float]] = [[] for _ in range(ask.sentences)]
    for live, column, values in columns:
        for sentence, token, value in zip(live.tolist(), column.tolist(), values.tolist(), strict=True):
            tokens[sentence].append(token)
            log_probs[sentence].append(value)
    return [
        Hypothesis.of(row, values, finished=bool(row) and row[-1] == ask.end, length_penalty=ask.length_penalty)
        for row, values in zip(tokens, log_probs, strict=True)
    ]


def greedy_search(step: Step[S], state: S, ask: Ask) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, x), until </s> or `max_length` tokens; one answer per sentence.

    Equal probabilities: the lower token.
    """
    return single_search(step, state, _best, ask)


def _best(scores: Tensor, sentences: Tensor) -> Tensor:  # noqa: ARG001 (all are treated alike)
    """The first of the most probable tokens of each row [B]."""
    return best_candidates(scores, 1)[1].squeeze(1)
