"""Joint n-grams and shortlists of a run: counted in its training pairs and saved in its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import DataConfig
from antiphon.data.build_source import load_tokenizer
from antiphon.data.corpus import Corpus, Ragged
from antiphon.data.encode import HoldOut, nothing_usable
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import UserError
from antiphon.model_folder import SOURCE_TOKENIZER, TARGET_TOKENIZER, is_whole, load_model, read_folder_config
from antiphon.ngrams.joint import IdPair, JointNgrams
from antiphon.ngrams.shortlist import Shortlist, learn_shortlist
from antiphon.ngrams.train_joint import Say, learn_joint
from antiphon.text import format_reasons

__all__ = ["joint_of", "make_joint", "make_shortlist"]

MOST_PAIRS = 200_000  # pairs that are counted


def counted_pairs(data: DataConfig, source: Tokenizer, target: Tokenizer, say: Callable[[str], None]) -> list[IdPair]:
    """The pairs as ids, less those that are held out as dev; what is left out is said."""
    say(f"counting {data.train if isinstance(data.train, str) else ' and '.join(data.train)}")
    pairs: list[IdPair] = []
    dropped, held_out = DropLog(), HoldOut.choose(data)
    for pair in read_pairs(data.train, data, dropped):
        if held_out.holds(pair):
            continue
        if len(pairs) == MOST_PAIRS:
            say(f"there are more pairs; the first {MOST_PAIRS:,} are counted")
            break
        pairs.append((source.encode(pair.source), target.encode(pair.target)))
    if not pairs:
        raise nothing_usable(data.train, data, dropped)
    if dropped.total:
        say(f"left out: {format_reasons(dropped.reasons)}")
    return pairs


# Joint n-grams of a run.


def make_joint(run: str | Path, *, say: Say = lambda _: None) -> JointNgrams:
    """Counts them in the run's training pairs and saves them in its folder."""
    folder = Path(run)
    if not is_whole(folder):
        load_model(folder)  # which says what is missing; n-grams that cannot be read are no hindrance here
    data = read_folder_config(folder).data
    if data.source is None:
        raise UserError(f"{folder}: a language model has no source that its text could go on together with")
    if data.text is None:
        raise UserError(f"{folder}: joint n-grams are of one text and another, and this run reads no single text")
    source, target = (load_tokenizer(folder / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    found = learn_joint(counted_pairs(data, source, target, say), say)
    found.save(folder)
    return found


def joint_of(train: Corpus, say: Say) -> JointNgrams:
    """Those of encoded pairs whose source is one text."""
    source, target = train.source, train.target
    assert isinstance(source, Ragged)
    if len(source) > MOST_PAIRS:
        say(f"joint n-grams: there are more pairs; the first {MOST_PAIRS:,} are counted")
    return learn_joint(
        [(source[row].tolist(), target[row].tolist()) for row in range(min(len(source), MOST_PAIRS))], say
    )


# The shortlist of a run.


def make_shortlist(
    run: str | Path, *, per_token: int = 40, always: int = 100, say: Callable[[str], None] = lambda _: None
) -> Shortlist:
    """Learns it from the run's training pairs and saves it in its folder."""
    for name, value in (("per_token", per_token), ("always", always)):
        if value < 1:
            raise UserError(f"{name}: must be at least 1, not {value}")
    folder = Path(run)
    if not is_whole(folder):
        load_model(folder)  # which says what is missing; a shortlist that cannot be read is no hindrance here
    config = read_folder_config(folder)
    data = config.data
    if isinstance(config.model, EncoderDecoderConfig) and config.model.copying:
        raise UserError(f"{folder}: this run copies, and words of its source may be on no list; use it without one")
    if data.source is None:
        raise UserError(f"{folder}: a language model has no source that could tell what it will say")
    if data.text is None:
        raise UserError(f"{folder}: a shortlist is learnt from one text to another, and this run reads no single text")
    source, target = (load_tokenizer(folder / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    pairs = counted_pairs(data, source, target, say)
    found = learn_shortlist(pairs, (source.size, target.size), per_token=per_token, always=always, say=say)
    found.save(folder)
    return found
