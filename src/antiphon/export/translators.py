"""Threads for CTranslate2: all of them for one sentence, or one for each of several batches."""

from __future__ import annotations

from threading import Lock

from ctranslate2 import Translator

from antiphon.errors import ModelFolderError

__all__ = ["Translators"]


class Translators:
    """One model, read for one sentence at a time or for several batches at once.

    Threads that share each small product wait for one another at each. Batches do better with a thread each; a
    sentence alone has no other use for them, unless its products are of int8: those are slower with two threads than
    with one (decision 0018). Each way holds the weights; the second is read when it is first asked for.
    """

    def __init__(self, path: str, *, threads: int, int8: bool) -> None:
        self.threads = threads
        self._path = path
        self._apart = threads == 1 or int8
        self._read = Lock()
        self._alone: Translator | None = None
        self._many: Translator | None = None
        self.of(1)  # what cannot be read is said at once

    def of(self, sentences: int) -> Translator:
        """The translator for a batch of so many."""
        with self._read:
            if sentences > 1 or self._apart:
                if self._many is None:
                    self._many = self._opened(at_once=self.threads, threads=1)
                return self._many
            if self._alone is None:
                self._alone = self._opened(at_once=1, threads=self.threads)
            return self._alone

    def _opened(self, *, at_once: int, threads: int) -> Translator:
        try:
            return Translator(self._path, inter_threads=at_once, intra_threads=threads)
        except (RuntimeError, ValueError) as error:
            fact = str(error).strip().split("\n")[0]
            raise ModelFolderError(
                f"{self._path}: CTranslate2 cannot read it ({fact}); update ctranslate2, or export the model again"
            ) from error
