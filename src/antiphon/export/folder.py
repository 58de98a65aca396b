"""The folder of an exported model: config.yaml, both tokenizers, the engine's own files, and export.json over them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.config.models import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.config.write import explained_yaml
from antiphon.errors import ModelFolderError
from antiphon.files import sha256, to_json, write_text
from antiphon.folder import CONFIG, read_folder_config
from antiphon.sources.given import SOURCE_TOKENIZER, TARGET_TOKENIZER
from antiphon.sources.tokens import Tokenizer, load_tokenizer

__all__ = ["EXPORT", "ExportFolder", "close_export", "engine_of", "read_export"]

FORMAT = 1
EXPORT = "export.json"


@dataclass(frozen=True)
class ExportFolder:
    """What every export has, whatever its engine."""

    path: Path
    engine: str
    config: Config
    source: Tokenizer
    target: Tokenizer
    facts: dict[str, Any]  # what this engine's loader wants to know


def engine_of(folder: Path) -> str | None:
    """The engine an export was made for; None: the folder is no export."""
    return str(_manifest(folder)["engine"]) if (folder / EXPORT).is_file() else None


def close_export(
    folder: Path, engine: str, config: Config, source: Tokenizer, target: Tokenizer, facts: dict[str, Any]
) -> None:
    """Adds to the engine's files what every export has; export.json, written last, has a checksum of each file."""
    write_text(folder / CONFIG, explained_yaml(_without_spelling(config)))
    write_text(folder / SOURCE_TOKENIZER, source.json() + "\n")
    write_text(folder / TARGET_TOKENIZER, target.json() + "\n")
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): sha256(path) for path in paths}
    write_text(folder / EXPORT, to_json({"format": FORMAT, "engine": engine, "facts": facts, "files": files}))


def _without_spelling(config: Config) -> Config:
    """What an encoder spells with is for training, and in no export."""
    if not isinstance(config.model, EncoderDecoderConfig):
        return config
    return config.model_copy(update={"model": config.model.model_copy(update={"ctc": 0.0})})


def read_export(folder: Path) -> ExportFolder:
    """Reads it, after checking that it is whole."""
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
        if not isinstance(files, dict) or not isinstance(manifest["facts"], dict) or "engine" not in manifest:
            raise TypeError("not the table of an export")
        if any(Path(name).is_absolute() or ".." in Path(name).parts for name in files):
            raise TypeError("not the table of an export")
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFolderError(f"{path}: damaged; export the model again") from error
    if version != FORMAT:
        raise ModelFolderError(f"{path}: format {version!r}, this version reads {FORMAT}; update antiphon")
    return dict(manifest)
