"""Export formats, and the files that every export has."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from antiphon.config.networks import EncoderDecoderConfig, TaggerConfig
from antiphon.config.schema import Config
from antiphon.config.yaml_text import explained_yaml
from antiphon.data.affixes import affix_codes
from antiphon.data.build_source import SOURCE_TOKENIZER, TARGET_TOKENIZER, load_tokenizer, one_text
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import MissingExtraError, ModelFolderError, UserError
from antiphon.files import disk_errors, publish, sha256, to_json, write_text
from antiphon.inference.engine import EngineModel, LoadedModel
from antiphon.model_folder import (
    CONFIG,
    EXPORT,
    FORMAT,
    FORMATS,
    load_flag_limits,
    load_model,
    load_rerankers,
    read_folder_config,
    save_registered,
)

__all__ = ["TARGETS", "ExportFolder", "Target", "export_model", "finish_export", "load_export", "read_export"]

# The folder of an exported model: config.yaml, both tokenizers, the engine's own files, and export.json over them.


@dataclass(frozen=True)
class ExportFolder:
    """The parts of an export that do not depend on its engine."""

    path: Path
    engine: str
    config: Config
    source: Tokenizer
    target: Tokenizer
    facts: dict[str, Any]  # for the loader of this engine


def finish_export(
    folder: Path, engine: str, config: Config, source: Tokenizer, target: Tokenizer, facts: dict[str, Any]
) -> None:
    """Add the files that every export has; export.json, written last, has a checksum of each file."""
    write_text(folder / CONFIG, explained_yaml(_without_ctc(config)))
    save_registered(folder, config)
    write_text(folder / SOURCE_TOKENIZER, source.json() + "\n")
    write_text(folder / TARGET_TOKENIZER, target.json() + "\n")
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): sha256(path) for path in paths}
    write_text(folder / EXPORT, to_json({"format": FORMAT, "engine": engine, "facts": facts, "files": files}))


def _without_ctc(config: Config) -> Config:
    """The configuration without the CTC loss, whose output layer is used in training only."""
    if not isinstance(config.model, EncoderDecoderConfig):
        return config
    return config.model_copy(update={"model": config.model.model_copy(update={"ctc": 0.0})})


def read_export(folder: Path) -> ExportFolder:
    """Read the folder of an export, after checking that it is whole."""
    manifest = _manifest(folder)
    files: dict[str, str] = manifest["files"]
    missing = [name for name in files if not (folder / name).is_file()]
    try:
        damaged = [name for name in files if name not in missing and sha256(folder / name) != files[name]]
    except OSError as error:
        raise ModelFolderError(f"{error.filename}: cannot be read ({error.strerror}); check its permissions") from error
    if problems := [
        *(f"{folder / name}: missing; export the model again" for name in missing),
        *(f"{folder / name}: damaged, its checksum is not the one in {EXPORT}; export it again" for name in damaged),
    ]:
        raise ModelFolderError(problems)
    return ExportFolder(
        path=folder,
        engine=manifest["engine"],
        config=read_folder_config(folder),
        source=load_tokenizer(folder / SOURCE_TOKENIZER),
        target=load_tokenizer(folder / TARGET_TOKENIZER),
        facts=manifest["facts"],
    )


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / EXPORT
    try:
        manifest = json.loads(path.read_bytes())
        version, files = manifest["format"], manifest["files"]
        sound = isinstance(files, dict) and isinstance(manifest["facts"], dict) and "engine" in manifest
        if not sound or any(Path(name).is_absolute() or ".." in Path(name).parts for name in files):
            raise TypeError("not the table of an export")
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFolderError(f"{path}: damaged; export the model again") from error
    if version not in FORMATS:
        raise ModelFolderError(f"{path}: format {version!r}, this version reads 1 to {FORMAT}; update antiphon")
    return dict(manifest)


@dataclass(frozen=True)
class Target:
    """An engine: a module of this package with `write(loaded, folder, int8) → facts`, and one with `load(export)`.

    `write` puts the engine's files into an empty folder, or raises UserError with the reason why it cannot. `load`
    takes an ExportFolder and returns a LoadedModel or an EngineModel. A third module, if there is one, writes a model
    with its whole search as one file, for other programs: `write_search(loaded, path)`.
    """

    writer: str
    reader: str
    needs: tuple[str, ...]  # packages
    extra: str  # of antiphon, which installs them; "" where nothing is needed
    int8: bool  # can hold weights of 8 bits
    search_writer: str = ""


TARGETS = {
    "ctranslate2": Target("ctranslate2_write", "ctranslate2_engine", ("ctranslate2",), "fast", int8=True),
    "onnx": Target("onnx_write", "onnx_engine", ("onnx", "onnxruntime"), "onnx", False, "onnx_search"),
    "huggingface": Target("huggingface_write", "huggingface_write", (), "", int8=False),
}


def export_model(run: str | Path, to: str, out: str | Path, *, int8: bool = False, with_search: bool = False) -> Path:
    """Write a run for another engine; the folder, or the file with a search, is whole or not there."""
    if to not in TARGETS:
        raise UserError(f"to: there is no engine {to!r}; choose {', '.join(TARGETS)}")
    target, folder = TARGETS[to], Path(out)
    if int8 and not target.int8:
        can = [name for name, other in TARGETS.items() if other.int8]
        raise UserError(f"int8: an export to {to} has weights of 32 bits only; leave it out, or export to {can[0]}")
    if with_search and not target.search_writer:
        raise UserError(f"with_search: an export to {to} cannot hold the search; leave it out, or export to onnx")
    if folder.exists():
        raise UserError(f"{folder}: already exists; choose another --out, or remove it")
    if (Path(run) / EXPORT).is_file():
        engine = _manifest(Path(run))["engine"]
        raise UserError(f"{run}: an export already, to {engine}; give the run that it was made from")
    loaded = load_model(run)
    if not one_text(loaded.config.data):
        kind = f"the source here is of kind {loaded.source.kind}"
        raise UserError(f"{run}: an export reads one text, and {kind}; use the run itself")
    if isinstance(loaded.config.model, EncoderDecoderConfig) and loaded.config.model.copying:
        raise UserError(f"{run}: model.copy: an export cannot copy words of its source; use the run itself")
    if isinstance(loaded.config.model, TaggerConfig):
        raise UserError(f"{run}: model.kind: an export writes answers token by token, not labels; use the run itself")
    if affix_codes(loaded.source) is not None:
        raise UserError(f"{run}: data.source.affixes: an export cannot read unknown words; use the run itself")
    if with_search:
        with disk_errors(folder, "choose another --out"):
            folder.parent.mkdir(parents=True, exist_ok=True)
        write_search: Callable[[LoadedModel, Path], None] = _module(to, target.search_writer).write_search
        write_search(loaded, folder)
        return folder
    write: Callable[[LoadedModel, Path, bool], dict[str, Any]] = _module(to, target.writer).write
    with publish(folder, otherwise="choose another --out") as temporary:
        facts = write(loaded, temporary, int8)
        for reranker in loaded.rerankers.values():
            reranker.save(temporary)
        loaded.flag_limits.save(temporary)
        finish_export(temporary, to, loaded.config, loaded.source_tokenizer, loaded.target_tokenizer, facts)
    return folder


def load_export(folder: Path) -> LoadedModel | EngineModel:
    """Load an export, after checking that it is whole."""
    engine = _manifest(folder)["engine"]
    if engine not in TARGETS:
        raise ModelFolderError(f"{folder}: made for the engine {engine!r}, which this version lacks; update antiphon")
    load: Callable[..., LoadedModel | EngineModel] = _module(engine, TARGETS[engine].reader).load
    export = read_export(folder)
    rerankers = load_rerankers(folder, export.source, export.target)
    return replace(load(export), rerankers=rerankers, flag_limits=load_flag_limits(folder))


def _module(engine: str, module: str) -> Any:  # noqa: ANN401 (a module)
    target = TARGETS[engine]
    if missing := [package for package in target.needs if find_spec(package) is None]:
        raise MissingExtraError(
            f"{engine}: {', '.join(missing)} not installed; pip install 'antiphon[{target.extra}]' installs them"
        )
    return import_module(f"antiphon.export.{module}")
