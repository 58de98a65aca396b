"""Sentences as vectors, whatever reads them, and the map made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_generators import MODELS, SOURCE, TARGET, tiny_config, tiny_generator

from antiphon import api
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import SOS
from antiphon.errors import DataError, UserError
from antiphon.inference.generator import Generator
from antiphon.models.model import EncoderDecoder
from antiphon.plots.sentence_map import default_pool, pool_name, principal_plane, sentence_vectors

SENTENCES = ["a b c", "h", "c a d b e f g", "b b"]
TEXTS = ["K L M", "O", "M K N L O", "L L"]
ENCODERS = ["bahdanau", "transformer", "mixed", "static", "convolutions"]


def states(made: Generator, sentence: str) -> np.ndarray:
    """The encoder's states of one sentence alone [S, H]."""
    assert isinstance(made.model, EncoderDecoder)
    with torch.inference_mode():
        return made.model.encode(source_batch([SOURCE.encode(sentence)])).states[0].numpy()


@pytest.mark.parametrize("kind", ENCODERS)
def test_mean_and_max_are_of_the_real_positions(kind: str) -> None:
    made = tiny_generator(kind)
    mean, largest = (sentence_vectors(made, SENTENCES, pool).vectors for pool in ("mean", "max"))
    for row, sentence in enumerate(SENTENCES):
        np.testing.assert_allclose(mean[row], states(made, sentence).mean(0), atol=1e-4)
        np.testing.assert_allclose(largest[row], states(made, sentence).max(0), atol=1e-4)


def test_last_is_the_state_after_reading_all() -> None:
    """In both directions: the left half at the last position, the right half at the first."""
    made = tiny_generator("bahdanau")
    last = sentence_vectors(made, SENTENCES).vectors
    assert last.shape == (4, 12)
    for row, sentence in enumerate(SENTENCES):
        alone = states(made, sentence)
        np.testing.assert_allclose(last[row], [*alone[-1, :6], *alone[0, 6:]], atol=1e-5)
    transformer = tiny_generator("transformer")
    last = sentence_vectors(transformer, SENTENCES, "last").vectors
    np.testing.assert_allclose(last[2], states(transformer, SENTENCES[2])[-1], atol=1e-4)


@pytest.mark.parametrize("kind", ["rnn-lm", "transformer-lm"])
def test_a_language_model_gives_the_state_from_which_it_would_go_on(kind: str) -> None:
    """Through the output layer it says what the model says."""
    made = tiny_generator(kind)
    vectors = sentence_vectors(made, TEXTS).vectors
    for row, text in enumerate(TEXTS):
        with torch.inference_mode():
            said = made.model(source_batch([[]]), torch.tensor([[SOS, *TARGET.encode(text)]])).logits[0, -1]
            through = made.model.decoder.output(torch.from_numpy(vectors[row]).float())
        np.testing.assert_allclose(through, said, atol=1e-4)
    assert not np.allclose(sentence_vectors(made, TEXTS, "mean").vectors, vectors)


@pytest.mark.parametrize("kind", ["rnn-concatenated", "transformer-concatenated"])
def test_a_single_network_gives_its_state_at_the_end_of_the_source(kind: str) -> None:
    made = tiny_generator(kind)
    vectors = sentence_vectors(made, SENTENCES).vectors
    for row, sentence in enumerate(SENTENCES):
        with torch.inference_mode():
            said = made.model(source_batch([SOURCE.encode(sentence)]), torch.tensor([[SOS]])).logits[0, -1]
            through = made.model.decoder.output(torch.from_numpy(vectors[row]).float())
        np.testing.assert_allclose(through, said, atol=1e-4)
    with pytest.raises(UserError, match=r"pool: mean of the source's states cannot be had .*; leave it out"):
        sentence_vectors(made, SENTENCES, "mean")


@pytest.mark.parametrize("kind", MODELS)
def test_company_and_order_change_nothing(kind: str) -> None:
    made = tiny_generator(kind)
    texts = TEXTS if kind.endswith("-lm") else SENTENCES
    together = sentence_vectors(made, texts).vectors
    backwards = sentence_vectors(made, texts[::-1]).vectors[::-1]
    alone = np.concatenate([sentence_vectors(made, [text]).vectors for text in texts])
    np.testing.assert_allclose(backwards, together, atol=1e-4)
    np.testing.assert_allclose(alone, together, atol=1e-4)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_the_usual_pool() -> None:
    usual = {kind: default_pool(tiny_config(kind).model) for kind in MODELS}
    assert [kind for kind, pool in usual.items() if pool == "mean"] == ["transformer", "mixed", "convolutions"]
    assert pool_name(tiny_config("bahdanau").model, "last") == "the last state of the encoder"
    assert pool_name(tiny_config("rnn-lm").model, "max") == "the largest values of the states of the network"


