"""A model that has learnt nothing but answers each source in its own way, for tests of the options of a search."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch
from tiny_generators import GRU, RECURRENT
from tiny_models import fill

from antiphon.config.schema import Config
from antiphon.data.tokenizers import EOS, UNK, CharacterTokenizer, Tokenizer, WordTokenizer
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel
from antiphon.models.build import build_model

LETTERS = "abcdef"
TARGET = WordTokenizer(list("KLMNO"))
TEXTS = [" ".join(random.Random(number).choices(LETTERS, k=1 + number % 7)) for number in range(12)]


@dataclass(frozen=True)
class LogitBias:
    """Values added to the logits and weights of every step: `end` makes </s> more probable, `unknown` <unk>."""

    end: float = 1.0
    unknown: float = 0.0
    shift: float = 0.0


USUAL = LogitBias()


def untrained_model(
    bias: LogitBias = USUAL,
    *,
    longest: int = 12,
    characters: bool = False,
    target: Tokenizer = TARGET,
    beam: int = 4,
) -> LoadedModel:
    """An attending GRU; a source of characters has sentence ends and spaces, too."""
    source: Tokenizer = CharacterTokenizer(f"{LETTERS} .!") if characters else WordTokenizer([*LETTERS, *"ABC.!?"])
    tokens = "characters" if characters else "words"
    config = Config.model_validate(
        {
            "data": {
                "train": "pairs.tsv",
                "source": {"tokens": tokens, "max_length": longest},
                "target": {"tokens": "words", "column": 1},
            },
            "model": {"encoder": GRU, "decoder": {"kind": "bahdanau", **RECURRENT}},
            "decoding": {"beam": beam, "max_length": 10},
        }
    )
    model = build_model(config.model, source_tokens=source.size, target_tokens=target.size).eval()
    fill(model, scale=1.1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += bias.shift
        model.decoder.output.bias[EOS] += bias.end
        model.decoder.output.bias[UNK] += bias.unknown
    return LoadedModel(config, model, source, target)


def untrained_generator(bias: LogitBias = USUAL, *, longest: int = 12, characters: bool = False) -> Generator:
    return Generator(untrained_model(bias, longest=longest, characters=characters))
