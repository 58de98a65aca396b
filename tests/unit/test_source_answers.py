"""Answers to files and to several sources: the same in any company, named, cut and flagged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_generators import COUNT, FEATURES
from file_generators import file_generator as generator

from antiphon.data.source import SourcePaths
from antiphon.errors import UserError
from antiphon.inference.generation import SourceSpan
from antiphon.inference.generator import Generator
from antiphon.inference.inputs import UnreadableInputError
from antiphon.model_folder import load_model, save_model
from antiphon.plots.attention_views import draw_sources
from antiphon.plots.image_attention import attention_scale

BLOCKS: dict[str, Any] = {"kind": "transformer", "size": 8, "layers": 1, "heads": 2, "feedforward": 8}


@pytest.fixture(params=["one", "joint", "apart", "transformers"])
def model_and_inputs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Generator, list[str]]:
    """A model, and questions to it."""
    arrays = [str(tmp_path / "arrays" / f"{number}.npy") for number in range(9)]
    both = [f"{number % 3 + 1}\t{path}" for number, path in enumerate(arrays)]
    apart = [{"kind": "gru", "embedding": 8, "size": 8}, {"kind": "none", "size": 16}]
    made = {
        "one": lambda: generator(tmp_path, FEATURES),
        "joint": lambda: generator(tmp_path, [COUNT, FEATURES]),
        "apart": lambda: generator(tmp_path, [COUNT, FEATURES], encoder=apart),
        "transformers": lambda: generator(tmp_path, [COUNT, FEATURES], encoder=BLOCKS, decoder=BLOCKS),
    }
    return made[request.param](), arrays if request.param == "one" else both


def test_the_same_answer_in_any_company(model_and_inputs: tuple[Generator, list[str]]) -> None:
    """Also where there are more questions than are read at once."""
    model, texts = model_and_inputs
    alone = [model.generate(text, beam=3) for text in texts]
    for size in (1, 2, 64):
        together = model.generate(texts, beam=3, batch_size=size)
        assert [answer.text for answer in together] == [answer.text for answer in alone]
        for left, right in zip(together, alone, strict=True):
            assert left.score == pytest.approx(right.score, abs=1e-5)
            assert left.weights is not None
            assert right.weights is not None
            assert np.allclose(left.weights, right.weights, atol=1e-5)


def test_weights_have_a_column_for_each_name(model_and_inputs: tuple[Generator, list[str]]) -> None:
    model, texts = model_and_inputs
    for answer in model.generate(texts, heads=True):
        assert answer.weights is not None
        assert answer.weights.shape == (len(answer.tokens), len(answer.source_tokens))
        assert np.allclose(answer.weights.sum(axis=1), 1.0, atol=1e-5)
        assert [part.first for part in answer.spans] == [0, *(part.last + 1 for part in answer.spans[:-1])]
        assert answer.spans[-1].last == len(answer.source_tokens) - 1


def test_scores_are_those_of_the_answers(model_and_inputs: tuple[Generator, list[str]]) -> None:
    model, texts = model_and_inputs
    answers = model.generate(texts, length_penalty=0.0, beam=1)
    finished = [(text, answer) for text, answer in zip(texts, answers, strict=True) if answer.tokens[-1] == "</s>"]
    scored = model.score([(text, answer.text) for text, answer in finished], batch_size=2)
    for (_, answer), one in zip(finished, scored, strict=True):
        assert one.log_prob == pytest.approx(answer.score, abs=1e-4)


def test_parts_are_named_and_long_ones_cut(tmp_path: Path) -> None:
    model = generator(tmp_path, [COUNT, FEATURES])
    long = str(tmp_path / "long.npy")
    np.save(long, np.ones((7, 4), np.float32))
    answer = model.generate(f"2 9\t{long}")
    assert answer.source_tokens == ["2", "‹9›", "</s>", "1", "2", "3", "4"]
    assert answer.spans == [SourceSpan(0, "text", "2 9", 0, 2), SourceSpan(1, "features", long, 3, 6)]
    assert "unknown symbols in the source 1: '9' x 1" in answer.flags
    assert "truncated: the source 2 has 7 positions, only the first 4 were read" in answer.flags


@pytest.mark.parametrize("front", [None, {"kind": "subsampled", "channels": 8}, {"kind": "linear", "stack": 3}])
def test_what_was_cut_is_drawn_as_far_as_it_was_read(tmp_path: Path, front: Any) -> None:  # noqa: ANN401
    model = generator(tmp_path, {**FEATURES, "max_length": 9}, front=front)
    np.save(tmp_path / "long.npy", np.ones((20, 4), np.float32))
    answer = model.generate(str(tmp_path / "long.npy"))
    assert draw_sources(model, answer, tmp_path / "a.svg") == [tmp_path / "a.svg"]


def test_the_pictures_of_several_sources_have_one_scale(tmp_path: Path) -> None:
    model = generator(tmp_path, [COUNT, FEATURES])
    answer = model.generate(f"2\t{tmp_path / 'arrays' / '0.npy'}")
    assert answer.weights is not None
    ends = {
        re.findall(r"<!-- (0\.\d+|1) -->", path.read_text())[-1]
        for path in draw_sources(model, answer, tmp_path / "a.svg")
    }
    assert ends == {f"{attention_scale(answer.weights):.2f}".rstrip("0").rstrip(".")}


def test_an_empty_path_is_a_fact(tmp_path: Path) -> None:
    model = generator(tmp_path, FEATURES)
    line = SourcePaths.of_lines(model.config.data, None).resolve_line(" ")
    with pytest.raises(UnreadableInputError, match="source 1: : an empty path"):
        model.generate([line])


def test_an_empty_text_beside_a_file_is_read(tmp_path: Path) -> None:
    model = generator(tmp_path, [COUNT, FEATURES])
    answer = model.generate(f"\t{tmp_path / 'arrays' / '0.npy'}")
    assert answer.source_tokens[0] == "</s>"
    assert answer.tokens


def test_only_empty_texts_are_nothing(tmp_path: Path) -> None:
    model = generator(tmp_path, [COUNT, {**COUNT, "column": "path"}])
    answer = model.generate("\t")
    assert (answer.text, answer.tokens) == ("", [])
    assert "empty source" in answer.flags


def test_a_missing_cell_and_a_missing_file_are_said_together(tmp_path: Path) -> None:
    model = generator(tmp_path, [COUNT, FEATURES])
    with pytest.raises(UnreadableInputError) as caught:
        model.generate(["1", "1\tnowhere.npy"], first=10)
    assert caught.value.problems == [
        "source 11: 1: 1 cells for 2 sources; put a tab between them",
        "source 12: 1 | nowhere.npy: no such file; give files that can be read",
    ]
    assert caught.value.of("list.txt").problems[0].startswith("list.txt, line 11: ")


def test_what_is_saved_answers_the_same(model_and_inputs: tuple[Generator, list[str]], tmp_path: Path) -> None:
    model, texts = model_and_inputs
    save_model(tmp_path / "m", model.config, model.model.state_dict(), model.source, model.target_tokenizer)
    loaded = Generator(load_model(tmp_path / "m"))
    assert [one.text for one in loaded.generate(texts)] == [one.text for one in model.generate(texts)]
    with pytest.raises(UserError, match="this is for models that read one text"):
        _ = loaded.source_tokenizer
