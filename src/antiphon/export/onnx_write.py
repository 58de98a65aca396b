"""Exports to ONNX, run by onnxruntime: the fast home of recurrent networks."""
# R rows, T steps, S source steps, N heads, d size
# B sentences, R = B x hypotheses rows, S source steps, P steps before, N heads, V vocabulary

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
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
    "LOGITS",
    "LOOK",
    "NEW",
    "READ",
    "ROW",
    "SENTENCE",
    "START",
    "STEP",
    "WEIGHTS",
    "ShownAttention",
    "traceable",
    "write",
    "write_graphs",
]

# The parts of a network that a tracer cannot follow as they are, said again with tensors alone.


class TracedPositions(Positions):
    """As in any network; how long a sequence may be is asked before anything is computed (inference/limits.py)."""

    def forward(self, tokens: Tensor, offset: int | Tensor = 0, real: Tensor | None = None) -> Tensor:  # noqa: ARG002
        if isinstance(offset, Tensor) and offset.dim() > 0:  # to a tracer, every size is a tensor
            offset = offset.unsqueeze(1)
        places = torch.arange(tokens.size(1)) + offset  # [T] or [R, T]
        if self.longest is not None:
            places = places.clamp(max=self.longest - 1)  # padding may stand beyond the end of a table
        return torch.add(self.at(places, 0, tokens), tokens, alpha=self.factor)


