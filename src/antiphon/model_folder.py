"""Model folders: saving, loading and checking them, and `open_model`, the one door to every model, trained or exported.

A model folder holds config.yaml, model.safetensors, two tokenizers, and model.json with their checksums.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from antiphon.config.load import read_config
from antiphon.config.networks import AttentionConfig, EncoderDecoderConfig, TaggerConfig
from antiphon.config.schema import Config
from antiphon.config.yaml_text import explained_yaml
from antiphon.data.affixes import affix_codes
from antiphon.data.build_source import SOURCE_TOKENIZER, TARGET_TOKENIZER, load_source, load_tokenizer
from antiphon.data.source import Source
from antiphon.data.tokenizers import Tokenizer, by_symbol
from antiphon.errors import ConfigError, ModelFolderError, UserError, refuse, wrong_choice, wrong_item
from antiphon.files import sha256, to_json, write_bytes, write_text
from antiphon.inference.engine import EngineModel, LoadedModel
from antiphon.inference.ensemble import Combine, ensemble_of
from antiphon.inference.flags import FLAGS, FlagLimits
from antiphon.inference.generator import Generator
from antiphon.inference.options import FLOAT32, HALF_WEIGHTS, Precision
from antiphon.models.build import build_for
from antiphon.models.model import SequenceModel
from antiphon.models.weight_layout import half_is_faster, lay_out_weights
from antiphon.ngrams.joint import JOINT, load_joint
from antiphon.registry import Group, load_plugins, registered, registered_names
from antiphon.search.rerank import Reranker

__all__ = [
    "CONFIG", "EXPORT", "FORMAT", "FORMATS", "MANIFEST", "SOURCE_TOKENIZER", "TARGET_TOKENIZER", "LoadedModel",
    "fresh_model", "is_intact", "load", "load_flag_limits", "load_model", "load_rerankers", "load_weights",
    "open_model", "read_folder_config", "save_config", "save_model", "save_registered", "save_weights",
    "weights_update",
]  # fmt: skip

FORMATS = (1, 2)  # of model folders and exports that can be read; 2: dependent keys of config.yaml are nested
FORMAT = FORMATS[-1]
CONFIG, WEIGHTS, MANIFEST = "config.yaml", "model.safetensors", "model.json"
UPDATES = "updates"  # of the manifest: the update of a training by the checksum of its weights
EXPORT = "export.json"  # instead of MANIFEST where a model was exported
REGISTERED_PARTS = "registered.json"  # the modules of parts from outside the package
NO_HALF = (
    f"precision: torch has no fast products with {HALF_WEIGHTS} on this processor; the weights stay {FLOAT32}, so "
    "leave the precision out"
)
CHECKED = (WEIGHTS, SOURCE_TOKENIZER, TARGET_TOKENIZER)


def open_model(folder: str | Path, precision: Precision | None = None) -> LoadedModel | EngineModel:
    """Load a run, a model folder or an export for use: a network has its weights laid out for products of few rows.

    The precision is that of the weights in these products; None: half precision where this machine is faster with it.
    """
    path = Path(folder)
    if (path / EXPORT).is_file():  # by name: export stands above this module, and a run does not need it
        loaded: LoadedModel | EngineModel = importlib.import_module("antiphon.export.base").load_export(path)
    else:
        loaded = load_model(path)
    if isinstance(loaded, LoadedModel) and loaded.model.engine == "torch":
        half = precision != FLOAT32 and half_is_faster()
        if precision == HALF_WEIGHTS and not half:
            warnings.warn(NO_HALF, UserWarning, stacklevel=2)
        lay_out_weights(loaded.model, half=half)
        return replace(loaded, precision=HALF_WEIGHTS if half else FLOAT32)
    if precision is not None:
        engine = loaded.model.engine if isinstance(loaded, LoadedModel) else loaded.engine.name
        raise UserError(f"precision: {path} is an export to {engine}, whose weights stay as they are; leave it out")
    return loaded


def load(
    run: str | Path | Sequence[str | Path],
    *,
    combine: Combine = "arithmetic",
    check: Callable[[], None] | None = None,
    precision: Precision | None = None,
) -> Generator:
    """Load a trained or exported model; several runs make an ensemble.

    `precision` is that of a run's weights in matrix products; by default they have half precision ("float16-weights")
    where that is faster on this machine, otherwise "float32".

    `check` is called before each step of a search; it may raise an exception, which stops the search.
    """
    refuse(wrong_choice("precision", precision, get_args(Precision)))
    if isinstance(run, str | Path):
        return Generator(open_model(run, precision), check)
    refuse(wrong_item("run", run, (str, Path), "the folder of a run, or a list of folders"))
    if not run:
        raise UserError("run: the list is empty; give at least one run")
    opened = [open_model(folder, precision) for folder in run]
    members = [member for member in opened if isinstance(member, LoadedModel)]
    if len(members) < len(run):
        exports = [folder for folder, member in zip(run, opened, strict=True) if not isinstance(member, LoadedModel)]
        why = "another engine searches in it, so its steps cannot be mixed; use the run it was made from"
        raise UserError([f"{folder}: {why}" for folder in exports])
    return Generator(ensemble_of(members, combine, check), check)


def save_model(
    folder: Path,
    config: Config,
    weights: dict[str, Tensor],
    source: Source,
    target: Tokenizer,
    update: int | None = None,
) -> None:
    """Writes the whole model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    save_config(folder, config)
    sides: tuple[tuple[str, Source], ...] = ((SOURCE_TOKENIZER, source), (TARGET_TOKENIZER, target))
    for name, side in sides:
        write_text(folder / name, side.json() + "\n")
    save_weights(folder, weights, update)


