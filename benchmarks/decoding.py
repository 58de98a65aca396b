"""Compare decoding speed: our engines, transformers.generate and CTranslate2 driven directly, on the same weights.

    python benchmarks/decoding.py RUN PAIRS.tsv [--lstm RUN PAIRS.tsv] [--results docs/results.md] [--out FOLDER]
                                  [--count 1000] [--singles 100] [--rounds 3]

RUN is a Transformer; transformers.generate needs one that a Marian folder can express (order: post). --lstm is a
recurrent one with its own sources, for a table of its own. --only NAME [NAME ...] chooses some of the candidates. Each
is a worker process of antiphon.evaluation.bench (this script again, with --worker); they decode in turn, one at a time,
round after round. Prints tables of sentences a second (medians over the rounds), ratios, milliseconds a sentence one by
one (p50 and p95 over all rounds) and BLEU; --results writes them between the two marks of that file. Exit code 1 if
engines that compute the same differ in BLEU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sacrebleu.metrics.bleu import BLEU

import antiphon
from antiphon.api import read_examples
from antiphon.data.build_source import SOURCE_TOKENIZER, TARGET_TOKENIZER, load_tokenizer
from antiphon.data.pairs import Example
from antiphon.data.tokenizers import EOS, PAD, SOS, UNK
from antiphon.evaluation.bench import BenchModel, Decode, Measurements, Task, measure, serve
from antiphon.ngrams.shortlist import SHORTLIST

TASKS = [Task(beam, 1 if single else None, single) for beam in (1, 5) for single in (False, True)]
BATCHES = [task for task in TASKS if not task.single]
BATCH_SIZE, MAX_LENGTH = 64, 100
TOLERANCE = 0.2  # BLEU: a larger difference is not rounding
INEXACT = ("int8", "shortlist", "directly")  # CTranslate2 in a plain script removes <unk> in its own way
BEGIN, END = "<!-- decoding: written by benchmarks/decoding.py -->", "<!-- /decoding -->"
PAUSE = 0.3  # seconds

# Workers.


def ours(path: str, *, shortlist: bool = False) -> Decode:
    """Our own API, with the beam search of other toolkits, so that all do the same work."""
    generator = antiphon.load(path)

    def decode(texts: list[str], beam: int | None, batch_size: int | None) -> list[str]:
        answers = generator.generate(
            texts,
            beam=beam,
            batch_size=batch_size,
            patience=None if beam == 1 else 1.0,
            max_length=MAX_LENGTH,
            length_penalty=1.0,
            weights=False,
            log_probs=False,
            shortlist=shortlist,
        )
        return [answer.text for answer in answers]

    return decode


def ctranslate2_directly(path: str) -> Decode:
    """A plain script around translate_batch. Torch computes nothing here: its threads would slow CTranslate2 down."""
    import ctranslate2

    translator = ctranslate2.Translator(path, device="cpu", inter_threads=1, intra_threads=torch.get_num_threads())
    names = [str(name) for name in json.loads((Path(path) / "shared_vocabulary.json").read_text("utf-8"))]
    ids = {name: number for number, name in enumerate(names)}

    def decode_batch(rows: list[list[int]], beam: int | None) -> list[list[int]]:
        results = translator.translate_batch(
            [[names[token] for token in row] for row in rows], beam_size=beam, max_decoding_length=MAX_LENGTH,
            length_penalty=1.0, suppress_sequences=[[names[token]] for token in (PAD, SOS, UNK)],
        )  # fmt: skip
        return [[ids[piece] for piece in result.hypotheses[0]] for result in results]

    return in_sorted_batches(path, decode_batch)


def transformers_generate(path: str) -> Decode:
    """The generate method of transformers, with its key/value cache."""
    from transformers import MarianMTModel

    model: Any = MarianMTModel.from_pretrained(path)  # in evaluation mode

    @torch.inference_mode()
    def decode_batch(rows: list[list[int]], beam: int | None) -> list[list[int]]:
        longest = max(map(len, rows))
        batch = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
        mask = (batch != PAD).long()
        written = model.generate(batch, attention_mask=mask, num_beams=beam, max_length=MAX_LENGTH + 1, do_sample=False)
        return [list(tokens) for tokens in written.tolist()]

    return in_sorted_batches(path, decode_batch)


def in_sorted_batches(path: str, decode_batch: Callable[[list[list[int]], int | None], list[list[int]]]) -> Decode:
    """Tokenize, sort by length, decode in batches, restore the order."""
    source, target = (load_tokenizer(Path(path) / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))

    def decode(texts: list[str], beam: int | None, batch_size: int | None) -> list[str]:
        size = batch_size or BATCH_SIZE
        rows = [[*source.encode(text), EOS] for text in texts]
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        outputs = [""] * len(texts)
        for first in range(0, len(order), size):
            chosen = order[first : first + size]
            for row, tokens in zip(chosen, decode_batch([rows[row] for row in chosen], beam), strict=True):
                outputs[row] = target.decode(tokens)
        return outputs

    return decode


WORKERS: dict[str, Callable[[str], Decode]] = {
    "ours": ours,
    "ours-shortlist": lambda path: ours(path, shortlist=True),
    "ctranslate2": ctranslate2_directly,
    "transformers": transformers_generate,
}


def work(kind: str, path: str, threads: str) -> None:
    torch.set_num_threads(int(threads))
    serve(kind, WORKERS[kind](path))


# The comparison.


def exported(run: str, to: str, out: Path, *, int8: bool = False) -> str:
    """An export of the run; made once."""
    path = out / f"{Path(run).name}.{to}{'.int8' if int8 else ''}"
    if not path.exists():
        log(f"exporting {path}")
        antiphon.export_model(run, to, path, int8=int8)
    return str(path)


@dataclass(frozen=True)
class Candidate:
    """A kind of worker, and what it opens: an export to another engine, or (None) the run itself."""

    kind: str
    to: str | None = None
    int8: bool = False

    def path(self, run: str, out: Path) -> str:
        """The folder that the worker opens; exports are made when they are needed."""
        if self.kind == "ours-shortlist" and not (Path(run) / SHORTLIST).exists():
            antiphon.shortlist(run)
        return run if self.to is None else exported(run, self.to, out, int8=self.int8)


TRANSFORMER = {
    "ours, torch": Candidate("ours"),
    "ours, CTranslate2": Candidate("ours", "ctranslate2"),
    "ours, CTranslate2 int8": Candidate("ours", "ctranslate2", int8=True),
    "ours, CTranslate2, shortlist": Candidate("ours-shortlist", "ctranslate2"),
    "ours, ONNX": Candidate("ours", "onnx"),
    "CTranslate2 directly": Candidate("ctranslate2", "ctranslate2"),
    "CTranslate2 directly, int8": Candidate("ctranslate2", "ctranslate2", int8=True),
    "transformers.generate": Candidate("transformers", "huggingface"),
}
RECURRENT = {"ours, torch": Candidate("ours"), "ours, ONNX": Candidate("ours", "onnx")}


def comparison(
    workers: dict[str, Candidate], run: str, pairs: str, peers: tuple[str, ...], options: argparse.Namespace
) -> tuple[str, list[str]]:
    """The table of these workers on the sources of a file, and the differences between them."""
    examples, out = read_examples(antiphon.load(run), pairs)[0][: options.count], Path(options.out)
    candidates = [
        BenchModel(
            name,
            [
                sys.executable,
                __file__,
                "--worker",
                worker.kind,
                worker.path(run, Path(options.out)),
                str(options.threads),
            ],
        )
        for name, worker in workers.items()
        if not options.only or name in options.only
    ]
    texts = [example.source for example in examples]
    measured = measure(candidates, texts, TASKS, rounds=options.rounds, singles=options.singles, pause=PAUSE, log=log)
    facts = {
        found.name: [
            {"beam": task.beam, "single": task.single, "seconds": found.seconds[task], "outputs": found.outputs[task]}
            for task in TASKS
        ]
        for found in measured
    }
    (out / f"{Path(run).name}.json").write_text(json.dumps(facts, indent=1), "utf-8")
    return table(measured, examples, peers), differences(measured, examples)


def table(measured: list[Measurements], examples: list[Example], peers: tuple[str, ...]) -> str:
    """Sentences a second, also as multiples of the peers, milliseconds a sentence one by one, and BLEU."""
    ratios = "".join(f" | × {peer}" for peer in peers)
    head = f"| engine | beam | batched{ratios} | one by one{ratios} | p50 ms | p95 ms | BLEU |"
    rows = [head, f"|{'---|' * (7 + 2 * len(peers))}"]
    by_name = {found.name: found for found in measured}
    for batch, single in zip(TASKS[::2], TASKS[1::2], strict=True):
        for found in measured:
            cells = [found.name, str(batch.beam)]
            for task in (batch, single):
                cells.append(f"{found.rate(task):.1f}")
                for peer in peers:
                    known = peer in by_name  # --only may leave it out
                    cells.append(f"{found.rate(task) / by_name[peer].rate(task):.2f}" if known else "")
            cells += [f"{found.latency(single, share):.1f}" for share in (0.5, 0.95)]
            rows.append(f"| {' | '.join([*cells, f'{bleu(found, batch, examples):.2f}'])} |")
    return "\n".join(rows)


def bleu(found: Measurements, batch: Task, examples: list[Example]) -> float:
    """Against the first reference of each."""
    references = [example.references[0] for example in examples]
    return float(BLEU().corpus_score(found.outputs[batch], [references]).score)


def differences(measured: list[Measurements], examples: list[Example]) -> list[str]:
    """Engines whose BLEU differs from that of our torch engine, although they compute the same."""
    exact = [found for found in measured if not any(word in found.name for word in INEXACT)]
    expected = next((found for found in exact if found.name == "ours, torch"), None)
    if expected is None:
        return []
    return [
        f"{found.name}, beam {task.beam}: BLEU {bleu(found, task, examples):.2f}, "
        f"ours has {bleu(expected, task, examples):.2f}"
        for task in BATCHES
        for found in exact
        if abs(bleu(found, task, examples) - bleu(expected, task, examples)) > TOLERANCE
    ]


def write_results(path: Path, text: str) -> None:
    """Put the text between the two marks of a file."""
    before, _, rest = path.read_text("utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{path}: no place for the tables; put {BEGIN} and {END} there, each on its own line")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", "utf-8")


def log(message: str) -> None:
    print(message, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare decoding speed.")
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
    options = parser.parse_args()
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    peers = ("CTranslate2 directly", "transformers.generate")
    compared = [comparison(TRANSFORMER, options.run, options.pairs, peers, options)]
    if options.lstm:
        run, pairs = options.lstm
        compared.append(comparison(RECURRENT, run, pairs, ("ours, torch",), options))
    text = "\n\n".join(rows for rows, _ in compared)
    print(text)
    if options.results:
        write_results(options.results, text)
    if problems := [problem for _, problems in compared for problem in problems]:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:])
    else:
        main()
