"""Transfer learning: parts of a network that begin with the weights of another run, and parts that are frozen.

Only the start of a run reads the other run: a resumed run and a model in use have their own weights.
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
    LabelsConfig,
    LanguageModelConfig,
    LuongConfig,
    ModelConfig,
    StaticContextConfig,
    TaggerConfig,
)
from antiphon.config.schema import Config
from antiphon.config.yaml_text import write_value
from antiphon.data.source import Source
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import ConfigError, ModelFolderError, UserError
from antiphon.model_folder import LoadedModel, fresh_model, load_model
from antiphon.models.model import EncoderDecoder, SequenceModel

__all__ = ["check_transfer", "freeze_parts", "missing_runs", "refuse_transfer_from_self", "transfer_weights"]

PartName = Literal["encoder", "decoder"]
PartConfig = EncoderConfig | DecoderConfig | LabelsConfig
# Keys that must be equal in two networks of one kind for their weights to mean the same.
SHARED_KEYS = (
    "embedding", "size", "heads", "feedforward", "kernel", "order", "norm", "activation", "positions", "scale",
    "embedding_norm", "residual",
)  # fmt: skip
WITH_ENCODER = (EncoderDecoderConfig, TaggerConfig)
LISTED_TENSORS, LISTED_LABELS = 5, 6
# The decoders by what a step reads beside the previous token.
DECODERS_BY_INPUT = {
    "": "luong without input_feeding, or plain with model.context.feed: start",
    "the context": "bahdanau, or plain with model.context.feed: every-step or both",
    "the last attended state": "luong with input_feeding",
}


@dataclass(frozen=True)
class NewNetwork:
    """A network with fresh weights, and its vocabularies."""

    model: SequenceModel
    config: ModelConfig
    source: Source
    target: Tokenizer

    def tensors_of(self, part: PartName) -> dict[str, Tensor]:
        """The tensors of a part. The source embedding belongs to the encoder, or to the decoder if it reads alone."""
        prefixes = ("source.", "encoder.") if part == "encoder" else ("decoder.",)
        if isinstance(self.config, ConcatenatedConfig):
            prefixes = ("source.", "decoder.")
        return {name: tensor for name, tensor in self.model.state_dict().items() if name.startswith(prefixes)}


@dataclass(frozen=True)
class TransferredPart:
    """The tensors that a part gets from another run."""

    part: PartName
    run: str
    tensors: dict[str, Tensor]  # by their names in the new network
    new: list[str]
    unused: list[str]  # of the part in the other run

    def summary(self) -> str:
        rest = [(self.new, "new"), (self.unused, "unused")]
        counts = "".join(f", {len(names)} {word} ({_labels(names)})" for names, word in rest if names)
        return f"model.{self.part}.from: {self.run}: {len(self.tensors)} tensors copied{counts}"


def transfer_weights(
    model: SequenceModel, config: Config, source: Source, target: Tokenizer, log: Callable[[str], None]
) -> None:
    """Copy weights of other runs into the configured parts; ConfigError with everything that does not fit."""
    network = NewNetwork(model, config.model, source, target)
    parts: list[TransferredPart] = []
    problems: list[str] = []
    for part, run in _requested_runs(config.model):
        try:
            parts.append(_transferred_part(part, run, network))
        except UserError as error:
            problems += error.problems
    tensors = {name: tensor for transferred in parts for name, tensor in transferred.tensors.items()}
    problems += _tying_problems(network, tensors)
    if problems:
        raise ConfigError(problems)
    weights = model.state_dict()
    for name, tensor in tensors.items():
        weights[name].copy_(tensor)
    for sentence in (*(transferred.summary() for transferred in parts), *_frozen_random_weights(network, tensors)):
        log(sentence)


def check_transfer(config: Config, source: Source, target: Tokenizer) -> None:
    """Raise ConfigError if weights of other runs do not fit; nothing else happens."""
    if _requested_runs(config.model):
        with torch.random.fork_rng(devices=[]):
            model = fresh_model(config, source, target)
        transfer_weights(model, config, source, target, lambda _: None)


def missing_runs(config: ModelConfig) -> list[str]:
    """A problem for each run to begin with that does not exist."""
    return [
        f"model.{part}.from: {run}: no such folder; give a run that has been trained, or null"
        for part, run in _requested_runs(config)
        if not Path(run).is_dir()
    ]


def refuse_transfer_from_self(config: Config, folder: Path) -> None:
    """Raise ConfigError if a run is to begin with itself: its weights do not exist yet, or are about to be deleted."""
    problems = [
        f"model.{part}.from: {run} is the run that is being trained; give another run, or another folder with --out"
        for part, run in _requested_runs(config.model)
        if Path(run).resolve() == folder.resolve()
    ]
    if problems:
        raise ConfigError(problems)


def freeze_parts(model: SequenceModel, config: ModelConfig) -> list[nn.Module]:
    """Switch off the gradients of frozen parts; return these parts, which stay in evaluation mode."""
    frozen: list[nn.Module] = []
    if isinstance(config, WITH_ENCODER) and isinstance(model, EncoderDecoder) and config.encoders[0].freeze:
        frozen += [model.source, model.encoder]
    if config.decoder.freeze:
        frozen.append(model.decoder)
    for part in frozen:
        part.requires_grad_(False)
    return frozen


def _parts(config: ModelConfig) -> tuple[PartName, ...]:
    return ("encoder", "decoder") if isinstance(config, WITH_ENCODER) else ("decoder",)


def _part_config(part: PartName, model: ModelConfig) -> PartConfig:
    """The section of a part. A model without an encoder reads with its decoder; several encoders cannot transfer."""
    return model.encoders[0] if part == "encoder" and isinstance(model, WITH_ENCODER) else model.decoder


def _requested_runs(config: ModelConfig) -> list[tuple[PartName, str]]:
    """The parts that begin with another run, and that run."""
    runs = [(part, _part_config(part, config).from_run) for part in _parts(config)]
    return [(part, run) for part, run in runs if run is not None]


def _transferred_part(part: PartName, run: str, network: NewNetwork) -> TransferredPart:
    """All tensors that a part has in common with that of another run; ConfigError unless all shapes are equal."""
    other = _load(part, run)
    config, weights = other.config.model, other.model.state_dict()
    problems = [*_vocabulary_problems(part, run, network, other), *_config_problems(part, network.config, config, run)]
    if problems:
        raise ConfigError(problems)
    own = network.tensors_of(part)
    names = {name: _name_in(config, network.config, name) for name in own if _can_copy(name, part, network, other)}
    shared = {name: (own[name], weights[there]) for name, there in names.items() if there in weights}
    if problems := _shape_problems(part, shared, config, run):
        raise ConfigError(problems)
    prefixes = ("source.", "encoder.") if part == "encoder" and "encoder" in _parts(config) else ("decoder.",)
    used = {names[name] for name in shared}
    return TransferredPart(
        part,
        run,
        tensors={name: tensor for name, (_, tensor) in shared.items()},
        new=[name for name in own if name not in shared],
        unused=[name for name in weights if name.startswith(prefixes) and name not in used],
    )


def _load(part: PartName, run: str) -> LoadedModel:
    try:
        with torch.random.fork_rng(devices=[]):  # building it must not change the random numbers of this run
            return load_model(run)
    except ModelFolderError as error:
        raise ConfigError([f"model.{part}.from: {problem}" for problem in error.problems]) from error


def _name_in(other: ModelConfig, config: ModelConfig, tensor: str) -> str | None:
    """The name in the `other` network of a tensor of this one; None if it means something else there.

    The forward direction of a recurrent encoder is the network of a language model; the blocks of a Transformer have
    the same names in both.
    """
    if tensor.startswith("decoder.context.") and _attention(config) != _attention(other):
        return None
    if tensor.startswith("decoder.") or isinstance(other, WITH_ENCODER):
        return tensor
    if tensor.startswith("source."):
        return tensor if isinstance(other, ConcatenatedConfig) else tensor.replace("source.", "decoder.", 1)
    if layer := re.fullmatch(r"encoder\.layers\.(\d+)\.directions\.0\.network\.(\w+)_l0", tensor):
        return f"decoder.stack.network.{layer[2]}_l{layer[1]}"
    return tensor.replace("encoder.", "decoder.", 1)


def _attention(model: ModelConfig) -> tuple[str, str]:
    """The kind and the score of a context, on which the meaning of its weights depends."""
    context = getattr(model, "context", None)
    return str(getattr(context, "kind", "")), str(getattr(context, "score", ""))


def _can_copy(tensor: str, part: PartName, network: NewNetwork, other: LoadedModel) -> bool:
    """False for the source embedding of a single network if the tokens of the other run are different ones."""
    if part == "encoder" or not tensor.startswith("source."):
        return True
    same_tokens = network.source.fingerprint == _source_of(other).fingerprint
    return same_tokens and not isinstance(other.config.model, WITH_ENCODER)


def _source_of(other: LoadedModel) -> Source:
    """The source of a network; a language model reads its own text."""
    alone = isinstance(other.config.model, LanguageModelConfig)
    return other.target_tokenizer if alone else other.source


# Problems: vocabularies, kinds of networks, shapes and tied tables that do not fit.


def _vocabulary_problems(part: PartName, run: str, network: NewNetwork, other: LoadedModel) -> list[str]:
    """A row of an embedding is a token, so vocabularies must be equal; of other sources the shapes decide."""
    key, side = f"model.{part}.from", "source" if part == "encoder" else "target"
    ours: Source = network.source if part == "encoder" else network.target
    theirs = _source_of(other) if part == "encoder" else other.target_tokenizer
    if isinstance(ours, Tokenizer) and isinstance(theirs, Tokenizer):
        if ours.fingerprint == theirs.fingerprint:
            return []
        fact = f"{run} has {theirs.size:,} tokens, the {side} here {ours.size:,}, and the vocabularies differ"
        return [f"{key}: {fact}; set data.{side}.tokenizer to {run}"]
    kind, expected = ("text" if isinstance(source, Tokenizer) else source.kind for source in (theirs, ours))
    if kind == expected:
        return []
    return [f"{key}: {run} reads a source of kind {kind}, here it is {expected}; give another run, or null"]


def _config_problems(part: PartName, config: ModelConfig, other: ModelConfig, run: str) -> list[str]:
    """The keys that keep a part of this network from beginning with that of `run`."""
    ours, theirs = _part_config(part, config), _part_config(part, other)
    if _network(ours) != _network(theirs):
        remedy = _kind_remedy(part, ours, theirs)
        return [f"model.{part}.from: {run} has a network of kind {_network(theirs)}; {remedy}"]
    values = {key: (_choice(ours, key), _choice(theirs, key)) for key in SHARED_KEYS}
    ngrams = [section.lengths for one in (ours, theirs) if (section := getattr(one, "ngrams", None))]
    if len(ngrams) == 2:  # if only one has them, the tables are new or unused
        values["ngrams"] = (ngrams[0], ngrams[1])
    problems = [
        f"model.{part}.{key}: {write_value(left)}, but {run} has {write_value(right)}; set it to {write_value(right)}"
        for key, (left, right) in values.items()
        if left != right
    ]
    left, right = _step_input(config), _step_input(other)
    if part == "decoder" and left != right:
        problems.append(
            f"model.decoder.from: a step in {run} reads the last token{right and f' and {right}'}, here the last "
            f"token{left and f' and {left}'}; {_input_remedy(config, right)}"
        )
    return problems


def _choice(part: PartConfig, key: str) -> object:
    """The value of a key, or the kind of a section; False where there is no such key, as a decoder has no residuals."""
    value = getattr(part, key, False)
    return getattr(value, "kind", value)


def _network(part: PartConfig) -> str:
    """lstm, gru, rnn, rnn-relu, cnn or transformer"""
    return str(getattr(part, "cell", part.kind))


def _kind_remedy(part: PartName, ours: PartConfig, theirs: PartConfig) -> str:
    kind = _network(theirs)
    if part == "encoder":
        return f"set model.encoder.kind to {kind} (it is {ours.kind})"
    if kind == "transformer":
        return f"set model.decoder.kind to transformer (it is {ours.kind})"
    if ours.kind == "transformer":
        return f"set model.decoder.kind (it is transformer) to a recurrent one with cell {kind}"
    return f"set model.decoder.cell to {kind} (it is {_network(ours)})"


def _step_input(model: ModelConfig) -> str:
    """The input of a recurrent decoder's step beside the last token; empty for a Transformer."""
    decoder, context = model.decoder, getattr(model, "context", None)
    fed = isinstance(context, StaticContextConfig) and context.feed != "start"
    if isinstance(decoder, BahdanauConfig) or fed:
        return "the context"
    return "the last attended state" if isinstance(decoder, LuongConfig) and decoder.input_feeding else ""


