"""The choices of a completion, whole or as the lines of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from pydantic_core import to_json

from antiphon.serve.frames import Message
from antiphon.serve.refusals import Refusal

__all__ = [
    "Delta", "chat_log_probs", "chunks", "cut_at_stop", "finish_reason", "new_texts", "stopped", "token_log_probs",
    "usage",
]  # fmt: skip


@dataclass(frozen=True)
class Delta:
    """A piece of an answer; the last has the reason of its end."""

    text: str
    reason: str | None = None
    output: Message | None = None


def finish_reason(output: Message) -> str:
    """`length` if the answer was cut."""
    return "length" if any(flag.startswith("maximum length") for flag in output["flags"]) else "stop"


def cut_at_stop(text: str, stops: list[str]) -> str:
    """The text before the first stop."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else text


def usage(read: int, written: int) -> Message:
    """The tokens that were read and written."""
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def token_log_probs(output: Message) -> Message:
    """The log probabilities of a completion; where a token stands in the text is not known."""
    return {
        "tokens": output["tokens"], "token_logprobs": output["log_probs"], "top_logprobs": None, "text_offset": None,
    }  # fmt: skip


def chat_log_probs(output: Message) -> Message:
    """The log probabilities of a chat completion."""
    rows = zip(output["tokens"], output["log_probs"], strict=True)
    content = [
        {"token": token, "logprob": log_prob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, log_prob in rows
    ]
    return {"content": content, "refusal": None}


async def new_texts(
    first: Message, events: AsyncGenerator[Message, None], repeated: str
) -> AsyncGenerator[Delta, None]:
    """The pieces of an answer without the prompt that it begins with."""
    async with aclosing(events):
        message: Message | None = first
        sent, known = "", len(repeated)
        while message is not None:
            if "result" in message:
                output = message["result"]["output"]
                yield Delta(output["text"][max(len(sent), known) :], finish_reason(output), output)
                return
            if message["event"] == "text":
                before, sent = len(sent), sent + message["data"]["text"]
                if len(sent) > known:
                    yield Delta(sent[max(before, known) :])
            message = await anext(events, None)


async def stopped(
    deltas: AsyncGenerator[Delta, None], stops: list[str], *, to_end: bool
) -> AsyncGenerator[Delta, None]:
    """The pieces up to the first stop; the beginning of a stop is held back until it is known not to be one.

    `to_end` waits for the end of the search, which knows the number of tokens.
    """
    held, longest, over = "", max(map(len, stops), default=1) - 1, False
    async with aclosing(deltas):
        async for delta in deltas:
            held += "" if over else delta.text
            kept = cut_at_stop(held, stops)
            over, held = over or kept != held, kept
            if delta.reason is not None or (over and not to_end):
                yield Delta(held, "stop" if over else delta.reason, delta.output)
                return
            ready = 0 if over else len(held) - longest
            if ready > 0:
                yield Delta(held[:ready])
                held = held[ready:]


async def chunks(
    deltas: AsyncGenerator[Delta, None], head: Message, *, chat: bool, echoed: str, counted: bool, log_probs: bool
) -> AsyncGenerator[bytes, None]:
    """The lines of the stream; log probabilities come with the end."""
    if chat:
        yield data_line({**head, "choices": [one_choice("", None, chat=True, role="assistant")]})
    if echoed:
        yield data_line({**head, "choices": [one_choice(echoed, None, chat=chat)]})
    async with aclosing(deltas):
        try:
            async for delta in deltas:
                if delta.text:
                    yield data_line({**head, "choices": [one_choice(delta.text, None, chat=chat)]})
                if delta.reason is not None:
                    last = one_choice("", delta.reason, chat=chat)
                    if log_probs and delta.output is not None:
                        last["logprobs"] = (chat_log_probs if chat else token_log_probs)(delta.output)
                    yield data_line({**head, "choices": [last]})
                if counted and delta.output is not None:
                    tokens = delta.output["usage"]
                    yield data_line({**head, "choices": [], "usage": usage(tokens["read"], tokens["written"])})
        except Refusal as refusal:
            yield data_line(refusal.envelope(str(head["id"])))
    yield b"data: [DONE]\n\n"


def one_choice(text: str, reason: str | None, *, chat: bool, role: str | None = None) -> Message:
    """The choice of a chunk."""
    said = {"delta": ({"role": role} if role else {}) | ({"content": text} if text or role else {})}
    return {"index": 0, **(said if chat else {"text": text}), "finish_reason": reason, "logprobs": None}


def data_line(message: Message) -> bytes:
    """A line of the stream."""
    return b"data: " + to_json(message, inf_nan_mode="null") + b"\n\n"
