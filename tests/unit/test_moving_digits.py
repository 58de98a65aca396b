"""benchmarks/make_moving_digits.py draws what its captions say."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from antiphon.api import evaluate, load, train

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "make_moving_digits.py"))


@pytest.fixture(scope="module")
def moving_pairs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[np.ndarray, str]]:
    """Three hundred videos and their captions."""
    folder = tmp_path_factory.mktemp("moving")
    SCRIPT["write_videos"](folder, {"train": 300})
    header, *lines = (folder / "train.tsv").read_text().split("\n")[:-1]
    assert header == "frames\tcaption"
    return [(np.load(folder / path), caption) for path, caption in (line.split("\t") for line in lines)]


def test_every_moving_video_is_what_its_caption_says(moving_pairs: list[tuple[np.ndarray, str]]) -> None:
    single = double = 0
    for video, caption in moving_pairs:
        assert (video.shape, video.dtype) == ((8, 32, 32), np.uint8)
        parts = [part.split() for part in caption.split(" and ")]
        assert all(word in SCRIPT["WORDS"] and moves == "moves" for word, moves, _ in parts)
        if len(parts) == 2:
            double += 1
            continue
        single += 1
        ys, xs = np.indices((32, 32))
        centres = [
            ((frame * xs).sum() / frame.sum(), (frame * ys).sum() / frame.sum()) for frame in video.astype(float)
        ]
        right, down = np.subtract(centres[-1], centres[0])
        assert (np.sign(np.round(right)), np.sign(np.round(down))) == SCRIPT["MOVES"][parts[0][2]]
        shares = video.reshape(8, -1).astype(int).sum(axis=1)
        assert len(set(shares)) == 1  # nothing of the digit leaves the frame
    assert min(single, double) > 100


def test_of_two_digits_the_left_one_comes_first(moving_pairs: list[tuple[np.ndarray, str]]) -> None:
    """Seen where one goes up and the other down: each stays on its own side."""
    seen = 0
    for video, caption in moving_pairs:
        moves = [part.split()[2] for part in caption.split(" and ")]
        if sorted(moves) == ["down", "up"]:
            seen += 1
            first = np.flatnonzero(video[0].max(axis=0) > 0)[0]
            left = video[:, :, : first + SCRIPT["GAP"]].astype(float).sum(axis=2)  # [F, H]
            heights = left @ np.arange(32) / left.sum(axis=1)
            assert ("down" if heights[-1] > heights[0] else "up") == moves[0]
    assert seen > 5


def test_digits_of_a_kind_are_alike_and_no_two_the_same(moving_pairs: list[tuple[np.ndarray, str]]) -> None:
    boxes: dict[str, list[np.ndarray]] = {}
    for video, caption in moving_pairs:
        if " and " not in caption:
            ys, xs = np.nonzero(video[0])
            box = np.zeros((9, 9))
            cut = video[0, ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]
            box[: cut.shape[0], : cut.shape[1]] = cut
            boxes.setdefault(caption.split()[0], []).append(box)
    means = {word: np.mean(found, axis=0) for word, found in boxes.items()}
    nearest = [
        word == min(means, key=lambda other: float(((means[other] - box) ** 2).sum()))
        for word, found in boxes.items()
        for box in found
    ]
    assert set(means) == set(SCRIPT["WORDS"])
    assert np.mean(nearest) > 0.7  # even the mean picture of each digit tells most of them
    assert all(len({box.tobytes() for box in found}) == len(found) for found in boxes.values())


def test_the_videos_are_the_same_everywhere(tmp_path: Path) -> None:
    found = []
    for name in ("one", "other"):
        folder = tmp_path / name
        SCRIPT["write_videos"](folder, {"train": 5, "dev": 4, "test": 3})
        found.append({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert found[0] == found[1]
    assert len(found[0]) == 3 + 12
    assert found[0]["dev.tsv"].startswith(b"frames\tcaption\nframes/dev/0000.npy\t")


@pytest.mark.usefixtures("no_pictures")
def test_the_recipe_learns_from_the_videos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One update of its own network, on a few of its own data."""
    monkeypatch.chdir(tmp_path)
    SCRIPT["write_videos"](Path("moving"), {"train": 40, "dev": 8, "test": 8})
    run = train("video", tmp_path / "run", ["training.max_updates=1"])
    assert evaluate(load(run), "moving/test.tsv").examples == 8
