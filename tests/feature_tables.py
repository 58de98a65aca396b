"""Small arrays and a table that names them: what they spell can be learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

LETTERS = "abcd"


def write_table(folder: Path, count: int = 40, *, name: str = "table.tsv") -> Path:
    """Each letter of the text is two noisy vectors; the third column says how many letters there are."""
    (folder / "arrays").mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(7)
    lines = ["path\ttext\tcount"]
    for number in range(count):
        letters = draw.integers(0, 4, size=draw.integers(1, 4))
        vectors = np.eye(4)[np.repeat(letters, 2)] + 0.1 * draw.normal(size=(2 * len(letters), 4))
        np.save(folder / "arrays" / f"{number}.npy", vectors.astype(np.float32))
        text = " ".join(LETTERS[letter] for letter in letters)
        lines.append(f"arrays/{number}.npy\t{text}\t{len(letters)}")
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def values(table: Path, **training: Any) -> dict[str, Any]:  # noqa: ANN401 (any key of training)
    """A configuration for it."""
    gru = {"kind": "gru", "embedding": 8, "size": 8}
    return {
        "data": {
            "train": str(table),
            "hold_out": 0.2,
            "source": {"kind": "features", "column": "path"},
            "target": {"column": "text", "tokens": "words"},
        },
        "model": {"encoder": gru, "decoder": {"kind": "bahdanau", "cell": "gru", "embedding": 8, "size": 8}},
        "training": {"epochs": 2, "batch_tokens": 48, "schedule": {"warmup": 0}, "threads": 1, **training},
        "decoding": {"max_length": 6, "beam": 1},
        "evaluation": {"metrics": ["exact_match"]},
    }
