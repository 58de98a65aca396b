"""Whose run a folder holds: every reason not to train in it, with the way out."""

from __future__ import annotations

from antiphon.config.schema import Config, DataConfig
from antiphon.config.write import config_diff
from antiphon.errors import ModelFolderError, RunError
from antiphon.folder import SOURCE_TOKENIZER, TARGET_TOKENIZER, read_folder_config
from antiphon.sources.corpus import Prepared
from antiphon.sources.readers import load_source
from antiphon.sources.source import Source
from antiphon.sources.tokens import load_tokenizer
from antiphon.training.run_folder import FILES, RunFolder

__all__ = ["refuse_foreign", "refuse_other_config", "refuse_other_data", "says_the_same"]

REMEDY = "train into another folder with --out, or start over here with --fresh"


def says_the_same(folder: RunFolder, config: Config) -> bool:
    """There is a config.yaml, and it means this configuration."""
    try:
        return not config_diff(read_folder_config(folder.path), config)
    except ModelFolderError:
        return False


def refuse_foreign(folder: RunFolder, config: Config) -> None:
    """What others wrote is neither overwritten nor deleted; a config.yaml fresh from `antiphon init` is no obstacle."""
    there = [path for path in (folder.checkpoints, *(folder.path / name for name in FILES)) if path.exists()]
    if folder.config in there and says_the_same(folder, config):
        there.remove(folder.config)
    if there and not folder.is_ours:
        names = ", ".join(path.name for path in there)
        raise RunError(f"{folder.path}: has {names} but is not a run of Antiphon; choose another --out")


def refuse_other_config(folder: RunFolder, config: Config) -> None:
    """A run goes on only with the configuration it began with."""
    if not folder.config.exists():
        if folder.checkpoints.exists():
            raise RunError(f"{folder.path}: has checkpoints, but no config.yaml to say of which run; {REMEDY}")
        return
    try:
        differences = config_diff(read_folder_config(folder.path), config)
    except ModelFolderError as error:
        raise RunError([*error.problems, f"put the config.yaml of the run back, {REMEDY}"]) from error
    if differences:
        there = f"{folder.path}: holds a run of another configuration:"
        raise RunError([there, *(f"  {line}" for line in differences), REMEDY])


def refuse_other_data(folder: RunFolder, data: DataConfig, prepared: Prepared) -> None:
    """A run that stands in the middle cannot go on with other data or other tokens."""
    changed = folder.changed_data(prepared.facts)
    if changed:
        facts = [f"{path}: has changed since the run in {folder.path} began with it" for path in changed]
        raise RunError([*facts, f"put the old data back, {REMEDY}"])
    sides: tuple[tuple[str, Source], ...] = (
        (SOURCE_TOKENIZER, prepared.source),
        (TARGET_TOKENIZER, prepared.target_tokenizer),
    )
    for name, tokenizer in sides:
        path = folder.path / name
        try:
            before = load_source(path, data) if name == SOURCE_TOKENIZER else load_tokenizer(path)
        except ModelFolderError:
            continue  # lost or damaged: nothing to compare with, and it will be written again
        if before.fingerprint != tokenizer.fingerprint:
            raise RunError(
                f"{path}: the data now gives other tokens than the run began with, so its weights would mean others; "
                f"go on with the versions named in environment.json, {REMEDY}"
            )
