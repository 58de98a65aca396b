"""Whether the encoder has states enough to spell its targets (model.ctc)."""
# S states of a source, T tokens of a target

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from antiphon.errors import ConfigError
from antiphon.model import EncoderDecoder, SequenceModel
from antiphon.sources.ragged import Ragged
from antiphon.sources.rows import Corpus, read_lengths

__all__ = ["spelling_warnings"]

Ints = npt.NDArray[np.integer[Any]]
REMEDY = "let the front keep more of the width or of the time (front.wide, fewer stages, kind linear), or set it to 0"


def spelling_warnings(model: SequenceModel, train: Corpus) -> list[str]:
    """How many examples teach the encoder nothing by model.ctc; ConfigError if none does."""
    if not isinstance(model, EncoderDecoder) or model.spelling is None:
        return []
    lacking = int((_states(model, train) < _needed(train.target)).sum())
    fact = f"model.ctc: {lacking:,} of {len(train):,} training pairs have fewer states than it takes to spell them"
    if lacking == len(train):
        raise ConfigError(f"{fact}, so it does nothing; {REMEDY}")
    return [f"{fact}, and teach the encoder nothing by it; {REMEDY}"] if lacking else []


def _states(model: EncoderDecoder, train: Corpus) -> Ints:
    """S of each source, behind its front."""
    lengths, places = np.unique(read_lengths(train.source), return_inverse=True)
    [front] = model.fronts
    return np.array([len(front.names(int(length))) for length in lengths])[places]


def _needed(target: Ragged) -> Ints:
    """A state for each of T tokens, and one between two that are equal."""
    equal = np.zeros(len(target.ids) + 1, dtype=np.int64)  # how many of the first pairs of neighbours are
    equal[2:] = np.cumsum(target.ids[1:] == target.ids[:-1])
    starts, ends = target.offsets[:-1], target.offsets[1:]
    return np.asarray(target.lengths + equal[ends] - equal[np.minimum(starts + 1, ends)])
