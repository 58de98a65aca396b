from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config.schema import TextConfig
from antiphon.data.build_source import load_tokenizer, train_tokenizer
from antiphon.data.subwords import SubwordTokenizer
from antiphon.data.tokenizers import (
    EOS,
    PAD,
    SOS,
    SPECIALS,
    UNK,
    CharacterTokenizer,
    LetterTokenizer,
    Tokenizer,
    WordTokenizer,
)
from antiphon.errors import DataError, ModelFolderError

KINDS = ("characters", "letters", "words", "bpe", "unigram")
SUBWORDS = ("bpe", "unigram")
TEXTS = [
    "the cat sat on the mat",
    "the dog sat on the cat",
    "a cat and a dog",
    "crème brûlée für alle",
    "mats and cats and dogs",
] * 4


def trained(tokens: str, texts: list[str] = TEXTS, vocabulary: int = 300, min_count: int = 1) -> Tokenizer:
    data = {"tokens": tokens, "vocabulary": vocabulary, "min_count": min_count}
    return train_tokenizer(texts, TextConfig.model_validate(data))


TRAINED = {kind: trained(kind) for kind in KINDS}
HOSTILE = st.one_of(
    st.text(),
    st.text(alphabet="ab \t\r\n\u2028\u0085\u00a0\u200d👩🏽🚀é\u0301</s>unkpd"),
    st.sampled_from(["", " ", "  a  ", "\r\n", "<s></s><unk><pad>", "👩🏽\u200d🚀", "\u2028", "\0", "Ġ", "▁"]),
)


@pytest.mark.parametrize("kind", SUBWORDS)
@given(text=HOSTILE)
def test_subwords_give_every_text_back(kind: str, text: str) -> None:
    tokenizer = TRAINED[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert all(len(SPECIALS) <= number < tokenizer.size for number in ids)
    assert tokenizer.encode_batch([text, "cat"]) == [ids, tokenizer.encode("cat")]
    assert len(tokenizer.symbols(ids)) == len(ids)


@given(text=HOSTILE)
def test_characters_give_known_text_back(text: str) -> None:
    tokenizer = train_tokenizer([text, "a"], TextConfig(tokens="characters"))
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unknown(text) == []


@given(text=HOSTILE)
def test_letters_give_known_characters_back(text: str) -> None:
    tokenizer = train_tokenizer([text, "a"], TextConfig(tokens="letters"))
    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)
    assert tokenizer.unknown(text) == []


def test_letters_of_characters_never_seen() -> None:
    """한 and 글 teach the letters of 간, a syllable that is not among them; é is an e and an accent."""
    tokenizer = train_tokenizer(["한글", "é"], TextConfig(tokens="letters"))
    assert len(tokenizer.encode("한글")) == 6
    assert tokenizer.decode(tokenizer.encode("간")) == "간"
    assert tokenizer.encode("é") == tokenizer.encode("e\u0301")
    assert tokenizer.unknown("간x") == ["x"]


@given(text=HOSTILE)
def test_words_give_known_words_back(text: str) -> None:
    tokenizer = train_tokenizer([text, "a"], TextConfig(tokens="words"))
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())


@pytest.mark.parametrize("kind", KINDS)
def test_text_never_spells_a_special(kind: str) -> None:
    text = "</s> <unk> <s> <pad>"
    tokenizer = trained(kind, [text, *TEXTS])
    assert min(tokenizer.encode(text)) >= len(SPECIALS)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert not {PAD, SOS, EOS} & set(TRAINED[kind].encode(text))


@pytest.mark.parametrize("kind", KINDS)
def test_specials_are_silent_but_unknown_is_shown(kind: str) -> None:
    tokenizer = TRAINED[kind]
    cat = tokenizer.encode("cat")
    assert tokenizer.decode([SOS, *cat, EOS, PAD]) == "cat"
    assert tokenizer.decode([UNK]) == "<unk>"
    assert tokenizer.symbols([PAD, SOS, EOS, UNK]) == list(SPECIALS)


@pytest.mark.parametrize("kind", KINDS)
def test_saved_is_loaded_equal(kind: str, tmp_path: Path) -> None:
    tokenizer = TRAINED[kind]
    tokenizer.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert again.kind == kind
    assert again.size == tokenizer.size
    assert again.fingerprint == tokenizer.fingerprint
    text = "the crème on a ☃ mat"
    assert again.encode(text) == tokenizer.encode(text)
    assert again.unknown(text) == tokenizer.unknown(text)
    assert json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["format"] == 1


def test_characters_are_grapheme_clusters() -> None:
    tokenizer = trained("characters", ["e\u0301a", "👩🏽\u200d🚀", "\r\n"])
    assert tokenizer.symbols(tokenizer.encode("ae\u0301👩🏽\u200d🚀\r\n")) == ["a", "e\u0301", "👩🏽\u200d🚀", "\r\n"]


