"""Read a configuration from a file or a recipe, with overrides such as `training.epochs=5`; all problems at once."""

from __future__ import annotations

import contextlib
import importlib.resources
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from antiphon.config.checks import check_config
from antiphon.config.schema import Config
from antiphon.config.yaml_text import parse_override, parse_yaml, write_value
from antiphon.errors import ConfigError
from antiphon.registry import load_plugins
from antiphon.text import nearest

__all__ = ["MIGRATED", "migrate", "read_config", "recipe_names", "recipe_text", "usable_part"]

# Old spelling of a key -> its spelling now, and the default it had: a default is not moved, since it would turn on what
# is null now, or stand in a section of another kind.
MIGRATED: dict[str, tuple[str, float | str | None]] = {
    "data.source.time_masks": ("data.source.masks.time.count", 0),
    "data.source.time_width": ("data.source.masks.time.width", 20),
    "data.source.mel_masks": ("data.source.masks.mels.count", 0),
    "data.source.mel_width": ("data.source.masks.mels.width", 10),
    "data.source.value_masks": ("data.source.masks.values.count", 0),
    "data.source.value_width": ("data.source.masks.values.width", 2),
    "model.encoder.ngram_rows": ("model.encoder.ngrams.rows", 32768),
    "model.encoder.longest": ("model.encoder.positions.longest", 512),
    "model.decoder.longest": ("model.decoder.positions.longest", 512),
    "model.context.entropy": ("model.context.alignment.entropy", 0.01),
    "model.context.baseline": ("model.context.alignment.baseline", 0.9),
    "training.weight_decay": ("training.optimizer.weight_decay", 0.0),
    "training.momentum": ("training.optimizer.momentum", 0.0),
    "training.warmup": ("training.schedule.warmup", 400),
    "training.plateau_factor": ("training.schedule.factor", 0.5),
    "training.plateau_patience": ("training.schedule.patience", 2),
    "training.diagonal": ("training.guided_attention.weight", 0.0),
    "training.diagonal_width": ("training.guided_attention.width", 0.2),
    "training.noise.span": ("training.noise.infill.span", 3.0),
    "training.sampling": ("training.scheduled_sampling.probability", 0.0),
    "training.sampling_schedule": ("training.scheduled_sampling.schedule", "linear"),
    "training.sampling_updates": ("training.scheduled_sampling.updates", None),
}
SWITCHES = ("count", "weight", "probability")  # where the old default turned something off, the section is null now
KINDS = ("model", "source", "front", "encoder", "context", "decoder", "alignment", "positions", "optimizer", "schedule")
# A value alone instead of a section is the value of this key in it.
SHORTHANDS = {"ngrams": "lengths", "infill": "share", **dict.fromkeys(KINDS, "kind")}


def read_config(name: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, notices: bool = True) -> Config:
    """The configuration in a file, a recipe or a mapping, with overrides; ConfigError with everything that is wrong.

    `notices` are warnings about old spellings of keys.
    """
    data, problems = read_values(name, overrides, notices=notices)
    config = None
    with contextlib.suppress(ValidationError):
        config = None if data is None else Config.model_validate(data, by_name=False)
    if config is None and data is not None:
        config = _with_plugins(data, problems)
    if config is None or problems:
        raise ConfigError(problems)
    if problems := check_config(config):
        raise ConfigError(problems)
    return config


def _with_plugins(data: Any, problems: list[str]) -> Config | None:  # noqa: ANN401 (any YAML value)
    """The configuration once more, since a plugin may know its names; None adds all that is wrong to the problems."""
    plugin_problems = load_plugins()
    try:
        return Config.model_validate(data, by_name=False)
    except ValidationError:
        from antiphon.config.messages import value_problems  # only for a configuration that is wrong

        problems += [*value_problems(data), *plugin_problems]
        return None