class TracedSines(TracedPositions, SinusoidalPositions):
    """sin and cos of each position: no table, so any length will do."""

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
    """Always fused, even for one step: ONNX has whole networks (LSTM, GRU, RNN) and no cells."""

    def run(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        return self.fused(inputs, state)

    def step(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        tops, after = self.fused(inputs.unsqueeze(1), state)
        return tops.squeeze(1), after


class ShownAttention(MultiHeadAttention):
    """Attention by the formula, because ONNX has no fused one. So its weights are there; they are kept to be shown."""

    shown: Tensor  # [R, N, T, S], of the last call

    def forward(self, queries: Tensor, *sides: MaskedKeyValues, causal: bool = False) -> Tensor:  # noqa: ARG002 (the mask says it)
        return self._attend_separately(queries, *sides)

    def weights(self, queries: Tensor, *sides: MaskedKeyValues) -> Tensor:
        self.shown = super().weights(queries, *sides)
        return self.shown


TRACED: dict[type, type] = {
    SinusoidalPositions: TracedSines,
    LearntPositions: TracedTable,
    RecurrentStack: TracedStack,
    MultiHeadAttention: ShownAttention,
}


def traceable(model: SequenceModel) -> SequenceModel:
    """A copy that computes the same and can be traced."""
    copy = deepcopy(model).eval().requires_grad_(False)
    for module in copy.modules():
        if type(module) in TRACED:
            module.__class__ = TRACED[type(module)]  # the same weights under another formula
    return copy


# A model as two graphs: one reads the source, one makes a step.
#
# The names of their values: `row.x` has a row for each hypothesis, `sentence.x` one for each sentence,
# whose hypotheses share it; `look.x` are weights that only pictures want. A step's new value of `row.x` is `new.row.x`.

ROW, SENTENCE, LOOK, NEW = "row.", "sentence.", "look.", "new."
LOGITS, WEIGHTS, READ = "logits", "look.weights", "sentence.read.mask"
OPSET = 17
# Sizes of the example that is traced: unlike numbers, and none of them 1, for which there may be a shorter way.
SENTENCES, HYPOTHESES, LENGTHS, PAST = 2, 3, (5, 3), 4
# The tracer warns of every `if`. Those of the model ask for sizes of its parts, or for one of the lengths above. Why
# it is the old exporter: docs/decisions/0017-onnx-by-the-old-exporter.md
WARNINGS: tuple[tuple[str, type[Warning]], ...] = (
    ("Converting a tensor to a Python (boolean|float)", Warning),
    ("You are using the legacy TorchScript-based ONNX export", DeprecationWarning),
    ("The feature will be removed", DeprecationWarning),
    ("Constant folding - Only steps=1 can be constant folded", UserWarning),
    ("Exporting a model to ONNX with a batch_size other than 1", UserWarning),
)

Named = dict[str, Tensor]


def named(state: Any) -> Named:  # noqa: ANN401 (of any decoder)
    """The values of a state; one that is always empty is left out."""
    if isinstance(state, TransformerState):
        return _of_heads(f"{ROW}own", state.own) | _of_shared("told", state.memory) | _of_shared("read", state.prefix)
    values = {f"{ROW}layer.{number}": part for number, part in enumerate(state.layers)}
    if isinstance(state, PlainState):
        values |= {f"{ROW}fed": state.context}
    elif isinstance(state, RecurrentState):
        side = {f"{SENTENCE}{name}": getattr(state.source, name) for name in ("keys", "values", "mask")}
        values |= {f"{ROW}attended": state.attended, **side}
    return {name: value for name, value in values.items() if value.shape[-1] != 0}


def _of_heads(name: str, layers: tuple[KeyValues, ...]) -> Named:
    both = ("keys", "values")
    return {f"{name}.{number}.{part}": getattr(heads, part) for number, heads in enumerate(layers) for part in both}


def _of_shared(name: str, shared: SharedKeyValues | None) -> Named:
    if shared is None:
        return {}
    return {**_of_heads(f"{SENTENCE}{name}", shared.layers), f"{SENTENCE}{name}.mask": shared.mask}


def whole(values: Named, like: Any) -> Any:  # noqa: ANN401 (of any decoder)
    """The opposite of `named`: a state of the kind of `like`."""
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


class StartGraph(nn.Module):
    """Ids and mask, each [B, S] → the state before the first step, and where the encoder looked."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def results(self, ids: Tensor, mask: Tensor) -> Named:
        state = named(self.model.start(Sequence(ids, mask)))
        return state | _shown(self.model.encoder if isinstance(self.model, EncoderDecoder) else None)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.results(ids, mask).values())


class StepGraph(nn.Module):
    """Tokens [R, 1] and a state → logits [R, V], what is new in the state, and where the decoder looked."""

    def __init__(self, model: SequenceModel, like: Any) -> None:  # noqa: ANN401 (the state of any decoder)
        super().__init__()
        self.model = model
        self.like = like

    def results(self, tokens: Tensor, *values: Tensor) -> Named:
        before = dict(zip(named(self.like), values, strict=True))
        step = self.model.step(tokens, whole(before, self.like))
        after = named(step.state).items()
        new = {f"{NEW}{name}": value for name, value in after if value is not before[name]}
        weights = {} if step.weights is None else {WEIGHTS: step.weights[:, 0]}
        return {LOGITS: step.logits[:, 0], **new, **weights, **_shown(self.model.decoder)}

    def forward(self, tokens: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        return tuple(self.results(tokens, *values).values())


def _shown(network: nn.Module | None) -> Named:
    """The weights with which each block of a Transformer has just looked [R, N, T, S]."""
    shown: Named = {}
    for number, block in enumerate(getattr(network, "blocks", ())):
        if isinstance(block, EncoderBlock):
            shown[f"{LOOK}source.{number}"] = _weights(block.attention)
        if isinstance(block, DecoderBlock):
            shown[f"{LOOK}own.{number}"] = _weights(block.attention)
            shown |= {} if block.cross is None else {f"{LOOK}cross.{number}": _weights(block.cross)}
    return shown


def _weights(attention: MultiHeadAttention) -> Tensor:
    assert isinstance(attention, ShownAttention)
    return attention.shown


@torch.no_grad()
def write_graphs(model: SequenceModel, start: Path, step: Path) -> None:
    """Traces both with an example."""
    network, lengths = traceable(model), torch.tensor(LENGTHS)
    mask = torch.arange(max(LENGTHS)) < lengths.unsqueeze(1)
    ids = torch.full(mask.shape, EOS)
    _write(StartGraph(network).eval(), {"ids": ids, "mask": mask}, start)
    state: Any = network.start(Sequence(ids, mask))
    state = state.select(torch.arange(SENTENCES).unsqueeze(1).expand(SENTENCES, HYPOTHESES))
    tokens = torch.full((SENTENCES * HYPOTHESES, 1), SOS)
    for _ in range(PAST):
        state = network.step(tokens, state).state
    _write(StepGraph(network, state).eval(), {"tokens": tokens, **named(state)}, step)


def _write(graph: StartGraph | StepGraph, given: Named, path: Path) -> None:
    found = graph.results(*given.values())
    with _quiet():
        torch.onnx.export(
            graph,
            tuple(given.values()),
            str(path),
            input_names=list(given),
            output_names=list(found),
            dynamic_axes={name: _axes(name, value) for name, value in (given | found).items()},
            opset_version=OPSET,
            dynamo=False,
        )


def _axes(name: str, value: Tensor) -> dict[int, str]:
    """The axes whose size is not the model's own, each with a name."""
    if name in (LOGITS, "tokens"):
        free = [0]
    elif name.startswith(LOOK):
        free = [0, 1] if name == WEIGHTS else [0, 2, 3]  # [R, S] or [R, N, T, S]
    elif value.dim() == 4:
        free = [0, 2]  # [R, N, P, d] or [B, N, S, d]
    else:
        free = [0] if ROW in name else [0, 1]  # [B, S, ...]
    return {axis: f"{name}.{axis}" for axis in free}


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        for message, category in WARNINGS:
            warnings.filterwarnings("ignore", message, category)
        yield


START, STEP = "start.onnx", "step.onnx"
LARGEST = 2**31 - 1  # bytes of a protobuf message


def write(loaded: LoadedModel, folder: Path, int8: bool) -> dict[str, Any]:  # noqa: ARG001 (refused before)
    """Every kind of model has its graphs; the files tell all that `load` wants to know."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in loaded.model.state_dict().values())
    if size > LARGEST:
        raise UserError(
            f"onnx: the model has {size:,} bytes of weights, and an ONNX file holds {LARGEST:,} at most; "
            "use the run itself, or train a smaller model"
        )
    write_graphs(loaded.model, folder / START, folder / STEP)
    return {}
