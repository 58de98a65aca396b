"""A process that loads a model, answers a batch and prints its peak memory in MB: see bench.peak_memory."""

from __future__ import annotations

import resource
import sys

__all__ = ["main"]

KILOBYTES = 1 if sys.platform == "darwin" else 1024  # what ru_maxrss counts in
TEXT = "a b c d e f g h i j k l"


def main(path: str, int8: str, beam: str) -> None:
    """Prints one number."""
    from antiphon.decoding.generator import Generator
    from antiphon.decoding.int8 import with_int8
    from antiphon.export.engines import load_any

    generator = Generator(load_any(path))
    if int8 == "1":
        with_int8(generator.model)
    generator.generate([TEXT] * 64, beam=int(beam) or None, max_length=20, weights=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTES / 1e6)


if __name__ == "__main__":
    main(*sys.argv[1:])
