"""Configurations as YAML: parse it, write it with explanations, compare two.

PyYAML follows YAML 1.1, where `1e-3` is text, `no` is false and `010` is eight. Here numbers, true, false and null are
those of YAML 1.2, everything else is text, and a key that occurs twice is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from antiphon.config.schema import Config

__all__ = [
    "ChangedKey", "config_diff", "explained_yaml", "flat", "parse_override", "parse_value", "parse_yaml",
    "write_value",
]  # fmt: skip

WIDEST = 50  # comments start here at the latest; a longer value pushes only its own comment


class Loader(yaml.SafeLoader):
    """A safe loader with the plain scalars of YAML 1.2; `twice` collects keys that occur twice in a mapping."""

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
        """An int or a float; a number too large for a float stays text, which the schema refuses."""
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
    """The value of a YAML text, and a sentence for each syntax error."""
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
        return None, [f"{name}, line {line}: the character U+{code:04X} is not allowed in YAML; remove it"]
    twice = loader.twice
    return value, [
        f"{name}, line {line}: '{key}' occurs already in line {first}; keep one" for key, line, first in twice
    ]


def remedy(problem: str | None) -> str:
    """A remedy for the commonest errors of syntax."""
    if problem and "\\t" in problem:
        return "indent with spaces, not tabs"
    if problem and "mapping values are not allowed" in problem:
        return "put quotes round a value that contains ': ', or correct the indentation"
    return "correct that line: 'key: value', two more spaces for each level"


def parse_override(text: str) -> tuple[Any, list[str]]:
    """The value of `key=text` and its syntax errors: YAML, but `@reverse/train` and `my #1.tsv` are text.

    In YAML @ is reserved and # begins a comment, which an override has no use for.
    """
    comment = text.startswith("#") or re.search(r"\s#", text)
    if text.startswith("@") or (comment and not text.lstrip().startswith(("'", '"', "[", "{"))):
        return text, []
    return parse_yaml(text, "")


def parse_value(text: str) -> Any:  # noqa: ANN401 (any YAML value)
    """The value of a text as YAML; the text itself if it is not YAML."""
    value, problems = parse_yaml(text, "")
    return text if problems else value


def write_value(value: Any) -> str:  # noqa: ANN401 (any value of a configuration)
    """A value on one line that this loader and any other YAML loader read alike."""
    if isinstance(value, list):
        return "[" + ", ".join(write_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{write_value(key)}: {write_value(item)}" for key, item in value.items()) + "}"
    if not isinstance(value, str):
        return yaml.safe_dump(value, width=math.inf).removesuffix("...\n").strip()
    plain = re.fullmatch(r"[A-Za-z./_][\w./-]*(?: [\w./-]+)*", value, re.ASCII)
    if plain and parse_value(value) == value and yaml.safe_load(value) == value:
        return value
    return yaml.safe_dump(value, default_style='"', allow_unicode=True, width=math.inf).strip()


def explained_yaml(config: Config) -> str:
    """The whole configuration with a comment on every key; it reads back equal."""
    sections = []
    for name, field in Config.model_fields.items():
        rows = [(f"{name}:", field.description or ""), *rows_of(getattr(config, name), "  ")]
        start = min(WIDEST, max(len(left) for left, _ in rows) + 2)
        sections.append("\n".join(f"{left:<{max(start, len(left) + 2)}}# {words}" for left, words in rows))
    return "\n\n".join(sections) + "\n"


def rows_of(section: BaseModel, indent: str) -> list[tuple[str, str]]:
    """`key: value` and its description, for every key of a section and the sections inside it."""
    rows = []
    for attribute, field in type(section).model_fields.items():
        name, value = field.alias or attribute, getattr(section, attribute)
        if isinstance(value, BaseModel):
            rows += [(f"{indent}{name}:", field.description or ""), *rows_of(value, indent + "  ")]
        elif isinstance(value, list) and any(isinstance(item, BaseModel) for item in value):
            rows += [(f"{indent}{name}:", field.description or "")]
            rows += [row for item in value for row in item_rows(item, indent + "  ")]
        else:
            rows.append((f"{indent}{name}: {write_value(value)}", field.description or ""))
    return rows


def item_rows(item: BaseModel | None, indent: str) -> list[tuple[str, str]]:
    """A section of a list: `- ` before its first key."""
    if item is None:
        return [(f"{indent}- null", "the default")]
    (first, words), *rest = rows_of(item, f"{indent}  ")
    return [(f"{indent}- {first.strip()}", words), *rest]


class ChangedKey(NamedTuple):
    """A key whose value differs between two configurations; a side that lacks it says so."""

    key: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.key}: {self.before} → {self.after}"


def config_diff(old: Config, new: Config) -> list[ChangedKey]:
    """Every key that differs, in the order of the sections."""
    before, after = (
        {key: write_value(value) for key, value in flat(config.model_dump(by_alias=True)).items()}
        for config in (old, new)
    )
    sections = list(Config.model_fields)
    keys = sorted({**before, **after}, key=lambda key: sections.index(key.split(".")[0]))
    return [
        ChangedKey(key, before.get(key, "not there"), after.get(key, "not there"))
        for key in keys
        if before.get(key) != after.get(key)
    ]


def flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Nested sections as one mapping: `model.encoder.kind` -> `lstm`; in a list `data.source[0].kind`."""
    values_by_path: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            values_by_path |= flat(value, f"{path}{key}.")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            values_by_path |= flat({f"{key}[{number}]": item for number, item in enumerate(value)}, path)
        else:
            values_by_path[f"{path}{key}"] = value
    return values_by_path