def test_nothing_is_lost_in_silence() -> None:
    found = sentence_vectors(tiny_generator("bahdanau"), ["a b", "", "a ß", " ".join("a" * 40)])
    assert found.sentences == ["a b", "a ß", " ".join("a" * 40)]
    assert found.flags == [
        "'': empty, so it is left out",
        "'a ß': unknown symbols in the source: 'ß' x 1",
        f"'{'a ' * 20}': truncated: the source has 40 tokens, only the first 30 were read",
    ]
    [both] = sentence_vectors(tiny_generator("bahdanau"), ["ß " * 40]).flags  # a line a sentence
    assert "unknown symbols" in both
    assert "truncated" in both


@pytest.mark.parametrize("name", ["map.png", "map.svg"])
def test_the_map_is_the_principal_plane_of_the_vectors(tmp_path: Path, name: str) -> None:
    made = tiny_generator("transformer")
    found = api.map_sentences(made, SENTENCES, tmp_path / name, pool="max")
    expected = principal_plane(sentence_vectors(made, SENTENCES, "max").vectors)
    np.testing.assert_allclose(found.plane.points, expected.points)
    assert found.made_of == "the largest values of the states of the encoder"
    written = (tmp_path / name).read_bytes()
    assert written.startswith({"map.png": b"\x89PNG", "map.svg": b"<?xml"}[name])
    with pytest.raises(DataError, match=r"^sentences: a map needs at least two sentences that differ, got 1;"):
        api.map_sentences(made, ["a", ""])


def test_sentences_that_are_the_same_to_the_model(tmp_path: Path) -> None:
    """Words that are not known are all one word."""
    found = api.map_sentences(tiny_generator("bahdanau"), ["ß", "ü"], tmp_path / "map.svg")
    assert found.spread == "these sentences are the same to the model"
    assert "these sentences are the same to the model" in (tmp_path / "map.svg").read_text()
    with pytest.raises(UserError, match=r"map\.html: PNG or SVG can be written; give a name that ends in .png or .svg"):
        api.map_sentences(tiny_generator("bahdanau"), ["a", "b"], tmp_path / "map.html")


def test_sentences_are_lines_or_the_column_of_the_source(tmp_path: Path) -> None:
    made = tiny_generator("bahdanau")
    files = {
        "plain.txt": "a b\nc\n\na b\n",
        "table.tsv": "a b\tK\nc\tL\n\nc\tM\n",
        "table.csv": '"a b",K\nc,L\n',
        "alone.tsv": "a b\nc\n",  # the targets need not be there
        "pairs.txt": "a b\tK\nc\tL\n\nc\t\n",  # a table by its tabs, as in training
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        sentences, dropped = api.read_sentences(made, str(tmp_path / name))
        assert sentences == ["a b", "c"], name
        assert dropped.total == text.count("\n\n")
    named = tiny_generator("bahdanau", source={"tokens": "words", "column": "in"})
    (tmp_path / "named.jsonl").write_text('{"in": "a b"}\n{"in": "c"}\n')
    assert api.read_sentences(named, str(tmp_path / "named.jsonl"))[0] == ["a b", "c"]
    assert api.read_sentences(named, str(tmp_path / "plain.txt"))[0] == ["a b", "c"]
    with pytest.raises(DataError, match=r"table\.tsv: no column 'in'"):
        api.read_sentences(named, str(tmp_path / "table.tsv"))
    (tmp_path / "named.txt").write_text("out\tin\nK\ta b\nL\tc\n")
    assert api.read_sentences(named, str(tmp_path / "named.txt"))[0] == ["a b", "c"]
    target_named = tiny_generator("bahdanau", target={"tokens": "words", "column": "out"})  # so there is a header
    (tmp_path / "half.tsv").write_text("in\tout\na b\tK\nc\tL\n")
    assert api.read_sentences(target_named, str(tmp_path / "half.tsv"))[0] == ["a b", "c"]


def test_a_tab_in_few_lines_is_part_of_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a b\nc\td\ne\n")
    assert api.read_sentences(tiny_generator("bahdanau"), str(tmp_path / "lines.txt"))[0] == ["a b", "c\td", "e"]
    pretext = tiny_generator("bahdanau", target={"tokens": "words", "column": 0})  # it learnt lines, tabs and all
    (tmp_path / "tabs.txt").write_text("a\tb\nc\td\n")
    assert api.read_sentences(pretext, str(tmp_path / "tabs.txt"))[0] == ["a\tb", "c\td"]


def test_a_language_model_reads_its_text_column(tmp_path: Path) -> None:
    made = tiny_generator("rnn-lm")
    (tmp_path / "lines.txt").write_text("K L\nM\tN\n")
    (tmp_path / "table.tsv").write_text("K L\tx\nM\ty\n")
    assert api.read_sentences(made, str(tmp_path / "lines.txt"))[0] == ["K L", "M\tN"]
    assert api.read_sentences(made, str(tmp_path / "table.tsv"))[0] == ["K L", "M"]
