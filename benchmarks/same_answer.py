"""Batch invariance: decode the first sources of a file alone, in batches and shuffled, and compare the answers.

    python benchmarks/same_answer.py RUN PAIRS [--count 1000] [--beam 5]

Exit code 1 if a text differs or a score differs by more than 1e-4.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import antiphon
from antiphon.api import read_examples
from antiphon.inference.generation import Generation

TOLERANCE = 1e-4


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare answers across batch sizes.")
    parser.add_argument("run")
    parser.add_argument("pairs")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    options = parser.parse_args()
    generator = antiphon.load(options.run)
    examples, _ = read_examples(generator, options.pairs)
    texts = [example.source for example in examples[: options.count]]

    def decode(order: list[int], size: int) -> list[Generation]:
        began = time.perf_counter()
        answers = generator.generate([texts[row] for row in order], beam=options.beam, batch_size=size, weights=False)
        print(f"  {len(order) / (time.perf_counter() - began):8.1f} sources/s", end="")
        return [answer for _, answer in sorted(zip(order, answers, strict=True), key=lambda pair: pair[0])]

    order = list(range(len(texts)))
    print(f"{len(texts)} sources, beam {options.beam}\nbatch size   1", end="")
    alone = decode(order, 1)
    print()
    worst = 0.0
    different = 0
    shuffled = random.Random(1).sample(order, len(order))  # noqa: S311 - not a secret
    for name, rows, size in (("7", order, 7), ("256", order, 256), ("64, shuffled", shuffled, 64)):
        print(f"batch size {name:>3}", end="")
        answers = decode(rows, size)
        texts_differ = sum(a.text != b.text for a, b in zip(answers, alone, strict=True))
        furthest = max(abs(a.score - b.score) for a, b in zip(answers, alone, strict=True))
        print(f"   {texts_differ} texts differ, scores by at most {furthest:.1e}")
        different, worst = different + texts_differ, max(worst, furthest)
    return int(different > 0 or worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
