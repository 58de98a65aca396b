"""Tokens are grouped into the words that a person reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from file_generators import COUNT, FEATURES, file_generator
from hypothesis import given
from hypothesis import strategies as st
from tiny_generators import tiny_generator

from antiphon.config.schema import TextConfig
from antiphon.data.subwords import SubwordTokenizer, group_pieces, train_subwords
from antiphon.data.tokenizers import EOS, UNK, CharacterTokenizer, LetterTokenizer, StreamTokenizer, WordTokenizer
from antiphon.inference.inputs import encode_inputs
from antiphon.inference.words import WordSpan, words_read, words_written

TEXTS = ["the cat's hat, the dog's house.", "don't stop (now): 北京 is big", "naïve café — déjà vu"]


@pytest.fixture(scope="module")
def subwords() -> SubwordTokenizer:
    return train_subwords(TEXTS, TextConfig(tokens="bpe", vocabulary=258), "data.target")


def spelt(pieces: list[bytes | None]) -> list[str]:
    whole = group_pieces(pieces)
    return [b"".join(piece or b"*" for piece in pieces[first : last + 1]).decode() for first, last in whole]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([b" un", b"think", b"able", b" thing", b"s"], [" unthinkable", " things"]),
        ([b" hel", b"lo", b",", b" wor", b"ld", b"!", b"?"], [" hello", ",", " world", "!", "?"]),
        ([b" don", b"'t", b" (", b"no", b"w", b")", None], [" don't", " (", "now", ")", "*"]),
        ([b" ", b"caf", b"\xc3", b"\xa9", b"s"], [" cafés"]),
        (["北".encode(), "京".encode()[:1], "京".encode()[1:], b"2"], ["北", "京2"]),
        ([None, b"a", b"b", None, b"c"], ["*", "ab", "*", "c"]),
        ([], []),
    ],
)
def test_pieces_of_a_word_are_joined(pieces: list[bytes | None], words: list[str]) -> None:
    assert spelt(pieces) == words


@given(st.lists(st.one_of(st.none(), st.binary(min_size=1, max_size=4)), max_size=12))
def test_every_piece_is_in_one_word(pieces: list[bytes | None]) -> None:
    groups = group_pieces(pieces)
    assert [index for first, last in groups for index in range(first, last + 1)] == list(range(len(pieces)))


@pytest.mark.parametrize("text", TEXTS)
def test_the_words_of_a_text_in_subwords(subwords: SubwordTokenizer, text: str) -> None:
    words = words_written(subwords, [*subwords.encode(text), EOS])
    assert words[-1].text == "</s>"
    assert all("▁" not in word.text and "\ufffd" not in word.text for word in words)
    assert "".join(word.text.strip() for word in words[:-1]) == text.replace(" ", "")
    assert {"the", "don't", "naïve"} & {word.text.strip() for word in words}


def test_other_tokens_are_words_by_themselves() -> None:
    words, letters = WordTokenizer(["one", "two"]), LetterTokenizer(["o", "n", "e", " "])
    spans = words_written(words, [4, UNK, 5, EOS])
    assert spans == [WordSpan(0, 0, "one"), WordSpan(1, 1, "<unk>"), WordSpan(2, 2, "two"), WordSpan(3, 3, "</s>")]
    assert [span.text for span in words_written(letters, letters.encode("on e"))] == ["o", "n", "▁", "e"]
    stream = StreamTokenizer(CharacterTokenizer(["a", "\n"]))
    assert [(span.first, span.last) for span in words_written(stream, stream.encode("a\na"))] == [
        (0, 0), (1, 1), (2, 2),
    ]  # fmt: skip


def test_what_was_read_is_grouped_part_by_part() -> None:
    made = tiny_generator("bahdanau")
    found = words_read(made, encode_inputs(made.codec, ["a x", "", "c"]))
    texts = ["a", "‹x›", "</s>", "c", "</s>"]
    assert found == [WordSpan(index, index, text) for index, text in enumerate(texts)]


def test_a_prompt_has_words() -> None:
    made = tiny_generator("rnn-lm")
    assert [word.text for word in words_read(made, encode_inputs(made.codec, ["K L"]))] == ["K", "L"]


def test_a_file_has_none(tmp_path: Path) -> None:
    model = file_generator(tmp_path, [FEATURES, COUNT])
    text = f"{tmp_path / 'arrays' / '0.npy'}\t2 9"
    answer = model.generate(text)
    found = words_read(model, encode_inputs(model.codec, [text]))
    assert [(word.first, word.text) for word in found] == [
        (answer.spans[1].first, "2"), (answer.spans[1].first + 1, "‹9›"), (answer.spans[1].last, "</s>"),
    ]  # fmt: skip
