"""Import Marian (OPUS-MT) and BART folders of `transformers` as model folders."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from antiphon.config.checks import data_problems
from antiphon.config.checks_model import model_problems
from antiphon.config.schema import Config
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.huggingface_architecture import (
    Architecture,
    GenerationSettings,
    read_architecture,
    read_generation_settings,
)
from antiphon.export.huggingface_tokenizers import ImportedTokenizer, import_tokenizers
from antiphon.export.huggingface_weights import (
    OUTPUT,
    SOURCE_TABLE,
    TARGET_TABLE,
    convert_weights,
    read_weights,
    reorder_rows,
    unused_weights,
)
from antiphon.files import publish, write_text
from antiphon.model_folder import save_model
from antiphon.models.build import build_model
from antiphon.text import visible

__all__ = ["import_folder"]

DEFAULT_LENGTH = 200  # tokens of an answer, if the folder does not limit it
LISTED = 5  # weights named in a message; the others are counted
TIES = {(True, True): "all", (True, False): "tables", (False, True): "output", (False, False): "none"}
TRAITS = {
    "marian": [
        "Its decoder starts with padding; here it starts with <s>, a copy of padding that is never generated.",
        "`transformers` normalises punctuation if sacremoses is installed; Antiphon reads a text as it is.",
    ],
    "bart": [
        "It was trained on texts that begin with <s>: the tokenizer puts it before every text, and removes it from "
        "answers.",
        "Its decoder starts with </s>; here it starts with <s>, a copy of </s> that is never generated.",
    ],
}
CARD = """\
# {out_name}

A {kind} model of `transformers`, imported by Antiphon from {folder_name}. Its own card says which data it was trained
on and which licence applies. `data.train` in config.yaml is a placeholder for your own pairs.

{notes}

```sh
antiphon generate {out} input.txt     # a line in, a line out
antiphon explain {out} 'a text' --out attention.png
```

To continue its training, write a configuration with the `model` section of config.yaml, `from:` this folder in encoder
and decoder, and `tokenizer:` this folder in `data.source` and `data.target`.
"""


def import_folder(folder: str | Path, out: str | Path, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Read a folder of `transformers` and write a complete model folder, or raise and write nothing."""
    folder, out = Path(folder), Path(out)
    if out.exists():
        raise UserError(f"{out}: already exists; choose another --out, or remove it")
    architecture, settings = read_architecture(folder), read_generation_settings(folder)
    theirs = read_weights(folder, architecture)
    weights = convert_weights(folder, theirs, architecture)
    rows = weights[SOURCE_TABLE].size(0), weights[TARGET_TABLE].size(0)
    source, target = import_tokenizers(folder, architecture, *rows)
    weights = reorder_rows(weights, source, target)
    config = _config(architecture, settings, weights, source, target)
    _check(folder, config, weights)
    notes = [*settings.notes(), *unused_weights(theirs, architecture)]
    with publish(out, otherwise="choose another --out") as temporary:
        save_model(temporary, config, weights, source.tokenizer, target.tokenizer)
        write_text(temporary / "card.md", _card(folder, out, architecture, notes))
    for note in notes:
        say(note)
    return out


def _config(
    architecture: Architecture,
    settings: GenerationSettings,
    weights: dict[str, Tensor],
    source: ImportedTokenizer,
    target: ImportedTokenizer,
) -> Config:
    """The configuration of the imported model. Tables with equal values are tied."""
    left, right = (side.tokenizer.symbols(range(side.tokenizer.size)) for side in (source, target))
    shared = left == right and source.tokenizer.kind == target.tokenizer.kind
    table = weights[TARGET_TABLE]
    tie = TIES[shared and torch.equal(weights[SOURCE_TABLE], table), torch.equal(weights[OUTPUT], table)]
    longest = architecture.max_position_embeddings
    answer = settings.max_length - 1 if settings.max_length else DEFAULT_LENGTH  # theirs counts the start token
    sides: dict[str, Any] = {
        name: {"tokens": side.tokenizer.kind, "column": column, "max_length": longest - 1}
        for name, side, column in (("source", source, 0), ("target", target, 1))
    }
    decoding = {
        "beam": settings.num_beams,
        "length_penalty": max(0.0, settings.length_penalty),
        "max_length": max(1, min(answer, longest)),
    }
    return Config.model_validate(
        {
            "data": {"train": "pairs.tsv", **sides, "shared_vocabulary": shared},
            "model": architecture.model(tie),
            "decoding": decoding,
            "evaluation": {"metrics": ["bleu", "chrf"]},
        }
    )


def _check(folder: Path, config: Config, weights: dict[str, Tensor]) -> None:
    """Raise unless the model that is about to be saved can be loaded."""
    if problems := [*model_problems(config), *data_problems(config.data)]:
        raise ModelFolderError([f"{folder}: {problem}" for problem in problems])
    tokens = {"source_tokens": weights[SOURCE_TABLE].size(0), "target_tokens": weights[TARGET_TABLE].size(0)}
    with torch.device("meta"):
        expected = {name: tensor.shape for name, tensor in build_model(config.model, **tokens).state_dict().items()}
    if wrong := [name for name, shape in expected.items() if weights[name].shape != shape]:
        raise ModelFolderError(
            [
                f"{folder}: {name} is {list(weights[name].shape)}, its config.json needs {list(expected[name])}; "
                "copy the whole folder again"
                for name in wrong[:LISTED]
            ]
        )


def _card(folder: Path, out: Path, architecture: Architecture, notes: list[str]) -> str:
    lines = [*TRAITS[architecture.model_type], *(visible(note, keep=" ") for note in notes)]
    return CARD.format(
        out_name=visible(out.name, keep=" "),
        folder_name=visible(folder.name, keep=" "),
        out=shlex.quote(visible(str(out), keep=" ")),
        kind=architecture.model_type,
        notes="\n".join(f"- {line}" for line in lines),
    )
