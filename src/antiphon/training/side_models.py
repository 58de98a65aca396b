"""Joint n-grams and shortlists of a run: counted in its training pairs and saved in its folder."""

from __future__ import annotations

from pathlib import Path

from antiphon.config.networks import EncoderDecoderConfig
from antiphon.config.schema import Config
from antiphon.data.build_source import load_tokenizer
from antiphon.data.corpus import Corpus, Ragged
from antiphon.data.encode import HoldOut, nothing_usable
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.data.tokenizers import Tokenizer
from antiphon.errors import UserError
from antiphon.model_folder import SOURCE_TOKENIZER, TARGET_TOKENIZER, is_intact, load_model, read_folder_config
from antiphon.ngrams.joint import IdPair, JointNgrams
from antiphon.ngrams.shortlist import Shortlist, learn_shortlist
from antiphon.ngrams.train_joint import Say, learn_joint
from antiphon.text import format_reasons

__all__ = ["joint_of", "make_joint", "make_shortlist"]

MOST_PAIRS = 200_000  # pairs that are counted


def make_joint(run: str | Path, *, say: Say = lambda _: None) -> JointNgrams:
    """Count joint n-grams in the training pairs of a run and save them in its folder."""
    folder = Path(run)
    _, _, pairs = _counted_pairs(folder, _text_to_text(folder, "joint n-grams are"), say)
    found = learn_joint(pairs, say)
    found.save(folder)
    return found


def joint_of(train: Corpus, say: Say) -> JointNgrams:
    """Joint n-grams of encoded pairs whose source is one text."""
    source, target = train.source, train.target
    assert isinstance(source, Ragged)
    if len(source) > MOST_PAIRS:
        say(f"joint n-grams: there are more pairs; the first {MOST_PAIRS:,} are counted")
    return learn_joint(
        [(source[row].tolist(), target[row].tolist()) for row in range(min(len(source), MOST_PAIRS))], say
    )


def make_shortlist(run: str | Path, *, per_token: int = 40, always: int = 100, say: Say = lambda _: None) -> Shortlist:
    """Learn a shortlist from the training pairs of a run and save it in its folder."""
    for name, value in (("per_token", per_token), ("always", always)):
        if value < 1:
            raise UserError(f"{name}: must be at least 1, not {value}")
    folder = Path(run)
    config = _text_to_text(folder, "a shortlist is")
    if isinstance(config.model, EncoderDecoderConfig) and config.model.copying:
        raise UserError(f"{folder}: this run copies, and words of its source may be on no list; use it without one")
    source, target, pairs = _counted_pairs(folder, config, say)
    found = learn_shortlist(pairs, (source.size, target.size), per_token=per_token, always=always, say=say)
    found.save(folder)
    return found


def _text_to_text(folder: Path, what: str) -> Config:
    """The configuration of a run whose source is one text; UserError for all others."""
    if not is_intact(folder):
        load_model(folder)  # which says what is missing; side models that cannot be read are no hindrance here
    config = read_folder_config(folder)
    if config.data.text is None:
        fact = "is a language model" if config.data.source is None else "reads no single text"
        raise UserError(f"{folder}: {what} learnt from one text to another, and this run {fact}; use another run")
    if config.data.labels or config.data.text.affixes:
        fact = "labels tokens" if config.data.labels else "knows words by their affixes (data.source.affixes)"
        raise UserError(f"{folder}: {what} learnt from known tokens, and this run {fact}; use another run")
    return config


def _counted_pairs(folder: Path, config: Config, say: Say) -> tuple[Tokenizer, Tokenizer, list[IdPair]]:
    """Both tokenizers, and the training pairs as ids, less those that are held out as dev."""
    source, target = (load_tokenizer(folder / name) for name in (SOURCE_TOKENIZER, TARGET_TOKENIZER))
    data, pairs = config.data, list[IdPair]()
    say(f"counting {data.train if isinstance(data.train, str) else ' and '.join(data.train)}")
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
    return source, target, pairs
