"""Sources and targets among the columns of a table, by their values and, where they have one, their names."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass

from antiphon.autoconfig.column_kinds import FILE_KINDS, ColumnSample, Kind
from antiphon.autoconfig.column_names import COMBINED, SOURCES, TARGETS, family_of, language_of, rank

__all__ = ["Choice", "choose", "choose_labels", "usable"]

MOST_SOURCES = 3
CONLLU = 10  # columns
RUNNING = 3  # words of a text that is more than a name, on average
TEXTS: tuple[Kind, ...] = ("text", "label", "features-of-words")
# Columns that are read only if there are not two better ones, in this order.
SECOND_CHOICE: tuple[tuple[Kind, ...], ...] = (TEXTS, ("number",), ("date",), ("running", "id"), ("constant",))
FILE_TARGETS = ("caption", "text", "transcript", "transcription", "sentence")  # sources elsewhere


@dataclass(frozen=True)
class Choice:
    """The columns of the sources and of the references, and a remark on the reason."""

    sources: list[ColumnSample]
    targets: list[ColumnSample]
    why: str = ""


def choose(columns: list[ColumnSample]) -> Choice | None:
    """The best choice; None if no two columns make a task."""
    files = [column for column in columns if column.kind in FILE_KINDS]
    good = usable([column for column in columns if column not in files], 1 if files else 2)
    if files:
        return choose_beside(files[0], good) if good else None
    if len(good) < 2:
        return None
    choice = choose_named(good) or choose_unnamed(good)
    if scored := score_of_pair(good, columns):
        choice = Choice(good[:2], [scored])
    return choice if is_plausible(choice) else None


def choose_labels(columns: list[ColumnSample]) -> Choice | None:
    """The words and their parts of speech of CoNLL-U; of other CoNLL the first column of words, and the last one."""
    if len(columns) == CONLLU:
        return Choice([columns[1]], [columns[3]], "; CoNLL-U: words and their parts of speech")
    found = [column for column in columns if not all(text.isdecimal() for text in " ".join(column.values).split())]
    varied = [column for column in found[1:] if len({*" ".join(column.values).split()}) > 1]
    return Choice(found[:1], varied[-1:], "; CoNLL: words and their last column of labels") if varied else None


def usable(columns: list[ColumnSample], wanted: int) -> list[ColumnSample]:
    """The columns that may be read: texts, and others only if there are fewer texts than wanted."""
    allowed = [column for column in columns if not column.named_identifier and column.kind not in ("empty", "url")]
    good = [
        column
        for column in allowed
        if (column.kind in TEXTS and column.role != "other")
        or (column.role == "target" and column.kind not in ("running", "id"))  # constant, if sorted by it
        or (column.role == "source" and column.kind in ("number", "date"))
    ]
    for kinds in SECOND_CHOICE:
        if len(good) < wanted:
            good += [column for column in allowed if column.kind in kinds and column not in good]
    return sorted(good, key=lambda column: column.number)


def is_plausible(choice: Choice) -> bool:
    """False if one side is a constant source, or running numbers or dates beside running text."""
    [*others, target] = [*choice.sources, choice.targets[0]]
    if any(column.kind == "constant" for column in others):
        return False
    kinds = {column.kind for column in (*others, target)}
    beside = any(column.kind == "text" and column.words > RUNNING + 1 for column in (*others, target))
    numbers = any(column.kind == "number" and is_serial(column) for column in (*others, target))
    return not (beside and (numbers or kinds & {"running", "id", "date"}))


def is_serial(column: ColumnSample) -> bool:
    """True for integers of one length that never occur twice, such as the number of a message."""
    return column.unique and all(value.isdecimal() and len(value) > 4 for value in column.values)


def score_of_pair(good: list[ColumnSample], columns: list[ColumnSample]) -> ColumnSample | None:
    """The score of sentence1 and sentence2: the only other column of numbers or labels."""
    if len(good) != 2 or not good[0].title or family_of(good[0].title) != family_of(good[1].title):
        return None
    scores = [column for column in columns if column not in good and column.kind in ("number", "label")]
    scores = [column for column in scores if not column.named_identifier]
    return scores[0] if len(scores) == 1 else None


# By name.


def choose_named(good: list[ColumnSample]) -> Choice | None:
    """The choice if a name is that of a target or a source, or if two are languages."""
    if len(languages := [column for column in good if column.title and language_of(column.title)]) > 1:
        source = next((column for column in languages if language_of(column.title) == "en"), languages[0])
        return Choice([source], [next(column for column in languages if column is not source)])
    targets = [column for column in good if column.role == "target"]
    rest = [column for column in good if column not in targets]
    if targets and rest:
        target = min(targets, key=lambda column: rank(column.title, TARGETS))
        return Choice(sources_for(target, rest), references(target, good))
    known = [column for column in rest if column.role == "source"]
    if not known or len(known) == len(good):
        return None
    others = [column for column in rest if column not in known]
    target = next((column for column in others if column.kind == "label"), others[0])
    return Choice(sources_for(target, [*known, *others]), [target])


def references(target: ColumnSample, columns: list[ColumnSample]) -> list[ColumnSample]:
    """The target, or all columns with its name and a number: caption1, caption2, ..."""
    stem = family_of(target.title)
    family = [column for column in columns if family_of(column.title) == stem and column.title.strip().lower() != stem]
    return family if target in family else [target]


def sources_for(target: ColumnSample, rest: list[ColumnSample]) -> list[ColumnSample]:
    """The sources by their names: those that belong together, or the best known one, or texts of a label."""
    rest = [column for column in rest if column is not target]
    known = [column for column in rest if column.role == "source"]
    together = [column for column in known if belongs_together(column)]
    if len(together) > 1:
        return sorted(together, key=lambda column: column.number)[:MOST_SOURCES]
    if known:
        best = min(known, key=lambda column: rank(column.title, SOURCES))
        return [best, *(column for column in rest if column.kind == "features-of-words" and column is not best)]
    texts = [column for column in rest if column.kind in ("text", "features-of-words")]
    if len(texts) > 1 and (target.kind == "label" or is_short_answer(target, texts)):
        return texts[:2]
    return texts[:1] or rest[: MOST_SOURCES - 1]


def belongs_together(column: ColumnSample) -> bool:
    """True for the names of sources that usually come in twos."""
    return column.kind == "features-of-words" or family_of(column.title) in COMBINED


# By the values alone.


def choose_unnamed(good: list[ColumnSample]) -> Choice:
    """The choice by kinds, lengths and likeness; in doubt from left to right."""
    features = [column for column in good if column.kind == "features-of-words"]
    labels = [column for column in good if column.kind == "label"]
    texts = [column for column in good if column not in features and column not in labels]
    if features and len(texts) + len(labels) > 1:
        words = [column for column in good if column not in features]
        return inflection(words[0], features[0], words[1])
    if labels and texts:
        return choose_with_label(texts, labels[0])
    if len(texts) > 2 and (answer := short_answer(texts)):
        return Choice([column for column in texts if column is not answer][:2], [answer])
    first, second = good[:2]
    if first.kind == "number" and second.kind == "text" and second.words > RUNNING and not is_closed(second):
        return Choice([second], [first])
    return Choice([first], [second])


def inflection(lemma: ColumnSample, features: ColumnSample, form: ColumnSample) -> Choice:
    """Lemma and features are the sources, the form is the target."""
    sources = sorted((lemma, features), key=lambda column: column.number)
    return Choice(sources, [form], "; words with grammatical features, so the form is the target")


def choose_with_label(texts: list[ColumnSample], label: ColumnSample) -> Choice:
    """A label is the target, unless the texts are translations of each other or forms of one word."""
    if len(texts) == 1:
        return Choice(texts, [label])
    first, second = texts[:2]
    if min(first.words, second.words) < RUNNING - 1:
        return inflection(first, label, second) if are_forms(first, second) else Choice([first], [second])
    if shared_words(first, second) < 0.1:
        return Choice([first], [second])
    return Choice([first, second], [label])


def are_forms(first: ColumnSample, second: ColumnSample) -> bool:
    """True if the words of most rows resemble each other: gehen, geht."""
    rows = [(left, right) for left, right in zip(first.cells, second.cells, strict=True) if left and right]
    alike = sum(difflib.SequenceMatcher(None, left, right).ratio() > 0.5 for left, right in rows)
    return alike > 0.6 * len(rows)


def shared_words(first: ColumnSample, second: ColumnSample) -> float:
    """The share of the different words of one column that occur in the other, too: high within one language."""
    left, right = ({word.lower() for value in column.values for word in value.split()} for column in (first, second))
    return len(left & right) / max(1, min(len(left), len(right)))


def short_answer(texts: list[ColumnSample]) -> ColumnSample | None:
    """The column that is much shorter than all others, which are running text of its language."""
    answer, *others = sorted(texts, key=lambda column: column.characters)
    running = all(other.words >= RUNNING for other in others)
    return answer if running and is_short_answer(answer, others) else None


def is_short_answer(answer: ColumnSample, others: list[ColumnSample]) -> bool:
    """True if a column has at most half the length of the others."""
    return all(2 * answer.characters <= other.characters for other in others)


def is_closed(column: ColumnSample) -> bool:
    """True for texts of few different words, such as numbers in words."""
    counts = Counter(word for value in column.values for word in value.split())
    return len(counts) < 0.4 * counts.total()


# Beside files.


def choose_beside(file: ColumnSample, good: list[ColumnSample]) -> Choice:
    """The files are the first source; further texts may be sources, too."""
    if not any(column.title for column in good):
        return choose_unnamed_beside(file, good)
    ranked = [column for column in good if column.role == "target" or family_of(column.title) in FILE_TARGETS]
    target = min(ranked, key=lambda column: rank(column.title, (*TARGETS, *FILE_TARGETS)), default=good[-1])
    targets = references(target, good)
    texts = [column for column in good if column not in targets and belongs_together(column)]
    texts = [column for column in texts if column.title.lower() not in FILE_TARGETS or column.title == "sentence"]
    return Choice([file, *texts], targets)


def choose_unnamed_beside(file: ColumnSample, good: list[ColumnSample]) -> Choice:
    """The first text is the target, but the answer if it is a question."""
    question, *others = good
    if others and question.words >= RUNNING and is_short_answer(others[0], [question]):
        return Choice([file, question], [others[0]])
    return Choice([file], [question])
