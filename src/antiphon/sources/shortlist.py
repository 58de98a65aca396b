"""The few hundred tokens that a source can give: with them alone the last layer, the widest of all, is soon computed.

Each source token has a list of target tokens, learnt from the training pairs; some target tokens are always there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from antiphon.errors import ModelFolderError
from antiphon.files import write_bytes

__all__ = ["SHORTLIST", "Ints", "Shortlist", "load_shortlist"]

SHORTLIST = "shortlist.safetensors"
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shortlist:
    """tokens[offsets[s] : offsets[s + 1]] are those of source token s."""

    offsets: Ints
    tokens: Ints
    always: Ints

    def alone(self, token: int) -> Ints:
        """What one source token can give."""
        return self.tokens[self.offsets[token] : self.offsets[token + 1]]

    def of(self, source: list[int]) -> Ints:
        """The tokens that a source can give, ascending."""
        lists = [self.alone(token) for token in set(source)]
        return np.unique(np.concatenate([self.always, *lists]))

    def save(self, folder: Path) -> None:
        """Replaces that of a model folder."""
        values = {"offsets": self.offsets, "tokens": self.tokens, "always": self.always}
        write_bytes(folder / SHORTLIST, save(values))


def load_shortlist(folder: Path, *, source_tokens: int, target_tokens: int) -> Shortlist | None:
    """That of a model folder, if it has one."""
    path = folder / SHORTLIST
    if not path.is_file():
        return None
    try:
        found = load_file(path)
        shortlist = Shortlist(found["offsets"], found["tokens"], found["always"])
    except (SafetensorError, KeyError, OSError) as error:
        again = f"make it again: antiphon shortlist {folder}"
        raise ModelFolderError(f"{path}: cannot be read ({error}); {again}") from error
    highest = max(int(shortlist.tokens.max(initial=0)), int(shortlist.always.max(initial=0)))
    if len(shortlist.offsets) != source_tokens + 1 or highest >= target_tokens:
        raise ModelFolderError(f"{path}: made for another vocabulary; make it again: antiphon shortlist {folder}")
    return shortlist