def save_config(folder: Path, config: Config) -> None:
    """Write config.yaml with every key explained, and the names from outside the package that it uses."""
    write_text(folder / CONFIG, explained_yaml(config))
    save_registered(folder, config)


def save_registered(folder: Path, config: Config) -> None:
    """Write the modules of the parts from outside the package, if the model has any."""
    names: dict[Group, list[str]] = {}
    if isinstance(config.model, EncoderDecoderConfig | TaggerConfig):
        names["encoder"] = [encoder.kind for encoder in config.model.encoders]
    if isinstance(config.model, EncoderDecoderConfig):
        names["score"] = [config.model.context.score] if isinstance(config.model.context, AttentionConfig) else []
    names["metric"] = [config.training.metric, *config.evaluation.metrics]
    modules = {
        group: {name: registered(group, name).module for name in sorted({*used} & {*registered_names(group)})}
        for group, used in names.items()
    }
    if any(modules.values()):
        write_text(folder / REGISTERED_PARTS, to_json({group: used for group, used in modules.items() if used}))
    else:
        (folder / REGISTERED_PARTS).unlink(missing_ok=True)


def save_weights(folder: Path, weights: dict[str, Tensor], update: int | None = None) -> None:
    """Replaces the weights. The manifest goes first: it holds the checksums of the old weights and the new.

    So a kill between the two writes leaves a folder that is still whole. `update` is that of a training after which
    these are the weights.
    """
    content = save({name: tensor.detach().clone().contiguous() for name, tensor in weights.items()})
    new = hashlib.sha256(content).hexdigest()
    _write_manifest(folder, _known_weights(folder) | {new: update})
    write_bytes(folder / WEIGHTS, content)
    _write_manifest(folder, {new: update})


def _write_manifest(folder: Path, weights: dict[str, int | None]) -> None:
    tokenizers = {name: [sha256(folder / name)] for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER)}
    updates = {digest: update for digest, update in weights.items() if update is not None}
    files = {WEIGHTS: list(weights), **tokenizers}
    write_text(
        folder / MANIFEST, to_json({"format": FORMAT, "files": files, **({UPDATES: updates} if updates else {})})
    )


def _known_weights(folder: Path) -> dict[str, int | None]:
    """The checksums the weights may have so far; none if the manifest cannot be read: it is being replaced."""
    if not (folder / MANIFEST).is_file():
        return {}
    try:
        manifest = _manifest(folder)
    except ModelFolderError:
        return {}
    written = manifest.get(UPDATES)
    updates = written if isinstance(written, dict) else {}
    return {digest: updates.get(digest) for digest in manifest["files"].get(WEIGHTS, [])}


def weights_update(folder: Path, digest: str) -> int | None:
    """The update of the training after which the weights had this checksum; None if the folder does not say."""
    return _known_weights(folder).get(digest)


def load_model(folder: str | Path) -> LoadedModel:
    """Reads a model folder, after checking that it is whole."""
    path = Path(folder)
    _check(path)
    config = read_folder_config(path)
    source = load_source(path / SOURCE_TOKENIZER, config.data)
    target = load_tokenizer(path / TARGET_TOKENIZER)
    model = fresh_model(config, source, target)
    _fill(model, path)
    rerankers, flag_limits = load_rerankers(path, source, target), load_flag_limits(path)
    return LoadedModel(config, model.eval(), source, target, rerankers, path, flag_limits)


def load_rerankers(folder: Path, source: Source, target: Tokenizer) -> dict[str, Reranker]:
    """The rerankers that a folder has files of, by the name of the option that gives their weight."""
    if not (folder / JOINT).is_file():
        return {}
    return {"joint": load_joint(folder, source_tokens=sum(source.sizes), target_tokens=target.size)}


def load_flag_limits(folder: Path) -> FlagLimits:
    """The limits of flags that the training targets keep; the defaults for a folder without them."""
    path = folder / FLAGS
    if not path.is_file():
        return FlagLimits()
    with _reading(path):
        content = path.read_bytes()
    try:
        return TypeAdapter(FlagLimits).validate_json(content)
    except ValidationError as error:
        raise ModelFolderError(f"{path}: damaged; copy it again, or remove it for the default limits") from error


