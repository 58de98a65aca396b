"""Limits of learnt position tables and of labels, checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.config.networks import ConcatenatedConfig, EncoderDecoderConfig, TaggerConfig, learnt_positions
from antiphon.config.schema import Config
from antiphon.inference.inputs import EncodedInput
from antiphon.text import plural

__all__ = ["Limits", "label_problems"]

MAX_NAMED = 5  # texts that are too long; the others are counted


@dataclass(frozen=True)
class Limits:
    """Learnt positions; None: no limit. A language model with too few reads in windows.

    Of several encoders, each has as many as the maximum length of its source: the configuration is checked for that.
    """

    encoder: int | None = None
    decoder: int | None = None
    joint: bool = False  # one network reads both, so a source takes positions from its answer
    context_length: int | None = None  # of a language model

    @classmethod
    def of(cls, config: Config, context_length: int | None) -> Limits:
        model = config.model
        if config.data.source is None:
            return cls(context_length=context_length)
        if isinstance(model, TaggerConfig):
            return cls(learnt_positions(model.encoder))
        several = isinstance(model, EncoderDecoderConfig) and isinstance(model.encoder, list)
        encoder = (
            learnt_positions(model.encoders[0]) if isinstance(model, EncoderDecoderConfig) and not several else None
        )
        return cls(encoder, learnt_positions(model.decoder), joint=isinstance(model, ConcatenatedConfig))

    def answer_problems(self, inputs: list[EncodedInput], max_length: int, *, heads: bool) -> list[str]:
        """An error message for each source that does not fit, and for an answer of `max_length` (</s> counts)."""
        problems = _first_few([problem for encoded in inputs for problem in self._source_problems(encoded)])
        if self.decoder is not None and inputs:
            longest = max(inputs, key=self._taken)
            left = self.decoder - self._taken(longest)
            if max_length > left:
                problems.append(_length_problem(max_length, self.decoder, left, longest))
        if heads and self.context_length is not None and inputs:
            longest = max(inputs, key=lambda encoded: len(encoded.prompt))
            problems += self._heads_problems(longest, max_length, self.context_length)
        return problems

    def target_problems(self, inputs: list[EncodedInput], texts: list[str], targets: list[list[int]]) -> list[str]:
        """An error message for each source or target (ids, with </s>) that does not fit."""
        problems = [problem for encoded in inputs for problem in self._source_problems(encoded)]
        for encoded, text, ids in zip(inputs, texts, targets, strict=True):
            needed = len(ids) + self._taken(encoded)
            if self.decoder is not None and needed > self.decoder:
                problems.append(
                    f"{text[:40]!r}: {needed} tokens {'with its source' if self.joint else 'with </s>'}, but the "
                    f"decoder has learnt {self.decoder} positions (model.decoder.positions.longest); shorten it, or "
                    "leave it out"
                )
        return _first_few(problems)

    def _taken(self, encoded: EncodedInput) -> int:
        """Decoder positions before the answer: the source with its </s>, if the decoder reads it."""
        return encoded.length if self.joint else 0

    def _source_problems(self, encoded: EncodedInput) -> list[str]:
        needed = encoded.length
        if self.encoder is None or needed <= self.encoder:
            return []
        return [
            f"{encoded.text[:40]!r}: {needed} tokens with </s>, but the encoder has learnt {self.encoder} positions "
            "(model.encoder.positions.longest); shorten it, or leave it out"
        ]

    def _heads_problems(self, encoded: EncodedInput, max_length: int, context_length: int) -> list[str]:
        tokens = len(encoded.prompt)
        if tokens + max_length <= context_length:
            return []
        return [
            f"heads: {encoded.text[:40]!r} has {tokens} tokens, and {max_length} to write (max_length) make more than "
            f"the {context_length} that the model can attend to; shorten the text or max_length, or leave heads out"
        ]


def _length_problem(max_length: int, learnt: int, left: int, encoded: EncodedInput) -> str:
    fact = f"the decoder has learnt {learnt} positions (model.decoder.positions.longest)"
    if left == learnt:
        return f"max_length: {max_length}, but {fact}; give at most {left}"
    taken = f"{encoded.text[:40]!r} takes {learnt - left} of them"
    return f"max_length: {max_length}, but {fact} and {taken}; " + (
        f"give at most {left}" if left > 0 else "shorten the text, or leave it out"
    )


def label_problems(inputs: list[EncodedInput], texts: list[str], targets: list[list[int]]) -> list[str]:
    """An error message for each source without one label for each token; lengths count </s>."""
    rows = zip(inputs, texts, targets, strict=True)
    return [
        f"{text[:40]!r}: {plural(len(ids) - 1, 'labels')} for {plural(encoded.length - 1, 'tokens')} "
        f"({encoded.text[:40]!r}); give one label for each token"
        for encoded, text, ids in rows
        if len(ids) != encoded.length
    ][:MAX_NAMED]


def _first_few(problems: list[str]) -> list[str]:
    more = len(problems) - MAX_NAMED
    return problems if more <= 0 else [*problems[:MAX_NAMED], f"and {more} more that are too long"]
