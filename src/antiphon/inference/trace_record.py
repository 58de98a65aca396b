"""The format of the trace of a search in JSON: one for files, the API and the page.

The process of the server that talks HTTP imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from antiphon.errors import UserError

__all__ = ["TRACE_FORMAT", "NodeRecord", "TraceRecord", "parse_trace", "read_trace"]

TRACE_FORMAT = 1
REMEDY = "write one with `antiphon explain RUN TEXT --tree --out trace.json`"


class NodeRecord(BaseModel):
    """A candidate of a step: a token behind the tokens of its parent."""

    model_config = ConfigDict(extra="allow")

    id: int = Field(ge=0, description="Nodes are numbered from 0: step by step, in a step the best first.")
    parent: int | None = Field(description="The id of the node that it continues; null in the first step.")
    step: int = Field(ge=0, description="From 0.")
    token: str
    token_id: int
    log_prob: float = Field(description="log p of this token.")
    total: float = Field(description="The sum of log p up to it, which decides what is pruned.")
    score: float = Field(description="total / length ^ length_penalty")
    status: Literal["kept", "pruned", "finished"]
    winner: bool = Field(description="On the path to the best answer.")
    rank: int = Field(ge=1, description="Among all candidates of its step, from 1 for the best.")
    forced: bool = Field(description="It belongs to the prefix that every answer begins with.")


class TraceRecord(BaseModel):
    """The trace of a search: its tree, and what is needed to draw it without the model."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    format: Literal[1]
    model: str = Field(description="The name of the model.")
    source: str = Field(description="The text that was read; in place of a file its kind.")
    source_tokens: list[str]
    options: dict[str, Any] = Field(description="The options of the search that have an effect.")
    prefix: list[int] = Field(description="Ids of the tokens that every answer begins with.")
    rerankers: list[str] = Field(description="Those that order the answers after the search.")
    answer: str = Field(description="The text of the best answer of the search.")
    steps: int
    nodes: list[NodeRecord]


def read_trace(path: Path) -> TraceRecord:
    """The trace in a file; UserError if it has none."""
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give the trace of a search") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error}); {REMEDY}") from None
    try:
        return parse_trace(record)
    except UserError as error:
        raise UserError([f"{path}: {problem}" for problem in error.problems]) from None


def parse_trace(record: object) -> TraceRecord:
    """The trace in a JSON object; UserError if it is none."""
    if isinstance(record, dict) and record.get("format", TRACE_FORMAT) != TRACE_FORMAT:
        known = f"this version reads {TRACE_FORMAT}"
        raise UserError(f"a trace of format {record['format']!r}, {known}; use the version that wrote it")
    try:
        found = TraceRecord.model_validate(record)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        place = ".".join(map(str, first["loc"]))
        fact = f"{place}: {first['msg'].lower()}" if place else "not an object"
        raise UserError(f"not the trace of a search ({fact}); {REMEDY}") from None
    for number, node in enumerate(found.nodes):
        parent = node.parent
        starts = parent is None and node.step == 0
        goes_on = parent is not None and 0 <= parent < number and found.nodes[parent].step == node.step - 1
        if node.id != number or not (starts or goes_on):
            raise UserError(f"not the trace of a search (nodes.{number}: it does not continue its parent); {REMEDY}")
    return found
