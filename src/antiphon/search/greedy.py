"""Greedy search: the most probable token at each step."""
# N sentences, B those still open, V vocabulary

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TypeVar

import torch
from torch import Tensor

from antiphon.search.constraints import IMPOSSIBLE, Constraints, History
from antiphon.search.hypothesis import (
    MIN_ROWS,
    Hypothesis,
    SearchRequest,
    StepFunction,
    first_tokens,
    normalised_score,
    stable_topk,
)
from antiphon.search.trace import Candidate, Observer, Status
from antiphon.sequence import State

__all__ = ["greedy_search", "single_hypothesis_search"]

S = TypeVar("S", bound=State)

ChooseTokens = Callable[[Tensor, Tensor], Tensor]
"""Log probabilities [B, V] of these sentences [B] → a token for each [B]; NaN is impossible."""


def greedy_search(step: StepFunction[S], state: S, request: SearchRequest) -> list[Hypothesis]:
    """y_t = argmax p(y | y_<t, x), until </s> or `max_length` tokens; one hypothesis per sentence.

    Equal probabilities: the lower token.
    """

    def argmax(scores: Tensor, sentences: Tensor) -> Tensor:  # noqa: ARG001 (the same for all)
        if scores.size(0) < MIN_ROWS:
            values, tokens = scores.max(dim=1)  # of equal values the first
            if not bool(values.isnan().any()):
                return tokens
        return stable_topk(scores, 1)[1].squeeze(1)

    return single_hypothesis_search(step, state, argmax, request)


def single_hypothesis_search(
    step: StepFunction[S],
    state: S,
    choose: ChooseTokens,
    request: SearchRequest,
    observer: Observer | None = None,
) -> list[Hypothesis]:
    """Greedy search and sampling: one token after the other until </s> or `max_length`; one hypothesis per sentence.

    A sentence that is done leaves the batch. The observer sees the tokens that were chosen; the others are pruned.
    """
    constraints = Constraints(request.sentences, request.prefixes, request.constraints)
    live = torch.arange(request.sentences)
    tokens = first_tokens(request.start, request.sentences)
    history = tokens.new_zeros(request.sentences, 0)
    answers: list[list[int]] = [[] for _ in range(request.sentences)]
    log_probs: list[list[float]] = [[] for _ in range(request.sentences)]
    with torch.no_grad():
        for position in range(request.max_length):
            if live.numel() == 0:
                break
            if request.check is not None:
                request.check()
            scores, state = step(tokens, state)
            live, history = live.to(scores.device), history.to(scores.device)
            constraints.apply(scores.unsqueeze(1), History(live, history.unsqueeze(1)))
            tokens = choose(scores, live)
            values = scores.gather(1, tokens.unsqueeze(1)).squeeze(1)
            going, possible = [], []
            columns = zip(live.tolist(), tokens.tolist(), values.tolist(), strict=True)
            for row, (sentence, token, value) in enumerate(columns):
                if value > IMPOSSIBLE:
                    answers[sentence].append(token)
                    log_probs[sentence].append(value)
                    possible.append(row)
                    if token != request.end:
                        going.append(row)
            if observer is not None and possible:
                totals = values.new_tensor([sum(log_probs[sentence]) for sentence in live[possible].tolist()])
                seen = (live[possible], scores[possible], tokens[possible], totals)
                observer(choices(*seen, position, request, observer.pruned))
            history = torch.cat([history, tokens.unsqueeze(1)], dim=1)
            if len(going) < live.numel():
                rows = torch.tensor(going, dtype=torch.long, device=tokens.device)
                live, tokens, history = live[rows], tokens[rows], history[rows]
                if going:
                    state = state.select(rows.unsqueeze(1))
    return [
        Hypothesis.of(row, values, finished=bool(row) and row[-1] == request.end, length_penalty=request.length_penalty)
        for row, values in zip(answers, log_probs, strict=True)
    ]


def choices(
    sentences: Tensor, log_probs: Tensor, chosen: Tensor, totals: Tensor, step: int, request: SearchRequest, pruned: int
) -> list[Candidate]:
    """The chosen token [B] of each sentence [B] among the `pruned` most probable others, best first.

    `totals` [B] are those with the chosen tokens.
    """
    found = []
    own = log_probs.gather(1, chosen.unsqueeze(1))
    ranks = 1 + (log_probs > own).sum(dim=1)
    values, others = stable_topk(log_probs, min(pruned + 1, log_probs.size(1)))
    before = totals - own.squeeze(1)
    for row, (sentence, token) in enumerate(zip(sentences.tolist(), chosen.tolist(), strict=True)):
        known = list(zip(others[row].tolist(), values[row].tolist(), count(1), strict=False))
        rest = [one for one in known if one[0] != token and one[1] > IMPOSSIBLE][:pruned]
        rank = next((rank for number, _, rank in known if number == token), int(ranks[row]))
        picked = (token, float(own[row]), rank)
        for number, log_prob, place in sorted([picked, *rest], key=lambda one: one[2]):
            total = float(before[row]) + log_prob
            score = normalised_score(total, step + 1, request.length_penalty)
            status: Status = "pruned" if number != token else "finished" if number == request.end else "kept"
            found.append(Candidate(sentence, step, 0 if step else -1, number, log_prob, total, score, status, place))
    return found
