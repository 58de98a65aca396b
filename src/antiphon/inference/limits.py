"""How long a source and an answer may be, asked before anything is computed: a learnt table of positions has an end."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.config.networks import ConcatenatedConfig, EncoderDecoderConfig, learnt_positions
from antiphon.config.schema import Config
from antiphon.inference.inputs import Question

__all__ = ["Limits"]

NAMED = 5  # texts that are too long; the others are counted


@dataclass(frozen=True)
class Limits:
    """Positions that were learnt; None: any number will do. A language model that has too few reads in windows.

    Of several encoders, each has as many as its longest source: the configuration is checked for that.
    """

    encoder: int | None = None
    decoder: int | None = None
    joined: bool = False  # one network reads both, so a source takes positions from its answer
    room: int | None = None  # what a language model can look back on

    @classmethod
    def of(cls, config: Config, room: int | None) -> Limits:
        model = config.model
        if config.data.source is None:
            return cls(room=room)
        apart = isinstance(model, EncoderDecoderConfig) and isinstance(model.encoder, list)
        encoder = learnt_positions(model.encoders[0]) if isinstance(model, EncoderDecoderConfig) and not apart else None
        return cls(encoder, learnt_positions(model.decoder), joined=isinstance(model, ConcatenatedConfig))

    def of_answers(self, questions: list[Question], max_length: int, *, looks: bool) -> list[str]:
        """A sentence for what does not fit: a source, or an answer of this length (which counts its </s>)."""
        problems = _few([problem for question in questions for problem in self._of_source(question)])
        if self.decoder is not None and questions:
            longest = max(questions, key=self._beside)
            left = self.decoder - self._beside(longest)
            if max_length > left:
                problems.append(_of_length(max_length, self.decoder, left, longest))
        if looks and self.room is not None and questions:
            longest = max(questions, key=lambda question: len(question.prompt))
            problems += self._of_look(longest, max_length)
        return problems

    def of_targets(self, questions: list[Question], texts: list[str], targets: list[list[int]]) -> list[str]:
        """A sentence for each source or target (ids, with </s>) that does not fit."""
        problems = [problem for question in questions for problem in self._of_source(question)]
        for question, text, ids in zip(questions, texts, targets, strict=True):
            needed = len(ids) + self._beside(question)
            if self.decoder is not None and needed > self.decoder:
                problems.append(
                    f"{text[:40]!r}: {needed} tokens {'with its source' if self.joined else 'with </s>'}, but the "
                    f"decoder has learnt {self.decoder} positions (model.decoder.positions.longest); shorten it, or "
                    "leave it out"
                )
        return _few(problems)

    def _beside(self, question: Question) -> int:
        """Positions that stand before the answer: the source with its </s>, if the decoder reads it."""
        return question.length if self.joined else 0

    def _of_source(self, question: Question) -> list[str]:
        needed = question.length
        if self.encoder is None or needed <= self.encoder:
            return []
        return [
            f"{question.text[:40]!r}: {needed} tokens with </s>, but the encoder has learnt {self.encoder} positions "
            "(model.encoder.positions.longest); shorten it, or leave it out"
        ]

    def _of_look(self, question: Question, max_length: int) -> list[str]:
        tokens = len(question.prompt)
        if self.room is None or tokens + max_length <= self.room:
            return []
        return [
            f"looks: {question.text[:40]!r} has {tokens} tokens, and {max_length} to write (max_length) make more than "
            f"the {self.room} that the model can look back on; shorten the text or max_length, or leave looks out"
        ]


def _of_length(max_length: int, learnt: int, left: int, question: Question) -> str:
    fact = f"the decoder has learnt {learnt} positions (model.decoder.positions.longest)"
    if left == learnt:
        return f"max_length: {max_length}, but {fact}; give at most {left}"
    taken = f"{question.text[:40]!r} takes {learnt - left} of them"
    return f"max_length: {max_length}, but {fact} and {taken}; " + (
        f"give at most {left}" if left > 0 else "shorten the text, or leave it out"
    )


def _few(problems: list[str]) -> list[str]:
    more = len(problems) - NAMED
    return problems if more <= 0 else [*problems[:NAMED], f"and {more} more that are too long"]