def _input_remedy(model: ModelConfig, step_input: str) -> str:
    if step_input and not isinstance(model, EncoderDecoderConfig):
        return f"model.kind: {model.kind} has no such step, so this run cannot be used: give another run, or null"
    return f"choose a decoder of that kind: {DECODERS_BY_INPUT[step_input]}"


def _shape_problems(
    part: PartName, shared: dict[str, tuple[Tensor, Tensor]], other: ModelConfig, run: str
) -> list[str]:
    """A problem for each of the first few tensors (ours, theirs) with different shapes."""
    different = [name for name, (ours, theirs) in shared.items() if ours.shape != theirs.shape]
    return [
        f"model.{part}.from: {name} is {list(shared[name][1].shape)} in {run} and {list(shared[name][0].shape)} here; "
        f"{_shape_remedy(part, name, shared[name][1], other, run)}"
        for name in different[:LISTED_TENSORS]
    ]


def _shape_remedy(part: PartName, name: str, theirs: Tensor, other: ModelConfig, run: str) -> str:
    if ".positions." in name:
        return f"set model.{part}.positions.longest to {theirs.size(0)}"
    if name.startswith("encoder.layers."):
        both = write_value(getattr(_part_config(part, other), "bidirectional", False))
        return f"set model.encoder.bidirectional to {both}, or model.encoder.layers to 1"
    if name.startswith("decoder."):
        return f"it depends on model.encoder and model.context: make them as in {run}/config.yaml"
    if name.startswith("source."):
        return f"make data.source, model.front and model.{part} as in {run}/config.yaml"
    return f"make model.{part} as in {run}/config.yaml"


