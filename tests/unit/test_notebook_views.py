"""The short form of models and answers, and their view in a notebook."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import numpy as np
import pytest
from tiny_generators import MODELS, tiny_generator

from antiphon.errors import UserError
from antiphon.inference.engine import LoadedModel
from antiphon.inference.ensemble import ensemble_of
from antiphon.inference.generation import Alternative, Generation, SourceSpan
from antiphon.inference.generator import Generator

EVIL = "<script>alert('x')</script>\x1b[2J"


def pictures(html: str) -> list[bytes]:
    return [base64.b64decode(found) for found in re.findall(r'<img [^>]*src="data:image/png;base64,([^"]+)"', html)]


def test_an_answer_is_short_and_shows_its_attention() -> None:
    answer = tiny_generator("bahdanau").generate("a b c")
    assert repr(answer).startswith(f"Generation({answer.text!r}, score=-")
    assert len(repr(answer)) < 120
    [picture] = pictures(answer._repr_html_())
    assert picture.startswith(b"\x89PNG")
    assert f"<td>{answer.text}</td><td>{answer.score:.3f}</td>" in answer._repr_html_()


def test_the_picture_is_that_of_the_weights() -> None:
    answer = tiny_generator("bahdanau").generate("a b c")
    assert answer.weights is not None
    other = replace(answer, weights=np.roll(answer.weights, 1, axis=1))
    assert pictures(answer._repr_html_()) == pictures(replace(answer)._repr_html_())
    assert pictures(answer._repr_html_()) != pictures(other._repr_html_())


def test_texts_are_never_html() -> None:
    """Of the answer, its alternatives, its flags, its tokens and its source."""
    weights, span = np.full((1, 1), 1.0), SourceSpan(0, "text", EVIL, 0, 0)
    others = [Alternative(EVIL, [EVIL], -1.0, [-1.0])] * 2
    html = Generation(
        EVIL, [EVIL], -1.0, [-1.0], [EVIL], weights=weights, flags=[EVIL], alternatives=others, spans=[span]
    )._repr_html_()
    assert "<script" not in html
    assert "\x1b" not in html
    assert html.count("&lt;script&gt;") == 5
    assert {*re.findall(r"<(\w+)", html)} == {"div", "table", "thead", "tbody", "tr", "th", "td", "img"}
    assert "flags=[" in repr(Generation(EVIL, [], 0.0, [], [], flags=["empty source"]))
    assert "\x1b" not in repr(Generation(EVIL, [], 0.0, [], []))


@pytest.mark.parametrize(
    ("tokens", "kind", "note"), [(3, "image", True), (101, "text", True), (0, "text", False)], ids=str
)
def test_without_a_picture(tokens: int, kind: str, note: bool) -> None:
    answer = Generation("x", ["x"], 0.0, [0.0], ["s"] * tokens, weights=np.zeros((1, tokens)))
    html = replace(answer, spans=[SourceSpan(0, kind, "s", 0, tokens - 1)])._repr_html_()
    assert pictures(html) == []
    assert ("antiphon.explain draws" in html) is note
    assert pictures(tiny_generator("rnn-lm").generate("K L")._repr_html_()) == []


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_described(kind: str) -> None:
    model = tiny_generator(kind)
    assert re.fullmatch(r"Generator\(\S+ (\S+ → )?\S+, [\d,]+ parameters, 9 words(, from words)?\)", repr(model))
    assert re.sub("<[^>]+>", " ", model._repr_html_()).split()[0] == "network"


def test_an_ensemble_is_described() -> None:
    one = tiny_generator("bahdanau")
    loaded = LoadedModel(one.config, one.model, one.source, one.target_tokenizer)
    assert "parameters" in repr(Generator(ensemble_of([loaded, loaded], "arithmetic")))


@pytest.mark.parametrize(("texts", "kind"), [(5, "int"), (["a", 5], "int"), (None, "NoneType")])
def test_texts_of_another_type_get_a_sentence(texts: object, kind: str) -> None:
    with pytest.raises(UserError, match=f"texts: a value of type {kind}; give a text or a list of texts"):
        tiny_generator("bahdanau").generate(texts)  # type: ignore[call-overload]
