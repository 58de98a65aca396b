"""Draws short videos of handwritten digits that move, with captions: "two moves left and seven moves up".

A digit is the path of a pen over a few points, each time a little different. The same command always gives the same
files: OUT/train.tsv, dev.tsv and test.tsv with columns frames and caption, and OUT/frames/SPLIT/NUMBER.npy, uint8
[frames, height, width]. The recipe `video` learns from them.

Usage:
    python benchmarks/make_moving_digits.py moving       # 11,000 videos, 90 MB
"""
# F frames, H height, W width, n points

from __future__ import annotations

import argparse
import itertools
import random
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIZES = {"train": 10_000, "dev": 500, "test": 500}
FRAMES, SIDE, BOX = 8, 32, 9  # frames of a video, pixels of a frame, pixels of a digit; each both high and wide
GAP = 8  # pixels between the left edges of two digits in the first frame, so that one is clearly the left one
SPEEDS = (1, 2)  # pixels from frame to frame
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MOVES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

# The path of the pen for each digit, in tenths of the width (to the right) and of the height (downwards).
STROKES = (
    ((5, 0), (1.5, 2), (1, 6), (3, 9.5), (6, 10), (8.5, 7.5), (9, 3.5), (7.5, 0.7), (5, 0)),
    ((2.5, 2.5), (5.5, 0), (5.5, 10)),
    ((1, 2.5), (2.5, 0.5), (6, 0), (8.5, 2), (8, 4.5), (1, 10), (9.5, 10)),
    ((1, 0.5), (5.5, 0), (8.5, 2), (4.5, 4.7), (9, 7.5), (5.5, 10), (1, 9.3)),
    ((6.5, 10), (6.5, 0), (0.5, 7), (9.5, 7)),
    ((9, 0), (2, 0), (1.5, 4.5), (5.5, 4), (9, 7), (5.5, 10), (1, 9.3)),
    ((7.5, 0), (3.5, 2.5), (1.2, 6.5), (3, 9.8), (7, 9.8), (8.8, 7.2), (6, 5), (1.5, 6.5)),
    ((0.5, 0), (9.5, 0), (4, 10)),
    ((5, 4.7), (1.5, 2.2), (5, 0), (8.5, 2.2), (5, 4.7), (1, 7.5), (5, 10), (9, 7.5), (5, 4.7)),
    ((8.5, 3), (5, 5.2), (1.5, 2.7), (5, 0), (8.5, 3), (8, 7), (6, 10)),
)

Pixels = NDArray[np.uint8]
PIXELS = np.stack(np.meshgrid(np.arange(BOX), np.arange(BOX)), axis=-1)  # [BOX, BOX, 2]: where each is, (x, y)


class MovingDigit(NamedTuple):
    """A digit, the corner of its box in the first frame, and its speed in pixels per frame."""

    value: int
    move: str
    speed: int
    x: int
    y: int

    def corner(self, frame: int) -> tuple[int, int]:
        right, down = MOVES[self.move]
        return self.x + frame * self.speed * right, self.y + frame * self.speed * down


def write_videos(folder: Path, sizes: dict[str, int]) -> None:
    """Write SPLIT.tsv and frames/SPLIT/NUMBER.npy [F, H, W] for each split."""
    for split, size in sizes.items():
        chance = random.Random(f"antiphon moving {split}")  # noqa: S311
        (folder / "frames" / split).mkdir(parents=True)
        lines = ["frames\tcaption\n"]
        for number in range(size):
            digits = _draw_digits(chance)
            path = f"frames/{split}/{number:04}.npy"
            np.save(folder / path, _video(digits, chance), allow_pickle=False)
            lines.append(f"{path}\t{_caption(digits)}\n")
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")


def _caption(digits: list[MovingDigit]) -> str:
    return " and ".join(f"{WORDS[digit.value]} moves {digit.move}" for digit in digits)


def _draw_digits(chance: random.Random) -> list[MovingDigit]:
    """One digit or two, the left one first; all captions of one digit are equally likely, and all of two."""
    captioned = [(chance.randrange(10), chance.choice(list(MOVES))) for _ in range(chance.choice((1, 2)))]
    digits = []
    starts = chance.choice(_columns(tuple(move for _, move in captioned)))
    for (digit, move), (speed, x) in zip(captioned, starts, strict=True):
        y = chance.choice(_starts(speed * MOVES[move][1]))
        digits.append(MovingDigit(digit, move, speed, x, y))
    return digits


@cache
def _columns(moves: tuple[str, ...]) -> list[tuple[tuple[int, int], ...]]:
    """All (speed, x) of the digits for which they stay inside the frame and the second begins to the right."""
    each = [[(speed, x) for speed in SPEEDS for x in _starts(speed * MOVES[move][0])] for move in moves]
    return [
        starts
        for starts in itertools.product(*each)
        if all(right - left >= GAP for (_, left), (_, right) in itertools.pairwise(starts))
    ]


def _starts(step: int) -> range:
    """Positions of a box from which it stays inside the frame when it moves `step` pixels per frame."""
    distance = (FRAMES - 1) * step
    return range(max(0, -distance), SIDE - BOX - max(0, distance) + 1)


def _video(digits: list[MovingDigit], chance: random.Random) -> Pixels:
    """Frames [F, H, W]; where digits cross, the brighter pixel wins."""
    frames = np.zeros((FRAMES, SIDE, SIDE), dtype=np.uint8)
    for digit in digits:
        drawn = _draw(digit.value, chance)
        for number, frame in enumerate(frames):
            x, y = digit.corner(number)
            part = frame[y : y + BOX, x : x + BOX]
            np.maximum(part, drawn, out=part)
    return frames


def _draw(digit: int, chance: random.Random) -> Pixels:
    """Pixels [BOX, BOX]; a pixel is brighter the nearer it is to the path of the pen."""
    wide, slant = chance.uniform(4.5, 6.5), chance.uniform(-0.15, 0.15)
    high, thick = chance.uniform(6.0, 7.5), chance.uniform(0.55, 0.95)
    points = [(x / 10 + chance.gauss(0, 0.03), y / 10 + chance.gauss(0, 0.03)) for x, y in STROKES[digit]]
    middle = (BOX - 1) / 2
    path = [(middle + wide * (x - 0.5 + slant * (0.5 - y)), middle + high * (y - 0.5)) for x, y in points]
    return np.rint(255 * np.clip(thick + 0.5 - _distance(np.array(path)), 0.0, 1.0)).astype(np.uint8)


def _distance(path: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances [BOX, BOX] of each pixel to the nearest point of the path [n, 2]."""
    begins, steps = path[:-1, None, None], np.diff(path, axis=0)[:, None, None]  # [n - 1, 1, 1, 2]
    there = PIXELS - begins
    share = (there * steps).sum(-1, keepdims=True) / np.maximum((steps**2).sum(-1, keepdims=True), 1e-9)
    apart = there - np.clip(share, 0.0, 1.0) * steps
    return np.asarray(np.sqrt((apart**2).sum(-1)).min(axis=0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a new folder")
    write_videos(parser.parse_args().out, SIZES)