def usable_part(name: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Config | None:
    """The data section with defaults for everything else, if that section is valid."""
    data, _ = read_values(name, overrides, notices=False)
    if not isinstance(data, dict):
        return None
    model = data.get("model")
    kind = model.get("kind") if isinstance(model, dict) else None
    text = {"model": kind} if kind == "language-model" else {}  # it has other defaults
    try:
        return Config.model_validate({"data": data.get("data"), **text})
    except ValidationError:
        return None


def recipe_names() -> list[str]:
    """The names of the shipped recipes."""
    files = importlib.resources.files("antiphon").joinpath("recipes").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def recipe_text(name: str) -> str:
    """The text of a shipped recipe."""
    if name not in recipe_names():
        close = nearest(name, recipe_names())
        hint = f"did you mean '{close}'?" if close else f"the recipes are {', '.join(recipe_names())}"
        raise ConfigError(f"{name}: no such recipe; {hint}")
    return importlib.resources.files("antiphon").joinpath("recipes", f"{name}.yaml").read_text(encoding="utf-8")


def read_values(
    name: str | Path | Mapping[str, Any], overrides: Sequence[str], *, notices: bool
) -> tuple[Any, list[str]]:
    """The values of the file or mapping with the overrides (None: the file is empty), and its errors of syntax."""
    problems: list[str] = []
    if isinstance(name, Mapping):
        data = plain_value(name, "the configuration", problems)
    else:
        data, problems = parse_yaml(config_text(name), str(name))
    if data is None:
        return None, problems or [f"{name}: holds no configuration; `antiphon init DATA` writes one"]
    old = migrate(data)
    for override in overrides:
        problems += put(data, override)
        old += migrate(data)
    for notice in dict.fromkeys(old) if notices else []:
        warnings.warn(notice, FutureWarning, stacklevel=3)
    return data, problems


def plain_value(value: object, path: str, problems: list[str]) -> Any:  # noqa: ANN401 (any YAML value)
    """A copy of a value of Python as YAML has it; a sentence is added for each that YAML has not."""
    if isinstance(value, Mapping):
        inside = "" if path == "the configuration" else f"{path}."
        return {str(key): plain_value(inner, f"{inside}{key}", problems) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item, f"{path}[{number}]", problems) for number, item in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if value is not None and not isinstance(value, str | int | float):
        problems.append(f"{path}: a value of type {type(value).__name__}; write a text, a number, a list or a dict")
        return None
    return value


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
    """The sentence for a file that does not exist."""

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


def put(data: Any, override: str) -> list[str]:  # noqa: ANN401 (any YAML value)
    """Set `a.b=c` in the values, which are validated later; the errors of syntax."""
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
    if keys[-1] in KINDS and isinstance(value, str) and isinstance(data.get(keys[-1]), dict):
        data, keys = data[keys[-1]], ["kind"]  # the section keeps its other keys
    data[keys[-1]] = value
    return []


def inside(data: Any, key: str) -> Any:  # noqa: ANN401
    """The section with this name, made if there is none; `source[1]` is an item of a list. None: there is no such."""
    name, bracket, number = key.partition("[")
    if not isinstance(data, dict):
        return None
    value = data.get(name)
    if bracket:
        place = number.removesuffix("]")
        if isinstance(value, list) and place.isdecimal() and int(place) < len(value):
            return value[int(place)]
        return None
    if value is None or (name in SHORTHANDS and not value):
        data[name] = {}
    elif name in SHORTHANDS and not isinstance(value, dict):
        data[name] = {SHORTHANDS[name]: value}
    return data[name]


def migrate(data: Any) -> list[str]:  # noqa: ANN401
    """Replace old spellings of keys in the values; a sentence for each."""
    notices = []
    for old, (new, default) in MIGRATED.items():
        path, _, key = old.rpartition(".")
        for section in sections_at(data, path.split(".")):
            if key in section:
                value = section.pop(key)
                notices.append(f"{old} is now {new}; the old key is still read, but write {new}: {write_value(value)}")
                move(section, new.removeprefix(f"{path}.").split("."), value, default)
    return notices


def sections_at(data: Any, keys: list[str]) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    """Every section at a path; a list on the way stands for all its items."""
    if isinstance(data, list):
        for item in data:
            yield from sections_at(item, keys)
    elif isinstance(data, dict) and keys:
        yield from sections_at(data.get(keys[0]), keys[1:])
    elif isinstance(data, dict):
        yield data


def move(section: dict[str, Any], keys: list[str], value: Any, default: Any) -> None:  # noqa: ANN401
    """Set a key of the sections inside a section; an old default unsets it, or turns its section off."""
    if value == default and keys[-1] in SWITCHES:
        keys, value = keys[:-1], None
    elif value == default:
        for inner in sections_at(section, keys[:-1]):
            inner.pop(keys[-1], None)
        return
    for key in keys[:-1]:
        section = inside(section, key)
    if isinstance(section, dict):
        section[keys[-1]] = value
