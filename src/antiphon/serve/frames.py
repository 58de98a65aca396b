"""Frames: JSON messages between the server and the worker of a model, each after its length in four bytes."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, BinaryIO, cast

from pydantic_core import from_json, to_json

__all__ = ["Message", "pack", "read_frame", "receive_frame"]

Message = dict[str, Any]
_LENGTH = struct.Struct(">I")


def pack(message: Message) -> bytes:
    """The bytes of a message; NaN and infinity become null."""
    body = to_json(message, inf_nan_mode="null")
    return _LENGTH.pack(len(body)) + body


def read_frame(stream: BinaryIO) -> Message | None:
    """The next message of a blocking stream; None at its end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    [length] = _LENGTH.unpack(head)
    body = stream.read(length)
    return cast("Message", from_json(body)) if len(body) == length else None


async def receive_frame(stream: asyncio.StreamReader) -> Message | None:
    """The next message of a stream; None at its end, or where it is no frame."""
    try:
        [length] = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
        return cast("Message", from_json(await stream.readexactly(length)))
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        return None
