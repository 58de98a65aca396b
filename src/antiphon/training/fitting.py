"""Whether a part of one network can begin with the weights of another's: what they mean, their names, their shapes."""

from __future__ import annotations

import re
from typing import Literal

from torch import Tensor

from antiphon.config.models import (
    BahdanauConfig,
    ConcatenatedConfig,
    DecoderConfig,
    EncoderConfig,
    EncoderDecoderConfig,
    LuongConfig,
    ModelConfig,
    StaticContextConfig,
)
from antiphon.config.yamltext import write_value
from antiphon.sources.tokens import Tokenizer

__all__ = ["Name", "counterpart", "misfits", "other_tokens", "section_of", "shape_problems"]

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


def section_of(name: Name, model: ModelConfig) -> EncoderConfig | DecoderConfig:
    """A model without an encoder reads with its decoder; of several encoders none can be of another run."""
    return model.encoders[0] if name == "encoder" and isinstance(model, EncoderDecoderConfig) else model.decoder


def misfits(name: Name, here: ModelConfig, there: ModelConfig, run: str) -> list[str]:
    """The keys that keep a part of this network from beginning with that of `run`."""
    mine, other = section_of(name, here), section_of(name, there)
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


def other_tokens(
    side: Literal["source", "target"], key: str, *, here: Tokenizer, there: Tokenizer, run: str
) -> list[str]:
    """A row of a table is a token: the vocabularies must be the same."""
    if here.fingerprint == there.fingerprint:
        return []
    return [
        f"{key}: {run} has {there.size:,} tokens, the {side} here {here.size:,}, and they are not the same ones; "
        f"set data.{side}.tokenizer to {run}"
    ]


def counterpart(tensor: str, here: ModelConfig, there: ModelConfig) -> str | None:
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


def shape_problems(name: Name, shapes: dict[str, tuple[Tensor, Tensor]], there: ModelConfig, run: str) -> list[str]:
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
        both = write_value(getattr(section_of(name, there), "bidirectional", False))
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
