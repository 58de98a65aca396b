"""Render the Jinja2 templates of the report and the card. Whatever a run says is text there, never markup."""

from __future__ import annotations

import re
from functools import cache
from typing import TypeGuard

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from antiphon.text import visible

__all__ = ["code_span", "format_number", "is_number", "plain_or_code", "render"]


def render(template: str, values: dict[str, object]) -> str:
    """Fill in a template; HTML is escaped, and control characters are made visible everywhere."""
    return _environment().get_template(template).render(values).strip() + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("antiphon.reports"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {"code": code_span, "plain_or_code": plain_or_code}
    return environment


def _printable(value: object) -> object:
    """Format numbers and make control characters visible, line ends and tabs apart; markup stays as it is."""
    if hasattr(value, "__html__"):
        return value
    return format_number(value) if is_number(value) else visible(str(value), keep=" \n\t")


def is_number(value: object) -> TypeGuard[float]:
    """Booleans are no numbers here."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def format_number(value: float) -> str:
    """`12345` → `12,345`; `0.0312345` → `0.03123`."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def code_span(value: object) -> str:
    """Any value as a Markdown code span that no text can leave: one line, a fence longer than its own backticks."""
    text = visible(str(value), keep=" ")
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def plain_or_code(label: str) -> str:
    """A name of harmless characters as it is, any other as Markdown code; a bar would end the cell of a table."""
    return label if re.fullmatch(r"[\w ()%-]+", label) else code_span(label).replace("|", "\\|")
