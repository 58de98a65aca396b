"""Exports to CTranslate2: the fastest home of a Transformer on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from ctranslate2 import Translator

from antiphon.decoding.engine import ForeignModel
from antiphon.decoding.wording import wording_of
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.ctranslate2_engine import CTranslate2Engine
from antiphon.export.ctranslate2_spec import model_problems, positions_of, transformer_spec
from antiphon.export.folder import ExportFolder
from antiphon.folder import LoadedModel

__all__ = ["load", "write"]

NOTES = [
    "a beam of CTranslate2 stays full until as many answers have ended (patience 1), where that of a run shrinks; "
    "a run does the same with patience 1"
]


def write(loaded: LoadedModel, folder: Path, int8: bool) -> dict[str, Any]:
    """model.bin, config.json and vocabularies, which CTranslate2 also reads without us."""
    if problems := model_problems(loaded.config):
        raise UserError(problems)
    transformer_spec(loaded, int8=int8).save(str(folder))
    return {"positions": positions_of(loaded.config)["decoder"], "int8": int8, "notes": NOTES}


def load(export: ExportFolder) -> ForeignModel:
    """It takes as many threads as torch would, for one batch at a time."""
    positions = export.facts.get("positions")
    if not isinstance(positions, int):
        raise ModelFolderError(f"{export.path}: export.json lacks the number of positions; export the model again")
    try:
        translator = Translator(str(export.path), inter_threads=1, intra_threads=torch.get_num_threads())
    except (RuntimeError, ValueError) as error:
        fact = str(error).strip().split("\n")[0]
        raise ModelFolderError(
            f"{export.path}: CTranslate2 cannot read it ({fact}); update ctranslate2, or export the model again"
        ) from error
    wording = wording_of(export.config, export.source, export.target)
    engine = CTranslate2Engine(translator, wording, tokens=(export.source.size, export.target.size), longest=positions)
    return ForeignModel(export.config, engine, export.source, export.target)
