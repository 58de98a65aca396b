"""How much denoising pre-training helps where pairs are few: BLEU and chrF with and without it, at several sizes.

    python benchmarks/pretraining.py train.tsv dev.tsv test.tsv --out runs/pretraining

Trains the recipe `pretrain` on the sentences of both columns of the training file, shuffled, so that nothing says
which belong together. Then each seed draws some pairs and the weights, and the model learns to translate these pairs,
from the pre-trained weights and from random ones. All else is equal: network, pairs, updates and tokenizer (that of the
sentences).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from pathlib import Path

import antiphon
from antiphon.config.load import read_config

EPOCHS = {500: 50, 2000: 25, 8000: 12}  # by number of pairs
EVALUATE_EVERY = {500: 50, 2000: 100, 8000: 200}  # updates: nine times a run
HEAD = """\
| pairs | BLEU, random weights | BLEU, pre-trained | gain | chrF, random weights | chrF, pre-trained | gain |
|---|---|---|---|---|---|---|"""
METRICS = ("bleu", "chrf")
FINE_TUNING = {"noise": {}, "metric": "bleu", "dev_examples": 200, "average": 3, "schedule.warmup": 100}


def read_lines(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def write_lines(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def pretrained(pairs: list[str], out: Path) -> Path:
    """The run that restores sentences of both columns; it is trained if it is not there yet."""
    sentences = [sentence for pair in pairs for sentence in pair.split("\t")[:2]]
    random.Random("antiphon pretraining").shuffle(sentences)  # noqa: S311 - not a secret
    text = write_lines(out / "text.txt", sentences)
    return antiphon.train(read_config("pretrain", [f"data.train={text}"]), out / "pretrained")


def fine_tuned(pairs: Path, dev: Path, start: Path, run: Path, *, size: int, seed: int, from_start: bool) -> Path:
    """The run that translates; `start` has the tokenizer and, if `from_start`, the first weights."""
    overrides = [f"data.train={pairs}", f"data.dev={dev}", "data.target.column=1"]
    overrides += [f"data.{side}.tokenizer={start}" for side in ("source", "target")]
    overrides += [f"model.{part}.from={start}" for part in ("encoder", "decoder") if from_start]
    training = {**FINE_TUNING, "epochs": EPOCHS[size], "evaluate_every": EVALUATE_EVERY[size], "seed": seed}
    overrides += [f"training.{key}={json.dumps(value)}" for key, value in training.items()]
    return antiphon.train(read_config("pretrain", overrides), run)


def measure(run: Path, test: Path) -> dict[str, float]:
    """The metrics on the test file; they are kept beside the run."""
    done = run / "test.json"
    if not done.exists():
        found = antiphon.evaluate(run, str(test), metrics=METRICS)
        done.write_text(json.dumps({metric: found.values[metric].value for metric in METRICS}), "utf-8")
    values: dict[str, float] = json.loads(done.read_text("utf-8"))
    return values


def mean_and_range(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def row(size: int, without: list[dict[str, float]], with_it: list[dict[str, float]]) -> str:
    """A line of the table in docs/results.md."""
    cells = [f"{size:,}"]
    for metric in METRICS:
        before, after = ([values[metric] for values in runs] for runs in (without, with_it))
        gain = statistics.mean(after) - statistics.mean(before)
        cells += [mean_and_range(before), mean_and_range(after), f"{gain:+.1f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Denoising pre-training against none, at several sizes of data.")
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("test", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/pretraining"))
    parser.add_argument("--sizes", type=int, nargs="+", choices=EPOCHS, default=list(EPOCHS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    chosen = parser.parse_args()
    pairs = read_lines(chosen.train)
    start = pretrained(pairs, chosen.out)
    rows = []
    for size in chosen.sizes:
        found: dict[str, list[dict[str, float]]] = {"random": [], "pretrained": []}
        for seed in chosen.seeds:
            sample = random.Random(f"{size} {seed}").sample(pairs, size)  # noqa: S311 - not a secret
            file = write_lines(chosen.out / f"pairs-{size}-{seed}.tsv", sample)
            for name, values in found.items():
                run = chosen.out / f"{name}-{size}-{seed}"
                from_start = name == "pretrained"
                fine_tuned(file, chosen.dev, start, run, size=size, seed=seed, from_start=from_start)
                values.append(measure(run, chosen.test))
                print(run.name, *(f"{metric} {value:.2f}" for metric, value in values[-1].items()), flush=True)
        rows.append(row(size, *found.values()))
    print(HEAD)
    print("\n".join(rows))


if __name__ == "__main__":
    main()
