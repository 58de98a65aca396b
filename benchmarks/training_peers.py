"""The other toolkits of training.py: their options for each model, and how their logs are read.

Only the standard library is imported here, because training.py also runs in their environments.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIRST = 4  # updates that do not count
BATCH_TOKENS, SMOOTHING = 4096, 0.1
BUCKET = 32_768  # pairs that Eole and OpenNMT-py sort by length; by default they read 262,144 before they begin

MARIAN = {
    "transformer": "--type transformer --dim-emb 256 --enc-depth 3 --dec-depth 3 --transformer-heads 4 "
    "--transformer-dim-ffn 1024 --transformer-preprocess n --transformer-postprocess da "
    "--transformer-postprocess-top n --transformer-dropout 0.1 --tied-embeddings-all --label-smoothing 0.1",
    "lstm": "--type s2s --dim-emb 512 --dim-rnn 512 --enc-type bidirectional --enc-depth 2 --enc-cell lstm "
    "--dec-depth 1 --dec-cell lstm --dec-cell-base-depth 2 --dropout-rnn 0.2",
}
EOLE: dict[str, dict[str, Any]] = {
    "transformer": {
        "architecture": "transformer", "layers": 3, "hidden_size": 256, "heads": 4, "transformer_ff": 1024,
        "share_embeddings": True, "share_decoder_embeddings": True,
        "embeddings": {"word_vec_size": 256, "position_encoding_type": "SinusoidalInterleaved"},
    },
    "lstm": {
        "architecture": "rnn", "hidden_size": 512, "embeddings": {"word_vec_size": 512}, "input_feed": 1,
        "encoder": {"encoder_type": "brnn", "layers": 2, "rnn_type": "LSTM", "bridge": True},
        "decoder": {"decoder_type": "rnn", "layers": 2, "rnn_type": "LSTM", "global_attention": "general"},
    },
}  # fmt: skip
OPENNMT: dict[str, dict[str, Any]] = {
    "transformer": {
        "encoder_type": "transformer", "decoder_type": "transformer", "layers": 3, "hidden_size": 256,
        "word_vec_size": 256, "heads": 4, "transformer_ff": 1024, "position_encoding": True,
        "share_embeddings": True, "share_decoder_embeddings": True,
    },
    "lstm": {
        "encoder_type": "brnn", "decoder_type": "rnn", "layers": 2, "hidden_size": 512, "word_vec_size": 512,
        "rnn_type": "LSTM", "bridge": True, "global_attention": "general", "input_feed": 1,
    },
}  # fmt: skip
DROPOUT = {"transformer": 0.1, "lstm": 0.2}
LABEL_SMOOTHING = {"transformer": SMOOTHING, "lstm": 0.0}


@dataclass(frozen=True)
class Speed:
    """Target tokens and seconds of the updates that count."""

    tokens: float
    seconds: float
    updates: int


@dataclass(frozen=True)
class Setting:
    """The data of one model in a folder, and the options of the comparison."""

    model: str
    folder: Path
    pairs: Path
    updates: int
    threads: int


def marian_options(setting: Setting) -> list[str]:
    """Its workers share a batch."""
    folder = setting.folder
    vocabulary = str(folder / "vocabulary.yml")
    return [
        "train", *MARIAN[setting.model].split(), "--model", str(folder / "marian.npz"), "--overwrite",
        "--train-sets", str(folder / "train.source"), str(folder / "train.target"), "--vocabs", vocabulary, vocabulary,
        "--cpu-threads", str(setting.threads), "--sync-sgd", "--mini-batch-words", str(BATCH_TOKENS),
        "--mini-batch-round-up=false", "--maxi-batch", "1000", "--workspace", "2048", "--max-length", "100",
        "--optimizer", "adam", "--learn-rate", "0.001", "--clip-norm", "1", "--disp-freq", f"{FIRST}u",
        "--after", f"{setting.updates}u", "--seed", "1",
    ]  # fmt: skip


def eole_config(setting: Setting) -> Path:
    folder = setting.folder
    training = {
        "train_steps": setting.updates, "batch_type": "tokens", "batch_size": BATCH_TOKENS, "batch_size_multiple": 1,
        "normalization": "tokens", "optim": "adam", "learning_rate": 0.001, "max_grad_norm": 1.0,
        "dropout": [DROPOUT[setting.model]], "attention_dropout": [DROPOUT[setting.model]],
        "label_smoothing": LABEL_SMOOTHING[setting.model], "compute_dtype": "fp32", "world_size": 1, "gpu_ranks": [],
        "model_path": str(folder / "eole"), "save_checkpoint_steps": 10**6, "valid_steps": 10**6,
        "bucket_size": BUCKET,
    }  # fmt: skip
    config = {**common_config(setting), "overwrite": True, "training": training, "model": EOLE[setting.model]}
    return write_json(folder / "eole.yaml", config)


def opennmt_config(setting: Setting) -> Path:
    folder = setting.folder
    config = {
        **common_config(setting), **OPENNMT[setting.model], "train_steps": setting.updates, "batch_type": "tokens",
        "batch_size": BATCH_TOKENS, "batch_size_multiple": 1, "normalization": "tokens", "optim": "adam",
        "learning_rate": 0.001, "max_grad_norm": 1.0, "dropout": [DROPOUT[setting.model]],
        "attention_dropout": [DROPOUT[setting.model]], "label_smoothing": LABEL_SMOOTHING[setting.model],
        "save_model": str(folder / "opennmt"), "save_checkpoint_steps": 10**6, "valid_steps": 10**6,
        "bucket_size": BUCKET,
        "src_seq_length": 100, "tgt_seq_length": 100,
    }  # fmt: skip
    return write_json(folder / "opennmt.yaml", config)


def common_config(setting: Setting) -> dict[str, Any]:
    """The keys that Eole and OpenNMT-py have in common."""
    folder = setting.folder
    vocabulary = str(folder / "vocabulary.txt")
    sides = {"path_src": str(folder / "train.source"), "path_tgt": str(folder / "train.target"), "transforms": []}
    return {
        "data": {"corpus_1": sides}, "src_vocab": vocabulary, "tgt_vocab": vocabulary, "share_vocab": True,
        "report_every": FIRST, "seed": 1,
    }  # fmt: skip


def read_marian(text: str) -> Speed:
    """Labels and seconds between two lines of the log; those up to the first line do not count."""
    lines = re.findall(r"Up\. \d+ .*? \* ([\d,]+) @ .*?Time ([\d.]+)s", text)[1:]
    return Speed(
        sum(float(labels.replace(",", "")) for labels, _ in lines),
        sum(float(seconds) for _, seconds in lines),
        FIRST * len(lines),
    )


def read_opennmt(text: str) -> Speed:
    """Eole and OpenNMT-py write target tokens a batch and a second."""
    lines = re.findall(r"bsz:\s*\d+/\s*(\d+)/\s*\d+;\s*\d+/\s*(\d+) tok/s", text)[1:]
    tokens = [FIRST * float(size) for size, _ in lines]
    seconds = sum(count / float(rate) for count, (_, rate) in zip(tokens, lines, strict=True))
    return Speed(sum(tokens), seconds, FIRST * len(lines))


def write_json(path: Path, value: object) -> Path:
    """JSON, which is YAML, too."""
    path.write_text(json.dumps(value, indent=1), "utf-8")
    return path
