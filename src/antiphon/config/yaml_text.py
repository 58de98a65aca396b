"""YAML as configurations use it: `1e-3` is a number, `yes` is a word, a key stands once.

PyYAML follows YAML 1.1, where `1e-3` is text, `no` is false and `010` is eight. Here numbers, true, false and
null are what they look like, and everything else is text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any

import yaml

__all__ = ["parse_override", "parse_value", "parse_yaml", "write_value"]


class Loader(yaml.SafeLoader):
    """Safe, with the plain scalars of YAML 1.2, and it remembers keys that stand twice."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML copies it in add_implicit_resolver)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.twice: list[tuple[str, int, int]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        first: dict[str, int] = {}
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.value in first:
                self.twice.append((key.value, line, first[key.value]))
            elif isinstance(key, yaml.ScalarNode):
                first[key.value] = line
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """A number; one too large for a float stays text and is then refused as such."""
        text = self.construct_scalar(node)
        if re.fullmatch(r"[-+]?\d{1,4000}", text):
            return int(text)
        return number if math.isfinite(number := float(text)) else text


Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), [*"tTfF"])
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:0|[1-9]\d*|(?:0|[1-9]\d*)?\.\d+|(?:0|[1-9]\d*)\.)(?:[eE][-+]?\d+)?$", re.ASCII),
    [*"-+.0123456789"],
)
Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])
Loader.add_constructor("tag:yaml.org,2002:float", Loader.construct_number)


def parse_yaml(text: str, name: str) -> tuple[Any, list[str]]:
    """The value of a YAML text, and a sentence for each thing wrong with it as YAML."""
    try:
        loader = Loader(text)
        value = loader.get_single_data()
    except RecursionError:
        return None, [f"{name}: nested too deeply; a configuration has at most four levels"]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        return None, [f"{name}{place}: not YAML ({error.problem or error.context}); {remedy(error.problem)}"]
    except yaml.reader.ReaderError as error:
        line, code = text.count("\n", 0, error.position) + 1, ord(text[error.position])
        return None, [f"{name}, line {line}: the character U+{code:04X} may not stand in YAML; remove it"]
    twice = loader.twice
    return value, [
        f"{name}, line {line}: '{key}' already stands in line {first}; keep one" for key, line, first in twice
    ]


def remedy(problem: str | None) -> str:
    """What to do about the commonest slips."""
    if problem and "\\t" in problem:
        return "indent with spaces, not tabs"
    if problem and "mapping values are not allowed" in problem:
        return "put quotes round a value that contains ': ', or mend the indentation"
    return "mend that line: 'key: value', two more spaces for each level"


def parse_override(text: str) -> tuple[Any, list[str]]:
    """The value of `key=text`, and what is wrong with it: YAML, but `@reverse/train` and `my #1.tsv` are text.

    In YAML @ is reserved and # begins a comment; neither is of use here. Quotes and brackets stay YAML's.
    """
    comment = text.startswith("#") or re.search(r"\s#", text)
    if text.startswith("@") or (comment and not text.lstrip().startswith(("'", '"', "[", "{"))):
        return text, []
    return parse_yaml(text, "")


def parse_value(text: str) -> Any:  # noqa: ANN401 (whatever the user wrote)
    """What a text is as YAML; text that is no YAML is taken as it stands."""
    value, problems = parse_yaml(text, "")
    return text if problems else value


def write_value(value: Any) -> str:  # noqa: ANN401 (any value of a configuration)
    """A value on one line, as both this loader and any other YAML loader read it."""
    if isinstance(value, list):
        return "[" + ", ".join(write_value(item) for item in value) + "]"
    if not isinstance(value, str):
        return yaml.safe_dump(value, width=math.inf).removesuffix("...\n").strip()
    plain = re.fullmatch(r"[A-Za-z./_][\w./-]*(?: [\w./-]+)*", value, re.ASCII)
    if plain and parse_value(value) == value and yaml.safe_load(value) == value:
        return value
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=math.inf).strip()
