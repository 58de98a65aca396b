"""Exports to ONNX, run by onnxruntime: the fast home of recurrent networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import torch

from antiphon.errors import ModelFolderError, UserError
from antiphon.export.folder import ExportFolder
from antiphon.export.onnx_graphs import write_graphs
from antiphon.export.onnx_model import OnnxModel
from antiphon.folder import LoadedModel

__all__ = ["load", "write"]

START, STEP = "start.onnx", "step.onnx"
LARGEST = 2**31 - 1  # bytes of a protobuf message
ERRORS = 3  # onnxruntime's level of what is worth saying


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
