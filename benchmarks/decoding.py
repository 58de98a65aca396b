"""Decoding side by side: our engines, transformers.generate and CTranslate2 driven directly, on the same weights.

    python benchmarks/decoding.py RUN PAIRS.tsv [--lstm RUN PAIRS.tsv] [--results docs/results.md] [--out FOLDER]
                                  [--count 1000] [--singles 100] [--rounds 3]

RUN is a Transformer that a Marian folder can express (the recipe `translate`), --lstm a recurrent one with its own
sources, for a table of its own. Each contestant
is a process of its own (benchmarks/decoding_worker.py) that loads its model and waits; they answer in turn, one at a
time, round after round, and the medians count. Prints the tables, sentences a second, ratios and BLEU, and with
--results writes them there between its two marks. Ends with 1 if engines that compute the same do not say the same.
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
from antiphon.data.pairs import Example
from antiphon.ngrams.shortlist import SHORTLIST

WORKER = Path(__file__).with_name("decoding_worker.py")
BEAMS = (1, 5)
EQUAL = 0.2  # BLEU: more than that apart is not rounding
SMALL = ("int8", "shortlist")  # these may differ
BEGIN, END = "<!-- decoding: written by benchmarks/decoding.py -->", "<!-- /decoding -->"
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
    return {
        "ours, torch": ("ours", run),
        "ours, CTranslate2": ("ours", whole),
        "ours, CTranslate2 int8": ("ours", small),
        "ours, CTranslate2, shortlist": ("ours-shortlist", whole),
        "ours, ONNX": ("ours", folder(chosen.run, "onnx", out)),
        "CTranslate2 directly": ("ctranslate2", whole),
        "CTranslate2 directly, int8": ("ctranslate2", small),
        "transformers.generate": ("transformers", folder(chosen.run, "huggingface", out)),
    }


def recurrent(run: str, out: Path) -> dict[str, tuple[str, str]]:
    """Name → kind of worker and folder, of a recurrent model."""
    return {
        "ours, torch": ("ours", run),
        "ours, ONNX": ("ours", folder(run, "onnx", out)),
    }


def started(name: str, kind: str, path: str, sentences: Path, chosen: argparse.Namespace) -> Contestant:
    command = [sys.executable, str(WORKER), kind, path, str(sentences), str(chosen.singles), str(chosen.threads)]
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


def table(found: list[Contestant], examples: list[Example], singles: int, others: tuple[str, ...]) -> str:
    """Sentences a second, as often as others do it, and BLEU."""
    times = "".join(f" | × {other}" for other in others)
    rows = [f"| engine | beam | batched{times} | one by one{times} | BLEU |", f"|{'---|' * (5 + 2 * len(others))}"]
    by_name = {one.name: one for one in found}
    for beam in BEAMS:
        for one in found:
            cells = [one.name, str(beam)]
            for way, size in (("batch", len(examples)), ("single", singles)):
                speed = _speed(one, f"{way} {beam}", size)
                cells.append(f"{speed:.1f}")
                for other in others:
                    there = other in by_name  # --only may leave it out
                    cells.append(f"{speed / _speed(by_name[other], f'{way} {beam}', size):.2f}" if there else "")
            rows.append(f"| {' | '.join([*cells, f'{bleu(one, beam, examples):.2f}'])} |")
    return "\n".join(rows)


def bleu(one: Contestant, beam: int, examples: list[Example]) -> float:
    """Against the first reference of each."""
    references = [example.references[0] for example in examples]
    return float(BLEU().corpus_score(one.texts[f"batch {beam}"], [references]).score)


def unequal(found: list[Contestant], examples: list[Example]) -> list[str]:
    """Engines whose BLEU is not that of our torch engine, though they should say the same."""
    # CTranslate2 in a plain script takes <unk> out in its own way (docs/results.md), so it is not asked.
    exact = [one for one in found if not any(word in one.name for word in (*SMALL, "directly"))]
    usual = next((one for one in exact if one.name == "ours, torch"), None)
    if usual is None:
        return []
    return [
        f"{one.name}, beam {beam}: BLEU {bleu(one, beam, examples):.2f}, ours has {bleu(usual, beam, examples):.2f}"
        for beam in BEAMS
        for one in exact
        if abs(bleu(one, beam, examples) - bleu(usual, beam, examples)) > EQUAL
    ]


def _speed(one: Contestant, task: str, size: int) -> float:
    return size / statistics.median(one.seconds[task])


def contest(
    wanted: dict[str, tuple[str, str]],
    run: str,
    pairs: str,
    others: tuple[str, ...],
    chosen: argparse.Namespace,
) -> tuple[str, list[str]]:
    """The table of these contestants on the sources of a file, and what is wrong with it."""
    out = Path(chosen.out)
    examples = read_examples(antiphon.load(run), pairs)[0][: chosen.count]
    sentences = out / f"{Path(run).name}.sentences.json"
    sentences.write_text(json.dumps([example.source for example in examples]), "utf-8")
    some = {name: how for name, how in wanted.items() if not chosen.only or name in chosen.only}
    found = [started(name, kind, path, sentences, chosen) for name, (kind, path) in some.items()]
    for one in found:
        print(f"{one.name}: {one.ask('ready')}", file=sys.stderr)
    measured(found, chosen.rounds)
    for one in found:
        one.process.kill()
    facts = {one.name: {"seconds": one.seconds, "texts": one.texts} for one in found}
    (out / f"{Path(run).name}.json").write_text(json.dumps(facts, indent=1), "utf-8")
    singles = min(chosen.singles, len(examples))
    return table(found, examples, singles, others), unequal(found, examples)


def write_results(path: Path, text: str) -> None:
    """Puts the text between the two marks of a file."""
    before, _, rest = path.read_text("utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{path}: no place for the tables; put {BEGIN} and {END} there, each on its own line")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Decoding side by side.")
    parser.add_argument("run")
    parser.add_argument("pairs")
    parser.add_argument("--lstm", nargs=2, metavar=("RUN", "PAIRS"))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--out", default="runs/decoding")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--singles", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", nargs="*", default=[])
    chosen = parser.parse_args()
    out = Path(chosen.out)
    out.mkdir(parents=True, exist_ok=True)
    peers = ("CTranslate2 directly", "transformers.generate")
    tables = [contest(contestants(chosen, out), chosen.run, chosen.pairs, peers, chosen)]
    if chosen.lstm:
        run, pairs = chosen.lstm
        tables.append(contest(recurrent(run, out), run, pairs, ("ours, torch",), chosen))
    text = "\n\n".join(one for one, _ in tables)
    print(text)
    if chosen.results:
        write_results(chosen.results, text)
    if faults := [fault for _, faults in tables for fault in faults]:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