def _tying_problems(network: NewNetwork, tensors: dict[str, Tensor]) -> list[str]:
    """A problem for each tied table that would begin with two different ones."""
    first: dict[int, str] = {}
    problems = []
    for name, parameter in network.model.named_parameters(remove_duplicate=False):
        if name in tensors:
            other = first.setdefault(id(parameter), name)
            if not torch.equal(tensors[name], tensors[other]):
                problems.append(
                    f"model.tie: {network.config.tie} makes {other} and {name} one table, but there they are two; "
                    "set model.tie to none, or begin with a run that is tied in the same way"
                )
    return problems


def _frozen_random_weights(network: NewNetwork, transferred: dict[str, Tensor]) -> list[str]:
    """Warn of weights that are neither transferred nor trained."""
    sentences = []
    for part in _parts(network.config):
        tensors = network.tensors_of(part)
        random = [name for name in tensors if name.startswith(f"{part}.") and name not in transferred]
        if _part_config(part, network.config).freeze and random:
            sentences.append(
                f"warning: model.{part}.freeze: {len(random)} tensors ({_labels(random)}) come from no run and keep "
                "their random values; set it to false so that they learn"
            )
    return sentences


def _labels(names: list[str]) -> str:
    """`context, bridge` for decoder.context.score.W.weight and the like."""
    labels = list(dict.fromkeys(_label(name.split(".")[1:-1]) for name in names))
    return ", ".join(labels[:LISTED_LABELS]) + (", ..." if len(labels) > LISTED_LABELS else "")


def _label(path: list[str]) -> str:
    if "cross" in path:
        return "cross-attention"
    return ".".join(path[: {"layers": 4, "blocks": 2}.get(path[0], 1)])
