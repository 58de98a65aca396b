"""Marian (OPUS-MT) and BART folders of `transformers` become model folders: to use, to look into, to train on."""
# V vocabulary, H state

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from antiphon.config.checks import data_problems
from antiphon.config.checks_model import model_problems
from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.data.tokenizers import SOS
from antiphon.errors import ModelFolderError, UserError
from antiphon.export.huggingface_architecture import (
    BIAS,
    HEAD,
    HEAD_BIAS,
    OUTPUT,
    SHARED,
    SOURCE_TABLE,
    SOURCE_THERE,
    TARGET_TABLE,
    TARGET_THERE,
    Architecture,
    Generation,
    read_architecture,
    read_generation,
    read_json,
    sines_first,
    to_ours,
    weights_of,
)
from antiphon.export.huggingface_tokenizers import Side, sides_of
from antiphon.files import publish, write_text
from antiphon.model_folder import save_model
from antiphon.models.build import build_model
from antiphon.text import visible

__all__ = ["import_folder"]

WEIGHTS, INDEX, PICKLE = "model.safetensors", "model.safetensors.index.json", "pytorch_model*.bin"
NEVER = -1000.0  # the logit of a token that is only read: its probability is 0, whatever the state
BEFORE = 2  # rows of BART's positions that stand before the first
TIES = {(True, True): "all", (True, False): "tables", (False, True): "output", (False, False): "none"}
LONGEST = 200  # tokens of an answer, where the folder does not say
NAMED = 5  # weights; the others are counted
POSITIONS = {
    f"{side}.positions.table.weight": f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")
}
TRAITS = {
    "marian": [
        "Its decoder starts with padding; here that is <s>, a copy which is never written.",
        "`transformers` tidies punctuation with sacremoses where that is installed; here texts are read as they are.",
    ],
    "bart": [
        "It has read and written only texts that begin with <s>: the tokenizer puts it before every text, and answers "
        "begin with it unseen.",
        "Its decoder starts with </s>; here that is a copy which is never written.",
    ],
}


