"""From questions to hypotheses: a model reads what it is given at once, and search writes what follows."""
# B sentences, R rows, T steps, V vocabulary

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from antiphon.decoding.ask import Ask, Check
from antiphon.decoding.constraints import Rule
from antiphon.decoding.hypothesis import Hypothesis
from antiphon.decoding.narrow import NarrowStep
from antiphon.decoding.observer import Observer
from antiphon.decoding.options import SearchOptions
from antiphon.decoding.rules import Forbidden
from antiphon.decoding.ruling import rules_of
from antiphon.decoding.sample import Draw, dice
from antiphon.decoding.search import search
from antiphon.decoding.wording import Question, Wording
from antiphon.model import SequenceModel
from antiphon.sequence import State
from antiphon.sources.batches import source_batch
from antiphon.sources.shortlist import Shortlist
from antiphon.sources.vocabulary import UNK

__all__ = ["Writer"]


class Writer:
    """Writes with a model, in its words."""

    def __init__(
        self, model: SequenceModel, wording: Wording, check: Check | None, shortlist: Shortlist | None = None
    ) -> None:
        self.model = model
        self.wording = wording
        self.check = check
        self.shortlist = shortlist

    def write(
        self,
        batch: list[Question],
        prefixes: list[list[int]],
        options: SearchOptions,
        numbers: list[tuple[int, ...]],
        observer: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each question; their prompts are equally long. `numbers` are those of the questions.

        Of a sampling search there are n_best, each with random numbers of its own, in the order they were drawn.
        """
        if options.sampling is None:
            return self._answers(batch, prefixes, options, [], observer)
        copies, seed = options.n_best, options.sampling.seed
        found = self._answers(
            [question for question in batch for _ in range(copies)],
            [prefix for prefix in prefixes for _ in range(copies)],
            options,
            [dice(seed, *number, copy) for number in numbers for copy in range(copies)],
            observer,
        )
        drawn = [hypothesis for [hypothesis] in found]
        return [drawn[first : first + copies] for first in range(0, len(drawn), copies)]

    @torch.inference_mode()
    def _answers(
        self,
        batch: list[Question],
        prefixes: list[list[int]],
        options: SearchOptions,
        draws: list[Draw],
        observer: Observer | None,
    ) -> list[list[Hypothesis]]:
        contexts = [[self.wording.start, *question.prompt] for question in batch]
        if self.wording.room is not None:
            return self._in_pieces(contexts, self.wording.room, options, draws)
        state = self.model.start(source_batch([question.source for question in batch]))
        ask = self._ask(contexts, options, prefixes, rules_of(options, self.wording, batch))
        if not options.shortlist:
            return self._go_on(state, contexts, ask, options, draws, observer)
        assert self.shortlist is not None  # else the engine has a sentence for it
        everywhere = {token for phrase in options.require for token in phrase} | ({UNK} if options.unknown else set())
        also = [everywhere | set(prefix) for prefix in prefixes]
        step = NarrowStep(self.model, self.shortlist, [question.ids for question in batch], also)
        size = self.wording.target.size
        return search(step, step.begin(state), ask, options, vocabulary=size, draws=draws, observer=observer)

    def _ask(
        self, contexts: list[list[int]], options: SearchOptions, prefixes: list[list[int]], rules: tuple[Rule, ...]
    ) -> Ask:
        return Ask(
            sentences=len(contexts),
            start=[context[-1] for context in contexts],
            end=self.wording.end,
            max_length=options.max_length,
            length_penalty=options.length_penalty,
            prefixes=prefixes,
            rules=rules,
            check=self.check,
        )

    def _go_on(
        self,
        state: State,
        contexts: list[list[int]],
        ask: Ask,
        options: SearchOptions,
        draws: list[Draw],
        observer: Observer | None = None,
    ) -> list[list[Hypothesis]]:
        """All tokens of the contexts but the last are read with one step; search begins with the last."""
        if len(contexts[0]) > 1:
            state = self.model.step(torch.tensor([context[:-1] for context in contexts]), state).state
        size = self.wording.target.size
        return search(self._step, state, ask, options, vocabulary=size, draws=draws, observer=observer)

    def _in_pieces(
        self, contexts: list[list[int]], room: int, options: SearchOptions, draws: list[Draw]
    ) -> list[list[Hypothesis]]:
        """Whenever the room is full, the later half of what is in it is read again, and there is room for more."""
        found: list[list[Hypothesis]] = [[Hypothesis((), (), 0.0, finished=False)] for _ in contexts]
        going, left, kept = list(range(len(contexts))), options.max_length, room
        while going and left > 0:
            recent = [[*contexts[row], *found[row][0].tokens][-kept:] for row in going]
            piece = min(left, room - len(recent[0]) + 1)
            state = self.model.start(source_batch([[]] * len(going)))
            chosen = [draws[row] for row in going] if draws else []
            shorter = replace(options, max_length=piece)
            ask = self._ask(recent, shorter, [[]] * len(going), (Forbidden(self.wording.forbidden),))
            parts = self._go_on(state, recent, ask, shorter, chosen)
            for row, part in zip(going, parts, strict=True):
                found[row] = [_joined(found[row][0], more, options.length_penalty) for more in part]
            full = {row for row, part in zip(going, parts, strict=True) if len(part[0].tokens) == piece}
            going = [row for row in going if row in full and not found[row][0].finished]
            left, kept = left - piece, max(1, room // 2)
        return found

    def _step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        step = self.model.step(tokens.unsqueeze(1), state)
        return torch.log_softmax(step.logits[:, -1], dim=-1), step.state


def _joined(first: Hypothesis, more: Hypothesis, length_penalty: float) -> Hypothesis:
    tokens, log_probs = [*first.tokens, *more.tokens], [*first.log_probs, *more.log_probs]
    return Hypothesis.of(tokens, log_probs, finished=more.finished, length_penalty=length_penalty)
