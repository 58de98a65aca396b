"""Sentences as points in the plane: where like meanings lie close."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from antiphon.decoding.generator import Generator
from antiphon.errors import DataError, UserError
from antiphon.pictures.page import write_page
from antiphon.pictures.paths import MAPS, suffix_problems
from antiphon.pictures.plane import Plane, draw_plane, principal_plane
from antiphon.pictures.sentences import Pool, pool_name, sentence_vectors, usual_pool

__all__ = ["SentenceMap", "draw_map", "few_problems", "make_map"]


@dataclass(frozen=True)
class SentenceMap:
    """Sentences, their points, and what the points are made of."""

    sentences: list[str]
    plane: Plane
    made_of: str
    flags: list[str]  # what was left out or not known, a line for each such sentence

    @property
    def spread(self) -> str:
        """How much of the differences can be seen, in words."""
        if self.plane.one_spot:
            return "these sentences are the same to the model"
        across, down = self.plane.shares
        return f"{across:.0%} and {down:.0%} of the variance"


def few_problems(name: str, count: int) -> list[str]:
    """A sentence if there are too few of them in the file or argument of this name."""
    return [] if count >= 2 else [f"{name}: a map needs at least two sentences that differ, got {count}; give more"]


def make_map(generator: Generator, sentences: list[str], pool: Pool | None = None) -> SentenceMap:
    """The principal plane of the sentences' vectors."""
    found = sentence_vectors(generator, sentences, pool)
    if problems := few_problems("sentences", len(found.sentences)):
        raise DataError(problems)
    model = generator.config.model
    made_of = pool_name(model, pool or usual_pool(model))
    return SentenceMap(found.sentences, principal_plane(found.vectors), made_of, found.flags)


def draw_map(found: SentenceMap, path: Path, title: str = "") -> None:
    """Write it as HTML, PNG or SVG by suffix."""
    if problems := suffix_problems(path, MAPS):
        raise UserError(problems)
    name = title or f"{len(found.sentences):,} sentences"
    if path.suffix.lower() == ".html":
        like = f"T{found.spread[1:]}" if found.plane.one_spot else "Like sentences lie close"
        note = f"Each point is a sentence: {found.made_of}. {like}."
        write_page(found.plane, found.sentences, path, name, note)
    else:
        same = f"; {found.spread}" if found.plane.one_spot else ""
        draw_plane(found.plane, found.sentences, path, title=f"{name}: {found.made_of}{same}")
