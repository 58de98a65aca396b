"""Measure the speed of training beside other toolkits: the same sub-words, network and size of batches.

    python benchmarks/training.py PAIRS.tsv [--models transformer lstm] [--out runs/training] [--rounds 2]
                                  [--peer marian=PYTHON] [--peer eole=PYTHON] [--peer opennmt=PYTHON]
                                  [--only NAME [NAME ...]] [--updates 16] [--threads 2]

PAIRS.tsv has a source and a target a line. `antiphon train`, a plain torch loop (plain_training.py) and the trainers of
the peers, each from the Python of its own environment, train in turn, each in a process of its own, round after round.
The peers read the sub-words that our tokenizer wrote; the plain loop has our batches, too. The first updates do not
count. "Same settings" gives a system the two settings of a run of ours: float32 products of the precision "medium"
(oneDNN), and freed memory that glibc keeps (mallopt).

Rounds are appended to OUT/rounds.jsonl, and the table of all rounds in it is printed: medians. --only chooses systems
by their names in that file, --rounds 0 measures nothing.

The share of the machine is 6 x W x tokens/s / rate. W are the weights used per target token: those of the decoder and
the output layer, and of the encoder times the source tokens per target token; a forward pass takes 2 operations per
weight, a backward pass 4. The products of attention, and look-ups in embeddings, do not count. The rate is that of a
float32 product of [4096, 256] and [256, 1024] by oneDNN.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import runpy
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_peers import (
    BATCH_TOKENS,
    FIRST,
    Setting,
    Speed,
    eole_config,
    marian_options,
    opennmt_config,
    read_marian,
    read_opennmt,
    write_json,
)

MOST_UPDATES = 19  # log.jsonl has each of them
VOCABULARY = 8000
ROWS, INNER, COLUMNS = 4096, 256, 1024  # of the product whose rate is measured
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1  # options of glibc's mallopt
LEARNT_NOTHING = 3  # exit code of a run of ours; a few updates do not suffice
POLL = 0.1  # seconds between two readings of a process's memory

LSTM = """\
data:
  train: pairs.tsv
  dev: null
  source: {tokens: bpe, column: 0, vocabulary: 8000, max_length: 100}
  target: {tokens: bpe, column: 1, vocabulary: 8000, max_length: 100}
  shared_vocabulary: true
model:
  encoder: {kind: lstm, layers: 2, size: 256, embedding: 512, bidirectional: true, dropout: 0.2}
  context: {kind: attention, score: bilinear}
  decoder: {kind: luong, cell: lstm, layers: 2, size: 512, embedding: 512, input_feeding: true, dropout: 0.2}
