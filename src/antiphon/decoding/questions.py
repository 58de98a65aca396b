"""From texts to questions, all at once; files are read by threads, and each once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from antiphon.decoding.wording import Question, Wording
from antiphon.errors import DataError
from antiphon.sources.ahead import reading_threads
from antiphon.sources.reading import UnreadableError

__all__ = ["UnreadableInputError", "chunk_size", "questions_of"]

AHEAD = 4  # batches of files that are in memory at once


class UnreadableInputError(DataError):
    """Sources that cannot be read: the number of each (from 1), the text that names it, and the fact."""

    def __init__(self, faults: list[tuple[int, str, str]], file: str = "") -> None:
        self.faults = faults
        place = f"{file}, line" if file else "source"
        remedy = "give files that can be read" if len(faults) > 1 else "give a file that can be read"
        said = [(number, text, fact if ";" in fact else f"{fact}; {remedy}") for number, text, fact in faults]
        super().__init__([f"{place} {number}: {text}: {fact}" for number, text, fact in said])

    def of(self, file: str) -> UnreadableInputError:
        """The same, said of the lines of a file."""
        return UnreadableInputError(self.faults, file)


def questions_of(wording: Wording, texts: list[str], first: int = 0) -> list[Question]:
    """The question of each text; DataError with all that cannot be read, whose numbers count on from `first`."""
    if wording.one_text:
        return [wording.question(text) for text in texts]

    def found(text: str) -> Question | UnreadableError:
        try:
            return wording.question(text)
        except UnreadableError as error:
            return error

    different = list(dict.fromkeys(texts))
    with ThreadPoolExecutor(reading_threads()) as pool:
        read = dict(zip(different, pool.map(found, different), strict=True))
    answers = [read[text] for text in texts]
    faults = [
        (first + row + 1, texts[row].replace("\t", " | "), str(answer))
        for row, answer in enumerate(answers)
        if isinstance(answer, UnreadableError)
    ]
    if faults:
        raise UnreadableInputError(faults)
    return [answer for answer in answers if isinstance(answer, Question)]


def chunk_size(wording: Wording, batch_size: int, count: int) -> int:
    """So many texts are read before any is answered: all, unless they are files, which take memory."""
    return max(1, count) if wording.one_text else AHEAD * batch_size
