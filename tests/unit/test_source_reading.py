"""Readers of the sources of a run: saved, loaded, in batches, ahead of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from feature_tables import values, write_table

from antiphon.config.schema import Config, DataConfig
from antiphon.data.batches import Batch, PairBatches, PrefetchedBatches
from antiphon.data.build_source import load_source
from antiphon.data.corpus import FileRows, MultiSourceRows
from antiphon.data.prepare import Prepared, prepare
from antiphon.data.source import SourcePaths, UnreadableError
from antiphon.data.tokenizers import EOS, Tokenizer
from antiphon.errors import ModelFolderError
from antiphon.sequence import MultiSource, Sequence

FEATURES: dict[str, Any] = {"kind": "features", "column": "path"}
COUNT: dict[str, Any] = {"kind": "text", "column": "count", "tokens": "words"}


def data_of(folder: Path, source: Any, **more: Any) -> DataConfig:  # noqa: ANN401
    written = values(write_table(folder / "data"))
    return Config.model_validate({**written, "data": {**written["data"], "source": source, **more}}).data


def prepared_of(folder: Path, source: Any, **more: Any) -> Prepared:  # noqa: ANN401
    return prepare(data_of(folder, source, **more), lambda _: None)


def test_a_corpus_of_files_has_paths_and_lengths_only(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path, FEATURES)
    rows = prepared.train.source
    assert isinstance(rows, FileRows)
    for row, cell in enumerate(rows.cells):
        assert rows.lengths[row] == len(np.load(cell))
    assert prepared.source.sizes == [4]
    assert prepared.facts["lengths"]["source"]["longest"] == rows.lengths.max()
    assert "source" not in prepared.facts["vocabulary"]


def test_what_is_too_long_is_not_read(tmp_path: Path) -> None:
    """Its numbers are no numbers, which only a reader would see."""
    data = data_of(tmp_path, {**FEATURES, "max_length": 50})
    np.save(tmp_path / "data" / "arrays" / "0.npy", np.full((51, 4), np.nan, np.float32))
    reasons = prepare(data, lambda _: None).facts["dropped"]["reasons"]
    assert set(reasons) == {"source longer than 50 positions"}


def test_several_sources_keep_their_order(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path, [COUNT, FEATURES])
    rows = prepared.train.source
    assert isinstance(rows, MultiSourceRows)
    batch = PairBatches(prepared.train, budget=1000, seed=1).collate(np.arange(3), 0)
    assert isinstance(batch.source, MultiSource)
    words, vectors = batch.source.parts
    assert words.values.shape == (3, 2)
    assert words.values[:, 1].tolist() == [EOS] * 3
    assert vectors.values.shape[2] == 4
    assert vectors.mask.sum(1).tolist() == rows.parts[1].lengths[:3].tolist()


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    data = data_of(tmp_path, [COUNT, FEATURES])
    source = prepare(data, lambda _: None).source
    source.save(tmp_path / "source.json")
    loaded = load_source(tmp_path / "source.json", data)
    assert loaded.fingerprint == source.fingerprint
    assert loaded.sizes == source.sizes
    cells = source.cells(f"2\t{tmp_path / 'data' / 'arrays' / '0.npy'}")
    for left, right, cell in zip(loaded.parts, source.parts, cells, strict=True):
        assert np.array_equal(left.read(cell), right.read(cell))
    with pytest.raises(ModelFolderError, match=r"2 sources, but config\.yaml has 3"):
        load_source(tmp_path / "source.json", data.model_copy(update={"source": [*data.sources, data.sources[0]]}))
    audio = DataConfig.model_validate({"train": "t", "source": [COUNT, {"kind": "audio", "column": 1}]})
    with pytest.raises(ModelFolderError, match=r"of kind features, but config\.yaml says audio"):
        load_source(tmp_path / "source.json", audio)


def test_one_vocabulary_covers_all_texts(tmp_path: Path) -> None:
    texts = [COUNT, {**COUNT, "column": "path"}]
    prepared = prepared_of(tmp_path, texts, shared_vocabulary=True)
    tokenizers = [part for part in prepared.source.parts if isinstance(part, Tokenizer)]
    assert len({one.fingerprint for one in (*tokenizers, prepared.target_tokenizer)}) == 1
    assert prepared.target_tokenizer.unknown("a b 1 2 arrays/5.npy") == []
    apart = prepared_of(tmp_path, texts)
    assert apart.target_tokenizer.unknown("1") == ["1"]


def equal(left: Batch, right: Batch) -> bool:
    def tensors(batch: Batch) -> list[torch.Tensor]:
        parts = batch.source.parts if isinstance(batch.source, MultiSource) else (batch.source,)
        return [one for part in parts for one in (part.values, part.mask)] + [batch.inputs, batch.outputs.values]

    return all(torch.equal(*pair) for pair in zip(tensors(left), tensors(right), strict=True))


def test_threads_read_what_the_loop_would_read(tmp_path: Path) -> None:
    """In any order, from anywhere in the plan, and with the random masks of the epoch."""
    prepared = prepared_of(tmp_path, {**FEATURES, "masks": {"values": {"count": 2, "width": 2}}})
    plain = PairBatches(prepared.train, budget=24, seed=1)
    ahead = PrefetchedBatches(PairBatches(prepared.train, budget=24, seed=1), ahead=3, threads=2)
    for epoch in (0, 1):
        planned = ahead.plan(epoch)
        assert len(planned) > 5
        for rows in (*planned[2:], planned[0]):
            assert equal(ahead.collate(rows, epoch), plain.collate(rows, epoch))
            assert ahead.tokens(rows) == plain.tokens(rows)
    assert ahead.padding(planned) == plain.padding(planned)
    assert not equal(plain.collate(planned[0], 0), plain.collate(planned[0], 1))


def test_masks_are_for_training_only(tmp_path: Path) -> None:
    prepared = prepared_of(tmp_path, {**FEATURES, "masks": {"values": {"count": 2, "width": 2}}})
    rows = prepared.train.source
    assert isinstance(rows, FileRows)
    [clean] = rows.read(np.array([0]), 0, None)
    assert np.array_equal(clean, prepared.source.read(rows.cells[0]))
    drawn = PairBatches(prepared.train, budget=1000, seed=1).collate(np.arange(len(rows)), 0).source
    assert isinstance(drawn, Sequence)
    cleaned = [prepared.source.read(cell) for cell in rows.cells]
    assert any(not np.array_equal(drawn.values[n, : len(one)], one) for n, one in enumerate(cleaned))


@pytest.mark.parametrize("cell", ["../x.npy", "a/../../x.npy", "/etc/passwd", ".", ""])
def test_no_path_of_a_table_leaves_its_folder(cell: str, tmp_path: Path) -> None:
    data = DataConfig.model_validate({"train": "t.tsv", "source": {"kind": "features", "column": 0}})
    with pytest.raises(UnreadableError):
        SourcePaths.of_table(data, tmp_path / "t.tsv").resolve_line(cell)


def test_paths_of_lines_begin_where_the_file_lies(tmp_path: Path) -> None:
    data = DataConfig.model_validate({"train": "t.tsv", "source": [{"column": 0}, {"kind": "features", "column": 1}]})
    beside = SourcePaths.of_lines(data, str(tmp_path / "list.txt"))
    assert beside.resolve_line("who?\ta.npy") == f"who?\t{tmp_path / 'a.npy'}"
    assert SourcePaths.of_lines(data, None).resolve_line("who?\ta.npy") == "who?\ta.npy"
    assert SourcePaths.of_lines(data, None).resolve_line("who?\t../a.npy") == "who?\t../a.npy"


def test_what_is_held_out_does_not_depend_on_where_the_table_lies(tmp_path: Path) -> None:
    def names(prepared: Prepared) -> list[str]:
        return sorted(Path(example.source).name for example in prepared.dev)

    here, there = (prepared_of(tmp_path / place, FEATURES) for place in ("here", "over/there"))
    assert names(here) == names(there)
    assert len(names(here)) == 8
