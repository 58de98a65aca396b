"""Small pieces of HTML. Every function takes plain text and escapes it; only `Html` passes through as it is."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path

from antiphon.text import visible

__all__ = ["Html", "definitions", "details", "facts", "number", "picture", "section", "size", "table", "text", "yaml"]


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


def text(value: object) -> Html:
    """Any value as text; characters that would act (line ends apart) are made visible."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(visible(str(value), keep=" \n\t"), quote=True))


def number(value: float | int) -> str:
    """`12345` → `12,345`; `0.0312345` → `0.03123`."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def size(count: int) -> str:
    """`123456` → `123.5 kB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def section(title: str, *parts: str) -> Html:
    """A card; nothing when it would be empty."""
    body = "\n".join(part for part in parts if part)
    return Html(f"<section>\n<h2>{text(title)}</h2>\n{body}\n</section>") if body else Html("")


def details(summary: str, body: Html) -> Html:
    return Html(f"<details><summary>{text(summary)}</summary>{body}</details>")


def table(head: list[str], rows: list[list[object]], best: int | None = None) -> Html:
    """Numbers stand at the right; row `best` is marked."""
    right = [all(_numeric(row[i]) for row in rows) for i in range(len(head))]
    names = "".join(f"<th{_place(right[i])}>{text(name)}</th>" for i, name in enumerate(head))
    lines = []
    for i, row in enumerate(rows):
        cells = "".join(f"<td{_place(right[j])}>{_cell(value)}</td>" for j, value in enumerate(row))
        lines.append(f'<tr class="best">{cells}</tr>' if i == best else f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    return Html(f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>\n{body}\n</tbody></table></div>')


def _place(right: bool) -> str:
    return ' class="number"' if right else ' class="text"'


def _numeric(value: object) -> bool:
    return value == "" or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: object) -> Html:
    return text(number(value)) if isinstance(value, int | float) and not isinstance(value, bool) else text(value)


def definitions(pairs: list[tuple[str, object]]) -> Html:
    """Names and values side by side."""
    lines = [f"<dt>{text(name)}</dt><dd>{_cell(value)}</dd>" for name, value in pairs]
    return Html('<dl class="facts">\n' + "\n".join(lines) + "\n</dl>") if lines else Html("")


def facts(value: object) -> Html:
    """Whatever JSON holds: a mapping as names and values, equal mappings as a table, anything else as text."""
    if isinstance(value, dict):
        return definitions([(str(name).replace("_", " "), facts(item)) for name, item in value.items()])
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        head = list(dict.fromkeys(name for item in value for name in item))
        rows = [[_plain(item.get(name, "")) for name in head] for item in value]
        return table([str(name).replace("_", " ") for name in head], rows)
    if isinstance(value, list):
        return Html(", ".join(facts(item) for item in value) or "none")
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value):
        return text(f"{value[:12]}…")  # a checksum: enough to compare by eye
    return _cell("none" if value is None else value)


def _plain(value: object) -> object:
    if value is None:
        return ""
    return value if isinstance(value, int | float) else facts(value)


def picture(path: Path, caption: str) -> Html:
    """A PNG inside the page; nothing when it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        return Html("")
    data = base64.b64encode(content).decode("ascii")
    under = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    alt = text(caption or path.stem)
    return Html(f'<figure><img src="data:image/png;base64,{data}" alt="{alt}">{under}</figure>')


def yaml(source: str) -> Html:
    """YAML as it is, with its comments set back."""
    lines = [re.sub(r"((?:^|\s)#.*)$", r'<span class="comment">\1</span>', text(line)) for line in source.split("\n")]
    return Html("<pre>" + "\n".join(lines).strip("\n") + "</pre>") if source.strip() else Html("")
