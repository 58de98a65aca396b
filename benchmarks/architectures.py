"""Compare every context, score, order, encoder and decoder on one task: 20,000 words of the CMU dictionary.

    python benchmarks/architectures.py TRAIN.tsv DEV.tsv --out runs/architectures [--only NAME ...]

Trains each kind for the same number of epochs (a finished kind is not trained again) and prints the table of
docs/lab-notes.md: PER and WER (greedy; a word is right if it matches any of its pronunciations), target tokens a second
in training, words a second in decoding, parameters. Of the dev words that are not in the training file, one half is for
choosing the best weights of a run, the other half for the table.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import antiphon
from antiphon.api import read_examples
from antiphon.config.load import read_config
from antiphon.evaluation.evaluate import evaluate_examples

WORDS = 20_000
Part = Mapping[str, object]

SCORES = ("dot", "scaled-dot", "cosine", "bilinear", "additive", "concat")
CELLS = ("rnn", "rnn-relu", "gru", "lstm")
# The same hyperparameters for all: nothing is tuned to a kind.
TRAINING = {
    "epochs": 4,
    "batch_tokens": 512,
    "learning_rate": 2.5e-3,
    "schedule": {"kind": "cosine", "warmup": 200},
    "label_smoothing": 0.1,
    "average": 1,
    "dev_examples": 200,
}
ENCODER: Part = {"kind": "lstm", "embedding": 64, "size": 96, "layers": 1, "dropout": 0.2}
BAHDANAU: Part = {"kind": "bahdanau", "cell": "lstm", "embedding": 64, "size": 192, "dropout": 0.2}
LUONG: Part = {**BAHDANAU, "kind": "luong"}
PLAIN: Part = {**BAHDANAU, "kind": "plain"}
BLOCKS: Part = {"kind": "transformer", "size": 128, "layers": 3, "heads": 4, "feedforward": 256, "dropout": 0.1}
CNN: Part = {"kind": "cnn", "embedding": 64, "size": 192, "layers": 4, "kernel": 3, "dropout": 0.2}


@dataclass(frozen=True)
class Kind:
    """One row of the table: a model section."""

    group: str
    name: str
    model: Part


def encoder_decoder(encoder: Part, context: Part, decoder: Part) -> Part:
    return {"encoder": encoder, "context": context, "decoder": decoder}


def attended(decoder: Part, score: str = "additive", alignment: str = "soft", encoder: Part = ENCODER) -> Part:
    return encoder_decoder(encoder, {"kind": "attention", "score": score, "alignment": alignment}, decoder)


def contexts() -> list[Kind]:
    """Static contexts: their kind, and how the decoder gets them."""
    ways = [(kind, feed, "dense") for kind in ("last", "mean", "max") for feed in ("start", "every-step", "both")]
    return [
        Kind("context", f"{kind}, {feed}, {bridge}", encoder_decoder(ENCODER, context, PLAIN))
        for kind, feed, bridge in [*ways, ("last", "start", "direct")]
        for context in [{"kind": kind, "feed": feed, "bridge": bridge}]
    ]


def scores() -> list[Kind]:
    """Every score in both orders."""
    orders = {"Bahdanau": BAHDANAU, "Luong": LUONG}
    found = [
        Kind("score, order", f"{score}, {order}", attended(decoder, score))
        for order, decoder in orders.items()
        for score in SCORES
    ]
    return [
        *found,
        Kind("score, order", "additive, Luong, fed", attended({**LUONG, "input_feeding": True})),
        Kind("alignment", "hard, additive, Bahdanau", attended(BAHDANAU, alignment="hard")),
    ]


def networks() -> list[Kind]:
    """Other encoders and decoders."""
    heads = {"kind": "multi-head"}
    cells = [
        Kind(
            "cell",
            f"{cell} throughout, additive, Bahdanau",
            attended({**BAHDANAU, "cell": cell}, encoder={**ENCODER, "kind": cell}),
        )
        for cell in CELLS[:-1]
    ]
    return [
        *cells,
        Kind("encoder", "cnn → Bahdanau", attended(BAHDANAU, encoder=CNN)),
        Kind("encoder", "Transformer → Bahdanau", attended(BAHDANAU, encoder=BLOCKS)),
        Kind("encoder", "lstm with n-grams → Bahdanau", attended(BAHDANAU, encoder={**ENCODER, "ngrams": [3, 5]})),
        Kind("decoder", "lstm → Transformer", encoder_decoder(ENCODER, heads, BLOCKS)),
        Kind("decoder", "cnn → Transformer", encoder_decoder(CNN, heads, BLOCKS)),
        Kind("decoder", "Transformer → Transformer", encoder_decoder(BLOCKS, heads, BLOCKS)),
        Kind("one network", "lstm", {"kind": "concatenated", "decoder": {**PLAIN, "size": 256}}),
        Kind("one network", "Transformer", {"kind": "concatenated", "decoder": {**BLOCKS, "layers": 6}}),
    ]


def kinds() -> list[Kind]:
    """Every row, in the order of the table."""
    return [*contexts(), *scores(), *networks()]


def some_words(train: Path, out: Path) -> Path:
    """All lines of 20,000 words drawn from the training file, the same every time."""
    path = out / "train.tsv"
    if not path.exists():
        lines = train.read_text("utf-8").removesuffix("\n").split("\n")
        words = sorted({line.split("\t")[0] for line in lines})
        chosen = set(random.Random("antiphon architectures").sample(words, WORDS))  # noqa: S311 - not a secret
        out.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines if line.split("\t")[0] in chosen), "utf-8")
    return path


def unseen(train: Path, dev: Path, out: Path) -> tuple[Path, Path]:
    """The lines of dev whose word is not in the training file, in two halves: to choose weights, and for the table."""
    paths = out / "choose.tsv", out / "test.tsv"
    known = {line.split("\t")[0] for line in train.read_text("utf-8").split("\n")}
    lines = dev.read_text("utf-8").removesuffix("\n").split("\n")
    words = sorted({line.split("\t")[0] for line in lines} - known)
    for half, path in enumerate(paths):
        mine = set(words[half::2])
        path.write_text("".join(f"{line}\n" for line in lines if line.split("\t")[0] in mine), "utf-8")
    return paths


def measure(kind: Kind, train: Path, dev: Path, test: Path, run: Path) -> dict[str, object]:
    """Train and test a kind; return its row of the table."""
    overrides = [f"data.train={train}", f"data.dev={dev}", f"model={json.dumps(kind.model)}", "decoding.beam=1"]
    overrides += [f"training.{key}={value}" for key, value in TRAINING.items()]
    antiphon.train(read_config("g2p", overrides), run)
    generator = antiphon.load(run)
    examples, _ = read_examples(generator, str(test))
    begun = time.perf_counter()
    generator.generate([example.source for example in examples], beam=1, weights=False)
    decoding = time.perf_counter() - begun
    found = evaluate_examples(generator, examples, metrics=["per", "exact_match"], beam=1, resamples=0)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").split("\n") if line]
    return {
        "group": kind.group,
        "name": kind.name,
        "per": found.values["per"].value,
        "wer": 100.0 - found.values["exact_match"].value,
        "training": statistics.median(row["tokens_per_second"] for row in log),
        "decoding": len(examples) / decoding,
        "parameters": generator.model.parameter_count,
        "seconds": log[-1]["seconds"],
    }


def table(rows: list[dict[str, object]]) -> str:
    """The table in docs/lab-notes.md."""
    lines = [
        "| | kind | PER | WER | training, tokens/s | decoding, words/s | parameters | training |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['group']} | {row['name']} | {row['per']:.1f} | {row['wer']:.1f} | {row['training']:,.0f} "
        f"| {row['decoding']:,.0f} | {row['parameters']:,} | {row['seconds']:.0f} s |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Every kind on one task.")
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/architectures"))
    parser.add_argument("--only", nargs="*", help="parts of names: only the kinds that have one of them")
    chosen = parser.parse_args()
    train = some_words(chosen.train, chosen.out)
    dev, test = unseen(chosen.train, chosen.dev, chosen.out)
    rows = []
    for kind in kinds():
        if chosen.only and not any(part in f"{kind.group} {kind.name}" for part in chosen.only):
            continue
        run = chosen.out / re.sub(r"\W+", "-", f"{kind.group} {kind.name}").lower()
        done = run / "row.json"
        if not done.exists():
            row = measure(kind, train, dev, test, run)
            done.write_text(json.dumps(row), "utf-8")
        rows.append(json.loads(done.read_text("utf-8")))
        print(table(rows[-1:]).split("\n")[-1], flush=True)
    print()
    print(table(rows))


if __name__ == "__main__":
    main()
