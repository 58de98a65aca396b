"""An answer as HTML for a notebook: text, score, flags, alternatives, and the attention as a picture inside."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from antiphon.inference.generation import Generation, SourceSpan
from antiphon.plots.attention_matrix import draw_attention_matrix
from antiphon.text import visible

__all__ = ["generation_html"]

LARGEST = 100  # tokens on a side of a picture
ALTERNATIVES = 5


def generation_html(answer: Generation) -> str:
    """The answer as HTML; all texts are escaped, for they come from a model."""
    rows = [(answer.text, answer.score)]
    if len(answer.alternatives) > 1:
        rows = [(other.text, other.score) for other in answer.alternatives[:ALTERNATIVES]]
    cells = "".join(f"<tr><td>{_shown(text)}</td><td>{score:.3f}</td></tr>" for text, score in rows)
    parts = [f"<table><thead><tr><th>answer</th><th>score</th></tr></thead><tbody>{cells}</tbody></table>"]
    parts += [f"<div>⚑ {_shown(flag)}</div>" for flag in answer.flags]
    return f"<div>{''.join([*parts, *(_picture(answer, span) for span in answer.spans)])}</div>"


def _picture(answer: Generation, span: SourceSpan) -> str:
    """The attention to one source; nothing if there is none."""
    columns = answer.source_tokens[span.first : span.last + 1]
    if answer.weights is None or not columns or not answer.tokens:
        return ""
    if span.kind != "text" or max(len(columns), len(answer.tokens)) > LARGEST:
        return "<div>antiphon.explain draws the attention of this answer</div>"
    copied = answer.copied if len(answer.spans) == 1 else None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "attention.png"
        weights = answer.weights[:, span.first : span.last + 1]
        draw_attention_matrix(weights, columns, answer.tokens, path, copy_probs=copied)
        content = base64.b64encode(path.read_bytes()).decode("ascii")
    about = f"attention from {_shown(answer.text)} to {_shown(span.text)}"
    return f'<img style="max-width: 100%" src="data:image/png;base64,{content}" alt="{about}">'


def _shown(text: str) -> str:
    return escape(visible(text, keep=" "))
