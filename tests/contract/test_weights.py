"""What holds for the weights of every model: the loss reaches all of them, and they can be saved and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from model_cases import FOLDERS
from safetensors.torch import load, save
from tiny_models import INPUTS, ROWS, sizes, tiny_model
from torch import Tensor

from antiphon.build import build_model
from antiphon.config.models import ModelConfig
from antiphon.config.schema import Config, TrainingConfig
from antiphon.folder import load_model, save_model
from antiphon.model import SequenceModel
from antiphon.sequence import Sequence
from antiphon.sources.batches import Batch, source_batch
from antiphon.sources.tokens import WordTokenizer
from antiphon.sources.vocabulary import EOS, PAD, SPECIALS
from antiphon.training.teaching import teach


def batch() -> Batch:
    """Three pairs; one target is shorter."""
    inputs, outputs = INPUTS.clone(), INPUTS.roll(-1, dims=1)
    outputs[:, -1] = EOS
    inputs[2, 3], outputs[2, 2:] = PAD, torch.tensor([EOS, PAD])
    return Batch(source_batch(ROWS), inputs, Sequence(outputs, outputs != PAD))


@pytest.fixture(scope="module")
def taught(config: ModelConfig) -> SequenceModel:
    """A model in training, with the gradients of one batch."""
    model = tiny_model(config).train()
    torch.manual_seed(1)  # hard attention draws
    teach(model, batch(), TrainingConfig()).loss.backward()
    return model


def without(name: str, config: ModelConfig) -> bool:
    """A gradient that is 0 by its formula.

    A key's bias adds the same to all scores of a query, and a softmax takes no notice. A batch norm takes away what is
    added to all states alike: the last bias of each part whose result is normed.
    """
    if name.endswith("W_K.bias"):
        return True
    part = getattr(config, name.split(".")[0], None)
    normed = getattr(part, "norm", "layer") == "batch"
    return normed and name.endswith(("W_V.bias", "W_O.bias", "feedforward.W_2.bias"))


def test_gradients_reach_every_parameter(taught: SequenceModel, config: ModelConfig) -> None:
    largest = {
        name: 0.0 if parameter.grad is None else float(parameter.grad.abs().max())
        for name, parameter in taught.named_parameters()
    }
    assert [name for name, value in largest.items() if (value < 1e-12) != without(name, config)] == []


def logits_of(model: SequenceModel) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model.eval()(source_batch(ROWS), INPUTS).logits
    return logits


def test_saved_is_loaded_equal(taught: SequenceModel, config: ModelConfig) -> None:
    """Weights, what a batch norm counted, and one table that has two names."""
    content = save({name: tensor.clone() for name, tensor in taught.state_dict().items()})
    fresh = build_model(config, **sizes(config)).double()
    fresh.load_state_dict(load(content))
    assert torch.equal(logits_of(fresh), logits_of(taught))
    assert len(list(fresh.parameters())) == len(list(taught.parameters()))


@pytest.mark.parametrize("config", list(FOLDERS.values()), ids=list(FOLDERS))
def test_a_folder_holds_the_whole_model(config: ModelConfig, tmp_path: Path) -> None:
    model = tiny_model(config, torch.float32)
    source, target = (
        WordTokenizer([f"w{number}" for number in range(size - len(SPECIALS))]) for size in sizes(config).values()
    )
    data = {"train": "pairs.tsv", "shared_vocabulary": config.tie == "all"}
    whole = Config.model_validate({"data": data, "model": config})
    save_model(tmp_path, whole, model.state_dict(), source, target)
    loaded = load_model(tmp_path)
    assert loaded.config == whole
    assert not loaded.model.training
    assert loaded.target_tokenizer.fingerprint == target.fingerprint
    assert torch.equal(logits_of(loaded.model), logits_of(model))
