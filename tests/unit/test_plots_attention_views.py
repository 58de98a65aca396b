"""The attention that is drawn, its tokens, and the error if there is none."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_generators import tiny_config, tiny_generator
from tiny_models import fill

from antiphon import api
from antiphon.config.load import read_config
from antiphon.config.schema import Config
from antiphon.config.yaml_text import explained_yaml
from antiphon.data.image import ImageReader
from antiphon.data.tokenizers import WordTokenizer
from antiphon.errors import DataError, UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model
from antiphon.plots.attention_views import answer_with_attention, attention_view


def written(path: Path) -> list[str]:
    """Every text of an SVG."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def test_rows_and_columns_of_each_kind() -> None:
    made = tiny_generator("transformer")
    answer = answer_with_attention(made, "a b")
    cross, own, source = (attention_view(made, answer, kind) for kind in ("cross", "own", "source"))
    assert (cross.rows, cross.columns) == (answer.tokens, ["a", "b", "</s>"])
    assert (own.rows, own.columns) == (answer.tokens, ["<s>", *answer.tokens[:-1]])
    assert (source.rows, source.columns) == (["a", "b", "</s>"], ["a", "b", "</s>"])
    for view in (cross, own, source):
        assert view.weights.shape[2:] == (len(view.rows), len(view.columns))
    assert attention_view(made, answer).kind == "cross"
    assert answer.weights is not None
    np.testing.assert_allclose(cross.mean, answer.weights, atol=1e-6)


def test_a_language_model_shows_its_prompt_and_what_it_wrote() -> None:
    made = tiny_generator("transformer-lm")
    answer = answer_with_attention(made, "K L M")
    view = attention_view(made, answer)
    assert view.kind == "own"
    assert view.rows == ["K", "L", "M", *answer.tokens]
    assert view.columns == ["<s>", *view.rows[:-1]]
    assert view.weights.shape[2:] == (len(view.rows), len(view.columns))
    assert view.prompt_end == (3, 4)  # a line after the prompt; the columns begin with <s>
    assert "a row is a token of the prompt or, below the line, one that was written" in view.note
    assert view.only(layer=1, head=1).prompt_end == (3, 4)
    unasked = attention_view(made, answer_with_attention(made, ""))
    assert unasked.prompt_end is None
    assert "prompt" not in unasked.note


def test_one_network_says_where_the_rest_of_a_row_is() -> None:
    made = tiny_generator("transformer-concatenated")
    answer = answer_with_attention(made, "a b")
    cross, own = attention_view(made, answer, "cross"), attention_view(made, answer, "own")
    assert (cross.weights.sum(-1) < 0.999).any()
    np.testing.assert_allclose(cross.weights.sum(-1) + own.weights.sum(-1), 1.0, atol=1e-5)
    assert cross.note.endswith("the rest of each row, up to 1, goes to the answer (own)")
    assert own.note.endswith("the rest of each row, up to 1, goes to the source (cross)")
    other = tiny_generator("transformer")
    assert "rest" not in attention_view(other, answer_with_attention(other, "a b")).note


def test_a_language_model_writes_only_a_little() -> None:
    made = tiny_generator("transformer-lm", window=40)
    assert len(answer_with_attention(made, "K").tokens) == 24
    assert len(answer_with_attention(made, " ".join("K" * 20)).tokens) == 20  # as many as fit beside the text
    assert (
        len(answer_with_attention(tiny_generator("transformer-lm"), " ".join("K" * 30)).tokens) > 1
    )  # no window, no end
    with pytest.raises(UserError, match=r"40 tokens, and 1 to write .* more than the 40 .*; shorten the text"):
        answer_with_attention(made, " ".join("K" * 40))


def test_one_layer_one_head_or_both() -> None:
    made = tiny_generator("transformer")
    view = attention_view(made, answer_with_attention(made, "a b"))
    assert (view.layers, view.heads) == ([1, 2, 3], [1, 2])
    one = view.only(layer=3, head=2)
    np.testing.assert_array_equal(one.weights[0, 0], view.weights[2, 1])
    assert (one.layers, one.heads, one.weights.shape[:2]) == ([3], [2], (1, 1))
    assert view.only(layer=2, head=None).weights.shape[:2] == (1, 2)
    assert view.only(layer=None, head=1).weights.shape[:2] == (3, 1)
    with pytest.raises(UserError) as refused:
        view.only(layer=4, head=0)
    assert refused.value.problems == [
        "layer: 4, but there are 3 in this attention; give 1 to 3, or leave it out",
        "head: 0, but there are 2 in this attention; give 1 to 2, or leave it out",
    ]


