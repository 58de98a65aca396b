"""Accuracy of each kind of context by the length of the input: the case for attention, as a picture.

    python benchmarks/length.py --out runs/length [--picture docs/images/length.png]

Trains one model for each kind of context on the task `reverse` (letters said backwards, 1 to 20 of them), counts the
test strings that come out whole, by their length, and draws one curve for each kind.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import antiphon
from antiphon.api import read_examples
from antiphon.config.load import read_config

BUCKET = 4  # lengths 1-4, 5-8, ...
LSTM = {"embedding": 64, "size": 256, "cell": "lstm", "dropout": 0.0}
PLAIN = {"kind": "plain", **LSTM}
CONTEXTS: dict[str, dict[str, object]] = {
    "last state, at the start": {"context": {"kind": "last", "feed": "start"}, "decoder": PLAIN},
    "last state, at every step": {"context": {"kind": "last", "feed": "both"}, "decoder": PLAIN},
    "mean of the states": {"context": {"kind": "mean", "feed": "both"}, "decoder": PLAIN},
    "max of the states": {"context": {"kind": "max", "feed": "both"}, "decoder": PLAIN},
    "attention": {"context": {"kind": "attention", "score": "additive"}, "decoder": {"kind": "bahdanau", **LSTM}},
}
ENCODER = {"kind": "lstm", "embedding": 64, "size": 128, "dropout": 0.0}
TRAINING = {
    "epochs": 8,
    "batch_tokens": 2048,
    "learning_rate": 2e-3,
    "schedule": {"kind": "cosine", "warmup": 100},
    "metric": "exact_match",
    "dev_examples": 300,
}


def accuracies(name: str, model: dict[str, object], run: Path) -> dict[int, float]:
    """Share of whole answers, in percent, by bucket of lengths."""
    done = run / "accuracies.json"
    if not done.exists():
        overrides = [f"model={json.dumps({'encoder': ENCODER, **model})}"]
        overrides += [f"training.{key}={value}" for key, value in TRAINING.items()]
        antiphon.train(read_config("reverse", overrides), run)
        generator = antiphon.load(run)
        examples, _ = read_examples(generator, "@reverse/test")
        answers = generator.generate([example.source for example in examples], beam=1, weights=False)
        right: dict[int, list[bool]] = defaultdict(list)
        for example, answer in zip(examples, answers, strict=True):
            bucket = (len(example.source.split()) - 1) // BUCKET
            right[bucket].append(answer.text in example.references)
        found = {bucket: 100 * sum(hits) / len(hits) for bucket, hits in sorted(right.items())}
        done.write_text(json.dumps({"name": name, "accuracy": found}), "utf-8")
    return {int(bucket): value for bucket, value in json.loads(done.read_text("utf-8"))["accuracy"].items()}


def label(bucket: int) -> str:
    return f"{bucket * BUCKET + 1}-{(bucket + 1) * BUCKET}"


def draw(curves: dict[str, dict[int, float]], path: Path) -> None:
    """One curve for each kind."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        axes.plot([label(bucket) for bucket in curve], list(curve.values()), marker="o", label=name)
    axes.set_xlabel("letters in the input")
    axes.set_ylabel("answers that are wholly right, %")
    axes.set_ylim(-3, 103)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description="Accuracy against length, one curve for each kind of context.")
    parser.add_argument("--out", type=Path, default=Path("runs/length"))
    parser.add_argument("--picture", type=Path, default=Path("length.png"))
    chosen = parser.parse_args()
    curves = {}
    for name, model in CONTEXTS.items():
        curves[name] = accuracies(name, model, chosen.out / name.replace(" ", "-").replace(",", ""))
        print(f"{name:<26}", "  ".join(f"{label(b)}: {value:5.1f}" for b, value in curves[name].items()), flush=True)
    draw(curves, chosen.picture)
    print(f"wrote {chosen.picture}")


if __name__ == "__main__":
    main()
