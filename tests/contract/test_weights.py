"""Whole folders, and what a batch norm counts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from every_model import logits_of, padded
from model_cases import CASES, FOLDERS
from tiny_models import INPUTS, ROWS, close, one_table, sizes, tiny_model

from antiphon.config.networks import ModelConfig
from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import PAD, SPECIALS, WordTokenizer
from antiphon.model_folder import load_model, save_model


@pytest.mark.parametrize("case", list(FOLDERS.values()), ids=list(FOLDERS))
def test_a_folder_holds_the_whole_model(case: ModelConfig, tmp_path: Path) -> None:
    model = tiny_model(case, torch.float32)
    source, target = (
        WordTokenizer([f"w{number}" for number in range(size - len(SPECIALS))]) for size in sizes(case).values()
    )
    data = {"train": "pairs.tsv", "shared_vocabulary": one_table(case)}
    whole = Config.model_validate({"data": data, "model": case})
    save_model(tmp_path, whole, model.state_dict(), source, target)
    loaded = load_model(tmp_path)
    assert loaded.config == whole
    assert not loaded.model.training
    assert loaded.target_tokenizer.fingerprint == target.fingerprint
    assert torch.equal(logits_of(loaded.model), logits_of(model))


def counted(config: ModelConfig) -> bool:
    return any(getattr(part, "norm", "") == "batch" for part in (config.decoder, getattr(config, "encoder", None)))


COUNTED = {name: config for name, config in CASES.items() if counted(config)}


@pytest.mark.parametrize("batch_normed", list(COUNTED.values()), ids=list(COUNTED))
def test_padding_changes_nothing_in_training_either(batch_normed: ModelConfig) -> None:
    """A batch norm counts real positions only, of both sides; so its moving averages are the same too."""
    lengths, inputs = torch.tensor([4, 3, 2]), INPUTS.clone()
    real = torch.arange(INPUTS.size(1)) < lengths.unsqueeze(1)
    inputs[~real] = PAD
    wider = torch.cat([inputs, torch.full((3, 3), PAD)], dim=1)
    plain, after = tiny_model(batch_normed).train(), tiny_model(batch_normed).train()
    source = source_batch(ROWS)
    close(after(padded(source), wider).logits[:, : INPUTS.size(1)][real], plain(source, inputs).logits[real])
    for name, buffer in plain.named_buffers():
        close(after.get_buffer(name), buffer)
