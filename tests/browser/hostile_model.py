"""A model whose every word, name and sample would be code, if the page took text for anything but text."""

from __future__ import annotations

import json
from pathlib import Path

from tiny_generators import tiny_config
from tiny_models import fill

from antiphon.data.tokenizers import WordTokenizer
from antiphon.model_folder import save_model
from antiphon.models.build import build_model

__all__ = ["HOSTILE_RUN", "HOSTILE_WORDS", "hostile_folder"]

HOSTILE_RUN = "<img src=x onerror=alert(1)>"
HOSTILE_WORDS = [
    "<img/src=x/onerror=alert(1)>", "</script><script>alert(1)</script>", "\u202eשלום\u202c",
    "&lt;b&gt;", "'\"`${alert(1)}",
    "</style><svg/onload=alert(1)>",
]  # fmt: skip


def hostile_folder(folder: Path) -> None:
    """A model folder with these words on both sides, and with samples of a training."""
    tokenizer = WordTokenizer(HOSTILE_WORDS)
    config = tiny_config("bahdanau")
    model = build_model(config.model, source_tokens=tokenizer.size, target_tokens=tokenizer.size).eval()
    fill(model, scale=1.1)
    save_model(folder, config, model.state_dict(), tokenizer, tokenizer)
    rows = [{"update": 1, "source": word, "references": [word], "output": HOSTILE_RUN} for word in HOSTILE_WORDS]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
