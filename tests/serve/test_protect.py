"""Placeholders, tags and glossaries: what is a piece, where it is put back, which terms an answer needs."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.inference.generation import Generation
from antiphon.serve.protect import (
    align_words,
    glossary_phrases,
    lost_phrases,
    missing,
    pieces,
    put_back,
    strip,
)


def answered(text: str, source: str = "", weights: np.ndarray | None = None) -> Generation:
    """An answer to a source, both of words."""
    read = [*source.split(), "</s>"]
    return Generation(text, [*text.split(), "</s>"], -1.0, [], read, weights)


def restored(source: str, answer: str, weights: np.ndarray | None = None) -> str:
    """The answer to the text without its pieces, with them."""
    text = strip(source)
    return put_back(text, answer, align_words(text, answered(answer, text.text, weights)))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("plain words, 100% of them: a < b > c & d", []),
        ("20% de réduction, 100%ige, 5%", []),
        ("Hello {name}!", ["{name}"]),
        ("{{name}} ${name} #{name} %{name} {0} {}", ["{{name}}", "${name}", "#{name}", "%{name}", "{0}", "{}"]),
        ("{count, plural, one {# file} other {# files}}", ["{count, plural, one {# file} other {# files}}"]),
        ("%d %s %5.2f %-3d %ld %zu %x %@ %%", ["%d", "%s", "%5.2f", "%-3d", "%ld", "%zu", "%x", "%@", "%%"]),
        ("%(name)s %1$s", ["%(name)s", "%1$s"]),
        ("<b>bold</b><br/>", ["<b>", "</b>", "<br/>"]),
        ("<a href=\"x  y\" title='{z}'>", ["<a href=\"x  y\" title='{z}'>"]),
        ('<x id="1"></x><x id="2"> </x>', ['<x id="1"></x>', '<x id="2"> </x>']),
        ("a &amp; &#39; &#x27; &Uuml; & b", ["&amp;", "&#39;", "&#x27;", "&Uuml;"]),
        ("see https://a.b/c?d=e, or (http://f.g).", ["https://a.b/c?d=e", "http://f.g"]),
        ("{unclosed <b {a}", ["{a}"]),
        ("}{", []),
        ("{a}{a}", ["{a}", "{a}"]),
    ],
)
def test_what_is_a_piece(text: str, found: list[str]) -> None:
    assert pieces(text) == found


@pytest.mark.parametrize(
    "unit",
    [
        "{",
        "{{",
        "{a",
        "<a",
        "<x ",
        "%",
        "%(",
        "&a",
        "{ {a} ",
        "https://",
        "<x a> ",
        "}",
        "<b>",
        "</b>",
        "<b></b>",
        "{a}",
    ],
)
def test_many_beginnings_of_pieces_take_no_time(unit: str) -> None:
    """20,000 characters are the longest text of a request; a search that is not linear would take minutes."""
    text = unit * (20_000 // len(unit))
    assert len(pieces(text)) <= len(text)
    assert sorted(missing(text, "")) == sorted(pieces(text))
    assert len(pieces(restored(text, "K L M"))) == len(pieces(text))


@pytest.mark.parametrize(
    ("source", "answer", "lost"),
    [
        ("{a} b", "x {a}", []),
        ("{a} b", "x", ["{a}"]),
        ("{a} {a}", "{a}", ["{a}"]),
        ("{a}", "{A}", ["{a}"]),
        ("{ a }", "{a}", ["{ a }"]),
        ("%s <b>", "<b>", ["%s"]),
        ("no pieces", "{invented}", []),
    ],
)
def test_what_is_missing(source: str, answer: str, lost: list[str]) -> None:
    assert missing(source, answer) == lost


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a {x} b", "a b"),
        ("{x} b", "b"),
        ("a {x}", "a"),
        ("{x}", ""),
        ("{x}{y}", ""),
        ("a{x}b", "a b"),
        ("a<br>b", "a b"),
        ("Hello {x}, you", "Hello , you"),
        ("({x})", "()"),
        ("  a  ", "  a  "),
        ("a\n{x}\nb", "a\n\nb"),
        ("<b><i>a</i> b</b> c", "a b c"),
    ],
)
def test_texts_without_their_pieces(text: str, plain: str) -> None:
    assert strip(text).text == plain


@pytest.mark.parametrize(
    ("source", "answer", "whole"),
    [
        ("{x} b c", "K L", "{x} K L"),
        ("b c {x}", "K L", "K L {x}"),
        ("b {x} c", "K L", "K {x} L"),
        ("{x}", "", "{x}"),
        ("{x}", "K", "K {x}"),
        ("{x} b", "", "{x}"),
        ("{x}{y} b", "K", "{x}{y} K"),
        ("b {x} {x} {x}", "K", "K {x} {x} {x}"),
        ("<b>b</b> c", "K L", "<b>K</b> L"),
        ("b <b>c</b>", "K L", "K <b>L</b>"),
        ("<b><i>b</i></b>", "K", "<b><i>K</i></b>"),
        ("<b><i>b</i></b> c", "K L", "<b><i>K</i></b> L"),
        ("<b>b<br>c</b> d e", "K L M N", "<b>K <br>L</b> M N"),
        ("b</i> <b>c", "K L", "K</i> <b>L"),
        ("<b></b>", "", "<b></b>"),
        ("<b></b> b", "", "<b></b>"),
        ("<b>{x}</b> b", "K", "<b>{x}</b> K"),
        ("b <x id='1'></x> c", "K L", "K <x id='1'></x> L"),
        ("file{x} c", "K L", "K{x} L"),
        ("b, {x}: c", "K, L", "K, {x} L"),
        ("b c%%", "K L", "K L%%"),
        ("{a  b} <a  c='d'>e</a>", "K", "{a  b} <a  c='d'>K</a>"),
        ("a {x} b", "  K   L ", "  K   {x} L "),
        ("我 {x} 好", "你好", "你 {x} 好"),
    ],
)
def test_pieces_are_put_back_by_their_share_of_the_text(source: str, answer: str, whole: str) -> None:
    assert restored(source, answer) == whole


def test_attention_says_where_a_piece_belongs() -> None:
    """The answer has the words of the source in the opposite order."""
    weights = np.array([[0.1, 0.1, 0.7, 0.1], [0.1, 0.7, 0.1, 0.1], [0.7, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 1.0]])
    assert restored("a b {x} c", "K L M", weights) == "{x} K L M"
    assert restored("a {x} b c", "K L M", weights) == "{x} K L M"
    assert restored("a b {x} c", "K L M", weights[::-1][1:]) == "K L {x} M"
    assert restored("<b>a</b> b c", "K L M", weights) == "K L <b>M</b>"
    assert restored("<b>a</b> <i>b</i> c", "K L M", weights) == "K <i>L</i> <b>M</b>"
    assert restored("<p><b>a</b> <i>b c</i></p>", "K L M", weights) == "<p><i>K L</i> <b>M</b></p>"


def test_tags_whose_words_are_mixed_keep_their_order() -> None:
    weights = np.array([[0.9, 0.0, 0.0, 0.0, 0.1], [0.0, 0.0, 0.9, 0.0, 0.1], [0.0, 0.9, 0.0, 0.0, 0.1]])
    weights = np.vstack([weights, [[0.0, 0.0, 0.0, 0.9, 0.1]], np.eye(5)[4:]])
    assert restored("<b>a b</b> <i>c d</i>", "K L M N", weights) == "<b>K L M</b> <i>N</i>"


def test_the_end_token_attracts_no_piece() -> None:
    weights = np.array([[0.3, 0.2, 0.5], [0.1, 0.4, 0.5], [0.0, 0.0, 1.0]])
    assert restored("a {x} b", "K L", weights) == "K {x} L"


PIECES = st.sampled_from(
    ["{x}", "{y  z}", "%d", "%(a)s", "<b>", "</b>", "<i a='b'>", "</i>", '<x id="1"></x>', "&amp;"]
)
WORDS = st.sampled_from(["a", "b,", "c.", "dé", "房子"])
GAPS = st.sampled_from([" ", " ", "", "  ", "\n"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Words and pieces, with and without spaces between them."""
    return "".join(draw(st.one_of(PIECES, WORDS)) + draw(GAPS) for _ in range(draw(st.integers(0, 8))))


