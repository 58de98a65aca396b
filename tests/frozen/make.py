"""Makes a small model of today's format, with the answers it gives: python tests/frozen/make.py tests/frozen/formatN

Run once for each new format and never again for an old one: what is frozen is what people have on their disks.
`format1-flat-keys` was made by commit c675ef7, with a value other than the default for most keys that are nested now.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import antiphon
from antiphon.config.schema import Config

TEXTS = ["stone", "", "Ünit é", "photo"]
KEPT = ["config.yaml", "model.json", "model.safetensors", "tokenizer.source.json", "tokenizer.target.json"]


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        pairs = Path(scratch) / "pairs.tsv"
        words = ["stone", "tone", "photo", "phone", "notes", "hop", "hope", "é", "shop", "top"]
        pairs.write_text("".join(f"{word}\t{word[::-1]} {word}\n" for word in words), "utf-8")
        config = Config.model_validate(
            {
                "data": {
                    "train": str(pairs),
                    "dev": str(pairs),
                    "target": {"column": 1, "tokens": "bpe", "vocabulary": 270},
                },
                "model": {
                    "encoder": {"kind": "lstm", "layers": 2, "size": 16, "embedding": 8, "dropout": 0.0},
                    "context": {"score": "bilinear"},
                    "decoder": {
                        "kind": "luong",
                        "cell": "gru",
                        "size": 16,
                        "embedding": 8,
                        "dropout": 0.0,
                        "input_feeding": True,
                    },
                },
                "training": {
                    "epochs": 600,
                    "evaluate_every": 600,
                    "learning_rate": 0.01,
                    "schedule": {"kind": "constant", "warmup": 0},
                    "threads": 1,
                },
                "decoding": {"max_length": 20, "beam": 3},
            }
        )
        run = antiphon.train(config, Path(scratch) / "run")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in KEPT:
            shutil.copy(run / name, folder / name)
    answers = [{"text": a.text, "score": a.score, "flags": a.flags} for a in antiphon.load(folder).generate(TEXTS)]
    (folder / "answers.json").write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
