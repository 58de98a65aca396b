"""Evidence that the first line of a table names its columns and is not the first example."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from antiphon.autoconfig.column_kinds import FILE_KINDS, ColumnSample, is_missing, is_number
from antiphon.autoconfig.column_names import language_of, name_score

__all__ = ["DOUBT", "ENOUGH", "header_score", "script_of"]

ENOUGH = 3  # evidence that makes a first line a header
DOUBT = 2  # evidence that is worth a warning
LONGEST_NAME = 60
SENTENCE_ENDS = ".!?…。！？؟"
TELLING = ("number", "date", "running", "id", "url", *FILE_KINDS)  # kinds that no name of a column has


def header_score(first: list[str], below: list[ColumnSample]) -> int:
    """The evidence that a first line is a header; `below` are the columns without it. Below 0: it cannot be one."""
    filled = [(name, column) for name, column in zip(first, below, strict=True) if name]
    if not filled or not any(column.values for column in below):
        return -1
    if any(looks_like_value(name, column) for name, column in filled):
        return -1
    kinds = sum(kind_score(name, column) for name, column in filled)
    if not all(column.kind == "label" for column in below):
        kinds += sum(label_score(name, column) for name, column in filled)
    if all(differs_in_case(name, column.values) for name, column in filled):
        kinds += len(filled)
    scripts = max(script_score(name, column) for name, column in filled)
    length = max(length_score(name, column) for name, column in filled)
    return name_score([name for name, _ in filled]) + kinds + scripts + length


def looks_like_value(name: str, column: ColumnSample) -> bool:
    """True if a cell of the first line may be a value of its column."""
    values = column.values
    if len(name) > LONGEST_NAME or name.lower() in {value.strip().lower() for value in values}:
        return True
    if names_folder(name, values):
        return False
    if column.kind in TELLING:
        return column.fits(name)
    if is_number(name) and not is_missing(name):
        return True
    ends = sum(value.rstrip()[-1] in SENTENCE_ENDS for value in values)
    if name[-1] in SENTENCE_ENDS and 2 * ends >= len(values) > 0 and any(value.endswith(name[-1]) for value in values):
        return True
    return is_short_like(name, values) or consists_of_words(name, values)


def names_folder(name: str, values: list[str]) -> bool:
    """True if paths begin with a name: `images` above images/0.png, with a folder `images` beside the table."""
    return bool(values) and all(value.strip().removeprefix("./").startswith(f"{name}/") for value in values)


def is_short_like(name: str, values: list[str]) -> bool:
    """True for a name of one or two letters (x, en) above values as short as that; a Chinese name is no longer."""
    if name.lower() == name.upper():
        return False
    short = sum(len(value.strip()) <= 2 for value in values)
    return len(name) <= 2 and (2 * short > len(values) or (bool(language_of(name)) and short > 0))


def consists_of_words(name: str, values: list[str]) -> bool:
    """True if a cell has several words and all of them are in other values, too: AE N S ER."""
    words = name.split()
    known = {word for value in values for word in value.split()}
    return len(words) > 2 and all(word in known for word in words)


def kind_score(name: str, column: ColumnSample) -> int:
    """A word above numbers, dates or paths; an identifier (gold_label) or other characters above text."""
    if column.kind in TELLING:
        if is_missing(name) or (column.kind not in FILE_KINDS and re.search(r"\d", name)):
            return 0
        return 3 if len(column.values) > 1 else 2
    identifier = 2 * (re.fullmatch(r"[a-zA-Z]+[a-z]*(_[a-z0-9]+)+", name) is not None and not like(r"\w_\w", column))
    return identifier + class_score(name, column)


def like(pattern: str, column: ColumnSample) -> bool:
    """True if a pattern occurs in some values."""
    return any(re.search(pattern, value) for value in column.values)


def label_score(name: str, column: ColumnSample) -> int:
    """A value that was never seen is improbable where all others occur several times (Good-Turing)."""
    if column.kind != "label" or is_missing(name):
        return 0
    once = sum(count == 1 for count in Counter(column.values).values())
    if len(column.values) >= 10 and once <= 0.05 * len(column.values):
        return 2
    return int(once == 0)


def class_score(name: str, column: ColumnSample) -> int:
    """Letters, case and marks of all values that the cell does not have."""
    values = column.values
    if len(values) < 3:
        return 0
    marks = sum(not any(letter.isalpha() for letter in value) for value in values) == len(values)
    if marks and name.isalpha():
        return 2  # a word above 12+7 or emoji
    upper = all(value.isupper() for value in values) and not name.isupper()
    ends = name[-1] not in SENTENCE_ENDS and all(value.rstrip()[-1] in SENTENCE_ENDS for value in values)
    digits = all(re.search(r"\d|[;|=]", value) for value in values) and name.isalpha()
    return int(upper) + int(ends) + int(digits)


def differs_in_case(name: str, values: list[str]) -> bool:
    """True if the first letter is a capital and those of the values are not, or the other way round."""
    if len(values) < 5 or name[0].lower() == name[0].upper():
        return False
    same = sum(value[0].isupper() == name[0].isupper() for value in values if value[0].isalpha())
    return same <= 0.05 * len(values) and all(value[0].isalpha() for value in values)


def script_score(name: str, column: ColumnSample) -> int:
    """A name in one script above values of another one."""
    scripts = Counter(script for value in column.values if (script := script_of(value)))
    if len(column.values) < 2 or not scripts or not script_of(name):
        return 0
    script, count = scripts.most_common(1)[0]
    return 2 if count >= 0.9 * len(column.values) and script != script_of(name) else 0


def script_of(text: str) -> str:
    """The script of most letters, as the first word of their Unicode names; empty without letters."""
    names = Counter(
        unicodedata.name(letter, "").split(" ")[0].split("-")[0] for letter in text[:200] if letter.isalpha()
    )
    return names.most_common(1)[0][0] if names else ""


def length_score(name: str, column: ColumnSample) -> int:
    """One or two words above texts that are all longer."""
    shortest = min((len(value.split()) for value in column.values), default=0)
    letters = min(map(len, column.values), default=0)
    if len(name.split()) > 2 or column.words < 3 or shortest <= len(name.split()) or letters <= len(name):
        return 0
    return 2 + int(len(column.values) >= 20) if len(column.values) >= 5 else 1
