"""The input and the answer of an explanation, as ids: the answer that is given, or the model's own."""

from __future__ import annotations

from antiphon.errors import UserError
from antiphon.inference.generator import Generator
from antiphon.inference.inputs import EncodedInput, encode_inputs
from antiphon.inference.limits import label_problems

__all__ = ["answer_tokens", "read_input"]


def read_input(generator: Generator, text: str) -> EncodedInput:
    """The input as the model reads it, in one piece; UserError if there is nothing to read."""
    [encoded] = encode_inputs(generator.codec, [text])
    if encoded.skip:
        raise UserError(f"{text!r}: {', '.join(encoded.flags)}; there is nothing to explain")
    return encoded


def answer_tokens(generator: Generator, encoded: EncodedInput, answer: str | list[int] | None) -> list[int]:
    """The ids of an answer, its end included: of a text, of given ids, or of the answer that `generate` gives (None).

    A language model's answer is what follows the prompt; a text may begin with the prompt.
    """
    if answer is None:
        return _own_answer(generator, encoded)
    if isinstance(answer, str):
        tokens, shown = generator.codec.encode_target(answer), answer
        if encoded.prompt and tokens[: len(encoded.prompt)] == encoded.prompt:
            tokens = tokens[len(encoded.prompt) :]
    else:
        tokens = _checked(generator, answer)
        shown = generator.codec.decode(encoded, tuple(tokens))
    labels = generator.codec.labels is not None
    problems = label_problems([encoded], [shown], [tokens]) if labels else []
    if problems := problems or generator.limits.target_problems([encoded], [shown], [tokens]):
        raise UserError(problems)
    return tokens


def _own_answer(generator: Generator, encoded: EncodedInput) -> list[int]:
    options = generator.search_options({})
    if problems := generator.limits.answer_problems([encoded], options.max_length, heads=False):
        raise UserError(problems)
    [found] = generator.engine.decode([encoded], [[]], options, [(0,)])
    return list(generator.pipeline(options, weights=False).rerank(encoded, found)[0].tokens)


def _checked(generator: Generator, ids: list[int]) -> list[int]:
    """The ids with the end of an answer; UserError if one is no token."""
    size, end = generator.target_tokenizer.size, generator.codec.end
    if wrong := [token for token in ids if not 0 <= token < size]:
        raise UserError(f"answer: {wrong[0]} is no token; give ids from 0 to {size - 1}")
    return list(ids) if end < 0 or (ids and ids[-1] == end) else [*ids, end]