training: {learning_rate: 1e-3}
"""
# Workers: they run in the environments of the peers, and import nothing of ours.


def same_settings() -> None:
    """The precision "medium", and freed memory that glibc keeps."""
    import torch

    torch.set_float32_matmul_precision("medium")
    libc = ctypes.CDLL(None)
    if not (libc.mallopt(M_MMAP_THRESHOLD, 1 << 30) and libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)):
        raise SystemExit("mallopt: this C library does not have these settings")


def run_program(program: str, *arguments: str) -> None:
    """Run a file or a module as the main program, with these arguments."""
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__")


def print_product_rate(threads: str) -> None:
    """GFLOP/s of a float32 product by oneDNN, the best of many."""
    import torch

    torch.set_num_threads(int(threads))
    same_settings()
    left, right = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)
    best = float("inf")
    for _ in range(300):
        began = time.perf_counter()
        torch.mm(left, right)
        best = min(best, time.perf_counter() - began)
    print(json.dumps({"gflops": 2e-9 * ROWS * INNER * COLUMNS / best}))


# What is compared.


@dataclass(frozen=True)
class System:
    """A command that trains, and how its speed is read from what it printed."""

    title: str
    command: list[str]
    read: Callable[[str], Speed]
    is_peer_as_shipped: bool = False
    threads: int | None = None  # OMP_NUM_THREADS, if it is not the number of threads
    exit_codes: tuple[int, ...] = (0,)


def overrides(setting: Setting) -> list[str]:
    """Keys of our configuration."""
    return [
        f"data.train={setting.pairs}", f"data.source.vocabulary={VOCABULARY}", f"data.target.vocabulary={VOCABULARY}",
        f"training.batch_tokens={BATCH_TOKENS}", f"training.max_updates={setting.updates}",
        f"training.threads={setting.threads}", "training.dev_examples=4",
        "data.hold_out=0.002", "decoding={beam: 1, max_length: 20}",
    ]  # fmt: skip


def recipe(setting: Setting) -> str:
    if setting.model == "transformer":
        return "translate"
    path = setting.folder / "lstm.yaml"
    path.write_text(LSTM, "utf-8")
    return str(path)


def write_data(setting: Setting) -> float:
    """Write the data of the peers: sub-words as text, a vocabulary, and our batches; return 6 x W."""
    from antiphon.config.load import read_config
    from antiphon.data.prepare import prepare
    from antiphon.model_folder import fresh_model
    from antiphon.training.run import build_batches

    config = read_config(recipe(setting), overrides(setting))
    prepared = prepare(config.data, log)
    train, size = prepared.train, prepared.target_tokenizer.size
    sides: dict[str, Any] = {"source": train.source, "target": train.target}
    for side, rows in sides.items():
        texts = (" ".join(f"t{token}" for token in rows[row].tolist()) for row in range(len(train)))
        (setting.folder / f"train.{side}").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    names = [f"t{token}" for token in range(4, size)]
    (setting.folder / "vocabulary.txt").write_text("".join(f"{name}\n" for name in names), "utf-8")
    marian = {name: number for number, name in enumerate(["</s>", "<unk>", *names])}
    (setting.folder / "vocabulary.yml").write_text("".join(f"{name}: {marian[name]}\n" for name in marian), "utf-8")
    plan = build_batches(config, prepared).plan(0)[: setting.updates]
    batches = [[[rows[int(row)].tolist() for row in batch] for rows in sides.values()] for batch in plan]
    (setting.folder / "batches.json").write_text(json.dumps({"vocabulary": size, "batches": batches}), "utf-8")
    model = fresh_model(config, prepared.source, prepared.target_tokenizer)
    ratio = (train.source.lengths + 1).sum() / (train.target.lengths + 1).sum()
    weights = 0.0
    for name, weight in model.named_parameters():
        output = "output" in name or (config.model.tie == "all" and "embedding" in name)
        if weight.dim() == 2 and (output or "embedding" not in name):
            weights += weight.numel() * (ratio if name.startswith("encoder") else 1.0)
    return float(6 * weights)


def systems(setting: Setting, peers: dict[str, str]) -> dict[str, System]:
    """Everything that is compared, by name."""
    folder, script = setting.folder, Path(__file__)
    found = {
        "antiphon": antiphon("Antiphon", setting, folder / "run", []),
        "antiphon-bfloat16": antiphon(
            "Antiphon, `training.precision=bfloat16`", setting, folder / "run-bfloat16", ["training.precision=bfloat16"]
        ),
    }
    plain = [str(script.with_name("plain_training.py")), setting.model, str(folder / "batches.json")]
    plain += [str(FIRST), str(setting.threads)]
    found |= torch_systems("plain", "plain torch loop", sys.executable, plain, lambda text: Speed(**last_json(text)))
    if "marian" in peers:
        command = [peers["marian"], "-m", "pymarian", *marian_options(setting)]
        found["marian"] = System("Marian", command, read_marian, is_peer_as_shipped=True, threads=1)
    if "eole" in peers:
        program = ["eole.bin.main", "train", "-config", str(eole_config(setting))]
        found |= torch_systems("eole", "Eole", peers["eole"], program, read_opennmt)
    if "opennmt" in peers:
        program = ["onmt.bin.train", "-config", str(opennmt_config(setting))]
        found |= torch_systems("opennmt", "OpenNMT-py", peers["opennmt"], program, read_opennmt)
    return found


def torch_systems(
    name: str, title: str, python: str, program: list[str], read: Callable[[str], Speed]
) -> dict[str, System]:
    """A program that uses torch, as shipped and with the same settings as ours."""
    shipped, same = ([python, __file__, worker, *program] for worker in ("--run", "--run-with-settings"))
    return {
        name: System(title, shipped, read, is_peer_as_shipped=True),
        f"{name}-same": System(f"{title}, same settings", same, read),
    }


def antiphon(title: str, setting: Setting, run: Path, more: list[str]) -> System:
    """The command `antiphon train`; its speed is that of the updates in log.jsonl."""
    command = [sys.executable, "-m", "antiphon.cli.main", "train", recipe(setting), *overrides(setting), *more]

    def read(_: str) -> Speed:
        rows = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
        before, after = (next(row for row in rows if row["update"] == n) for n in (FIRST, setting.updates))
        tokens = [row["tokens_per_second"] * row["seconds"] for row in (before, after)]
        return Speed(tokens[1] - tokens[0], after["seconds"] - before["seconds"], setting.updates - FIRST)

    return System(title, [*command, "--fresh", "--out", str(run)], read, exit_codes=(0, LEARNT_NOTHING))


# Measurements.


def measure(name: str, system: System, setting: Setting) -> dict[str, Any]:
    """Train with one system; its speed, and the peak of its memory."""
    environment = os.environ | {"OMP_NUM_THREADS": str(system.threads or setting.threads)}
    output = setting.folder / f"{name}.log"
    for leftover in setting.folder.glob("marian.npz*"):
        leftover.unlink()
    shutil.rmtree(setting.folder / "eole", ignore_errors=True)
    peak = 0.0
    with output.open("w", encoding="utf-8") as written:
        process = subprocess.Popen(system.command, stdout=written, stderr=subprocess.STDOUT, env=environment)
        try:
            while process.poll() is None:
                peak = max(peak, peak_memory(process.pid))
                time.sleep(POLL)
        finally:
            process.kill()  # if this process is interrupted
    text = output.read_text("utf-8", errors="replace")
    if process.returncode not in system.exit_codes:
        raise SystemExit(f"{name}: exit code {process.returncode}; see {output}\n{text[-2000:]}")
    speed = system.read(text)
    if not speed.updates:
        raise SystemExit(f"{name}: {output} has no figures of updates after the first {FIRST}; raise --updates")
    return {
        "system": name, "model": setting.model, "tokens_per_second": speed.tokens / speed.seconds,
        "tokens_per_update": speed.tokens / speed.updates, "peak_mb": peak,
    }  # fmt: skip


def peak_memory(pid: int) -> float:
    """VmHWM of a process in MB; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return 0.0
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, flags=re.MULTILINE)
    return int(found[1]) / 1000 if found else 0.0


