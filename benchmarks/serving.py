"""Measure `antiphon serve` on the loopback interface, beside the offline speed of the same model.

    python benchmarks/serving.py MODEL INPUTS [MODEL INPUTS ...] [--clients 1 8 64] [--requests 2000] [--seconds 8]
                                 [--singles 100] [--rounds 3] [--threads 1] [--beam BEAM] [--memory 20000] [--overload]
                                 [--beside ctranslate2 libretranslate=PYTHON] [--out serving.md]

MODEL is a run or an export, INPUTS a file with one input a line (or a TSV: its first column). A load is a closed loop:
every client sends its next request when it has its answer. In each round `generate` answers the same inputs offline, in
batches and one by one, in a process with as many threads as the server's model. Prints Markdown: medians over the
rounds; ratios are those within a round. A load has as many requests as take --seconds, six for
each client at least and --requests in all at most.

--memory N sends N more requests to the first model and reads the memory of the two processes on the way. --overload
sends four times as many requests a second as were answered. --beside measures other servers with an export to
CTranslate2: CTranslate2 behind a plain FastAPI route, or LibreTranslate from the Python of another environment.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from http_load import Outcome
from served import Running, Served, Usage, antiphon_server, cpu_seconds, other_server, running

from antiphon.evaluation.bench import BenchModel, BenchWorker

PAUSE = 0.3  # seconds before a measurement, in which the processes of the one before fall asleep
LEAST_TURNS = 6  # requests of each client, so that the beginning and the end are a small part of a load
STAGES = 10  # of the requests between which memory is read
QUEUE, WAIT = 64, 0.5  # inputs and seconds of the server that is overloaded
OVERLOAD, OVERLOAD_SECONDS = 4, 6
MOST_CONNECTIONS = 4000

# Figures.


@dataclass
class Figures:
    """What was measured in the rounds of one kind of load."""

    rates: list[float] = field(default_factory=list)  # answers a second
    ratios: list[float] = field(default_factory=list)  # to the batched rate of `generate` in the same round
    latencies: list[float] = field(default_factory=list)  # seconds, of all rounds
    usages: list[Usage] = field(default_factory=list)  # per request: CPU seconds; inputs and batches in all
    load: list[float] = field(default_factory=list)  # CPU seconds of the load generator per request

    def percentile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.latencies) or [math.nan]
        return 1000 * ordered[math.ceil(share * len(ordered)) - 1]

    def cells(self) -> list[str]:
        """The columns of the table."""
        cells = [f"{statistics.median(self.rates):.1f}", f"{statistics.median(self.ratios):.2f}"]
        shares = (0.5, 0.95, 0.99)
        cells += [f"{self.percentile(share):.1f}" if self.latencies else "" for share in shares]
        return [*cells, self._batch(), *self._cpu()]

    def _batch(self) -> str:
        batches = sum(usage.batches for usage in self.usages)
        return f"{sum(usage.inputs for usage in self.usages) / batches:.1f}" if batches else ""

    def _cpu(self) -> list[str]:
        """Milliseconds per request of the server, of the processes of its models, and of the load generator."""
        columns = ([usage.server for usage in self.usages], [usage.models for usage in self.usages], self.load)
        return [f"{1000 * statistics.median(column):.2f}" if any(column) else "" for column in columns]


COLUMNS = (
    "model", "", "clients", "answers/s", "× batched `generate`", "p50 ms", "p95 ms", "p99 ms", "batch",
    "CPU ms: server", "model", "load",
)  # fmt: skip


def steady_rate(outcome: Outcome, clients: int) -> float:
    """Answers a second while all clients were busy: without the first and the last answer of each."""
    ends = [answer.end for answer in outcome.answers]
    if len(ends) < 4 * clients:
        return len(ends) / ends[-1]
    return (len(ends) - 2 * clients) / (ends[-clients - 1] - ends[clients - 1])


# Measurements.


class Offline:
    """`generate` in a process of its own."""

    def __init__(self, model: str, texts: list[str], options: argparse.Namespace) -> None:
        self.texts, self.beam = texts, options.beam
        self._worker = BenchWorker(BenchModel.of_model(model, {}))
        self._worker.ask({"texts": texts, "singles": options.singles})

    def batched(self, figures: Figures) -> list[str]:
        """Measure it with all texts together; the answers."""
        return self._ask(figures, {"beam": self.beam})

    def alone(self, figures: Figures) -> None:
        """Measure it with some texts, one by one."""
        self._ask(figures, {"beam": self.beam, "batch_size": 1, "single": True})

    def _ask(self, figures: Figures, task: dict[str, object]) -> list[str]:
        before = cpu_seconds(self._worker.process.pid)
        found = self._worker.ask(task)
        outputs, seconds = list(found["outputs"]), list(found["seconds"])
        cpu = (cpu_seconds(self._worker.process.pid) - before) / len(outputs)
        figures.usages.append(Usage(server=0.0, models=cpu, inputs=0.0, batches=0.0))
        figures.load.append(0.0)
        figures.rates.append(len(outputs) / sum(seconds))
        figures.latencies += seconds if task.get("single") else []
        return outputs

    def close(self) -> None:
        self._worker.close()


class Comparison:
    """A model offline and behind servers, round after round."""

    def __init__(self, model: str, texts: list[str], servers: list[Running], options: argparse.Namespace) -> None:
        self.model, self.texts, self.options = model, texts, options
        self.few = texts[:: max(1, len(texts) // options.singles)][: options.singles]
        self.servers = servers
        self.batched, self.alone = Figures(), Figures()
        self.served = {(server.served.name, clients): Figures() for server in servers for clients in options.clients}
        self.different = self.failed = 0  # answers of our server beside those of `generate`; statuses other than 200

    def round(self, offline: Offline) -> None:
        """Measure everything once."""
        time.sleep(PAUSE)
        answers = offline.batched(self.batched)
        self.batched.ratios.append(1.0)
        for clients in sorted(self.options.clients, reverse=True):
            for server in self.servers:
                time.sleep(PAUSE)
                outcome = self._load(server, clients)
                if clients > 1 and server is self.servers[0]:
                    self.different += differences(server.served, outcome, answers)
        time.sleep(PAUSE)
        offline.alone(self.alone)
        self.alone.ratios.append(self.alone.rates[-1] / self.batched.rates[-1])

    def _load(self, server: Running, clients: int) -> Outcome:
        figures = self.served[server.served.name, clients]
        half = self.texts[: max(len(self.few), len(self.texts) // 2)]
        texts = self.few if clients == 1 else half if clients < max(self.options.clients) else self.texts
        before = server.usage()
        outcome = server.load(texts, clients, len(texts))
        figures.usages.append(server.usage().since(before, requests=len(texts)))
        figures.load.append(outcome.cpu / len(texts))
        figures.rates.append(steady_rate(outcome, clients))
        figures.ratios.append(figures.rates[-1] / self.batched.rates[-1])
        figures.latencies += [answer.latency for answer in outcome.answers]
        self.failed += sum(answer.status != 200 for answer in outcome.answers)
        return outcome

    @property
    def name(self) -> str:
        return Path(self.model).name

    @property
    def rate(self) -> float:
        """Answers a second of our server with the most clients."""
        busy = self.served[self.servers[0].served.name, max(self.options.clients)]
        return statistics.median(busy.rates)

    def rows(self) -> list[str]:
        """The rows of the table."""
        offline = [("`generate`, batched", "", self.batched), ("`generate`, one by one", "", self.alone)]
        served = [(name, str(clients), figures) for (name, clients), figures in self.served.items()]
        return [f"| {' | '.join([self.name, name, n, *figures.cells()])} |" for name, n, figures in offline + served]

    def targets(self) -> list[str]:
        """The figures that have a target, as a list."""
        lines = [f"{self.different} answers differ from those of `generate`, {self.failed} requests failed"]
        for (name, clients), figures in self.served.items():
            if name == self.servers[0].served.name and clients == max(self.options.clients):
                rounds = ", ".join(f"{ratio:.2f}" for ratio in figures.ratios)
                lines.append(
                    f"{clients} clients: {statistics.median(figures.ratios):.2f} of batched `generate` ({rounds})"
                )
            if name == self.servers[0].served.name and clients == 1:
                found, bare = figures.percentile(0.5), self.alone.percentile(0.5)
                lines.append(
                    f"1 client: p50 {found:.1f} ms; 1.2 x {bare:.1f} ms of `generate` + 3 ms: {1.2 * bare + 3:.1f}"
                )
        return [f"- {self.name}: {line}" for line in lines]


def differences(served: Served, outcome: Outcome, expected: list[str]) -> int:
    """The number of answers with another text."""
    answers = {answer.number: answer for answer in outcome.answers if answer.status == 200}
    return sum(served.text(answer.json()) != expected[number] for number, answer in answers.items())


def measure_memory(model: str, texts: list[str], options: argparse.Namespace) -> str:
    """MB of each process after shares of the requests."""
    stage, readings = options.memory // STAGES, []
    with running(antiphon_server(model, options.threads, options.beam), texts, options.threads) as server:
        for number in range(STAGES):
            log(f"{model}: memory, {stage * number} of {options.memory} requests")
            first = stage * number % len(texts)
            server.load(texts[first:] + texts[:first], max(options.clients), stage)
            readings.append(server.memory())
    shown = {"10 %": readings[0], "50 %": readings[STAGES // 2 - 1], "100 %": readings[-1]}
    rows = [f"| {share} | {' | '.join(f'{one:.0f}' for one in found)} |" for share, found in shown.items()]
    changes = [f"{100 * (last / first - 1):+.1f} %" for first, last in zip(readings[0], readings[-1], strict=True)]
    head = f"| of {stage * STAGES:,} requests | server MB | model MB |\n|---|---|---|"
    return "\n".join([head, *rows, f"| change | {' | '.join(changes)} |"])


def measure_overload(compared: Comparison, options: argparse.Namespace) -> str:
    """Statuses and refusals of a server that gets four times the requests it can answer."""
    served = antiphon_server(
        compared.model, options.threads, options.beam, ("--queue", str(QUEUE), "--wait", str(WAIT))
    )
    asked = OVERLOAD * compared.rate
    with running(served, compared.texts, options.threads) as server:
        log(f"{compared.model}: {asked:.0f} requests a second")
        server.load(compared.texts, QUEUE, 4 * QUEUE)
        answers = server.load(compared.texts, MOST_CONNECTIONS, int(asked * OVERLOAD_SECONDS), asked).answers
    kinds = ", ".join(f"{number} x {status}" for status, number in sorted(Counter(it.status for it in answers).items()))
    good, end = sum(it.status == 200 for it in answers), max(it.end for it in answers)
    late = Figures(latencies=[answer.latency - WAIT for answer in answers if answer.status == 429] or [math.nan])
    p50, p99, most = (late.percentile(share) for share in (0.5, 0.99, 1.0))
    return (
        f"- {compared.name}: {asked:.0f} requests a second for {OVERLOAD_SECONDS} s, queue {QUEUE}, wait {WAIT} s: "
        f"{kinds}, {good / end / compared.rate:.2f} of the rate at {max(options.clients)} clients; "
        f"refusals came {p50:.0f} ms (p50), {p99:.0f} ms (p99), {most:.0f} ms (most) after their wait"
    )


# The command.


def compare(model: str, inputs: list[str], options: argparse.Namespace) -> Comparison:
    """Measure a model in all rounds."""
    with ExitStack() as stack:
        servers = [stack.enter_context(running(served, inputs, options.threads)) for served in wanted(model, options)]
        most = max(options.clients)
        trial, *_ = [server.load(inputs, most, 4 * most) for server in servers]
        count = max(LEAST_TURNS * most, int(options.seconds * steady_rate(trial, most)))
        texts = inputs[: min(options.requests, count)]
        compared = Comparison(model, texts, servers, options)
        offline = stack.enter_context(closing(Offline(model, texts, options)))
        for number in range(options.rounds):
            log(f"{model}: round {number + 1} of {options.rounds}, {len(texts)} requests")
            compared.round(offline)
        return compared


def wanted(model: str, options: argparse.Namespace) -> list[Served]:
    """Our server, and those beside it if the model is an export to CTranslate2."""
    others = options.beside if (Path(model) / "shared_vocabulary.json").exists() else []
    return [
        antiphon_server(model, options.threads, options.beam),
        *(other_server(kind, model, options.threads, options.beam or 5) for kind in others),
    ]


def read_inputs(path: str) -> list[str]:
    """The first column of each line."""
    lines = Path(path).read_text("utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line.strip()]


def log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure antiphon serve.")
    parser.add_argument("models", nargs="+", metavar="MODEL INPUTS")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--singles", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beam", type=int)
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--overload", action="store_true")
    parser.add_argument("--beside", nargs="+", default=[])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if len(options.models) % 2:
        parser.error("give a file of inputs for each model")
    return options


def main() -> None:
    options = parse_options()
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    pairs = [(model, read_inputs(path)) for model, path in zip(options.models[::2], options.models[1::2], strict=True)]
    compared = [compare(model, inputs, options) for model, inputs in pairs]
    head = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    parts = ["\n".join([*head, *(row for one in compared for row in one.rows())])]
    parts.append("\n".join(line for one in compared for line in one.targets()))
    if options.overload:
        parts.append("\n".join(measure_overload(one, options) for one in compared))
    if options.memory:
        parts.append(measure_memory(*pairs[0], options))
    text = "\n\n".join(parts)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
