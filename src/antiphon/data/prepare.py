"""Data for training, from files to a corpus on disk: hold-out, vocabularies, encoded pairs, facts.

An entry of the cache is named by the content of the files and the data configuration, so a second start only maps it.
The files are read as streams, once for each vocabulary and once to encode: their text is never in memory at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from antiphon.cache import hold_entry, trim_cache
from antiphon.config.schema import DataConfig, TextConfig
from antiphon.data.build_source import (
    ReusedTokenizers,
    file_source,
    is_file,
    load_source,
    load_tokenizer,
    reused_tokenizers,
    train_tokenizer,
)
from antiphon.data.corpus import (
    Corpus,
    FileRows,
    FileRowsWriter,
    MultiSourceRows,
    Ragged,
    RaggedWriter,
    Rows,
    RowWriter,
)
from antiphon.data.encode import FileScan, HoldOut, PairEncoder, nothing_usable, source_names
from antiphon.data.lines import open_bytes
from antiphon.data.pairs import DropLog, Example, Pair, file_paths, group, read_pairs
from antiphon.data.source import FileSource, Source
from antiphon.data.statistics import EncodingCounts, TurnCounts, data_facts, data_warnings, example_unit
from antiphon.data.tokenizers import LINE_END, Tokenizer
from antiphon.errors import DataError, ModelFolderError
from antiphon.files import cache_folder, discard, publish_in_cache

__all__ = ["Prepared", "prepare"]

FORMAT = 7  # part of the key of every entry: raise it when what is stored, or how it is made, changes
REPORT_EVERY = 64  # chunks between two progress messages


@dataclass(frozen=True)
class Prepared:
    """The data of a run. `facts` goes to RUN/data.json."""

    source: Source
    target_tokenizer: Tokenizer
    train: Corpus
    dev: list[Example]
    facts: dict[str, Any]

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of the only source, which is a text, or of a language model's text."""
        assert isinstance(self.source, Tokenizer)
        return self.source


def prepare(data: DataConfig, say: Callable[[str], None]) -> Prepared:
    """The data, from the cache if it has been prepared before."""
    named = file_paths(data.train, say) + (file_paths(data.dev, say) if data.dev is not None else [])
    hashes = {name: _file_hash(path) for name, path in named}
    reused = reused_tokenizers(data)
    entry = cache_folder() / "data" / _key(data, hashes, reused)
    if hold_entry(entry):
        try:
            return _load(entry, data)
        except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError, ModelFolderError):
            say(f"{entry}: the cached data is damaged; it is prepared again")
            discard(entry)
    with publish_in_cache(entry) as folder:
        build_entry(data, hashes, reused, folder, say)
    hold_entry(entry)
    trim_cache()
    return _load(entry, data)


# The key of an entry.


