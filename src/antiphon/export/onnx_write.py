"""Export to ONNX for onnxruntime, the fastest engine for recurrent networks."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, P past steps, N heads, d head size, V vocabulary

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from antiphon.data.tokenizers import EOS, SOS
from antiphon.errors import UserError
from antiphon.model_folder import LoadedModel
from antiphon.models.attention import ProjectedMemory
from antiphon.models.decoders.decoder import RecurrentState
from antiphon.models.decoders.plain import PlainState
from antiphon.models.decoders.transformer_decoder import DecoderBlock, SharedKeyValues, TransformerState
from antiphon.models.encoders.transformer_encoder import EncoderBlock
from antiphon.models.layers.positions import LearntPositions, Positions, SinusoidalPositions
from antiphon.models.layers.recurrent import RecurrentStack
from antiphon.models.model import EncoderDecoder, SequenceModel
from antiphon.models.multihead import KeyValues, MaskedKeyValues, MultiHeadAttention
from antiphon.sequence import Sequence

__all__ = [
    "LOGITS", "LOOK", "NEW", "OPSET", "READ", "ROW", "SENTENCE", "START", "STEP", "WEIGHTS", "refuse_large", "write",
    "write_graphs",
]  # fmt: skip

# Layers that a tracer cannot follow, with forward passes that use tensors only.


class TracedPositions(Positions):
    """Positions of any kind; `Limits` in inference/generator.py checks lengths before anything is computed."""

    def forward(self, tokens: Tensor, offset: int | Tensor = 0, real: Tensor | None = None) -> Tensor:  # noqa: ARG002
        if isinstance(offset, Tensor) and offset.dim() > 0:  # a tracer makes every size a tensor
            offset = offset.unsqueeze(1)
        places = torch.arange(tokens.size(1)) + offset  # [T] or [R, T]
        if self.longest is not None:
            places = places.clamp(max=self.longest - 1)  # padding may lie beyond the end of a table
        return torch.add(self.at(places, 0, tokens), tokens, alpha=self.factor)


class TracedSines(TracedPositions, SinusoidalPositions):
    """sin and cos of each position, without a table, so for any length."""

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002
        rates = 10000 ** (torch.arange(0, self.size, 2, dtype=torch.float64) / self.size)
        angles = places.to(torch.float64).unsqueeze(-1) / rates
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(like.dtype)


class TracedTable(TracedPositions, LearntPositions):
    """p[t] = P[t]"""

    def at(self, places: Tensor, end: int, like: Tensor) -> Tensor:  # noqa: ARG002
        learnt: Tensor = self.table(places)
        return learnt


class TracedStack(RecurrentStack):
    """Always fused, even for one step: ONNX has LSTM, GRU and RNN layers but no cells."""

    def run(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self.fused(inputs, state)

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        tops, after = self.fused(inputs.unsqueeze(1), state)
        return tops[:, 0], after  # a tracer makes an `if` of squeeze


class TracedAttention(MultiHeadAttention):
    """Attention by its formula, because ONNX has no fused one; it keeps its weights for pictures."""

    kept: Tensor  # [R, N, T, S], of the last call

    def forward(self, queries: Tensor, *sides: MaskedKeyValues, causal: bool = False) -> Tensor:  # noqa: ARG002 (the mask says it)
        return self._attend_separately(queries, *sides)

    def weights(self, queries: Tensor, *sides: MaskedKeyValues) -> Tensor:
        self.kept = super().weights(queries, *sides)
        return self.kept


TRACED: dict[type, type] = {
    SinusoidalPositions: TracedSines,
    LearntPositions: TracedTable,
    RecurrentStack: TracedStack,
    MultiHeadAttention: TracedAttention,
}


def traceable(model: SequenceModel) -> SequenceModel:
    """A copy that computes the same and can be traced."""
    copy = deepcopy(model).eval().requires_grad_(False)
    for module in copy.modules():
        if type(module) in TRACED:
            module.__class__ = TRACED[type(module)]  # the weights stay
    return copy


# The graphs: one reads the source, one makes a step. Names of their values: `row.x` has a row for each hypothesis,
# `sentence.x` one for each sentence; `look.x` are attention weights. A step returns `row.x` as `new.row.x`.

ROW, SENTENCE, LOOK, NEW = "row.", "sentence.", "look.", "new."
LOGITS, WEIGHTS, READ = "logits", "look.weights", "sentence.read.mask"
OPSET = 17
# Sizes of the traced example: all different, and none of them 1, which may take a shortcut.
SENTENCES, HYPOTHESES, LENGTHS, PAST = 2, 3, (5, 3), 4
# The tracer warns of every `if`. Those of the models depend on sizes of their parts, or on the sizes above. The reason
# for the old exporter: docs/decisions/0017-onnx-by-the-old-exporter.md
WARNINGS: tuple[tuple[str, type[Warning]], ...] = (
    ("Converting a tensor to a Python (boolean|float)", Warning),
    ("You are using the legacy TorchScript-based ONNX export", DeprecationWarning),
    ("The feature will be removed", DeprecationWarning),
    ("Constant folding - Only steps=1 can be constant folded", UserWarning),
    ("Exporting a model to ONNX with a batch_size other than 1", UserWarning),
)

Named = dict[str, Tensor]


def flatten_state(state: Any) -> Named:  # noqa: ANN401 (of any decoder)
    """The values of a state by name, without those that are always empty."""
    if isinstance(state, TransformerState):
        shared = _flatten_shared("told", state.memory) | _flatten_shared("read", state.prefix)
        return _flatten_heads(f"{ROW}own", state.own) | shared
    values = {f"{ROW}layer.{number}": part for number, part in enumerate(state.layers)}
    if isinstance(state, PlainState):
        values |= {f"{ROW}fed": state.context}
    elif isinstance(state, RecurrentState):
        side = {f"{SENTENCE}{name}": getattr(state.source, name) for name in ("keys", "values", "mask")}
        values |= {f"{ROW}attended": state.attended, **side}
    return {name: value for name, value in values.items() if value.shape[-1] != 0}


def _flatten_heads(name: str, layers: tuple[KeyValues, ...]) -> Named:
    parts = ("keys", "values")
    return {f"{name}.{number}.{part}": getattr(heads, part) for number, heads in enumerate(layers) for part in parts}


def _flatten_shared(name: str, shared: SharedKeyValues | None) -> Named:
    if shared is None:
        return {}
    return {**_flatten_heads(f"{SENTENCE}{name}", shared.layers), f"{SENTENCE}{name}.mask": shared.mask}


def build_state(values: Named, like: Any) -> Any:  # noqa: ANN401 (of any decoder)
    """The inverse of `flatten_state`: a state of the class of `like`."""
    if isinstance(like, TransformerState):
        memory, prefix = _shared("told", values, like.memory), _shared("read", values, like.prefix)
        return TransformerState(_heads(f"{ROW}own", values, len(like.own)), memory, prefix)
    layers = tuple(values[f"{ROW}layer.{number}"] for number in range(len(like.layers)))
    empty = layers[0].new_zeros(layers[0].size(0), 0)
    if isinstance(like, PlainState):
        return PlainState(layers, values.get(f"{ROW}fed", empty))
    side = ProjectedMemory(*(values[f"{SENTENCE}{name}"] for name in ("keys", "values", "mask")))
    return RecurrentState(layers, values.get(f"{ROW}attended", empty), side)


def _heads(name: str, values: Named, layers: int) -> tuple[KeyValues, ...]:
    return tuple(
        KeyValues(values[f"{name}.{number}.keys"], values[f"{name}.{number}.values"]) for number in range(layers)
    )


def _shared(name: str, values: Named, like: SharedKeyValues | None) -> SharedKeyValues | None:
    if like is None:
        return None
    return SharedKeyValues(_heads(f"{SENTENCE}{name}", values, len(like.layers)), values[f"{SENTENCE}{name}.mask"])


class Graph(nn.Module):
    """A model and a function of it whose results have names; the tracer gets them as a tuple."""

    def __init__(self, model: SequenceModel, results: Callable[..., Named]) -> None:
        super().__init__()
        self.model = model
        self.results = results

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.results(*inputs).values())


def run_start(model: SequenceModel, ids: Tensor, mask: Tensor) -> Named:
    """Ids and mask, each [B, S] → the state before the first step, and the self-attention of the encoder."""
    state = flatten_state(model.start(Sequence(ids, mask)))
    return state | _attention_weights(model.encoder if isinstance(model, EncoderDecoder) else None)


def run_step(model: SequenceModel, like: Any, tokens: Tensor, *values: Tensor) -> Named:  # noqa: ANN401 (any state)
    """Tokens [R, 1] and a state → logits [R, V], the changed values of the state, and attention weights."""
    before = dict(zip(flatten_state(like), values, strict=True))
    step = model.step(tokens, build_state(before, like))
    new = {f"{NEW}{name}": value for name, value in flatten_state(step.state).items() if value is not before[name]}
    weights = {} if step.weights is None else {WEIGHTS: step.weights[:, 0]}
    return {LOGITS: step.logits[:, 0], **new, **weights, **_attention_weights(model.decoder)}


def _attention_weights(network: nn.Module | None) -> Named:
    """The attention weights [R, N, T, S] of the last pass through each block of a Transformer."""
    layers: list[tuple[str, nn.Module | None]] = []
    for number, block in enumerate(getattr(network, "blocks", ())):
        if isinstance(block, EncoderBlock):
            layers.append((f"source.{number}", block.attention))
        if isinstance(block, DecoderBlock):
            layers += [(f"own.{number}", block.attention), (f"cross.{number}", block.cross)]
    return {f"{LOOK}{name}": layer.kept for name, layer in layers if isinstance(layer, TracedAttention)}


@torch.no_grad()
def write_graphs(model: SequenceModel, start: Path, step: Path) -> None:
    """Trace both graphs with an example and write them."""
    network, lengths = traceable(model), torch.tensor(LENGTHS)
    mask = torch.arange(max(LENGTHS)) < lengths.unsqueeze(1)
    ids = torch.full(mask.shape, EOS)
    _write(Graph(network, partial(run_start, network)).eval(), {"ids": ids, "mask": mask}, start)
    state: Any = network.start(Sequence(ids, mask))
    state = state.select(torch.arange(SENTENCES).unsqueeze(1).expand(SENTENCES, HYPOTHESES))
    tokens = torch.full((SENTENCES * HYPOTHESES, 1), SOS)
    for _ in range(PAST):
        state = network.step(tokens, state).state
    _write(Graph(network, partial(run_step, network, state)).eval(), {"tokens": tokens, **flatten_state(state)}, step)


def _write(graph: Graph, inputs: Named, path: Path) -> None:
    outputs = graph.results(*inputs.values())
    with warnings.catch_warnings():
        for message, category in WARNINGS:
            warnings.filterwarnings("ignore", message, category)
        torch.onnx.export(
            graph,
            tuple(inputs.values()),
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: _axes(name, value) for name, value in (inputs | outputs).items()},
            opset_version=OPSET,
            dynamo=False,
        )


def _axes(name: str, value: Tensor) -> dict[int, str]:
    """The axes whose size varies, each with a name."""
    if name in (LOGITS, "tokens"):
        free = [0]
    elif name.startswith(LOOK):
        free = [0, 1] if name == WEIGHTS else [0, 2, 3]  # [R, S] or [R, N, T, S]
    elif value.dim() == 4:
        free = [0, 2]  # [R, N, P, d] or [B, N, S, d]
    else:
        free = [0] if ROW in name else [0, 1]  # [B, S, ...]
    return {axis: f"{name}.{axis}" for axis in free}


START, STEP = "start.onnx", "step.onnx"
LARGEST = 2**31 - 1  # bytes of a protobuf message


def write(loaded: LoadedModel, folder: Path, int8: bool) -> dict[str, Any]:  # noqa: ARG001 (refused before)
    """Write both graphs; every kind of model has them, and `load` needs no other facts."""
    refuse_large(loaded.model)
    write_graphs(loaded.model, folder / START, folder / STEP)
    return {}


def refuse_large(model: SequenceModel) -> None:
    """UserError for a model that is too large for an ONNX file."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    if size > LARGEST:
        raise UserError(
            f"onnx: the model has {size:,} bytes of weights, and an ONNX file holds {LARGEST:,} at most; "
            "use the run itself, or train a smaller model"
        )
