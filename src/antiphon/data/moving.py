"""@moving: short videos of handwritten digits that move, and what they do: "two moves left and seven moves up".

Everything is drawn here: a digit is a pen's way over a few points, each time a little different.
"""
# F frames, H height, W width, n points

from __future__ import annotations

import itertools
import random
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["FRAMES", "MOVES", "SIDE", "SIZES", "WORDS", "write_moving"]

SIZES = {"train": 10_000, "dev": 500, "test": 500}  # 90 MB
FRAMES, SIDE, BOX = 8, 32, 9  # frames of a video, pixels of a frame, pixels of a digit; each both high and wide
APART = 8  # pixels across between two digits at the beginning, so that one is clearly the left one
SPEEDS = (1, 2)  # pixels from frame to frame
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MOVES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

# The pen's way, in tenths of the width (to the right) and of the height (downwards).
WAYS = (
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


class Mover(NamedTuple):
    """A digit, where its box begins in the first frame, and how far it goes with each frame."""

    digit: int
    move: str
    speed: int
    x: int
    y: int

    def place(self, frame: int) -> tuple[int, int]:
        right, down = MOVES[self.move]
        return self.x + frame * self.speed * right, self.y + frame * self.speed * down


def write_moving(folder: Path) -> None:
    """train.tsv, dev.tsv and test.tsv with columns frames and caption, and frames/SPLIT/NUMBER.npy [F, H, W]."""
    for split, size in SIZES.items():
        chance = random.Random(f"antiphon moving {split}")  # noqa: S311
        (folder / "frames" / split).mkdir(parents=True)
        lines = ["frames\tcaption\n"]
        for number in range(size):
            movers = _movers(chance)
            path = f"frames/{split}/{number:04}.npy"
            np.save(folder / path, _video(movers, chance), allow_pickle=False)
            lines.append(f"{path}\t{_caption(movers)}\n")
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")


def _caption(movers: list[Mover]) -> str:
    return " and ".join(f"{WORDS[mover.digit]} moves {mover.move}" for mover in movers)


def _movers(chance: random.Random) -> list[Mover]:
    """One digit or two, the left one first; every caption of one digit is as likely as any other, and so of two."""
    said = [(chance.randrange(10), chance.choice(list(MOVES))) for _ in range(chance.choice((1, 2)))]
    movers = []
    for (digit, move), (speed, x) in zip(said, chance.choice(_columns(tuple(move for _, move in said))), strict=True):
        y = chance.choice(_beginnings(speed * MOVES[move][1]))
        movers.append(Mover(digit, move, speed, x, y))
    return movers


@cache
def _columns(moves: tuple[str, ...]) -> list[tuple[tuple[int, int], ...]]:
    """Every choice of (speed, x) for each digit with which all stay inside and the second begins to the right."""
    each = [[(speed, x) for speed in SPEEDS for x in _beginnings(speed * MOVES[move][0])] for move in moves]
    return [
        starts
        for starts in itertools.product(*each)
        if all(right - left >= APART for (_, left), (_, right) in itertools.pairwise(starts))
    ]


def _beginnings(step: int) -> range:
    """Where a box may begin, so that it stays inside when it goes `step` pixels with each frame."""
    way = (FRAMES - 1) * step
    return range(max(0, -way), SIDE - BOX - max(0, way) + 1)


def _video(movers: list[Mover], chance: random.Random) -> Pixels:
    """[F, H, W]; where digits cross, the brighter pixel is seen."""
    frames = np.zeros((FRAMES, SIDE, SIDE), dtype=np.uint8)
    for mover in movers:
        drawn = _draw(mover.digit, chance)
        for number, frame in enumerate(frames):
            x, y = mover.place(number)
            part = frame[y : y + BOX, x : x + BOX]
            np.maximum(part, drawn, out=part)
    return frames


def _draw(digit: int, chance: random.Random) -> Pixels:
    """[BOX, BOX]: a pixel is as bright as it is near to the pen's way."""
    wide, slant = chance.uniform(4.5, 6.5), chance.uniform(-0.15, 0.15)
    high, thick = chance.uniform(6.0, 7.5), chance.uniform(0.55, 0.95)
    points = [(x / 10 + chance.gauss(0, 0.03), y / 10 + chance.gauss(0, 0.03)) for x, y in WAYS[digit]]
    middle = (BOX - 1) / 2
    way = [(middle + wide * (x - 0.5 + slant * (0.5 - y)), middle + high * (y - 0.5)) for x, y in points]
    return np.rint(255 * np.clip(thick + 0.5 - _distance(np.array(way)), 0.0, 1.0)).astype(np.uint8)


def _distance(way: NDArray[np.float64]) -> NDArray[np.float64]:
    """[BOX, BOX]: from each pixel to the nearest point of a way [n, 2] from point to point."""
    begins, steps = way[:-1, None, None], np.diff(way, axis=0)[:, None, None]  # [n - 1, 1, 1, 2]
    there = PIXELS - begins
    share = (there * steps).sum(-1, keepdims=True) / np.maximum((steps**2).sum(-1, keepdims=True), 1e-9)
    apart = there - np.clip(share, 0.0, 1.0) * steps
    return np.asarray(np.sqrt((apart**2).sum(-1)).min(axis=0))
