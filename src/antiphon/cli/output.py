"""Data goes to stdout, talk goes to stderr."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from antiphon.visible import visible

__all__ = ["one_line", "program", "put_json", "put_line", "put_text", "say"]

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # C0, DEL and C1: every escape sequence begins with one


def one_line(text: str) -> str:
    """A text as one field of one line: a line break or tab inside it is shown as \\n or \\t."""
    return text.replace("\n", "\\n").replace("\t", "\\t")


def put_line(*fields: str) -> None:
    """One line of data, fields separated by tabs; on a terminal control characters are made visible."""
    shown = [one_line(field) for field in fields]
    sys.stdout.write("\t".join(visible(field, keep=" \t") if sys.stdout.isatty() else field for field in shown) + "\n")


def put_text(text: str, *, first: bool) -> None:
    """A text of several lines; an empty line parts it from the one before."""
    shown = visible(text, keep=" \t\n") if sys.stdout.isatty() else text
    sys.stdout.write(f"{'' if first else chr(10)}{shown}\n")


def put_json(value: dict[str, Any]) -> None:
    """One JSON object on one line; what is not a finite number is null, control characters are escaped."""
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    sys.stdout.write(CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text) + "\n")


def finite(value: Any) -> Any:  # noqa: ANN401 (any JSON)
    """The value with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [finite(item) for item in value]
    return {key: finite(item) for key, item in value.items()} if isinstance(value, dict) else value


def program() -> str:
    """What to type to start this program again: its name if the shell finds it, else as it was started."""
    if shutil.which("antiphon"):
        return "antiphon"
    if Path(sys.argv[0]).name == "antiphon":
        return shlex.quote(sys.argv[0])
    return shlex.join([sys.executable, "-m", "antiphon.cli.main"])


def say(text: str) -> None:
    """One or more lines of talk."""
    for line in text.split("\n"):
        sys.stderr.write(f"antiphon: {visible(line, keep=' ')}\n")
    sys.stderr.flush()
