"""From a file or a recipe's name, and overrides such as `training.epochs=5`, to a Config; all problems at once."""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from antiphon.config.checks import check_config
from antiphon.config.messages import nearest, value_problems
from antiphon.config.schema import Config
from antiphon.config.yaml_text import parse_override, parse_yaml
from antiphon.errors import ConfigError

__all__ = ["read_config", "recipe_names", "recipe_text", "usable_part"]


def read_config(name: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a file or recipe, with overrides; ConfigError with everything that is wrong."""
    data, problems = read_values(name, overrides)
    if data is None:
        raise ConfigError(problems)
    problems += value_problems(data)
    if problems:
        raise ConfigError(problems)
    config = Config.model_validate(data)
    if problems := check_config(config):
        raise ConfigError(problems)
    return config


def usable_part(name: str | Path, overrides: Sequence[str] = ()) -> Config | None:
    """The data section with defaults for everything else, when that section is right though others are not."""
    data, _ = read_values(name, overrides)
    if not isinstance(data, dict):
        return None
    model = data.get("model")
    kind = model.get("kind") if isinstance(model, dict) else None
    text = {"model": {"kind": kind}} if kind == "language-model" else {}  # it has other defaults
    try:
        return Config.model_validate({"data": data.get("data"), **text})
    except ValidationError:
        return None


def recipe_names() -> list[str]:
    """The shipped recipes."""
    files = importlib.resources.files("antiphon").joinpath("recipes").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def recipe_text(name: str) -> str:
    """The text of a shipped recipe."""
    if name not in recipe_names():
        close = nearest(name, recipe_names())
        hint = f"did you mean '{close}'?" if close else f"the recipes are {', '.join(recipe_names())}"
        raise ConfigError(f"{name}: no such recipe; {hint}")
    return importlib.resources.files("antiphon").joinpath("recipes", f"{name}.yaml").read_text(encoding="utf-8")


def read_values(name: str | Path, overrides: Sequence[str]) -> tuple[Any, list[str]]:
    """What stands in the file with the overrides put in (None: nothing does), and what is wrong with it as YAML."""
    data, problems = parse_yaml(config_text(name), str(name))
    if data is None:
        empty = f"{name}: holds no configuration; `antiphon init DATA` writes one"
        return None, problems or [empty]
    for override in overrides:
        problems += put(data, override)
    return data, problems


def config_text(name: str | Path) -> str:
    """The text of a file; a recipe's name works where there is no such file."""
    path = Path(name)
    if not path.is_file() and str(name) in recipe_names():
        return recipe_text(str(name))
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        raise ConfigError(f"{name}, line {line}: not UTF-8 (byte 0x{byte:02X}); save the file as UTF-8") from None
    except FileNotFoundError:
        raise ConfigError(missing(path)) from None
    except IsADirectoryError:
        inside = path / "config.yaml"
        hint = f"did you mean {inside}?" if inside.is_file() else "give a YAML file or a recipe's name"
        raise ConfigError(f"{name}: a folder, not a configuration; {hint}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{name}: cannot be read ({reason}); give a readable YAML file") from None


def missing(path: Path) -> str:
    """The sentence for a file that is not there."""
    folder = path.parent if path.parent.is_dir() else Path()
    try:
        files = [file.name for file in folder.iterdir() if file.suffix in (".yaml", ".yml")]
    except OSError:
        files = []
    close = nearest(path.name, [*files, *recipe_names()])
    if close:
        return f"{path}: no such file or recipe; did you mean '{folder / close if close in files else close}'?"
    recipes = ", ".join(recipe_names())
    return f"{path}: no such file or recipe; `antiphon init DATA` writes one, and the recipes are {recipes}"


def put(data: Any, override: str) -> list[str]:  # noqa: ANN401 (whatever stood in the file)
    """Put `a.b=c` into the values; keys are checked later with all others."""
    path, equals, text = override.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        return [f"'{override}': not of the form section.key=value; write for example training.epochs=5"]
    value, problems = parse_override(text)
    if problems:
        return [f"{path}: {text!r} is not YAML; put quotes round text with special characters: {path}='\"...\"'"]
    for key in keys[:-1]:
        data = inside(data, key)
    if not isinstance(data, dict):
        return [f"{path}: there are no keys inside '{path.rpartition('.')[0]}'; write for example training.epochs=5"]
    data[keys[-1]] = value
    return []


def inside(data: Any, key: str) -> Any:  # noqa: ANN401
    """The section of this name, made if it is not there; `source[1]` is one of a list. None: there is no such."""
    name, bracket, number = key.partition("[")
    if not isinstance(data, dict):
        return None
    if not bracket:
        if data.get(name) is None:
            data[name] = {}
        return data[name]
    items, place = data.get(name), number.removesuffix("]")
    there = isinstance(items, list) and place.isdecimal() and int(place) < len(items)
    return items[int(place)] if isinstance(items, list) and there else None