def product_rate(threads: int) -> float:
    worker = [sys.executable, __file__, "--product-rate", str(threads)]
    return float(last_json(subprocess.run(worker, check=True, capture_output=True, text=True).stdout)["gflops"])


def table(rows: list[dict[str, Any]], found: dict[str, System], cost: float) -> str:
    """Medians over the rounds of one model."""
    by_name: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_name[row["system"]].append(row)
    medians = {
        name: {key: statistics.median(row[key] for row in by_name[name]) for key in by_name[name][0] if key in FIGURES}
        for name in found
        if name in by_name
    }
    shipped = [medians[name]["tokens_per_second"] for name in medians if found[name].is_peer_as_shipped]
    fastest, lines = max(shipped, default=float("nan")), list(HEAD)
    for name, figures in medians.items():
        speed, rate = figures["tokens_per_second"], figures["gflops"]
        cells = [found[name].title, f"{speed:,.0f}", f"{speed / fastest:.2f}", f"{figures['peak_mb']:,.0f}"]
        cells += [f"{cost * speed * 1e-9 / rate:.0%}", f"{figures['tokens_per_update']:,.0f}", str(len(by_name[name]))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


FIGURES = ("tokens_per_second", "tokens_per_update", "peak_mb", "gflops")
HEAD = (
    "| system | target tokens/s | × fastest peer as shipped | peak MB | share of machine | tokens/update | rounds |",
    "|---|---|---|---|---|---|---|",
)


def compare(model: str, options: argparse.Namespace) -> str:
    """Measure the rounds of one model, and return the table of all rounds in the file."""
    folder = options.out.resolve() / model
    folder.mkdir(parents=True, exist_ok=True)
    setting = Setting(model, folder, options.pairs.resolve(), options.updates, options.threads)
    record, cost_file = options.out / "rounds.jsonl", folder / f"cost-{setting.updates}.json"
    if not cost_file.exists():
        write_json(cost_file, {"operations": write_data(setting)})
    cost = float(json.loads(cost_file.read_text("utf-8"))["operations"])
    found = systems(setting, dict(peer.split("=", 1) for peer in options.peer))
    chosen = {name: system for name, system in found.items() if not options.only or name in options.only}
    for number in range(options.rounds):
        rate = product_rate(setting.threads)
        order = list(chosen.items())
        for name, system in order if number % 2 == 0 else reversed(order):
            row = measure(name, system, setting) | {"gflops": rate}
            log(f"{model} {name}: {row['tokens_per_second']:,.0f} tokens/s, {row['peak_mb']:,.0f} MB")
            with record.open("a", encoding="utf-8") as lines:
                lines.write(f"{json.dumps(row)}\n")
    rows = [json.loads(line) for line in record.read_text("utf-8").splitlines()] if record.exists() else []
    rows = [row for row in rows if row["model"] == model]
    rate = statistics.median(row["gflops"] for row in rows) if rows else float("nan")
    facts = f"{model}: {cost * 1e-6:.1f} million operations a target token; products {rate:.0f} GFLOP/s"
    return f"{facts}\n\n{table(rows, found, cost)}"


def last_json(text: str) -> dict[str, Any]:
    """The JSON object in the last line."""
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found


def log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the speed of training.")
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--models", nargs="+", choices=["transformer", "lstm"], default=["transformer", "lstm"])
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path("runs/training"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--updates", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not FIRST < options.updates <= MOST_UPDATES:
        raise SystemExit(f"--updates {options.updates}: choose from {FIRST + 1} to {MOST_UPDATES}")
    print("\n\n".join([compare(model, options) for model in options.models]))


if __name__ == "__main__":
    if sys.argv[1:2] in (["--run"], ["--run-with-settings"]):
        if sys.argv[1] == "--run-with-settings":
            same_settings()
        run_program(*sys.argv[2:])
    elif sys.argv[1:2] == ["--product-rate"]:
        print_product_rate(*sys.argv[2:])
    else:
        main()
