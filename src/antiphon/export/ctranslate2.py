"""Exports to CTranslate2: the fastest home of a Transformer on a CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from antiphon.decoding.engine import ForeignModel
from antiphon.decoding.reading import wording_of
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.ctranslate2_engine import CTranslate2Engine
from antiphon.export.ctranslate2_spec import model_problems, names, positions_of, transformer_spec
from antiphon.export.folder import ExportFolder
from antiphon.export.translators import Translators
from antiphon.files import write_text
from antiphon.folder import LoadedModel
from antiphon.sources.shortlist import Shortlist

__all__ = ["load", "write"]

VOCABULARY_MAP = "vmap.txt"
NOTES = [
    "a beam of CTranslate2 stays full until as many answers have ended (patience 1), where that of a run shrinks; "
    "a run does the same with patience 1"
]


def write(loaded: LoadedModel, folder: Path, int8: bool) -> dict[str, Any]:
    """model.bin, config.json and vocabularies, which CTranslate2 also reads without us."""
    if problems := model_problems(loaded.config):
        raise UserError(problems)
    transformer_spec(loaded, int8=int8).save(str(folder))
    if loaded.shortlist is not None:
        write_text(folder / VOCABULARY_MAP, vocabulary_map(loaded.shortlist))
    facts = {"positions": positions_of(loaded.config)["decoder"], "int8": int8}
    return {**facts, "shortlist": loaded.shortlist is not None, "notes": NOTES}


def vocabulary_map(shortlist: Shortlist) -> str:
    """A line for each source token, of which the first is empty: what is always there."""
    highest = max(int(tokens.max(initial=0)) for tokens in (shortlist.tokens, shortlist.always))
    source, target = names(len(shortlist.offsets) - 1), names(highest + 1)
    lists = [("", shortlist.always), *((source[token], shortlist.alone(token)) for token in range(len(source)))]
    return "".join(f"{name}\t{' '.join(target[token] for token in tokens)}\n" for name, tokens in lists if len(tokens))


def load(export: ExportFolder) -> ForeignModel:
    """It takes as many threads as torch would."""
    positions = export.facts.get("positions")
    if not isinstance(positions, int):
        raise ModelFolderError(f"{export.path}: export.json lacks the number of positions; export the model again")
    int8 = export.facts.get("int8") is True
    translators = Translators(str(export.path), threads=torch.get_num_threads(), int8=int8)
    wording = wording_of(export.config, export.source, export.target)
    sizes, short = (export.source.size, export.target.size), export.facts.get("shortlist") is True
    engine = CTranslate2Engine(translators, wording, tokens=sizes, longest=positions, shortlist=short)
    return ForeignModel(export.config, engine, export.source, export.target)