def import_folder(folder: str | Path, out: str | Path, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Reads a folder of `transformers` and writes a model folder, whole or not at all."""
    there, here = Path(folder), Path(out)
    if here.exists():
        raise UserError(f"{here}: is there already; choose another --out, or remove it")
    facts, generation = read_architecture(there), read_generation(there)
    theirs = _tied(_read_weights(there), facts)
    weights = _named(there, theirs, facts)
    source, target = sides_of(there, facts, weights[SOURCE_TABLE].size(0), weights[TARGET_TABLE].size(0))
    weights = _renumbered(weights, source, target)
    shared = _is_shared(source, target)
    config = _config(facts, generation, facts.model(_tie(weights, shared)), source, target, shared)
    _check(there, config, weights)
    notes = [*generation.notes(), *_left_out(theirs, facts)]
    with publish(here, otherwise="choose another --out") as temporary:
        save_model(temporary, config, weights, source.tokenizer, target.tokenizer)
        write_text(temporary / "card.md", _card(there, here, facts, notes))
    for note in notes:
        say(note)
    return here


def _read_weights(folder: Path) -> dict[str, Tensor]:
    """Of one file or of several with an index, as float32."""
    names = _files(folder)
    if not (folder / names[0]).is_file() and (pickle := next(folder.glob(PICKLE), None)):
        raise ModelFolderError(
            f"{pickle}: a pickle, which can run any code when it is read; where you trust it, "
            f"`AutoModelForSeq2SeqLM.from_pretrained({str(folder)!r}).save_pretrained('OTHER')` of transformers makes "
            f"{WEIGHTS}"
        )
    found: dict[str, Tensor] = {}
    for name in names:
        try:
            found |= load_file(folder / name)
        except (OSError, SafetensorError) as error:
            raise ModelFolderError(f"{folder / name}: cannot be read ({error}); copy the whole folder") from error
    base = any(name.startswith("encoder.layers.") for name in found)  # saved without its output layer
    return {f"model.{name}" if base else name: tensor.float() for name, tensor in found.items()}


def _files(folder: Path) -> list[str]:
    """The names of the files with weights; those of an index lie beside it, wherever it points."""
    if (folder / WEIGHTS).is_file() or not (folder / INDEX).is_file():
        return [WEIGHTS]
    table = read_json(folder / INDEX).get("weight_map")
    names = list(table.values()) if isinstance(table, dict) else []
    if not names or any(not isinstance(name, str) or Path(name).name != name for name in names):
        raise ModelFolderError(f"{folder / INDEX}: its weight_map does not name files beside it; copy it again")
    return sorted(set(names))


def _tied(theirs: dict[str, Tensor], facts: Architecture) -> dict[str, Tensor]:
    """Where they tie tables, a copy that was saved beside them counts for nothing."""
    copies = {HEAD} if facts.tie_word_embeddings else set()
    if facts.tie_word_embeddings and facts.share_encoder_decoder_embeddings and SHARED in theirs:
        copies |= {SOURCE_THERE, TARGET_THERE}
    return {name: tensor for name, tensor in theirs.items() if name not in copies}


def _named(folder: Path, theirs: dict[str, Tensor], facts: Architecture) -> dict[str, Tensor]:
    """Their weights under our names."""
    order = torch.arange(facts.d_model) if facts.learnt_positions else sines_first(facts.d_model)
    try:
        weights = to_ours(theirs, facts.model("none"), order)
        if facts.learnt_positions:
            for ours, other in POSITIONS.items():
                weights[ours] = theirs[other][BEFORE:]
        if len({weights[name].size(0) for name in (TARGET_TABLE, OUTPUT, BIAS)}) > 1:
            raise IndexError("the target's table, the output layer and its bias have unlike numbers of rows")
    except (KeyError, IndexError, RuntimeError) as error:
        raise ModelFolderError(
            f"{folder}: its weights are not those of its config.json ({error}); copy the whole folder again"
        ) from error
    return weights


def _left_out(theirs: dict[str, Tensor], facts: Architecture) -> list[str]:
    """Weights that mean nothing here, such as those of a classifier; sines are not counted, they are a formula."""
    used = {weight.theirs for weight in weights_of(facts.model("none"))}
    used |= {SHARED, HEAD, HEAD_BIAS, SOURCE_THERE, TARGET_THERE, *POSITIONS.values()}
    left = sorted(name for name in theirs if name not in used)
    more = f", and {len(left) - NAMED} more" if len(left) > NAMED else ""
    return [f"left out: {', '.join(left[:NAMED])}{more}"] if left else []


def _renumbered(weights: dict[str, Tensor], source: Side, target: Side) -> dict[str, Tensor]:
    """The rows in the order of our ids. A start that is a copy is read and never written."""
    bias = weights[BIAS][target.rows]
    if target.start_is_copy:
        bias[SOS] = NEVER
    tables = {name: weights[name][target.rows] for name in (TARGET_TABLE, OUTPUT)}
    return {**weights, SOURCE_TABLE: weights[SOURCE_TABLE][source.rows], **tables, BIAS: bias}


def _is_shared(source: Side, target: Side) -> bool:
    """One vocabulary: an id means the same on both sides, though each may cut in its own way."""
    left, right = (side.tokenizer.symbols(range(side.tokenizer.size)) for side in (source, target))
    return left == right and source.tokenizer.kind == target.tokenizer.kind


def _tie(weights: dict[str, Tensor], shared: bool) -> str:
    """Tables that are equal are one."""
    target = weights[TARGET_TABLE]
    return TIES[shared and torch.equal(weights[SOURCE_TABLE], target), torch.equal(weights[OUTPUT], target)]


def _config(
    facts: Architecture, generation: Generation, model: EncoderDecoderConfig, source: Side, target: Side, shared: bool
) -> Config:
    longest = facts.max_position_embeddings
    answer = generation.max_length - 1 if generation.max_length else LONGEST  # theirs counts the start
    sides: dict[str, Any] = {
        name: {"tokens": side.tokenizer.kind, "column": column, "max_length": longest - 1}
        for name, side, column in (("source", source, 0), ("target", target, 1))
    }
    return Config.model_validate(
        {
            "data": {"train": "pairs.tsv", **sides, "shared_vocabulary": shared},
            "model": model,
            "decoding": {
                "beam": generation.num_beams,
                "length_penalty": max(0.0, generation.length_penalty),
                "max_length": max(1, min(answer, longest)),
            },
            "evaluation": {"metrics": ["bleu", "chrf"]},
        }
    )


def _check(folder: Path, config: Config, weights: dict[str, Tensor]) -> None:
    """What is saved can be loaded."""
    tokens = {"source_tokens": weights[SOURCE_TABLE].size(0), "target_tokens": weights[TARGET_TABLE].size(0)}
    if problems := [*model_problems(config), *data_problems(config.data)]:
        raise ModelFolderError([f"{folder}: {problem}" for problem in problems])
    with torch.device("meta"):
        expected = {name: tensor.shape for name, tensor in build_model(config.model, **tokens).state_dict().items()}
    wrong = [name for name, shape in expected.items() if weights[name].shape != shape]
    if wrong:
        raise ModelFolderError(
            [
                f"{folder}: {name} is {list(weights[name].shape)}, its config.json asks for {list(expected[name])}; "
                "copy the whole folder again"
                for name in wrong[:NAMED]
            ]
        )


def _card(there: Path, here: Path, facts: Architecture, notes: list[str]) -> str:
    """What the folder holds and where it came from."""
    name = shlex.quote(visible(str(here), keep=" "))
    return "\n".join(
        [
            f"# {visible(here.name, keep=' ')}",
            "",
            f"A {facts.model_type} model of `transformers`, imported by Antiphon from "
            f"{visible(there.name, keep=' ')}. What it was trained on, and under which licence it may be used, "
            "its own card says. `data.train` in config.yaml is only a place to put your own pairs.",
            "",
            *(f"- {note}" for note in (*TRAITS[facts.model_type], *(visible(note, keep=" ") for note in notes))),
            "",
            "```sh",
            f"antiphon generate {name} input.txt     # a line in, a line out",
            f"antiphon explain {name} 'a text' --out attention.png",
            "```",
            "",
            "To train on: a configuration whose `model` section is that of config.yaml, with `from:` this folder in "
            "encoder and decoder, and `tokenizer:` this folder in `data.source` and `data.target`.",
            "",
        ]
    )
