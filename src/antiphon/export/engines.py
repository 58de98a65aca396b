"""Where a model can be exported to: the one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from antiphon.config.models import EncoderDecoderConfig
from antiphon.decoding.engine import ForeignModel
from antiphon.errors import MissingExtraError, ModelFolderError, UserError
from antiphon.export.folder import close_export, engine_of, read_export
from antiphon.files import publish
from antiphon.folder import LoadedModel, load_model
from antiphon.sources.joint import load_joint
from antiphon.sources.readers import one_text

__all__ = ["TARGETS", "Target", "export_model", "load_any"]


@dataclass(frozen=True)
class Target:
    """An engine: a module of this package with `write(loaded, folder, int8) → facts` and `load(export)`.

    `write` puts the engine's files into an empty folder, or raises UserError with the reason why it cannot. `load`
    takes an ExportFolder and returns a LoadedModel or a ForeignModel.
    """

    module: str
    needs: tuple[str, ...]  # packages
    extra: str  # of antiphon, which installs them; "" where nothing is needed
    int8: bool  # can hold weights of 8 bits


TARGETS = {
    "ctranslate2": Target("antiphon.export.ctranslate2", ("ctranslate2",), "fast", int8=True),
    "onnx": Target("antiphon.export.onnx", ("onnx", "onnxruntime"), "onnx", int8=False),
    "huggingface": Target("antiphon.export.huggingface", (), "", int8=False),
}


def export_model(run: str | Path, to: str, out: str | Path, *, int8: bool = False) -> Path:
    """Writes a run for another engine; the folder is whole or not there."""
    if to not in TARGETS:
        raise UserError(f"to: there is no engine {to!r}; choose {', '.join(TARGETS)}")
    target, folder = TARGETS[to], Path(out)
    if int8 and not target.int8:
        can = [name for name, other in TARGETS.items() if other.int8]
        raise UserError(f"int8: an export to {to} has weights of 32 bits only; leave it out, or export to {can[0]}")
    if folder.exists():
        raise UserError(f"{folder}: is there already; choose another --out, or remove it")
    if Path(run).is_dir() and (engine := engine_of(Path(run))):
        raise UserError(f"{run}: an export already, to {engine}; give the run that it was made from")
    loaded = load_model(run)
    if not one_text(loaded.config.data):
        kind = loaded.source.kind
        raise UserError(f"{run}: an export reads one text, and the source here is of kind {kind}; use the run itself")
    if isinstance(loaded.config.model, EncoderDecoderConfig) and loaded.config.model.copying:
        raise UserError(f"{run}: model.copy: an export cannot copy words of its source; use the run itself")
    write: Callable[[LoadedModel, Path, bool], dict[str, Any]] = _module(to).write
    with publish(folder, otherwise="choose another --out") as temporary:
        facts = write(loaded, temporary, int8)
        if loaded.joint is not None:
            loaded.joint.save(temporary)
        close_export(temporary, to, loaded.config, loaded.source_tokenizer, loaded.target_tokenizer, facts)
    return folder


def load_any(folder: str | Path) -> LoadedModel | ForeignModel:
    """A run, a model folder or an export."""
    path = Path(folder)
    engine = engine_of(path) if path.is_dir() else None
    if engine is None:
        return load_model(path)
    if engine not in TARGETS:
        raise ModelFolderError(f"{path}: made for the engine {engine!r}, which this version lacks; update antiphon")
    load: Callable[..., LoadedModel | ForeignModel] = _module(engine).load
    export = read_export(path)
    sizes = {"source_tokens": export.source.size, "target_tokens": export.target.size}
    return replace(load(export), joint=load_joint(path, **sizes))


def _module(engine: str) -> Any:  # noqa: ANN401 (a module)
    target = TARGETS[engine]
    if missing := [package for package in target.needs if find_spec(package) is None]:
        raise MissingExtraError(
            f"{engine}: {', '.join(missing)} not installed; pip install 'antiphon[{target.extra}]' installs them"
        )
    return import_module(target.module)