def _key(data: DataConfig, hashes: dict[str, str], reused: ReusedTokenizers) -> str:
    """A tokenizer of another run counts by its content: the run may be trained again under the same name."""
    tokens = {side: tokenizer.fingerprint for side, tokenizer in reused.items()}
    content = json.dumps([FORMAT, data.model_dump(mode="json"), hashes, tokens, _file_stamps(data)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _file_hash(path: Path) -> str:
    with open_bytes(path) as file:
        if not path.is_file():
            raise DataError(f"{path}: a pipe can be read once only, training data is read several times; save it first")
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file_stamps(data: DataConfig) -> str:
    """A hash of the paths, sizes and times of all files that the tables name; nothing for texts."""
    numbers = [number for number, source in enumerate(data.sources) if is_file(source)]
    if not numbers:
        return ""
    digest = hashlib.sha256()
    for files in (data.train, data.dev):
        pairs = read_pairs(files, data, DropLog()) if files is not None else iter(())
        for path in dict.fromkeys(pair.cells[number] for pair in pairs for number in numbers):
            digest.update(f"{_stamp(Path(path))}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _stamp(path: Path) -> str:
    """Path, size and time of a file, or of each file in a folder."""
    try:
        if path.is_dir():
            with os.scandir(path) as entries:
                names = sorted(entry.name for entry in entries if entry.is_file())
            return "\n".join([str(path), *(_stamp(path / name) for name in names)])
        status = path.stat()
    except (OSError, ValueError):
        return f"{path} missing"
    return f"{path} {status.st_size} {status.st_mtime_ns}"


# A new entry: vocabularies, encoded pairs, dev examples and the facts about them.


def build_entry(
    data: DataConfig, hashes: dict[str, str], reused: ReusedTokenizers, folder: Path, say: Callable[[str], None]
) -> None:
    """Fill `folder` with everything `prepare` needs. `hashes` are the SHA-256 of the files by name."""
    label = data.train if isinstance(data.train, str) else data.train[0]
    dropped = DropLog()
    if next(read_pairs(data.train, data, dropped), None) is None:
        raise nothing_usable(data.train, data, dropped, "nothing to learn from")
    dropped = DropLog()
    dev_pairs = list(read_pairs(data.dev, data, dropped)) if data.dev is not None else []
    held_out = HoldOut.choose(data)
    texts = {name for name, source in zip(source_names(data), data.sources, strict=False) if not is_file(source)}
    if not {"target", *texts} <= reused.keys():
        say(f"learning the vocabulary from {label}")
    encoder = PairEncoder(data, *_tokenizers(data, held_out, reused, say), dropped)
    say(f"encoding {label}")
    dev = group(row.pair for rows in encoder.chunks(data.dev or "", dev_pairs) for row in rows)
    digests = {"dev": _digest(encoder)}
    counts = _write_corpus(encoder, held_out, folder, dev, say)
    digests["train"] = _digest(encoder)
    dev = _checked_dev(data, dev, counts, dropped)
    encoder.source.save(folder / "source.json")
    encoder.target.save(folder / "target.json")
    facts = data_facts(encoder, hashes, counts, dev)
    if encoder.scans:
        facts["read"] = {"kinds": [source.kind for source in data.sources], **digests}
    _write_json(folder / "dev.json", [astuple(example) for example in dev])
    _write_json(folder / "facts.json", {**facts, "warnings": data_warnings(facts)})


def _tokenizers(
    data: DataConfig, held_out: HoldOut, reused: ReusedTokenizers, say: Callable[[str], None]
) -> tuple[list[Tokenizer | FileScan], Tokenizer]:
    """Tokenizers of other runs where data names them; the others are learnt from the training pairs only."""

    def pairs() -> Iterator[Pair]:
        return (pair for pair in read_pairs(data.train, data, DropLog()) if not held_out.holds(pair))

    if data.source is None:
        text = reused.get("target") or _line_tokenizer(data, pairs())
        return [text], text
    shared = None
    if data.shared_vocabulary and not reused:
        numbers = [number for number, source in enumerate(data.sources) if not is_file(source)]
        both = (text for pair in pairs() for text in (*(pair.cells[number] for number in numbers), pair.target))
        shared = train_tokenizer(both, data.target, where=data.place(numbers[0]))
    sources: list[Tokenizer | FileScan] = []
    for number, (name, config) in enumerate(zip(source_names(data), data.sources, strict=True)):
        cells = _column(pairs(), number)
        if isinstance(config, TextConfig):
            reusable = shared or reused.get(name)
            sources.append(reusable or train_tokenizer(cells, config, where=data.place(number)))
        else:
            sources.append(FileScan(file_source(config, cells), say, config.max_length))
    target = shared or reused.get("target")
    return sources, target or train_tokenizer((pair.target for pair in pairs()), data.target, where="data.target")


def _column(pairs: Iterable[Pair], number: int) -> Iterator[str]:
    return (pair.cells[number] for pair in pairs)


def _line_tokenizer(data: DataConfig, pairs: Iterable[Pair]) -> Tokenizer:
    """The tokenizer of a language model; a stream of characters always has the line end in its vocabulary."""
    end = LINE_END if data.window is not None and data.target.tokens in ("characters", "letters") else ""
    lines = (pair.target + end for pair in pairs)
    return train_tokenizer(lines, data.target, "data.target", always=[end] if end else [])


def _write_corpus(
    encoder: PairEncoder, held_out: HoldOut, folder: Path, dev: list[Example], say: Callable[[str], None]
) -> EncodingCounts:
    """Write the sources of all training pairs, and the ids of their targets."""
    data = encoder.data
    counts = EncodingCounts(turns=TurnCounts(data.turns) if data.turns is not None else None)
    # Lines of a stream may well occur in dev, too.
    dev_keys = {example.key for example in dev} if data.window is None else set()
    names, sizes = source_names(data), {name: tokenizer.size for name, tokenizer in encoder.texts.items()}
    sources: list[RowWriter] = [
        FileRowsWriter(folder, name) if isinstance(source, FileScan) else RaggedWriter(folder, name)
        for name, source in zip(names, encoder.sources, strict=True)
    ]
    targets = RaggedWriter(folder, "target")
    chunks = encoder.chunks(data.train, read_pairs(data.train, data, encoder.dropped))
    for chunk, rows in enumerate(chunks, start=1):
        kept = counts.add(rows, held_out, dev_keys, names, sizes)
        for number, writer in enumerate(sources):
            writer.add([row.sources[number] if row.sources else [] for row in kept])
        targets.add([row.target for row in kept])
        if chunk % REPORT_EVERY == 0:
            say(f"encoded {counts.pairs:,} {example_unit(data)}")
    for name, writer in zip([*names, "target"], [*sources, targets], strict=True):
        counts.lengths[name] = writer.finish()
    return counts


def _checked_dev(data: DataConfig, dev: list[Example], counts: EncodingCounts, dropped: DropLog) -> list[Example]:
    """The dev examples, given or held out; DataError if they or the training pairs are missing or cannot be read."""
    dropped.refuse(data)
    if data.dev is not None and not dev:
        raise nothing_usable(data.dev, data, dropped, "no usable dev examples")
    if not counts.pairs:
        raise nothing_usable(data.train, data, dropped, "nothing left to learn from")
    dev = dev or group(counts.held_out)
    if not dev:
        remedy = "set data.dev, or raise data.hold_out or max_length"
        raise nothing_usable(data.train, data, dropped, "no usable dev examples were held out", remedy)
    return dev


def _digest(encoder: PairEncoder) -> str:
    """The hashes of all files that have been read so far."""
    return " ".join(scan.digest for scan in encoder.scans.values())


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")


# An entry that is there.


def _load(entry: Path, data: DataConfig) -> Prepared:
    source = load_source(entry / "source.json", data)
    learnt = data.target.tokenizer is None  # each side may have its own of another run, for one vocabulary
    shared = isinstance(source, Tokenizer) and data.shared_vocabulary and learnt
    target = source if shared and isinstance(source, Tokenizer) else load_tokenizer(entry / "target.json")
    corpus = Corpus(_rows(entry, data, source), Ragged.map(entry, "target"))
    dev = json.loads((entry / "dev.json").read_text(encoding="utf-8"))
    facts = json.loads((entry / "facts.json").read_text(encoding="utf-8"))
    count = facts[example_unit(data)]
    if len(corpus.source) != count or len(corpus.target) != count:
        raise ValueError("source and target do not belong together")
    examples = [Example(tuple(cells), tuple(references), line) for cells, references, line in dev]
    return Prepared(source, target, corpus, examples, facts)


def _rows(entry: Path, data: DataConfig, source: Source) -> Rows:
    parts = [
        FileRows.load(entry, name, part) if isinstance(part, FileSource) else Ragged.map(entry, name)
        for name, part in zip(source_names(data), source.parts, strict=True)
    ]
    return parts[0] if len(parts) == 1 else MultiSourceRows(tuple(parts))