def well_formed(text: str) -> bool:
    """Every element of a text ends within the one it begins in."""
    try:
        ElementTree.fromstring(f"<text>{''.join(re.findall('</?[bi].*?>', text))}</text>")  # noqa: S314 (of this test)
    except ElementTree.ParseError:
        return False
    return True


@given(texts(), st.lists(WORDS, max_size=6), st.randoms(use_true_random=False))
def test_every_piece_comes_back_whole_and_nothing_else_changes(source: str, words: list[str], chance: object) -> None:
    answer, text = " ".join(words), strip(source)
    places = align_words(text, answered(answer, text.text))
    chance.shuffle(places)  # type: ignore[attr-defined]
    whole = put_back(text, answer, places)
    assert missing(source, whole) == []
    assert len(pieces(whole)) == len(pieces(source))
    assert well_formed(whole) or not well_formed(source)
    rest = whole
    for piece in pieces(source):
        rest = rest.replace(piece, " ", 1)
    assert "".join(rest.split()) == "".join(answer.split())


@given(st.text(max_size=20), st.text(max_size=10))
def test_any_text_can_be_stripped_and_filled(source: str, answer: str) -> None:
    text = strip(source)
    assert len(text.pieces) == len(pieces(source))
    whole = put_back(text, answer, align_words(text, answered(answer, text.text)))
    assert all(piece in whole for piece in pieces(source))
    assert strip("no pieces: " + source.replace("{", "").replace("<", "")).text


GLOSSARY = {"New York": "Neu-York", "York": "Eboracum", "C++": "ZPP", "a.b": "punkt", "房子": "Haus", "(x": "klammer"}


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("I love New York", ["Neu-York"]),
        ("York and New York", ["Eboracum", "Neu-York"]),
        ("Yorkshire, NewYork, new york", []),
        ("York's, “York”", ["Eboracum"]),
        ("C++, C++11", ["ZPP"]),
        ("axb a.b", ["punkt"]),
        ("axb a.bc", []),
        ("我的房子很大", ["Haus"]),
        ("f(x) (x)", ["klammer"]),
        ("{York} <York> %(York)s", []),
        ("", []),
    ],
)
def test_the_terms_of_a_text(text: str, phrases: list[str]) -> None:
    assert glossary_phrases(GLOSSARY, text) == phrases


def test_one_term_is_needed_once() -> None:
    assert glossary_phrases({"a": "K", "b": "K"}, "a b a") == ["K"]
    assert glossary_phrases({}, "a") == []


@pytest.mark.parametrize(
    ("phrase", "answer", "lost"),
    [
        ("home", "my home.", False),
        ("home", "homework", True),
        ("home", "Home", True),
        ("C++", "C++11", False),
        ("家", "我家很大", False),
        ("a.b", "axb", True),
        ("K L", "K  L", True),
    ],
)
def test_a_term_counts_as_a_word(phrase: str, answer: str, lost: bool) -> None:
    assert lost_phrases([phrase], answer) == ([phrase] if lost else [])
