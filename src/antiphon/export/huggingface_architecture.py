"""config.json and generation_config.json of Marian and BART folders of `transformers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, ValidationError

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.errors import ModelFolderError

__all__ = ["Architecture", "GenerationSettings", "read_architecture", "read_generation_settings", "read_json"]

# The defaults of MarianConfig and BartConfig that differ; older files leave defaults out.
DEFAULTS: dict[str, dict[str, int]] = {
    "marian": {"pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100},
    "bart": {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2},
}
RELATIVES = ("mbart", "m2m_100", "blenderbot", "blenderbot-small", "pegasus", "plbart")  # pre-norm, or other positions
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
# Search settings that a model folder does not store: their defaults in `transformers`, and the option to use instead.
NOT_STORED: dict[str, tuple[Any, str]] = {
    "min_length": (0, "`antiphon generate` has --min-length"),
    "no_repeat_ngram_size": (0, "`antiphon generate` has --no-repeat"),
    "early_stopping": (False, "true is --patience 1 of `antiphon generate`"),
    "do_sample": (False, "`antiphon generate` has --sample"),
    "repetition_penalty": (1.0, "Antiphon has no such option"),
    "forced_bos_token_id": (None, "a trained model generates that token by itself"),
}

Section = TypeVar("Section", bound=BaseModel)


class Architecture(BaseModel):
    """The keys of config.json that define the network."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model_type: Literal["marian", "bart"]
    d_model: PositiveInt = 1024
    encoder_layers: PositiveInt = 12
    encoder_attention_heads: PositiveInt = 16
    encoder_ffn_dim: PositiveInt = 4096
    decoder_layers: PositiveInt = 12
    decoder_attention_heads: PositiveInt = 16
    decoder_ffn_dim: PositiveInt = 4096
    activation_function: Literal["relu", "gelu", "swish", "silu"] = "gelu"
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    max_position_embeddings: int = Field(1024, ge=2)  # a token and </s>
    scale_embedding: bool = False
    tie_word_embeddings: bool = True
    share_encoder_decoder_embeddings: bool = True
    pad_token_id: int
    eos_token_id: int
    decoder_start_token_id: int

    @property
    def learnt_positions(self) -> bool:
        return self.model_type == "bart"

    def model(self, tie: str) -> EncoderDecoderConfig:
        """The same network as a model section of Antiphon."""
        return EncoderDecoderConfig.model_validate(
            {"encoder": self._side("encoder"), "decoder": self._side("decoder"), "tie": tie}
        )

    def _side(self, side: Literal["encoder", "decoder"]) -> dict[str, Any]:
        """Encoder or decoder. BART has learnt positions and a norm before its first block."""
        positions = {"kind": "learnt", "longest": self.max_position_embeddings}
        learnt = {"positions": positions, "embedding_norm": True}
        return {
            "kind": "transformer",
            "size": self.d_model,
            "layers": getattr(self, f"{side}_layers"),
            "heads": getattr(self, f"{side}_attention_heads"),
            "feedforward": getattr(self, f"{side}_ffn_dim"),
            "order": "post",
            "activation": ACTIVATIONS[self.activation_function],
            "scale": self.scale_embedding,
            "dropout": self.dropout,
            **(learnt if self.learnt_positions else {}),
        }


class GenerationSettings(BaseModel):
    """The search settings of `transformers`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    num_beams: PositiveInt = 1
    length_penalty: FiniteFloat = 1.0
    max_length: PositiveInt | None = None
    unused: dict[str, Any] = {}

    def notes(self) -> list[str]:
        """A sentence for each setting that the model folder cannot store."""
        return [f"{key}: {value} is not kept; {NOT_STORED[key][1]}" for key, value in self.unused.items()]


def read_architecture(folder: Path) -> Architecture:
    """Read config.json. Ids in generation_config.json take precedence, as in `transformers`."""
    path = folder / "config.json"
    if not folder.is_dir():
        raise ModelFolderError(f"{folder}: no such folder; give one that `transformers` has saved")
    content = read_json(path)
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in DEFAULTS:
        relative = ", a relative of BART with other norms or positions" if kind in RELATIVES else ""
        raise ModelFolderError(f"{path}: model_type {kind!r}{relative}; only {' and '.join(DEFAULTS)} can be imported")
    given = {key: value for key, value in content.items() if value is not None}
    ids = {key: value for key, value in _generation(folder).items() if key in DEFAULTS[kind] and value is not None}
    return _validate(Architecture, path, {**DEFAULTS[kind], **given, **ids})


def read_generation_settings(folder: Path) -> GenerationSettings:
    """Read generation_config.json; older folders have its keys in config.json."""
    older, newer = read_json(folder / "config.json"), _generation(folder)
    given = {key: value for key, value in {**older, **newer}.items() if value is not None}
    unused = {key: given[key] for key, (default, _) in NOT_STORED.items() if given.get(key, default) != default}
    path = folder / ("generation_config.json" if newer else "config.json")
    return _validate(GenerationSettings, path, {**given, "unused": unused})


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ModelFolderError(f"{path}: cannot be read ({error.strerror}); copy the whole folder") from error
    except ValueError as error:
        raise ModelFolderError(f"{path}: not JSON ({error}); copy it again") from error
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path}: not a JSON object; copy it again")
    return content


def _generation(folder: Path) -> dict[str, Any]:
    path = folder / "generation_config.json"
    return read_json(path) if path.is_file() else {}


def _validate(kind: type[Section], path: Path, content: dict[str, Any]) -> Section:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        faults = [(".".join(map(str, fault["loc"])), fault["input"], fault["msg"]) for fault in error.errors()]
        problems = [f"{path}: {key}: {value!r} cannot be imported ({message})" for key, value, message in faults]
        raise ModelFolderError(problems) from error