def test_a_new_cluster_is_spelt_by_known_code_points_or_unknown() -> None:
    tokenizer = train_tokenizer(["e", "\u0301", "o"], TextConfig(tokens="characters"))
    assert tokenizer.symbols(tokenizer.encode("e\u0301")) == ["e", "\u0301"]
    assert tokenizer.encode("oe\u0308") == [*tokenizer.encode("o"), UNK]
    assert tokenizer.unknown("oe\u0308ex") == ["e\u0308", "x"]


def test_unknown_words_and_subword_characters() -> None:
    assert TRAINED["words"].unknown("the zebra sat") == ["zebra"]
    assert TRAINED["words"].encode("zebra") == [UNK]
    for kind in SUBWORDS:
        assert TRAINED[kind].unknown("cat ☃ dog ж") == ["☃", "ж"]
        assert UNK not in TRAINED[kind].encode("☃")


@pytest.mark.parametrize("kind", KINDS)
def test_vocabulary_limit_has_effect(kind: str) -> None:
    small, large = (257, 400) if kind in SUBWORDS else (3, 8)
    assert trained(kind, vocabulary=small).size == small + len(SPECIALS)
    assert trained(kind, vocabulary=small).size < trained(kind, vocabulary=large).size <= large + len(SPECIALS)


@pytest.mark.parametrize("kind", KINDS)
def test_min_count_has_effect(kind: str) -> None:
    texts = [*TEXTS, "☃ once"]
    assert "☃" in trained(kind, texts, min_count=2).unknown("☃ cat")
    assert trained(kind, texts, min_count=1).unknown("☃ cat") == []


def test_min_count_keeps_rare_merges_out_of_bpe() -> None:
    texts = [*TEXTS, "xylophone"]
    assert len(trained("bpe", texts, 1000, 2).encode("xylophone")) > len(
        trained("bpe", texts, 1000, 1).encode("xylophone")
    )


def test_most_frequent_come_first_and_ties_by_symbol() -> None:
    tokenizer = train_tokenizer(["b a c c"], TextConfig(tokens="words"))
    assert tokenizer.symbols([4, 5, 6]) == ["c", "a", "b"]


def test_symbols_show_spaces_and_parts_of_characters() -> None:
    bpe = TRAINED["bpe"]
    assert "".join(bpe.symbols(bpe.encode("the cat"))) == "▁the▁cat"
    assert bpe.symbols(bpe.encode("☃"))[-1] == "\\x83"
    characters = trained("characters")
    assert characters.symbols(characters.encode("a c")) == ["a", "▁", "c"]


def test_half_a_surrogate_pair_does_not_crash() -> None:
    for tokenizer in TRAINED.values():
        assert isinstance(tokenizer.encode("cat \ud800"), list)
        assert tokenizer.unknown("cat \ud800")


@pytest.mark.parametrize("kind", SUBWORDS)
def test_too_small_for_all_bytes(kind: str) -> None:
    with pytest.raises(DataError, match=f"vocabulary: 256 is too small for {kind}"):
        trained(kind, vocabulary=256)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_to_learn_from(kind: str) -> None:
    with pytest.raises(DataError):
        trained(kind, [])


def test_training_is_deterministic_across_processes() -> None:
    code = (
        "from antiphon.config.schema import TextConfig\n"
        "from antiphon.data.build_source import train_tokenizer\n"
        f"texts = {TEXTS!r} + [chr(97 + n % 26) * (n % 7) + str(n) for n in range(500)]\n"
        "for kind in ('bpe', 'unigram'):\n"
        "    print(train_tokenizer(texts, TextConfig(tokens=kind, vocabulary=500)).fingerprint)\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    runs = [subprocess.check_output([sys.executable, "-c", code], env=environment) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) == 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format": 2, "kind": "words", "symbols": []}',
        '{"format": 1, "kind": "other"}',
        '{"format": 1, "kind": "words"}',
        '{"format": 1, "kind": "words", "symbols": [1]}',
        '{"format": 1, "kind": "bpe", "characters": "a", "model": {}}',
    ],
)
def test_damaged_files_get_a_sentence(content: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"tokenizer\.json: "):
        load_tokenizer(path)


def test_missing_file_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="no such file"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_subword_ids_are_the_inner_ids_plus_four() -> None:
    tokenizer = TRAINED["bpe"]
    assert isinstance(tokenizer, SubwordTokenizer)
    inner = tokenizer.content()["model"]["model"]["vocab"]
    assert [inner[symbol.replace("▁", "Ġ")] + 4 for symbol in tokenizer.symbols(tokenizer.encode("the cat"))] == (
        tokenizer.encode("the cat")
    )


def test_pieces_of_text_are_joined_as_they_are_cut() -> None:
    """An unknown letter that is written as it is in the source belongs to the character around it."""
    assert WordTokenizer(["a"]).joined(["a", "", "b"]) == "a b"
    assert CharacterTokenizer(["a"]).joined(["a", "", "b"]) == "ab"
    assert LetterTokenizer(["a"]).joined(["\u1112", "\u1161", "\u11ab"]) == "한"
