"""Arguments of Python callers, checked: runs, configurations, and examples that may be in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from antiphon.config.load import read_config, usable_part
from antiphon.config.schema import Config, DataConfig
from antiphon.config.yaml_text import write_value
from antiphon.data.in_memory import Examples, is_in_memory, kind_problem, store_examples
from antiphon.errors import ConfigError, DataError, UserError, refuse, wrong_item, wrong_type
from antiphon.inference.generator import Generator

__all__ = [
    "AnyConfig", "AnyRun", "file_names", "readable_examples", "usable_config", "whole_config", "wrong_config",
    "wrong_path", "wrong_run", "wrong_texts",
]  # fmt: skip

AnyConfig: TypeAlias = Config | str | Path | Mapping[str, Any]
AnyRun: TypeAlias = Generator | str | Path
IN_MEMORY = "examples.jsonl"  # the name of examples in memory until they are stored


def wrong_run(run: object, name: str = "run") -> str | None:
    return wrong_type(name, run, (Generator, str, Path), "the folder of a run, or what antiphon.load returned")


def wrong_path(name: str, path: object, wanted: str = "the folder of a run") -> str | None:
    return wrong_type(name, path, (str, Path), wanted)


def wrong_texts(name: str, value: object) -> str | None:
    """The sentence for an argument that is not a list of texts; None if it is."""
    if not isinstance(value, list | tuple):
        return wrong_type(name, value, list, "a list of texts (of a Series: .tolist())")
    wrong = (wrong_type(f"{name}[{place}]", text, str, "a text") for place, text in enumerate(value))
    return next((problem for problem in wrong if problem), None)


def wrong_config(config: object, overrides: object) -> list[str | None]:
    """The sentences for a configuration and the keys to change in it."""
    kinds = (Config, str, Path, Mapping)
    return [
        wrong_type("config", config, kinds, "a YAML file, a recipe's name, a dict or a Config"),
        wrong_item("overrides", overrides, str, "a list of texts, such as ['training.epochs=5']"),
    ]


def whole_config(
    config: AnyConfig,
    overrides: Sequence[str] = (),
    data: Examples | None = None,
    dev: Examples | None = None,
    *,
    problems: Sequence[str | None] = (),
) -> Config:
    """The configuration, with the examples in it or beside it as files; UserError with these problems and others."""
    given: dict[str, Any] = {} if data is None else {"train": data, "dev": dev}
    given |= {} if dev is None else {"dev": dev}
    if isinstance(config, Mapping):
        config, inside = _without_examples(config)
        given = inside | given
    kinds = [
        kind_problem(name, value)
        for name, value in (("data", given.get("train")), ("dev", given.get("dev")))
        if value is not None
    ]
    refuse(*problems, *wrong_config(config, overrides), *kinds)
    if not isinstance(config, Config):
        files = {name: IN_MEMORY if is_in_memory(value) else file_names(value) for name, value in given.items()}
        config = read_config(
            config, [*overrides, *(f"data.{name}={write_value(file)}" for name, file in files.items())]
        )
    elif overrides:
        raise UserError(
            "overrides: they change a file, a recipe or a dict, and a Config was given; change the Config itself"
        )
    return config.model_copy(update={"data": _with_examples(config.data, given)}) if given else config


def _without_examples(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """A dict without its examples in memory, and those."""
    section = config.get("data")
    if not isinstance(section, Mapping):
        return config, {}
    inside = {name: section[name] for name in ("train", "dev") if is_in_memory(section.get(name))}
    return {**config, "data": {**section, **dict.fromkeys(inside, IN_MEMORY)}}, inside


def _with_examples(data: DataConfig, given: Mapping[str, Any]) -> DataConfig:
    """The data section with these examples; those in memory are stored."""
    local = _local(data) if any(map(is_in_memory, given.values())) else data
    files = {
        name: store_examples(value, data) if is_in_memory(value) else file_names(value) for name, value in given.items()
    }
    return local.model_copy(update=files)


def _local(data: DataConfig) -> DataConfig:
    """The data section for a table in memory: the paths in it begin in the current folder."""
    folder = {"folder": str(Path.cwd())}
    sources = [
        source if source.kind == "text" or source.folder is not None else source.model_copy(update=folder)
        for source in data.sources
    ]
    return data.model_copy(update={"source": sources if isinstance(data.source, list) else next(iter(sources), None)})


def file_names(files: Any) -> Any:  # noqa: ANN401 (files, or None)
    """The names of one file or two as texts."""
    return list(map(str, files)) if isinstance(files, list | tuple) else None if files is None else str(files)


def readable_examples(data: DataConfig, examples: Examples) -> tuple[str | list[str], DataConfig]:
    """The files of examples, and the data section that reads them."""
    return (store_examples(examples, data), _local(data)) if is_in_memory(examples) else (file_names(examples), data)


def usable_config(config: AnyConfig, overrides: Sequence[str]) -> Config | None:
    """The data section of a broken configuration, if that can be read."""
    inside: dict[str, Any] = {}
    if isinstance(config, Mapping):
        config, inside = _without_examples(config)
    try:
        part = None if isinstance(config, Config) else usable_part(config, overrides)
        return part and part.model_copy(update={"data": _with_examples(part.data, inside)})
    except (ConfigError, DataError):
        return None
