"""Sentences as points in the plane: where like meanings lie close."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from antiphon.decoding.generator import Generator
from antiphon.errors import DataError
from antiphon.pictures.page import write_page
from antiphon.pictures.plane import Plane, draw_plane, principal_plane
from antiphon.pictures.sentences import Pool, pool_name, sentence_vectors, usual_pool

__all__ = ["SentenceMap", "draw_map", "make_map"]


@dataclass(frozen=True)
class SentenceMap:
    """Sentences, their points, and what the points are made of."""

    sentences: list[str]
    plane: Plane
    made_of: str
    flags: list[str]  # what was left out or not known


def make_map(generator: Generator, sentences: list[str], pool: Pool | None = None) -> SentenceMap:
    """The principal plane of the sentences' vectors."""
    found = sentence_vectors(generator, sentences, pool)
    if len(found.sentences) < 2:
        raise DataError(f"a map needs at least two sentences, got {len(found.sentences)}; give more")
    model = generator.config.model
    made_of = pool_name(model, pool or usual_pool(model))
    return SentenceMap(found.sentences, principal_plane(found.vectors), made_of, found.flags)


def draw_map(found: SentenceMap, path: Path, title: str = "") -> None:
    """Write it as HTML, PNG or SVG by suffix."""
    name = title or f"{len(found.sentences):,} sentences"
    if path.suffix.lower() == ".html":
        note = f"Each point is a sentence: {found.made_of}. Like sentences lie close."
        write_page(found.plane, found.sentences, path, name, note)
    else:
        draw_plane(found.plane, found.sentences, path, title=f"{name}: {found.made_of}")