def test_explain_draws_a_grid_one_head_or_as_before(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    transformer = tiny_generator("transformer")
    answer = api.explain(transformer, "a b", path)
    assert {"head 1", "head 2", "layer 1", "layer 2", "layer 3", answer.text, "a", "b"} <= {*written(path)}
    assert answer.weights is not None
    api.explain(transformer, "a b", path, layer=3, head=2)
    assert f"{answer.text}   (layer 3, head 2)" in written(path)
    assert "head 2" not in written(path)
    assert "attention to the source: a row is a token written," in " ".join(written(path))
    api.explain(transformer, "a b", path, attention="source", head=2)
    assert {"a b   (head 2)", "head 2", "layer 1", "layer 2"} <= {*written(path)}
    assert "layer 3" not in written(path)
    api.explain(tiny_generator("bahdanau"), "a b", path)
    assert {"a", "b"} <= {*written(path)}
    assert not [text for text in written(path) if "head" in text]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("static", "model.context.kind: last is one context for the whole answer, so there is no attention to draw; "),
        ("rnn-lm", "model.decoder.kind: plain is a recurrent network that keeps all it has read in one state, so "),
        ("rnn-concatenated", "model.decoder.kind: plain is a recurrent network"),
    ],
)
def test_models_without_attention_say_so_and_what_to_do(kind: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        api.explain(tiny_generator(kind), "K L" if kind == "rnn-lm" else "a b", tmp_path / "a.png")
    assert str(refused.value).startswith(words)
    assert "antiphon map" in str(refused.value)
    assert not (tmp_path / "a.png").exists()
    (tmp_path / "config.yaml").write_text(explained_yaml(tiny_config(kind)))
    remedies = re.findall(r"'(model\.\w+=.*?)'", str(refused.value))
    mended = read_config(tmp_path / "config.yaml", remedies)  # on the run's own config, where every key is written
    assert mended.model.decoder.kind == ("bahdanau" if kind == "static" else "transformer")


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"attention: this model has no attention of the kind own; choose cross$"):
        api.explain(tiny_generator("bahdanau"), "a", tmp_path / "a.png", attention="own")
    with pytest.raises(UserError, match=r"no attention of the kind own; choose cross or source$"):
        api.explain(tiny_generator("mixed"), "a", tmp_path / "a.png", attention="own")
    with pytest.raises(DataError, match="'': empty source; there is nothing to draw"):
        api.explain(tiny_generator("transformer"), "", tmp_path / "a.png")
    with pytest.raises(UserError, match="reads in order and needs no positional encoding"):
        api.positions(tiny_generator("bahdanau"), tmp_path / "a.png")


def test_positions_are_drawn_and_returned(tmp_path: Path) -> None:
    tables = api.positions(tiny_generator("transformer"), tmp_path / "a.svg")
    assert [table.shape for table in tables.values()] == [(100, 8)]
    assert {*tables} <= {*written(tmp_path / "a.svg")}


def image_model(folder: Path, alignment: str, words: str = "red blue") -> Generator:
    """An untrained model of images."""
    image = {"kind": "image", "column": 0, "height": 16, "width": 16}
    config = Config.model_validate(
        {
            "data": {"train": "a.tsv", "source": image, "target": {"tokens": "words", "column": 1}},
            "model": {
                "front": {"kind": "patches", "patch": 4},
                "encoder": {"kind": "none", "size": 8},
                "context": {"alignment": alignment},
                "decoder": {"kind": "bahdanau", "size": 8, "embedding": 8},
            },
            "decoding": {"beam": 1, "max_length": 4},
        }
    )
    reader, target = ImageReader(config.data.sources[0]), WordTokenizer(words.split())
    model = fresh_model(config, reader, target).eval()
    fill(model, scale=1.1)
    Image.new("RGB", (16, 16), "orange").save(folder / "a.png")
    return Generator(LoadedModel(config, model, reader, target))


def test_soft_and_hard_attention_to_one_image_beside_one_another(tmp_path: Path) -> None:
    soft, hard = (image_model(tmp_path, alignment) for alignment in ("soft", "hard"))
    picture, out = str(tmp_path / "a.png"), tmp_path / "b.svg"
    answer = api.explain(soft, picture, out, beside=hard, min_length=3)
    shown = written(out)
    assert answer.tokens == soft.generate(picture, min_length=3).tokens
    assert [shown.count(name) for name in ("soft", "hard")] == [1, 1]
    assert shown.count("1.00") == len(answer.tokens)  # hard attention looks at one cell
    api.explain(soft, picture, out, beside=soft)
    assert {"first", "second"} <= {*written(out)}


def test_what_cannot_stand_beside(tmp_path: Path) -> None:
    made, out = image_model(tmp_path, "soft"), tmp_path / "b.png"
    for other, sentence in (
        (tiny_generator("bahdanau"), "beside: only for two runs that read one image each"),
        (image_model(tmp_path, "hard", "green pink"), "beside: the second run does not have the target tokens"),
    ):
        with pytest.raises(UserError, match=sentence):
            api.explain(made, str(tmp_path / "a.png"), out, beside=other, min_length=3)
    with pytest.raises(UserError, match="leave out attention, layer and head"):
        api.explain(made, str(tmp_path / "a.png"), out, beside=made, head=1)
