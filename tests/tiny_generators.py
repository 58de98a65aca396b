"""Models that have learnt nothing but can be asked and drawn, one of each kind; their weights come from a formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tiny_models import fill

from antiphon.config.schema import Config
from antiphon.data.tokenizers import WordTokenizer
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, save_model
from antiphon.models.build import build_model

SOURCE, TARGET = WordTokenizer(list("abcdefgh")), WordTokenizer(list("KLMNO"))
BLOCKS: dict[str, Any] = {"kind": "transformer", "size": 8, "heads": 2, "feedforward": 8, "dropout": 0.0}
GRU: dict[str, Any] = {"kind": "gru", "embedding": 6, "size": 6, "dropout": 0.0}
RECURRENT: dict[str, Any] = {"cell": "gru", "embedding": 6, "size": 8, "dropout": 0.0}
PLAIN: dict[str, Any] = {"kind": "plain", **RECURRENT}
MODELS: dict[str, dict[str, Any]] = {
    "bahdanau": {"encoder": GRU, "decoder": {"kind": "bahdanau", **RECURRENT}},
    "transformer": {"encoder": {**BLOCKS, "layers": 2}, "decoder": {**BLOCKS, "layers": 3}},
    "mixed": {"encoder": {**BLOCKS, "layers": 2}, "decoder": {"kind": "luong", **RECURRENT}},
    "static": {"encoder": GRU, "decoder": PLAIN},
    "convolutions": {
        "encoder": {"kind": "cnn", "embedding": 6, "size": 8, "layers": 2, "positions": "learnt", "dropout": 0.0},
        "decoder": PLAIN,
    },
    "rnn-lm": {"kind": "language-model", "decoder": PLAIN},
    "transformer-lm": {"kind": "language-model", "decoder": {**BLOCKS, "layers": 2}},
    "rnn-concatenated": {"kind": "concatenated", "decoder": PLAIN},
    "transformer-concatenated": {"kind": "concatenated", "decoder": {**BLOCKS, "layers": 2}},
}


def tiny_config(kind: str, **data: Any) -> Config:  # noqa: ANN401 (any key of data)
    """The configuration of a model by its name above."""
    words = {"tokens": "words"} if "window" in data else {"tokens": "words", "max_length": 30}
    sides = {"target": {**words, "column": 1}, "source": {**words, "column": 0}}
    if kind.endswith("-lm"):
        sides = {"target": {**words, "column": 0}}
    return Config.model_validate(
        {
            "data": {"train": "pairs.tsv", **sides, **data},
            "model": {"kind": "encoder-decoder", **MODELS[kind]},
            "decoding": {"beam": 1, "max_length": 200 if "window" in data else 6},
            **({"evaluation": {"metrics": ["loss"]}} if kind.endswith("-lm") else {}),
        }
    )


def tiny_generator(kind: str, **data: Any) -> Generator:  # noqa: ANN401 (any key of data)
    """A model by its name above; a language model's text has the words of the target."""
    config = tiny_config(kind, **data)
    source = TARGET if kind.endswith("-lm") else SOURCE
    model = build_model(config.model, source_tokens=source.size, target_tokens=TARGET.size).eval()
    fill(model, scale=1.1)
    return Generator(LoadedModel(config, model, source, TARGET))


def tiny_folder(kind: str, folder: Path, **data: Any) -> str:  # noqa: ANN401 (any key of data)
    """The same as a model folder on disk."""
    made = tiny_generator(kind, **data)
    save_model(folder, made.config, made.model.state_dict(), made.source_tokenizer, made.target_tokenizer)
    return str(folder)