def fresh_model(config: Config, source: Source, target: Tokenizer) -> SequenceModel:
    """The network of a configuration, with fresh weights."""
    model, sources = config.model, config.data.sources
    copies = isinstance(model, EncoderDecoderConfig) and model.copying
    copied_as = [by_symbol(part, target) for part in source.parts] if copies else None
    affixes = [affix_codes(part) for part in source.parts] if sources else None
    return build_for(model, sources, source.sizes, target_tokens=target.size, copied_as=copied_as, affixes=affixes)


def read_folder_config(folder: Path) -> Config:
    """The config.yaml of a model or run folder; each problem with the name of the file."""
    path = folder / CONFIG
    _check_registered(folder)
    try:
        return read_config(path, notices=False)
    except ConfigError as error:
        problems = [one if one.startswith(str(path)) else f"{path}: {one}" for one in error.problems]
        raise ModelFolderError(problems) from error


def _check_registered(folder: Path) -> None:
    """ModelFolderError if the model has parts from outside the package that are not registered here."""
    path, problems = folder / REGISTERED_PARTS, []
    if not path.is_file():
        return
    with _reading(path):
        content = path.read_bytes()
    try:
        modules = TypeAdapter(dict[Group, dict[str, str]]).validate_json(content)
    except ValidationError as error:
        raise ModelFolderError(f"{path}: damaged; copy the model folder again") from error
    if any(name not in registered_names(group) for group, names in modules.items() for name in names):
        problems = load_plugins()
    missing = [
        f"{folder}: the model uses the {group} '{name}' of the module {module}, which is not registered; import "
        f"{module} first, so that it calls antiphon.register_{group}, or install its package"
        for group, names in modules.items()
        for name, module in names.items()
        if name not in registered_names(group)
    ]
    if missing:
        raise ModelFolderError([*missing, *problems])


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn an OSError into a ModelFolderError."""
    try:
        yield
    except OSError as error:
        fact = f"{error.filename or path}: cannot be read ({error.strerror or error})"
        raise ModelFolderError(f"{fact}; check its permissions") from error


def is_intact(folder: Path) -> bool:
    """Every file of the model is there and has its checksum."""
    try:
        _check(folder)
    except ModelFolderError:
        return False
    return True


def _check(folder: Path) -> None:
    with _reading(folder):
        _check_files(folder)


def _check_files(folder: Path) -> None:
    if folder.is_file():
        raise ModelFolderError(f"{folder}: a file, and a model is a folder; give the run or its export")
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; `antiphon train CONFIG --out {folder}` makes one")
    missing = [name for name in (CONFIG, MANIFEST, *CHECKED) if not (folder / name).is_file()]
    if missing:
        raise ModelFolderError(
            f"{folder}: not a whole model folder, {', '.join(missing)} missing; copy the folder again or train it"
        )
    # Training may replace the weights between our two looks, the manifest and the file: then a second look agrees.
    damaged = _damaged(folder) and _damaged(folder)
    if damaged:
        raise ModelFolderError(
            [f"{folder / name}: damaged, its checksum is not the one in {MANIFEST}; copy it again" for name in damaged]
        )


def _damaged(folder: Path) -> list[str]:
    files = _manifest(folder)["files"]
    return [name for name in CHECKED if sha256(folder / name) not in files.get(name, [])]


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    with _reading(path):
        content = path.read_bytes()
    try:
        manifest = json.loads(content)
        version, files = manifest["format"], manifest["files"]
        if not isinstance(files, dict) or not all(isinstance(digests, list) for digests in files.values()):
            raise TypeError("files is not a table of checksums")
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFolderError(f"{path}: damaged; copy the model folder again") from error
    if version not in FORMATS:
        raise ModelFolderError(f"{path}: format {version!r}, this version reads 1 to {FORMAT}; update antiphon")
    return dict(manifest)


def load_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of a model folder by name."""
    path = folder / WEIGHTS
    try:
        with _reading(path):
            return load_file(path)
    except SafetensorError as error:
        raise ModelFolderError(f"{path}: not a safetensors file ({error}); copy it again") from error


def _fill(model: SequenceModel, folder: Path) -> None:
    """Copies weights into the model; shapes must be those of the config."""
    weights = load_weights(folder)
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if expected != found:
        raise ModelFolderError(_shape_difference(folder / WEIGHTS, expected, found))
    with torch.no_grad():
        model.load_state_dict(weights)


def _shape_difference(path: Path, expected: dict[str, tuple[int, ...]], found: dict[str, tuple[int, ...]]) -> list[str]:
    names = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    return [
        f"{path}: {name} is {list(found.get(name, ())) or 'missing'}, "
        f"config.yaml expects {list(expected.get(name, ())) or 'none'}; use the config the model was trained with"
        for name in names[:5]
    ]
