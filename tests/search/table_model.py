"""A model that is a function from (sentence, history) to log probabilities, and searches written as plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.search.hypothesis import Hypothesis

History = tuple[int, ...]
Rows = Callable[[int, History], list[float]]
MINUS = float("-inf")


@dataclass(frozen=True)
class TableState:
    """Each row's sentence and what it has read, <s> first."""

    sentences: tuple[int, ...]
    histories: tuple[History, ...]

    @classmethod
    def start(cls, sentences: int) -> TableState:
        return cls(tuple(range(sentences)), ((),) * sentences)

    def select(self, rows: Tensor) -> TableState:
        assert rows.dim() == 2
        assert rows.numel() > 0
        chosen = [[self.sentences[row] for row in line] for line in rows.tolist()]
        assert all(len(set(line)) == 1 for line in chosen), "a new row continues another sentence's row"
        assert [line[0] for line in chosen] == sorted({line[0] for line in chosen}), "sentences changed their order"
        flat = rows.flatten().tolist()
        return TableState(tuple(self.sentences[r] for r in flat), tuple(self.histories[r] for r in flat))


class TableModel:
    """The step; it keeps what it was asked, so that tests can see which rows were computed."""

    def __init__(self, rows: Rows, dtype: torch.dtype = torch.float64) -> None:
        self.rows = rows
        self.dtype = dtype
        self.asked: list[tuple[int, ...]] = []  # the sentences of the rows, step by step

    def __call__(self, tokens: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        assert tokens.dim() == 1
        assert len(tokens) == len(state.sentences)
        histories = tuple((*past, token) for past, token in zip(state.histories, tokens.tolist(), strict=True))
        self.asked.append(state.sentences)
        values = [self.rows(sentence, past[1:]) for sentence, past in zip(state.sentences, histories, strict=True)]
        return torch.tensor(values, dtype=self.dtype), TableState(state.sentences, histories)


def seeded_rows(seed: int, vocabulary: int, *, zeros: float = 0.0, end_bias: float = 0.0, end: int = 0) -> Rows:
    """Random distributions that depend on the seed, the sentence and the whole history; a share of them are 0."""
    cache: dict[tuple[int, History], list[float]] = {}

    def rows(sentence: int, history: History) -> list[float]:
        key = (sentence, history)
        if key not in cache:
            generator = torch.Generator().manual_seed(seed * 1_000_003 + sentence * 7_919 + _number(history))
            logits = torch.randn(vocabulary, generator=generator, dtype=torch.float64)
            logits[end] += end_bias
            off = torch.rand(vocabulary, generator=generator) < zeros
            off[int(logits.argmax())] = False
            cache[key] = logits.masked_fill(off, MINUS).log_softmax(0).tolist()
        return cache[key]

    return rows


def coarse_rows(seed: int, vocabulary: int) -> Rows:
    """Whole-numbered log probabilities, so that equal scores are everywhere and sums are exact."""

    def rows(sentence: int, history: History) -> list[float]:
        generator = torch.Generator().manual_seed(seed * 1_000_003 + sentence * 7_919 + _number(history))
        return [float(-value) for value in torch.randint(1, 4, (vocabulary,), generator=generator).tolist()]

    return rows


def _number(history: History) -> int:
    value = 1
    for token in history:
        value = (value * 31 + token + 1) % 999_983
    return value


def all_strings(
    rows: Rows, sentence: int, *, vocabulary: int, end: int, max_length: int, length_penalty: float
) -> list[Hypothesis]:
    """Every possible answer, in the order in which search should return them."""
    others = [token for token in range(vocabulary) if token != end]
    strings = [
        (*body, end) for length in range(max_length) for body in itertools.product(others, repeat=length)
    ] + list(itertools.product(others, repeat=max_length))
    found = []
    for string in strings:
        values = [rows(sentence, string[:place])[token] for place, token in enumerate(string)]
        if MINUS not in values:
            finished = string[-1] == end
            found.append(Hypothesis.of(list(string), values, finished=finished, length_penalty=length_penalty))
    return sorted(found, key=lambda answer: (not answer.finished, -answer.score))


def loop_beam(
    rows: Rows, sentence: int, *, end: int, size: int, max_length: int, length_penalty: float
) -> list[Hypothesis]:
    """The lectures' beam search for one sentence, word for word, over lists."""
    frontier: list[tuple[History, list[float]]] = [((), [])]
    done: list[Hypothesis] = []
    for _ in range(max_length):
        candidates = []
        for slot, (history, values) in enumerate(frontier):
            for token, value in enumerate(rows(sentence, history)):
                if value > MINUS:
                    candidates.append((-sum([*values, value]), slot, token, ((*history, token), [*values, value])))
        candidates.sort(key=lambda candidate: candidate[:3])
        frontier = []
        for *_, token, (history, values) in candidates[: size - len(done)]:
            if token != end:
                frontier.append((history, values))
        for *_, token, (history, values) in candidates[: size - len(done)]:
            if token == end:
                done.append(Hypothesis.of(list(history), values, finished=True, length_penalty=length_penalty))
    rest = [Hypothesis.of(list(h), v, finished=False, length_penalty=length_penalty) for h, v in frontier]
    return sorted([*done, *rest], key=lambda answer: (not answer.finished, -answer.score))


def loop_kept(
    rows: Rows, sentence: int, *, end: int, size: int, patience: float, max_length: int, length_penalty: float
) -> list[Hypothesis]:
    """The beam of other toolkits for one sentence, over lists: `size` go on until size x patience have ended."""
    frontier: list[tuple[History, list[float]]] = [((), [])]
    done: list[Hypothesis] = []
    for _ in range(max_length):
        if len(done) >= size * patience:
            frontier = []
        candidates = []
        for slot, (history, values) in enumerate(frontier):
            for token, value in enumerate(rows(sentence, history)):
                candidates.append((-sum([*values, value]), slot, token, ((*history, token), [*values, value])))
        candidates.sort(key=lambda candidate: candidate[:3])
        for *_, token, (history, values) in candidates[:size]:
            if token == end:
                done.append(Hypothesis.of(list(history), values, finished=True, length_penalty=length_penalty))
        frontier = [kept for *_, token, kept in candidates if token != end][:size]
    rest = [] if len(done) >= size * patience else frontier
    cut = [Hypothesis.of(list(h), v, finished=False, length_penalty=length_penalty) for h, v in rest]
    return sorted([*done, *cut], key=lambda answer: (not answer.finished, -answer.score))[:size]
