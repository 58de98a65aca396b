"""Parts of a network that begin with the weights of another run, and parts that stay as they are.

Only a fresh start reads the other run: a run that goes on, and a model in use, have their own weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from antiphon.config.networks import (
    BahdanauConfig,
    ConcatenatedConfig,
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    LanguageModelConfig,
    LuongConfig,
    ModelConfig,
    StaticContextConfig,
)
from antiphon.config.schema import Config
from antiphon.config.yaml_text import write_value
from antiphon.data.source import Source
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import ConfigError, ModelFolderError, UserError
from antiphon.model_folder import LoadedModel, fresh_model, load_model
from antiphon.models.model import EncoderDecoder, SequenceModel

__all__ = [
    "Name",
    "check_transfer",
    "config_mismatches",
    "freeze_parts",
    "matching_tensor",
    "missing_runs",
    "part_config",
    "refuse_transfer_from_self",
    "shape_mismatches",
    "transfer_weights",
    "vocabulary_mismatch",
]

# Whether a part of one network can begin with the weights of another's: what they mean, their names, their shapes.

Name = Literal["encoder", "decoder"]
# What two networks of one kind must have in common for a weight to mean the same in both.
ALIKE = (
    "embedding", "size", "heads", "feedforward", "kernel", "order", "norm", "activation", "positions", "scale",
    "embedding_norm", "residual",
)  # fmt: skip
LISTED = 5
# By what enters a step beside the word: the decoders of which that is true.
BESIDE = {
    "": "luong without input_feeding, or plain with model.context.feed: start",
    "the context": "bahdanau, or plain with model.context.feed: every-step or both",
    "the last attended state": "luong with input_feeding",
}


def part_config(name: Name, model: ModelConfig) -> EncoderConfig | DecoderConfig:
    """A model without an encoder reads with its decoder; of several encoders none can be of another run."""
    return model.encoders[0] if name == "encoder" and isinstance(model, EncoderDecoderConfig) else model.decoder


def config_mismatches(name: Name, here: ModelConfig, there: ModelConfig, run: str) -> list[str]:
    """The keys that keep a part of this network from beginning with that of `run`."""
    mine, other = part_config(name, here), part_config(name, there)
    if _network(mine) != _network(other):
        return [f"model.{name}.from: {run} has a network of kind {_network(other)}; {_to_be(name, mine, other)}"]
    problems = []
    for key in ALIKE:
        left, right = getattr(mine, key, False), getattr(other, key, False)  # a decoder never has residuals
        if left != right:
            value = write_value(right)
            problems.append(f"model.{name}.{key}: {write_value(left)}, but {run} has {value}; set it to {value}")
    lengths = [getattr(section, "ngrams", []) for section in (mine, other)]  # without any, fresh tables add nothing
    if all(lengths) and lengths[0] != lengths[1]:
        value = write_value(lengths[1])
        problems.append(f"model.{name}.ngrams: {write_value(lengths[0])}, but {run} has {value}; set it to {value}")
    left, right = _beside(here), _beside(there)
    if name == "decoder" and left != right:
        problems.append(
            f"model.decoder.from: a step in {run} takes in the word{right and f' and {right}'}, here the "
            f"word{left and f' and {left}'}; {_fed_so(here, right)}"
        )
    return problems


def vocabulary_mismatch(
    side: Literal["source", "target"], key: str, *, here: Tokenizer, there: Tokenizer, run: str
) -> list[str]:
    """A row of a table is a token: the vocabularies must be the same."""
    if here.fingerprint == there.fingerprint:
        return []
    return [
        f"{key}: {run} has {there.size:,} tokens, the {side} here {here.size:,}, and they are not the same ones; "
        f"set data.{side}.tokenizer to {run}"
    ]


def matching_tensor(tensor: str, here: ModelConfig, there: ModelConfig) -> str | None:
    """The name in the other network of a tensor of this one; None if it means something else there.

    The forward direction of a recurrent encoder is the network of a language model; the blocks of a Transformer have
    the same names in both.
    """
    if tensor.startswith("decoder.context.") and _looks(here) != _looks(there):
        return None
    if tensor.startswith("decoder.") or isinstance(there, EncoderDecoderConfig):
        return tensor
    if tensor.startswith("source."):
        return tensor if isinstance(there, ConcatenatedConfig) else tensor.replace("source.", "decoder.", 1)
    if layer := re.fullmatch(r"encoder\.layers\.(\d+)\.directions\.0\.network\.(\w+)_l0", tensor):
        return f"decoder.stack.network.{layer[2]}_l{layer[1]}"
    return tensor.replace("encoder.", "decoder.", 1)


def shape_mismatches(name: Name, shapes: dict[str, tuple[Tensor, Tensor]], there: ModelConfig, run: str) -> list[str]:
    """A sentence for each tensor (here, there) whose shape is another there; a few are enough."""
    different = [one for one, (mine, other) in shapes.items() if mine.shape != other.shape]
    return [
        f"model.{name}.from: {one} is {list(shapes[one][1].shape)} in {run} and {list(shapes[one][0].shape)} here; "
        f"{_remedy(name, one, shapes[one][1], there, run)}"
        for one in different[:LISTED]
    ]


def _remedy(name: Name, tensor: str, other: Tensor, there: ModelConfig, run: str) -> str:
    if ".positions." in tensor:
        return f"set model.{name}.longest to {other.size(0)}"
    if tensor.startswith("encoder.layers."):
        both = write_value(getattr(part_config(name, there), "bidirectional", False))
        return f"set model.encoder.bidirectional to {both}, or model.encoder.layers to 1"
    if tensor.startswith("decoder."):
        return f"it depends on model.encoder and model.context: make them as in {run}/config.yaml"
    if tensor.startswith("source."):
        return f"make data.source, model.front and model.{name} as in {run}/config.yaml"
    return f"make model.{name} as in {run}/config.yaml"


def _network(part: EncoderConfig | DecoderConfig) -> str:
    """lstm, gru, rnn, rnn-relu, cnn or transformer"""
    return str(getattr(part, "cell", part.kind))


def _to_be(name: Name, mine: EncoderConfig | DecoderConfig, other: EncoderConfig | DecoderConfig) -> str:
    """Which key makes this network one of that kind."""
    kind = _network(other)
    if name == "encoder":
        return f"set model.encoder.kind to {kind} (it is {mine.kind})"
    if kind == "transformer":
        return f"set model.decoder.kind to transformer (it is {mine.kind})"
    if mine.kind == "transformer":
        return f"set model.decoder.kind (it is transformer) to a recurrent one with cell {kind}"
    return f"set model.decoder.cell to {kind} (it is {_network(mine)})"


def _fed_so(model: ModelConfig, beside: str) -> str:
    """Which decoders take this in beside the word; a model without an encoder has none of them."""
    if beside and not isinstance(model, EncoderDecoderConfig):
        return f"model.kind: {model.kind} has no such step, so this run cannot be used: give another run, or null"
    return f"choose a decoder of that kind: {BESIDE[beside]}"


def _beside(model: ModelConfig) -> str:
    """What enters a recurrent decoder's step beside the word; nothing enters a Transformer's."""
    decoder, context = model.decoder, getattr(model, "context", None)
    fed = isinstance(context, StaticContextConfig) and context.feed != "start"
    if isinstance(decoder, BahdanauConfig) or fed:
        return "the context"
    return "the last attended state" if isinstance(decoder, LuongConfig) and decoder.input_feeding else ""


def _looks(model: ModelConfig) -> tuple[str, str]:
    """What the weights of a context mean."""
    context = getattr(model, "context", None)
    return str(getattr(context, "kind", "")), str(getattr(context, "score", ""))


LABELS = 6  # so many groups of tensors are named


@dataclass(frozen=True)
class Here:
    """A network that has fresh weights so far, and what its tokens are."""

    model: SequenceModel
    config: ModelConfig
    source: Source
    target: Tokenizer

    def tensors_of(self, name: Name) -> dict[str, Tensor]:
        """The source's table of vectors is the encoder's; where there is no encoder, the decoder reads the source."""
        starts = ("source.", "encoder.") if name == "encoder" else ("decoder.",)
        if isinstance(self.config, ConcatenatedConfig):
            starts = ("source.", "decoder.")
        return {key: tensor for key, tensor in self.model.state_dict().items() if key.startswith(starts)}


@dataclass(frozen=True)
class Taken:
    """What one part gets of another run."""

    name: Name
    run: str
    tensors: dict[str, Tensor]  # by their names here
    fresh: list[str]
    left_out: list[str]  # of what the part has there

    def sentence(self) -> str:
        rest = [(self.fresh, "fresh"), (self.left_out, "left out")]
        counts = "".join(f", {len(names)} {word} ({_labels(names)})" for names, word in rest if names)
        return f"model.{self.name}.from: {self.run}: {len(self.tensors)} tensors taken{counts}"


def transfer_weights(
    model: SequenceModel, config: Config, source: Source, target: Tokenizer, say: Callable[[str], None]
) -> None:
    """Weights of other runs for the parts that ask for them; ConfigError with all that does not fit."""
    here = Here(model, config.model, source, target)
    taken: list[Taken] = []
    problems: list[str] = []
    for name, run in _asked(config.model):
        try:
            taken.append(_take(name, run, here))
        except UserError as error:
            problems += error.problems
    tensors = {key: tensor for one in taken for key, tensor in one.tensors.items()}
    problems += _tied_problems(here, tensors)
    if problems:
        raise ConfigError(problems)
    own = model.state_dict()
    for key, tensor in tensors.items():
        own[key].copy_(tensor)
    for sentence in (*(one.sentence() for one in taken), *_frozen_and_fresh(here, tensors)):
        say(sentence)


def check_transfer(config: Config, source: Source, target: Tokenizer) -> None:
    """ConfigError if the parts of other runs do not fit; nothing else happens."""
    if _asked(config.model):
        with torch.random.fork_rng(devices=[]):
            model = fresh_model(config, source, target)
        transfer_weights(model, config, source, target, lambda _: None)


def missing_runs(config: ModelConfig) -> list[str]:
    """Runs to begin with that are not there."""
    return [
        f"model.{name}.from: {run}: no such folder; give a run that has been trained, or null"
        for name, run in _asked(config)
        if not Path(run).is_dir()
    ]


def refuse_transfer_from_self(config: Config, folder: Path) -> None:
    """A run cannot begin with itself: its weights are not there yet, or about to be thrown away."""
    problems = [
        f"model.{name}.from: {run} is the run that is being trained; give another run, or another folder with --out"
        for name, run in _asked(config.model)
        if Path(run).resolve() == folder.resolve()
    ]
    if problems:
        raise ConfigError(problems)


def freeze_parts(model: SequenceModel, config: ModelConfig) -> list[nn.Module]:
    """Takes the gradient from the weights of frozen parts; returns these parts: in training they run as in use."""
    frozen: list[nn.Module] = []
    if isinstance(config, EncoderDecoderConfig) and isinstance(model, EncoderDecoder) and config.encoders[0].freeze:
        frozen += [model.source, model.encoder]
    if config.decoder.freeze:
        frozen.append(model.decoder)
    for part in frozen:
        part.requires_grad_(False)
    return frozen


def _names(config: ModelConfig) -> tuple[Name, ...]:
    return ("encoder", "decoder") if isinstance(config, EncoderDecoderConfig) else ("decoder",)


def _asked(config: ModelConfig) -> list[tuple[Name, str]]:
    """The parts that begin with another run, and that run."""
    runs = [(name, part_config(name, config).from_run) for name in _names(config)]
    return [(name, run) for name, run in runs if run is not None]


def _take(name: Name, run: str, here: Here) -> Taken:
    """All tensors that the part has in common with the one there; each has to have the same shape."""
    there = _load(name, run)
    config, weights = there.config.model, there.model.state_dict()
    problems = [*_other_tokens(name, run, here, there), *config_mismatches(name, here.config, config, run)]
    if problems:
        raise ConfigError(problems)
    own = here.tensors_of(name)
    names = {key: matching_tensor(key, here.config, config) for key in own if _is_meant(key, name, here, there)}
    shared = {key: (own[key], weights[other]) for key, other in names.items() if other in weights}
    if problems := shape_mismatches(name, shared, config, run):
        raise ConfigError(problems)
    starts = ("source.", "encoder.") if name == "encoder" and "encoder" in _names(config) else ("decoder.",)
    used = {names[key] for key in shared}
    return Taken(
        name,
        run,
        tensors={key: other for key, (_, other) in shared.items()},
        fresh=[key for key in own if key not in shared],
        left_out=[key for key in weights if key.startswith(starts) and key not in used],
    )


def _load(name: Name, run: str) -> LoadedModel:
    try:
        with torch.random.fork_rng(devices=[]):  # building it must not change what is drawn here
            return load_model(run)
    except ModelFolderError as error:
        raise ConfigError([f"model.{name}.from: {problem}" for problem in error.problems]) from error


def _other_tokens(name: Name, run: str, here: Here, there: LoadedModel) -> list[str]:
    key = f"model.{name}.from"
    if name == "encoder":
        return _other_source(key, run, here.source, _source_of(there))
    return vocabulary_mismatch("target", key, here=here.target, there=there.target_tokenizer, run=run)


def _other_source(key: str, run: str, here: Source, there: Source) -> list[str]:
    """Texts have to have the same tokens; what else pictures and sounds have to have in common, the shapes say."""
    if isinstance(here, Tokenizer) and isinstance(there, Tokenizer):
        return vocabulary_mismatch("source", key, here=here, there=there, run=run)
    mine, other = ("text" if isinstance(source, Tokenizer) else source.kind for source in (here, there))
    if mine != other:
        return [f"{key}: {run} reads a source of kind {other}, here it is {mine}; give another run, or null"]
    return []


def _source_of(there: LoadedModel) -> Source:
    """What the other network reads: a language model its own text."""
    alone = isinstance(there.config.model, LanguageModelConfig)
    return there.target_tokenizer if alone else there.source


def _is_meant(tensor: str, name: Name, here: Here, there: LoadedModel) -> bool:
    """A single network reads the source with the table of another run only if the tokens are the same."""
    if name == "encoder" or not tensor.startswith("source."):
        return True
    alike = here.source.fingerprint == _source_of(there).fingerprint
    return alike and not isinstance(there.config.model, EncoderDecoderConfig)


def _tied_problems(here: Here, tensors: dict[str, Tensor]) -> list[str]:
    """One table here cannot begin as two."""
    first: dict[int, str] = {}
    problems = []
    for name, parameter in here.model.named_parameters(remove_duplicate=False):
        if name in tensors:
            other = first.setdefault(id(parameter), name)
            if not torch.equal(tensors[name], tensors[other]):
                problems.append(
                    f"model.tie: {here.config.tie} makes {other} and {name} one table, but there they are two; "
                    "set model.tie to none, or begin with a run that is tied in the same way"
                )
    return problems


def _frozen_and_fresh(here: Here, taken: dict[str, Tensor]) -> list[str]:
    """Weights that nobody has learnt and nobody will."""
    sentences = []
    for name in _names(here.config):
        fresh = [key for key in here.tensors_of(name) if key.startswith(f"{name}.") and key not in taken]
        if part_config(name, here.config).freeze and fresh:
            sentences.append(
                f"warning: model.{name}.freeze: {len(fresh)} tensors ({_labels(fresh)}) are of no run and stay as they "
                "are, at random; set it to false so that they learn"
            )
    return sentences


def _labels(names: list[str]) -> str:
    """`context, bridge` for decoder.context.score.W.weight and the like."""
    labels = list(dict.fromkeys(_label(name.split(".")[1:-1]) for name in names))
    return ", ".join(labels[:LABELS]) + (", ..." if len(labels) > LABELS else "")


def _label(path: list[str]) -> str:
    if "cross" in path:
        return "cross-attention"
    return ".".join(path[: {"layers": 4, "blocks": 2}.get(path[0], 1)])
