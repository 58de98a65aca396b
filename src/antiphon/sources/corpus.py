"""From files of pairs to ids on disk: read in a stream, encoded once, memory-mapped ever after.

An entry of the cache is named by the content of the files and the data configuration, so a second start only maps it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.config.schema import DataConfig
from antiphon.errors import DataError, ModelFolderError
from antiphon.files import discard
from antiphon.sources.cache import cache_folder, publish_in_cache
from antiphon.sources.given import Given, given_tokenizers
from antiphon.sources.lines import open_bytes
from antiphon.sources.pairs import Example, file_paths
from antiphon.sources.preparing import build_entry
from antiphon.sources.ragged import Corpus, Ragged
from antiphon.sources.tokens import Tokenizer, load_tokenizer

__all__ = ["Corpus", "Prepared", "Ragged", "encode_examples", "prepare"]

# Part of every entry's name: raise it when what is stored, or how it is made, changes.
FORMAT = 4


@dataclass(frozen=True)
class Prepared:
    """What training needs of the data. `facts` is what goes to RUN/data.json."""

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: Corpus
    dev: list[Example]
    facts: dict[str, Any]


def prepare(data: DataConfig, say: Callable[[str], None]) -> Prepared:
    """The data, from the cache if it has been prepared before."""
    named = file_paths(data.train) + (file_paths(data.dev) if data.dev is not None else [])
    hashes = {name: _file_hash(path) for name, path in named}
    given = given_tokenizers(data)
    entry = cache_folder() / "data" / _key(data, hashes, given)
    if entry.exists():
        try:
            return _load(entry, data)
        except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError, ModelFolderError):
            say(f"{entry}: the cached data is damaged; it is prepared again")
            discard(entry)
    with publish_in_cache(entry) as folder:
        build_entry(data, hashes, given, folder, say)
    return _load(entry, data)


def encode_examples(examples: Sequence[Example], source: Tokenizer, target: Tokenizer) -> Corpus:
    """Examples as a corpus in memory: one row for each reference."""
    pairs = [(example.source, reference) for example in examples for reference in example.references]
    return Corpus(
        source=Ragged.of(source.encode_batch([text for text, _ in pairs])),
        target=Ragged.of(target.encode_batch([text for _, text in pairs])),
    )


def _load(entry: Path, data: DataConfig) -> Prepared:
    source = load_tokenizer(entry / "source.json")
    learnt = data.target.tokenizer is None  # of another run each side may have its own, for one vocabulary
    target = source if data.shared_vocabulary and learnt else load_tokenizer(entry / "target.json")
    corpus = Corpus(Ragged.map(entry, "source"), Ragged.map(entry, "target"))
    dev = json.loads((entry / "dev.json").read_text(encoding="utf-8"))
    facts = json.loads((entry / "facts.json").read_text(encoding="utf-8"))
    count = facts["pairs" if data.source else "texts"]
    if len(corpus.source) != count or len(corpus.target) != count:
        raise ValueError("source and target do not belong together")
    examples = [Example(text, tuple(references), line) for text, references, line in dev]
    return Prepared(source, target, corpus, examples, facts)


def _file_hash(path: Path) -> str:
    with open_bytes(path) as file:
        if not path.is_file():
            raise DataError(f"{path}: a pipe can be read once only, training data is read several times; save it first")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(data: DataConfig, hashes: dict[str, str], given: Given) -> str:
    """A tokenizer of another run counts by its content: the run may be trained again under the same name."""
    tokens = {side: tokenizer.fingerprint for side, tokenizer in given.items()}
    content = json.dumps([FORMAT, data.model_dump(mode="json"), hashes, tokens], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]
