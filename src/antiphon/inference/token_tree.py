"""The trace of a search as a result: its tree, and what is needed to draw it without the model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from antiphon.files import write_text
from antiphon.inference.inputs import Codec, EncodedInput
from antiphon.inference.options import OPTIONS, SearchOptions
from antiphon.inference.trace_record import TRACE_FORMAT, TraceRecord, parse_trace, read_trace
from antiphon.search.trace import SearchTree, TreeNode

__all__ = ["TokenTree", "node_dict"]

# The options that a trace always has, of a beam and of a sample.
OF_ALL = ("max_length", "length_penalty")
OF_BEAM, OF_SAMPLE = (*OF_ALL, "beam"), (*OF_ALL, "sample", "temperature", "seed")
HIDDEN = ("batch_size", "log_probs")  # they change no tree


@dataclass(frozen=True)
class TokenTree:
    """A search tree, the symbol of each node, and the facts of the search; `write` and `read` keep it in a file."""

    tree: SearchTree
    symbols: list[str]
    rerankers: list[str]  # those that order the answers after the search
    model: str = ""  # its name
    source: str = ""  # the text that was read; in place of a file its kind
    source_tokens: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)  # those of the search that have an effect
    prefix: list[int] = field(default_factory=list)  # ids of the tokens that every answer begins with
    answer: str = ""  # the text of the best

    def of_search(
        self, codec: Codec, encoded: EncodedInput, options: SearchOptions, prefix: list[int], model: str
    ) -> TokenTree:
        """The tree with the facts of its search for one input."""
        best = tuple(node.token for node in self.tree.nodes if node.winner)
        return replace(
            self,
            model=model,
            source=_shown_source(codec, encoded),
            source_tokens=[] if encoded.skip else codec.source_symbols(encoded),
            options=_shown_options(options, codec),
            prefix=prefix,
            answer="" if encoded.skip else codec.decode(encoded, best),
        )

    def as_dict(self) -> dict[str, Any]:
        """The trace for JSON; `TraceRecord` describes its fields."""
        nodes = zip(self.tree.nodes, self.symbols, strict=True)
        return {
            "format": TRACE_FORMAT,
            **{name: getattr(self, name) for name in FACTS},
            "steps": self.tree.steps,
            "nodes": [node_dict(number, node, symbol) for number, (node, symbol) in enumerate(nodes)],
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> TokenTree:
        """The trace in what `as_dict` has returned; UserError if it is none."""
        return cls._of(parse_trace(record))

    def write(self, path: Path) -> None:
        """Write the trace as JSON."""
        write_text(path, json.dumps(self.as_dict(), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> TokenTree:
        """The trace in a file; UserError if it has none."""
        return cls._of(read_trace(path))

    @classmethod
    def _of(cls, record: TraceRecord) -> TokenTree:
        tree = SearchTree(
            tuple(
                TreeNode(token=node.token_id, **{name: getattr(node, name) for name in OF_NODE})
                for node in record.nodes
            )
        )
        symbols = [node.token for node in record.nodes]
        return cls(tree, symbols, **{name: getattr(record, name) for name in FACTS})


FACTS = tuple(one.name for one in fields(TokenTree) if one.name not in ("tree", "symbols"))
OF_NODE = tuple(one.name for one in fields(TreeNode) if one.name != "token")


def node_dict(number: int, node: TreeNode, symbol: str) -> dict[str, Any]:
    """A node of a search tree for JSON: a `NodeRecord`."""
    return {
        "id": number,
        "parent": node.parent,
        "step": node.step,
        "token": symbol,
        "token_id": node.token,
        "log_prob": node.log_prob,
        "total": node.total,
        "score": node.score,
        "status": node.status,
        "winner": node.winner,
        "rank": node.rank,
        "forced": node.forced,
    }


def _shown_source(codec: Codec, encoded: EncodedInput) -> str:
    """The texts of an input; a path says nothing elsewhere, so a file is shown as its kind."""
    spans = [] if encoded.skip else codec.spans(encoded)
    return " | ".join(span.text if span.kind == "text" else span.kind for span in spans) if spans else encoded.text


def _shown_options(options: SearchOptions, codec: Codec) -> dict[str, Any]:
    """The options that have an effect, phrases as texts."""
    always = OF_SAMPLE if options.sample else OF_BEAM
    values = {name: getattr(options, name) for name in OPTIONS if name not in HIDDEN}
    shown = {name: value for name, value in values.items() if name in always or value != OPTIONS[name].off}
    if options.sample:
        shown.pop("beam", None)
    for name in {"forbid", "require"} & shown.keys():
        shown[name] = [codec.target.decode(phrase) for phrase in values[name]]
    return shown
