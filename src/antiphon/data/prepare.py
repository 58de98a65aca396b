"""From files of pairs to ids on disk: read in a stream, encoded once, memory-mapped ever after.

An entry of the cache is named by the content of the files and the data configuration, so a second start only maps it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from antiphon.config.schema import DataConfig, SourceConfig, TextConfig
from antiphon.data.build_source import file_source, is_file, load_source
from antiphon.data.build_tokenizer import Given, given_tokenizers, load_tokenizer, train_tokenizer
from antiphon.data.corpus import CellsWriter, Corpus, FileRows, Ragged, RaggedWriter, Rows, RowWriter, SeveralRows
from antiphon.data.encode import Encoder, HoldOut, Looked, file_stamps, source_names, text_names
from antiphon.data.lines import open_bytes
from antiphon.data.pairs import Dropped, Example, Pair, file_paths, group, read_pairs
from antiphon.data.source import BETWEEN, FileSource, Source
from antiphon.data.statistics import Counts, data_facts, text_of_example, unit_of, warnings_about
from antiphon.data.tables import reads_lines
from antiphon.data.tokenizers import LINE_END, Tokenizer
from antiphon.errors import DataError, ModelFolderError
from antiphon.files import cache_folder, discard, publish_in_cache
from antiphon.text import by_reason

__all__ = ["Corpus", "Prepared", "Ragged", "build_entry", "encode_examples", "prepare"]

# One entry of the cache from the files: vocabularies, encoded pairs, dev examples and the facts about them.
#
# The files are read as streams, once for each vocabulary and once to encode, so their text is never in memory at once.

SAY_EVERY = 64  # chunks between two signs of life


def build_entry(
    data: DataConfig, hashes: dict[str, str], given: Given, folder: Path, say: Callable[[str], None]
) -> None:
    """Fill `folder` with everything `prepare` needs. `hashes` are the SHA-256 of the files by name."""
    _require_pairs(data)
    dropped = Dropped()
    dev_pairs = list(read_pairs(data.dev, data, dropped)) if data.dev is not None else []
    held = HoldOut.choose(data)
    if not {"target", *text_names(data)} <= given.keys():
        say(f"learning the vocabulary from {_label(data.train)}")
    encoder = Encoder(data, *_vocabularies(data, held, given, say), dropped)
    say(f"encoding {_label(data.train)}")
    dev = group(row.pair for rows in encoder.chunks(data.dev or "", dev_pairs) for row in rows)
    read = {"dev": _digest(encoder)}
    counts = _encode(encoder, held, folder, _known(data, dev), say)
    dropped.refuse(data)
    if data.dev is not None and not dev:
        raise _nothing(data, data.dev, "no usable dev examples", dropped)
    if not counts.pairs:
        raise _nothing(data, data.train, "nothing left to learn from", dropped)
    dev = dev or group(counts.held_out)
    if not dev:
        remedy = "set data.dev, or raise data.hold_out or max_length"
        raise _nothing(data, data.train, "no usable dev examples were held out", dropped, remedy)
    encoder.source.save(folder / "source.json")
    encoder.target.save(folder / "target.json")
    facts = data_facts(encoder, hashes, counts, dev) | _read_facts(data, {**read, "train": _digest(encoder)})
    _write(folder / "dev.json", [astuple(example) for example in dev])
    _write(folder / "facts.json", {**facts, "warnings": warnings_about(facts)})


def _digest(encoder: Encoder) -> str:
    """Of all files that have been read so far."""
    return " ".join(one.digest for one in encoder.sources if isinstance(one, Looked))


def _read_facts(data: DataConfig, digests: dict[str, str]) -> dict[str, Any]:
    """What the files held; of texts the table itself tells."""
    if not any(map(is_file, data.sources)):
        return {}
    return {"read": {"kinds": [source.kind for source in data.sources], **digests}}


def _known(data: DataConfig, dev: list[Example]) -> set[str]:
    """What train should not have, too: the sources of dev, or its texts. Lines of a stream may well come again."""
    if data.window is not None:
        return set()
    return {text_of_example(example) for example in dev}


def _vocabularies(
    data: DataConfig, held: HoldOut, given: Given, say: Callable[[str], None]
) -> tuple[list[Tokenizer | Looked], Tokenizer]:
    """Those of other runs, where they are given; the rest is learnt from the training pairs only."""

    def pairs() -> Iterator[Pair]:
        return (pair for pair in read_pairs(data.train, data, Dropped()) if not held.holds(pair))

    def cells(number: int) -> Iterator[str]:
        several = len(data.sources) > 1
        return (pair.source.split(BETWEEN)[number] if several else pair.source for pair in pairs())

    if data.source is None:
        end = LINE_END if data.window is not None and data.target.tokens in ("characters", "letters") else ""
        lines = (pair.target + end for pair in pairs())
        text = given.get("target") or train_tokenizer(lines, data.target, "data.target", always=[end] if end else [])
        return [text], text
    numbers = [number for number, source in enumerate(data.sources) if not is_file(source)]
    shared = None
    if data.shared_vocabulary and not given:
        shared = train_tokenizer(_all_texts(pairs(), numbers, data), data.target, where=data.place(numbers[0]))

    def text_or_file(number: int, name: str, config: SourceConfig) -> Tokenizer | Looked:
        if not isinstance(config, TextConfig):
            return Looked(file_source(config, cells(number)), say, config.max_length)
        return shared or given.get(name) or train_tokenizer(cells(number), config, where=data.place(number))

    names = zip(source_names(data), data.sources, strict=True)
    sources = [text_or_file(number, *pair) for number, pair in enumerate(names)]
    target = shared or given.get("target")
    return sources, target or train_tokenizer((pair.target for pair in pairs()), data.target, where="data.target")


def _all_texts(pairs: Iterable[Pair], numbers: list[int], data: DataConfig) -> Iterator[str]:
    """The sources of these numbers and the targets, pair by pair."""
    for pair in pairs:
        cells = pair.source.split(BETWEEN) if len(data.sources) > 1 else [pair.source]
        yield from (cells[number] for number in numbers)
        yield pair.target


def _encode(encoder: Encoder, held: HoldOut, folder: Path, dev: set[str], say: Callable[[str], None]) -> Counts:
    """Write the sources of all training pairs, and the ids of their targets."""
    counts, data = Counts(), encoder.data
    names = source_names(data)
    chunks = encoder.chunks(data.train, read_pairs(data.train, data, encoder.dropped))
    with ExitStack() as stack:
        sources = [_writer(folder, *pair, stack) for pair in zip(names, encoder.sources, strict=True)]
        targets = stack.enter_context(RaggedWriter(folder, "target"))
        for number, rows in enumerate(chunks, start=1):
            kept = counts.training_rows(rows, held, dev, names)
            for place, writer in enumerate(sources):
                writer.add([row.sources[place] if row.sources else [] for row in kept])
            targets.add([row.target for row in kept])
            if number % SAY_EVERY == 0:
                say(f"encoded {counts.pairs:,} {unit_of(data)}")
        writers: dict[str, RowWriter] = {**dict(zip(names, sources, strict=True)), "target": targets}
        counts.lengths = {name: writer.facts() for name, writer in writers.items()}
        for writer in writers.values():
            writer.finish()
    return counts


def _writer(folder: Path, name: str, source: Tokenizer | Looked, stack: ExitStack) -> RowWriter:
    if isinstance(source, Looked):
        return CellsWriter(folder, name)
    return stack.enter_context(RaggedWriter(folder, name))


def _require_pairs(data: DataConfig) -> None:
    """At least one usable pair, before anything is learnt from them."""
    dropped = Dropped()
    if next(read_pairs(data.train, data, dropped), None) is None:
        raise _nothing(data, data.train, "nothing to learn from", dropped)


def _nothing(
    data: DataConfig, files: str | list[str], fact: str, dropped: Dropped, remedy: str | None = None
) -> DataError:
    """No examples, and the reasons why those of these files were dropped."""
    names = [files] if isinstance(files, str) else files
    counts = sum((dropped.files[name] for name in names), Counter[str]())
    remedy = remedy or _remedy(data, files)
    return DataError(f"{_label(files)}: {fact} ({by_reason(counts) or 'only a header'}); {remedy}")


def _remedy(data: DataConfig, files: str | list[str]) -> str:
    """Plain text has no columns to choose."""
    if isinstance(files, str) and reads_lines(file_paths(files)[0][1], data):
        return "put one text on each line, or raise data.target.max_length"
    sides = "data.source and data.target" if data.source else "data.target"
    return f"check {sides} (column, max_length)"


def _label(files: str | list[str]) -> str:
    return files if isinstance(files, str) else files[0]


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")


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
