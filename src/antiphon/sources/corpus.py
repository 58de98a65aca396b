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
from antiphon.sources.encoding import source_names
from antiphon.sources.given import Given, given_tokenizers
from antiphon.sources.lines import open_bytes
from antiphon.sources.looking import file_stamps
from antiphon.sources.pairs import Dropped, Example, file_paths, read_pairs
from antiphon.sources.preparing import build_entry
from antiphon.sources.ragged import Ragged
from antiphon.sources.readers import is_file, load_source
from antiphon.sources.rows import Corpus, FileRows, Rows, SeveralRows
from antiphon.sources.source import FileSource, Source
from antiphon.sources.tokens import Tokenizer, load_tokenizer

__all__ = ["Corpus", "Prepared", "Ragged", "encode_examples", "prepare"]

# Part of every entry's name: raise it when what is stored, or how it is made, changes.
FORMAT = 5


@dataclass(frozen=True)
class Prepared:
    """What training needs of the data. `facts` is what goes to RUN/data.json."""

    source: Source
    target_tokenizer: Tokenizer
    train: Corpus
    dev: list[Example]
    facts: dict[str, Any]

    @property
    def source_tokenizer(self) -> Tokenizer:
        """That of the only source, which is a text, or of a language model's text."""
        assert isinstance(self.source, Tokenizer)
        return self.source


def prepare(data: DataConfig, say: Callable[[str], None]) -> Prepared:
    """The data, from the cache if it has been prepared before."""
    named = file_paths(data.train, say) + (file_paths(data.dev, say) if data.dev is not None else [])
    hashes = {name: _file_hash(path) for name, path in named}
    given = given_tokenizers(data)
    entry = cache_folder() / "data" / _key(data, hashes, given, _stamps(data))
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
    source = load_source(entry / "source.json", data)
    learnt = data.target.tokenizer is None  # of another run each side may have its own, for one vocabulary
    shared = isinstance(source, Tokenizer) and data.shared_vocabulary and learnt
    target = source if shared and isinstance(source, Tokenizer) else load_tokenizer(entry / "target.json")
    corpus = Corpus(_rows(entry, data, source), Ragged.map(entry, "target"))
    dev = json.loads((entry / "dev.json").read_text(encoding="utf-8"))
    facts = json.loads((entry / "facts.json").read_text(encoding="utf-8"))
    count = facts["pairs" if data.source else "texts"]
    if len(corpus.source) != count or len(corpus.target) != count:
        raise ValueError("source and target do not belong together")
    examples = [Example(text, tuple(references), line) for text, references, line in dev]
    return Prepared(source, target, corpus, examples, facts)


def _rows(entry: Path, data: DataConfig, source: Source) -> Rows:
    parts = [
        FileRows.load(entry, name, part) if isinstance(part, FileSource) else Ragged.map(entry, name)
        for name, part in zip(source_names(data), source.parts, strict=True)
    ]
    return parts[0] if len(parts) == 1 else SeveralRows(tuple(parts))


def _file_hash(path: Path) -> str:
    with open_bytes(path) as file:
        if not path.is_file():
            raise DataError(f"{path}: a pipe can be read once only, training data is read several times; save it first")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamps(data: DataConfig) -> str:
    """A hash of the sizes and times of all files that the sources name; nothing for texts."""
    if not any(map(is_file, data.sources)):
        return ""
    digest = hashlib.sha256()
    for files in (data.train, data.dev):
        for stamp in file_stamps(data, read_pairs(files, data, Dropped())) if files is not None else ():
            digest.update(f"{stamp}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _key(data: DataConfig, hashes: dict[str, str], given: Given, stamps: str) -> str:
    """A tokenizer of another run counts by its content: the run may be trained again under the same name."""
    tokens = {side: tokenizer.fingerprint for side, tokenizer in given.items()}
    content = json.dumps([FORMAT, data.model_dump(mode="json"), hashes, tokens, stamps], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]
