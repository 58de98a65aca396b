"""A model computed by onnxruntime: a step function for our own search."""
# B sentences, R = B x hypotheses rows, T steps, S source steps, L layers, N heads

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

ERRORS = 3  # onnxruntime's log level
Arrays = dict[str, npt.NDArray[Any]]


def load(export: ExportFolder) -> LoadedModel:
    """Load an export of two graphs; it gets as many threads as torch has."""
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
    except Exception as error:  # onnxruntime's exceptions have no common base class
        fact = str(error).strip().splitlines()[0]
        raise ModelFolderError(
            f"{path}: onnxruntime cannot read it ({fact}); update onnxruntime, or export the model again"
        ) from error


@dataclass(frozen=True)
class OnnxState:
    """The state of the step graph. The rows of a sentence are neighbours and share the arrays of their sentence."""

    rows: Arrays  # each [R, ...]
    sentences: Arrays  # each [B, ...]

    def select(self, rows: Tensor) -> OnnxState:
        """The state of rows [B', k]: for each sentence that stays, the rows that its k hypotheses extend."""
        flat = rows.reshape(-1).numpy()
        return OnnxState({name: value[flat] for name, value in self.rows.items()}, self._select_sentences(rows))

    def _select_sentences(self, rows: Tensor) -> Arrays:
        """Sentences keep their order, so nothing is copied until one of them leaves."""
        R, B = (len(next(iter(arrays.values()), ())) for arrays in (self.rows, self.sentences))
        if B in (0, rows.size(0)):
            return self.sentences
        active = (rows[:, 0] // (R // B)).numpy()
        return {name: value[active] for name, value in self.sentences.items()}


class OnnxModel(SequenceModel):
    """p(y | x) computed by two graphs: one for the source, one for a step."""

    engine = "onnx"

    def __init__(self, start: onnxruntime.InferenceSession, step: onnxruntime.InferenceSession) -> None:
        super().__init__()
        self._start, self._step = start, step
        of_source, of_step = ([value.name for value in session.get_outputs()] for session in (start, step))
        self._inputs = [value.name for value in start.get_inputs()]  # the start graph of a language model takes no ids
        self._state = [name for name in of_source if not name.startswith(LOOK)]
        self._new = [name for name in of_step if name.startswith(NEW)]
        self._weights = [name for name in of_step if name == WEIGHTS]
        self._source_attention = [name for name in of_source if name.startswith(LOOK)]
        self._step_attention = [name for name in of_step if name.startswith(LOOK)]

    @property
    def decoder(self) -> Decoder[Any]:  # type: ignore[override] # read-only
        raise UserError("an export to onnx has no network to inspect; use the run that it was made from")

    def start(self, source: Sequence | MultiSource) -> OnnxState:
        state = self._run_start(source, self._state)
        rows, sentences = ({name: state[name] for name in state if name.startswith(kind)} for kind in (ROW, SENTENCE))
        return OnnxState(rows, sentences)

    def step(self, tokens: Tensor, state: State) -> Step[Any]:
        assert isinstance(state, OnnxState)
        steps, state = self._run_steps(tokens, state, [LOGITS, *self._weights])
        weights = _stack_steps(steps, WEIGHTS) if self._weights else None
        return Step(_stack_steps(steps, LOGITS), state, weights)

    def attention_weights(self, source: Sequence | MultiSource, inputs: Tensor) -> AttentionWeights:
        attention = self._source_attention
        in_source = _stack_layers([self._run_start(source, attention)], "source") if attention else None
        if not self._step_attention:
            return AttentionWeights(source=in_source)
        state = self.start(source)
        steps, _ = self._run_steps(inputs, state, self._step_attention)
        if self._weights:
            return AttentionWeights(cross=_stack_steps(steps, WEIGHTS)[:, None, None], source=in_source)
        own, cross = _stack_layers(steps, "own"), _stack_layers(steps, "cross")
        if own is not None and READ in state.sentences:  # one softmax over the source and the tokens so far
            cross, own = own.tensor_split([state.sentences[READ].shape[1]], dim=-1)
        return AttentionWeights(cross=cross, own=own, source=in_source)

    def _run_start(self, source: Sequence | MultiSource, outputs: list[str]) -> Arrays:
        assert isinstance(source, Sequence)  # models of several sources are not exported
        inputs = {"ids": source.values.numpy(), "mask": source.mask.numpy()}
        arrays = self._start.run(outputs, {name: inputs[name] for name in self._inputs})
        return dict(zip(outputs, arrays, strict=True))

    def _run_steps(self, tokens: Tensor, state: OnnxState, outputs: list[str]) -> tuple[list[Arrays], OnnxState]:
        """The outputs of each step over tokens [R, T], and the state after the last."""
        steps, names = [], [*outputs, *self._new]
        for column in tokens.unsqueeze(2).unbind(1):
            inputs = {"tokens": column.numpy(), **state.rows, **state.sentences}
            arrays = dict(zip(names, self._step.run(names, inputs), strict=True))
            new = {name.removeprefix(NEW): arrays.pop(name) for name in self._new}
            steps.append(arrays)
            state = OnnxState(state.rows | new, state.sentences)
        return steps, state


def _stack_steps(steps: list[Arrays], name: str) -> Tensor:
    """The values [R, x] of all steps as [R, T, x]; a single step is not copied."""
    values = [arrays[name] for arrays in steps]
    return torch.from_numpy(values[0][:, None] if len(values) == 1 else np.stack(values, axis=1))


def _stack_layers(steps: list[Arrays], kind: str) -> Tensor | None:
    """Attention weights [R, N, T', S'] of each step and layer, padded to the widest, as [R, L, N, T, S]."""
    names = [name for name in steps[0] if name.startswith(f"{LOOK}{kind}.")]
    if not names:
        return None
    layers = [[arrays[name] for arrays in steps] for name in names]
    widest = layers[0][-1].shape[-1]
    padded = [[np.pad(part, [(0, 0)] * 3 + [(0, widest - part.shape[-1])]) for part in parts] for parts in layers]
    return torch.from_numpy(np.stack([np.concatenate(parts, axis=2) for parts in padded], axis=1))
