"""A process that loads one model and answers when it is told to: see bench.py.

Reads JSON lines: first the texts, then tasks, `batch` or `single`. Writes a JSON line for each.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from antiphon.inference.generator import Generator
from antiphon.model_folder import open_model

__all__ = ["main"]

KILOBYTES = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in
SINGLES = 50  # texts that are answered one by one


def main(path: str, beam: str, batch_size: str) -> None:
    """`beam` and `batch_size` 0: as the model has them."""
    generator = Generator(open_model(path))
    texts: list[str] = json.loads(sys.stdin.readline())
    few = texts[:: max(1, len(texts) // SINGLES)][:SINGLES]

    def answered(some: list[str], size: int | None) -> tuple[float, int]:
        began = time.perf_counter()
        found = generator.generate(some, beam=int(beam) or None, batch_size=size, log_probs=False, weights=False)
        return time.perf_counter() - began, sum(len(answer.text.split()) for answer in found)

    print(json.dumps({"engine": generator.engine.name}), flush=True)
    for line in sys.stdin:
        if line.strip() == "batch":
            seconds, words = answered(texts, int(batch_size) or None)
            said: dict[str, object] = {"seconds": [seconds], "words": words}
        else:
            said = {"seconds": [answered([text], 1)[0] for text in few]}
        print(json.dumps({**said, "memory": peak_memory()}), flush=True)


def peak_memory() -> float:
    """MB. Linux counts what the parent had before this program began into ru_maxrss, but not into VmHWM."""
    status = Path("/proc/self/status")
    if status.exists():
        [kilobytes] = re.findall(r"^VmHWM:\s+(\d+) kB", status.read_text("ascii"), flags=re.MULTILINE)
        return float(kilobytes) * 1024 / 1e6
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTES / 1e6


if __name__ == "__main__":
    main(*sys.argv[1:])
