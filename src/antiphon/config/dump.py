"""A configuration as a file that explains itself, and the difference between two."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from antiphon.config.schema import Config
from antiphon.config.yaml_text import write_value

__all__ = ["config_diff", "explained_yaml", "flat"]

WIDEST = 50  # comments start here at the latest; a longer value pushes only its own comment


def explained_yaml(config: Config) -> str:
    """The whole configuration, every key with what it means; reads back equal."""
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
        return [(f"{indent}- null", "as usual")]
    (first, words), *rest = rows_of(item, f"{indent}  ")
    return [(f"{indent}- {first.strip()}", words), *rest]


def config_diff(old: Config, new: Config) -> list[str]:
    """`training.learning_rate: 0.001 in the run, 0.002 now`, for every key that differs."""
    before, after = _written(old), _written(new)
    sections = list(Config.model_fields)
    keys = sorted({**before, **after}, key=lambda key: sections.index(key.split(".")[0]))
    return [
        f"{key}: {before.get(key, 'not there')} in the run, {after.get(key, 'not there')} now"
        for key in keys
        if before.get(key) != after.get(key)
    ]


def _written(config: Config) -> dict[str, str]:
    """Dotted path -> value as it is written."""
    return {key: write_value(value) for key, value in flat(config.model_dump(by_alias=True)).items()}


def flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Sections inside sections as one mapping: `model.encoder.kind` -> `lstm`; in a list `data.source[0].kind`."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= flat(value, f"{path}{key}.")
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            found |= flat({f"{key}[{number}]": item for number, item in enumerate(value)}, path)
        else:
            found[f"{path}{key}"] = value
    return found
