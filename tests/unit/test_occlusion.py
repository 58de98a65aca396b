"""Leave one out: the differences are those of scores computed one by one, for texts and for files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_generators import AUDIO, CELLS, COUNT, FEATURES, FRAMES, IMAGE, file_generator, given_file
from tiny_generators import GRU, RECURRENT, tiny_generator
from tiny_models import fill
from untrained_models import untrained_generator

import antiphon
from antiphon.config.schema import Config, TextConfig
from antiphon.data.source import Array
from antiphon.data.subwords import train_subwords
from antiphon.data.tokenizers import UNK, WordTokenizer
from antiphon.errors import UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model

ANSWER = "K L M"


@pytest.mark.parametrize("kind", ["bahdanau", "transformer", "static", "rnn-concatenated"])
def test_without_a_word_it_is_the_score_of_the_shorter_text(kind: str) -> None:
    made = tiny_generator(kind)
    found = antiphon.occlusion(made, "a b c d", ANSWER)
    [whole, *others] = made.score([(text, ANSWER) for text in ("a b c d", "b c d", "a c d", "a b d", "a b c")])
    assert (found.text, found.tokens) == (ANSWER, [*ANSWER.split(), "</s>"])
    assert found.log_probs == pytest.approx(whole.log_probs, abs=1e-5)
    for row, total, shorter in zip(found.differences, found.totals, others, strict=True):
        assert row == pytest.approx(np.subtract(whole.log_probs, shorter.log_probs), abs=1e-5)
        assert total == pytest.approx(whole.log_prob - shorter.log_prob, abs=1e-5)
    assert [(part.positions, part.text) for part in found.parts] == [([n], "abcd"[n]) for n in range(4)]
    assert np.abs(found.totals).max() > 0.001


def test_the_answer_is_the_models_own_unless_one_is_given() -> None:
    made = tiny_generator("bahdanau")
    own, ids = made.generate("a b c"), made.target_tokenizer.encode(ANSWER)
    assert antiphon.occlusion(made, "a b c").token_ids == own.token_ids
    assert antiphon.occlusion(made, "a b c", ids).as_dict() == antiphon.occlusion(made, "a b c", ANSWER).as_dict()


def test_of_a_single_word_nothing_is_left() -> None:
    made = untrained_generator()
    found = antiphon.occlusion(made, "a", ANSWER)
    targets = [[*made.target_tokenizer.encode(ANSWER), 2]]
    [nothing] = made.engine.log_probs([[]], targets, 1)
    assert found.differences[0] == pytest.approx(np.subtract(found.log_probs, nothing), abs=1e-6)


def test_of_a_prompt() -> None:
    made = tiny_generator("transformer-lm")
    found = antiphon.occlusion(made, "K L M", "N O")
    [whole, *others] = made.score(["K L M N O", "L M N O", "K M N O", "K L N O"])
    assert found.log_probs == pytest.approx(whole.log_probs[3:], abs=1e-5)
    for row, shorter in zip(found.differences, others, strict=True):
        assert row == pytest.approx(np.subtract(whole.log_probs[3:], shorter.log_probs[2:]), abs=1e-5)
    assert [part.text for part in found.parts] == ["K", "L", "M"]


def test_a_tagger_reads_an_unknown_word_instead() -> None:
    model = {"kind": "tagger", "encoder": GRU, "decoder": {"dropout": 0.0}}
    config = Config.model_validate({"data": {"train": "pairs.tsv"}, "model": model})
    words, labels = WordTokenizer(["the", "cat", "sees"]), WordTokenizer(["N", "V", "D"])
    network = fresh_model(config, words, labels).eval()
    fill(network, scale=1.1)
    made = Generator(LoadedModel(config, network, words, labels))
    found = antiphon.occlusion(made, "the cat sees", "D N V")
    [whole, unknown] = made.score([("the cat sees", "D N V"), ("the zebra sees", "D N V")])
    assert words.encode("zebra") == [UNK]
    wanted = np.subtract(whole.log_probs[:3], unknown.log_probs[:3])
    assert found.differences[1][:3] == pytest.approx(wanted, abs=1e-5)


@pytest.fixture(scope="module")
def subword_model() -> Generator:
    source = train_subwords(["the cats cat sat"], TextConfig(tokens="bpe", vocabulary=258), "data.source")
    config = Config.model_validate(
        {
            "data": {"train": "p.tsv", "source": {"tokens": "bpe"}, "target": {"tokens": "words", "column": 1}},
            "model": {"encoder": GRU, "decoder": {"kind": "bahdanau", **RECURRENT}},
        }
    )
    target = WordTokenizer(list("KLMNO"))
    model = fresh_model(config, source, target).eval()
    fill(model, scale=1.1)
    return Generator(LoadedModel(config, model, source, target))


def test_by_word_all_pieces_go_together(subword_model: Generator) -> None:
    found = antiphon.occlusion(subword_model, "the cats sat, the", ANSWER, by="word")
    assert [part.text for part in found.parts] == ["the", "cats", "sat", ",", "the"]
    assert sum(len(part.positions) for part in found.parts) == len(found.source_tokens) - 1
    [whole, shorter] = subword_model.score([("the cats sat, the", ANSWER), ("the sat, the", ANSWER)])
    assert found.totals[1] == pytest.approx(whole.log_prob - shorter.log_prob, abs=1e-5)
    tokens = antiphon.occlusion(subword_model, "the cats sat, the", ANSWER)
    assert [part.positions for part in tokens.parts] == [[n] for n in range(len(tokens.source_tokens) - 1)]


def changed(made: Generator, text: str, arrays: list[Array], answer: list[int]) -> list[list[float]]:
    """log p of the answer for the file of a model of one source, and for each of these arrays in its place."""
    whole = made.codec.encode(text).source
    return made.engine.log_probs([whole, *arrays], [answer] * (1 + len(arrays)), 8)


def test_a_cell_of_an_image_becomes_its_mean(tmp_path: Path) -> None:
    made = file_generator(tmp_path, IMAGE, front=CELLS)
    path = given_file(tmp_path, "image", 30)
    found = antiphon.occlusion(made, path, "a b")
    pixels = np.asarray(made.codec.encode(path).source).reshape(32, 16, 3)
    assert found.parts[9].text == "2,2"  # of 4 x 8 cells, each of 4 x 4 pixels
    blanked = pixels.copy()
    blanked[4:8, 4:8] = pixels.mean((0, 1))
    before, after = changed(made, path, [blanked.reshape(32, -1)], found.token_ids)
    assert len(found.parts) == 32
    assert found.differences[9] == pytest.approx(np.subtract(before, after), abs=1e-5)
    assert np.abs(found.differences).max() > 1e-4


@pytest.mark.parametrize(
    ("source", "front", "factor"),
    [
        ({**AUDIO}, {"kind": "subsampled", "channels": 4, "kernel": 3}, 4),
        ({**AUDIO}, {"kind": "linear", "stack": 3}, 3),
        ({**FEATURES, "max_length": 9}, None, 1),
        (FRAMES, {"kind": "frame-cells", "channels": [4]}, 1),
    ],
)
def test_a_stretch_of_sound_becomes_silent_and_others_their_mean(
    tmp_path: Path, source: dict[str, Any], front: dict[str, Any] | None, factor: int
) -> None:
    made = file_generator(tmp_path, source, front=front)
    if source["kind"] == "features":
        path = str(tmp_path / "arrays" / "0.npy")
    else:
        path = given_file(tmp_path, source["kind"], 14)
    found = antiphon.occlusion(made, path, "a b")
    values = np.asarray(made.codec.encode(path).source)
    assert len(found.parts) == -(-len(values) // factor)
    arrays = [values.copy() for _ in found.parts]
    nothing = values.min(axis=0) if source["kind"] == "audio" else values.mean(axis=0)
    for number, array in enumerate(arrays):
        array[number * factor : (number + 1) * factor] = nothing
    before, *after = changed(made, path, arrays, found.token_ids)
    assert found.differences == pytest.approx(np.subtract([before] * len(after), after), abs=1e-5)


def test_several_sources_are_left_out_part_by_part(tmp_path: Path) -> None:
    made = file_generator(tmp_path, [FEATURES, COUNT])
    path = str(tmp_path / "arrays" / "0.npy")
    answer = made.generate(f"{path}\t1 2")
    found = antiphon.occlusion(made, f"{path}\t1 2")
    vectors = answer.spans[0].last + 1
    assert [part.source for part in found.parts] == [0] * vectors + [1, 1]
    assert [part.positions for part in found.parts][vectors:] == [[vectors], [vectors + 1]]
    [whole, shorter] = made.score([(f"{path}\t1 2", answer.text), (f"{path}\t2", answer.text)])
    assert found.totals[-2] == pytest.approx(whole.log_prob - shorter.log_prob, abs=1e-4)


def test_too_many_tokens_go_in_groups() -> None:
    made = untrained_generator(longest=700)
    words = (list("abcdef") * 100)[:600]
    found = antiphon.occlusion(made, " ".join(words), ANSWER)
    assert found.flags == ["grouped: 600 parts of the source; neighbours were left out together, in 200 groups"]
    assert [part.positions for part in found.parts] == [list(range(n, n + 3)) for n in range(0, 600, 3)]
    assert found.parts[0].text == "a … c"
    [whole, shorter] = made.score([(" ".join(one), ANSWER) for one in (words, words[3:])])
    assert found.totals[0] == pytest.approx(whole.log_prob - shorter.log_prob, abs=1e-4)


@pytest.mark.parametrize(("height", "width"), [(40, 64), (8, 600)])
def test_too_many_cells_go_in_squares(tmp_path: Path, height: int, width: int) -> None:
    made = file_generator(
        tmp_path, {**IMAGE, "height": height, "width": width}, front={"kind": "cells", "channels": [2]}
    )
    path = given_file(tmp_path, "image", 30)
    found = antiphon.occlusion(made, path, "a")
    cells = (height // 2) * (width // 2)
    assert 50 < len(found.parts) <= 256
    assert sorted(place for part in found.parts for place in part.positions) == list(range(cells))
    rows = [{place // (width // 2) for place in part.positions} for part in found.parts]
    columns = [{place % (width // 2) for place in part.positions} for part in found.parts]
    assert all(max(one) - min(one) + 1 == len(one) for one in (*rows, *columns))
    assert found.flags[-1].startswith(f"grouped: {cells} parts of the source")


def test_what_cannot_be_left_out() -> None:
    made = untrained_generator()
    with pytest.raises(UserError, match="empty source; there is nothing to explain"):
        antiphon.occlusion(made, "")
    with pytest.raises(UserError, match="by: must be token or word, not 'letter'"):
        antiphon.occlusion(made, "a", by="letter")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="answer: 99 is no token; give ids from 0 to 8"):
        antiphon.occlusion(made, "a", [99])
    with pytest.raises(UserError, match="text: a value of type list is given; give one text"):
        antiphon.occlusion(made, ["a"])  # type: ignore[arg-type]
