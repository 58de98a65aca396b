"""Decoding side by side: our engines, transformers.generate and CTranslate2 driven directly, on the same weights.

    python benchmarks/decoding.py RUN PAIRS.tsv [--lstm RUN] [--out FOLDER] [--count 1000] [--singles 100] [--rounds 3]

RUN is a Transformer that a Marian folder can express (the recipe `translate`), --lstm a recurrent one. Each contestant
is a process of its own (benchmarks/decoding_worker.py) that loads its model and waits; they answer in turn, one at a
time, round after round, and the medians count. Prints the tables of docs/results.md: sentences a second, ratios, BLEU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from sacrebleu.metrics.bleu import BLEU

import antiphon
from antiphon.api import read_examples
from antiphon.sources.shortlist import SHORTLIST

WORKER = Path(__file__).with_name("decoding_worker.py")
BEAMS = (1, 5)
PAUSE = 0.3  # seconds, in which the threads of the one before fall asleep


@dataclass
class Contestant:
    """A process that answers when it is asked to, and what it took."""

    name: str
    process: subprocess.Popen[str]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def ask(self, task: str) -> dict[str, object]:
        """Sends a task; the answer is JSON on one line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(task + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the worker has died")
        answer: dict[str, object] = json.loads(line)
        return answer

    def run(self, task: str, *, counted: bool) -> None:
        answer = self.ask(task)
        if counted:
            self.seconds.setdefault(task, []).append(float(str(answer["seconds"])))
        if "texts" in answer:
            self.texts[task] = [str(text) for text in answer["texts"]] if isinstance(answer["texts"], list) else []


def folder(run: str, to: str, out: Path, *, int8: bool = False) -> str:
    """An export of the run; made once."""
    path = out / f"{Path(run).name}.{to}{'.int8' if int8 else ''}"
    if not path.exists():
        print(f"exporting {path}", file=sys.stderr)
        antiphon.export_model(run, to, path, int8=int8)
    return str(path)


def contestants(chosen: argparse.Namespace, out: Path) -> dict[str, tuple[str, str]]:
    """Name → kind of worker and folder."""
    if not (Path(chosen.run) / SHORTLIST).exists():
        antiphon.shortlist(chosen.run)
    run, small = str(chosen.run), folder(chosen.run, "ctranslate2", out, int8=True)
    whole = folder(chosen.run, "ctranslate2", out)
    found = {
        "ours, torch": ("ours", run),
        "ours, torch int8": ("ours-int8", run),
        "ours, torch, shortlist": ("ours-shortlist", run),
        "ours, CTranslate2": ("ours", whole),
        "ours, CTranslate2 int8": ("ours", small),
        "ours, CTranslate2, shortlist": ("ours-shortlist", whole),
        "ours, ONNX": ("ours", folder(chosen.run, "onnx", out)),
        "CTranslate2 directly": ("ctranslate2", whole),
        "CTranslate2 directly, int8": ("ctranslate2", small),
        "transformers.generate": ("transformers", folder(chosen.run, "huggingface", out)),
    }
    if chosen.lstm:
        found["LSTM, torch"] = ("ours", str(chosen.lstm))
        found["LSTM, torch int8"] = ("ours-int8", str(chosen.lstm))
        found["LSTM, ONNX"] = ("ours", folder(chosen.lstm, "onnx", out))
    return found


def started(name: str, kind: str, path: str, chosen: argparse.Namespace) -> Contestant:
    sentences = str(Path(chosen.out) / "sentences.json")
    command = [sys.executable, str(WORKER), kind, path, sentences, str(chosen.singles), str(chosen.threads)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return Contestant(name, process)


def measured(found: list[Contestant], rounds: int) -> None:
    """All tasks, round after round, the contestants in turn; the first round is to get warm."""
    tasks = [f"{way} {beam}" for beam in BEAMS for way in ("batch", "single")]
    for number in range(rounds + 1):
        for task in tasks:
            for one in found:
                time.sleep(PAUSE)
                one.run(task, counted=number > 0)
        print(f"round {number} of {rounds}", file=sys.stderr)


def table(found: list[Contestant], count: int, singles: int, references: list[str]) -> str:
    """Sentences a second, against CTranslate2 driven directly and against transformers.generate, and BLEU."""
    others = "× CTranslate2 | × transformers"
    rows = [f"| engine | beam | batched | {others} | one by one | {others} | BLEU |", f"|{'---|' * 9}"]
    by_name = {one.name: one for one in found}
    for beam in BEAMS:
        for one in found:
            cells = [one.name, str(beam)]
            for way, size in (("batch", count), ("single", singles)):
                speed = _speed(one, f"{way} {beam}", size)
                cells.append(f"{speed:.1f}")
                for other in ("CTranslate2 directly", "transformers.generate"):
                    there = other in by_name  # --only may leave it out
                    cells.append(f"{speed / _speed(by_name[other], f'{way} {beam}', size):.2f}" if there else "")
            bleu = BLEU().corpus_score(one.texts[f"batch {beam}"], [references]).score
            rows.append(f"| {' | '.join([*cells, f'{bleu:.2f}'])} |")
    return "\n".join(rows)


def _speed(one: Contestant, task: str, size: int) -> float:
    return size / statistics.median(one.seconds[task])


def main() -> None:
    parser = argparse.ArgumentParser(description="Decoding side by side.")
    parser.add_argument("run")
    parser.add_argument("pairs")
    parser.add_argument("--lstm")
    parser.add_argument("--out", default="runs/decoding")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--singles", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    out = Path(chosen.out)
    out.mkdir(parents=True, exist_ok=True)
    examples, _ = read_examples(antiphon.load(chosen.run), chosen.pairs)
    references = [example.references[0] for example in examples[: chosen.count]]
    sources = [example.source for example in examples[: chosen.count]]
    (out / "sentences.json").write_text(json.dumps(sources), "utf-8")
    wanted = {name: kind for name, kind in contestants(chosen, out).items() if not chosen.only or name in chosen.only}
    found = [started(name, kind, path, chosen) for name, (kind, path) in wanted.items()]
    for one in found:
        print(f"{one.name}: {one.ask('ready')}", file=sys.stderr)
    measured(found, chosen.rounds)
    text = table(found, min(chosen.count, len(references)), min(chosen.singles, len(references)), references)
    for one in found:
        one.process.kill()
    print(text)
    facts = {one.name: {"seconds": one.seconds, "texts": one.texts} for one in found}
    (out / "decoding.json").write_text(json.dumps(facts, indent=1), "utf-8")


if __name__ == "__main__":
    main()
