"""A model that onnxruntime computes, behind our own search: to it, one more step function."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, P steps before, L layers, N heads, V vocabulary

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch import Tensor

from antiphon.errors import ModelFolderError, UserError
from antiphon.export.base import ExportFolder
from antiphon.export.onnx_write import LOGITS, LOOK, NEW, READ, ROW, SENTENCE, START, STEP, WEIGHTS
from antiphon.model_folder import LoadedModel
from antiphon.models.decoders.decoder import AttentionWeights, Decoder, Step
from antiphon.models.model import SequenceModel
from antiphon.sequence import MultiSource, Sequence, State

__all__ = ["OnnxModel", "OnnxState", "load"]

# Loads an ONNX export.

ERRORS = 3  # onnxruntime's level of what is worth saying


def load(export: ExportFolder) -> LoadedModel:
    """A model of two graphs; it takes as many threads as torch would."""
    model = OnnxModel(_session(export.path / START), _session(export.path / STEP))
    return LoadedModel(export.config, model.eval(), export.source, export.target)


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = ERRORS
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no exception of its own that the others are kinds of
        fact = str(error).strip().splitlines()[0]
        raise ModelFolderError(
            f"{path}: onnxruntime cannot read it ({fact}); update onnxruntime, or export the model again"
        ) from error


Values = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class OnnxState:
    """Where the step graph stands. The rows of one sentence lie side by side and share what is the sentence's."""

    rows: Values  # each [R, ...]
    sentences: Values  # each [B, ...]

    def select(self, rows: Tensor) -> OnnxState:
        """Rows [B', k]: for each sentence that stays, the rows its k hypotheses go on from."""
        flat = rows.reshape(-1).numpy()
        return OnnxState({name: value[flat] for name, value in self.rows.items()}, self._of_hypotheses(rows))

    def _of_hypotheses(self, rows: Tensor) -> Values:
        """While every sentence stays nothing is copied: sentences only ever leave, in order."""
        before, B = (len(next(iter(values.values()), ())) for values in (self.rows, self.sentences))
        if B in (0, rows.size(0)):
            return self.sentences
        still = (rows[:, 0] // (before // B)).numpy()
        return {name: value[still] for name, value in self.sentences.items()}


class OnnxModel(SequenceModel):
    """p(y | x) by two graphs, one for the source and one for a step."""

    engine = "onnx"

    def __init__(self, start: onnxruntime.InferenceSession, step: onnxruntime.InferenceSession) -> None:
        super().__init__()
        self._start, self._step = start, step
        known, found = ([value.name for value in session.get_outputs()] for session in (start, step))
        self._given = [value.name for value in start.get_inputs()]  # a language model's has no ids
        self._state = [name for name in known if not name.startswith(LOOK)]
        self._new = [name for name in found if name.startswith(NEW)]
        self._weights = [name for name in found if name == WEIGHTS]
        self._of_source = [name for name in known if name.startswith(LOOK)]
        self._of_steps = [name for name in found if name.startswith(LOOK)]

    @property
    def decoder(self) -> Decoder[Any]:  # type: ignore[override] # nobody may set it
        raise UserError("an export to onnx has no network to look into; use the run that it was made from")

    def start(self, source: Sequence | MultiSource) -> OnnxState:
        found = self._read(source, self._state)
        rows, sentences = ({name: found[name] for name in found if name.startswith(kind)} for kind in (ROW, SENTENCE))
        return OnnxState(rows, sentences)

    def step(self, tokens: Tensor, state: State) -> Step[Any]:
        assert isinstance(state, OnnxState)
        columns, state = self._columns(tokens, state, [LOGITS, *self._weights])
        weights = _side_by_side(columns, WEIGHTS) if self._weights else None
        return Step(_side_by_side(columns, LOGITS), state, weights)

    def attention_weights(self, source: Sequence | MultiSource, inputs: Tensor) -> AttentionWeights:
        itself = _of_layers([self._read(source, self._of_source)], "source") if self._of_source else None
        if not self._of_steps:
            return AttentionWeights(source=itself)
        state = self.start(source)
        columns, _ = self._columns(inputs, state, self._of_steps)
        if self._weights:
            return AttentionWeights(cross=_side_by_side(columns, WEIGHTS)[:, None, None], source=itself)
        own, cross = _of_layers(columns, "own"), _of_layers(columns, "cross")
        if own is not None and READ in state.sentences:  # one softmax over the source and what was said
            cross, own = own.tensor_split([state.sentences[READ].shape[1]], dim=-1)
        return AttentionWeights(cross=cross, own=own, source=itself)

    def _read(self, source: Sequence | MultiSource, wanted: list[str]) -> Values:
        assert isinstance(source, Sequence)  # several are not exported
        given = {"ids": source.values.numpy(), "mask": source.mask.numpy()}
        found = self._start.run(wanted, {name: given[name] for name in self._given})
        return dict(zip(wanted, found, strict=True))

    def _columns(self, tokens: Tensor, state: OnnxState, wanted: list[str]) -> tuple[list[Values], OnnxState]:
        """What is wanted of each step over tokens [R, T], and the state after the last."""
        columns, names = [], [*wanted, *self._new]
        for column in tokens.unsqueeze(2).unbind(1):
            given = {"tokens": column.numpy(), **state.rows, **state.sentences}
            found = dict(zip(names, self._step.run(names, given), strict=True))
            new = {name.removeprefix(NEW): found.pop(name) for name in self._new}
            columns.append(found)
            state = OnnxState(state.rows | new, state.sentences)
        return columns, state


def _side_by_side(columns: list[Values], name: str) -> Tensor:
    """A value [R, x] of each step → [R, T, x]; of a single step nothing is copied."""
    values = [found[name] for found in columns]
    return torch.from_numpy(values[0][:, None] if len(values) == 1 else np.stack(values, axis=1))


def _of_layers(columns: list[Values], kind: str) -> Tensor | None:
    """Weights [R, N, T', S'] of each layer, of some steps after others that saw less → [R, L, N, T, S]."""
    names = [name for name in columns[0] if name.startswith(f"{LOOK}{kind}.")]
    if not names:
        return None
    layers = [[found[name] for found in columns] for name in names]
    widest = layers[0][-1].shape[-1]
    wide = [[np.pad(part, [(0, 0)] * 3 + [(0, widest - part.shape[-1])]) for part in parts] for parts in layers]
    return torch.from_numpy(np.stack([np.concatenate(parts, axis=2) for parts in wide], axis=1))
