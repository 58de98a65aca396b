"""Lower case and Unicode normalisation: one form for training, inputs, search, references and exports."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from untrained_models import LogitBias, untrained_model

from antiphon.config.schema import TextConfig
from antiphon.data.build_source import load_tokenizer, train_tokenizer
from antiphon.data.pairs import Example
from antiphon.data.tokenizers import LetterTokenizer, NormalizingTokenizer, StreamTokenizer, TextForm, WordTokenizer
from antiphon.errors import ModelFolderError
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.export.huggingface_write import tokenizer_files
from antiphon.inference.generator import Generator

KINDS = ("characters", "letters", "words", "bpe", "unigram")
COMPOSED, DECOMPOSED = "Café ﬁn", "Cafe\u0301 ﬁn"
FORMS = [
    (TextForm(), COMPOSED, DECOMPOSED),
    (TextForm(lowercase=True), "café ﬁn", "cafe\u0301 ﬁn"),
    (TextForm(normalization="nfc"), COMPOSED, COMPOSED),
    (TextForm(normalization="nfkc"), "Café fin", "Café fin"),
    (TextForm(lowercase=True, normalization="nfkc"), "café fin", "café fin"),
]


@pytest.mark.parametrize(("form", "composed", "decomposed"), FORMS)
def test_the_form_of_a_text(form: TextForm, composed: str, decomposed: str) -> None:
    assert (form(COMPOSED), form(DECOMPOSED)) == (composed, decomposed)


@given(text=st.text())
@pytest.mark.parametrize("form", [form for form, *_ in FORMS])
def test_a_form_is_reached_at_once(form: TextForm, text: str) -> None:
    assert form(form(text)) == form(text)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_keeps_its_form(kind: str, tmp_path: Path) -> None:
    values = {"tokens": kind, "vocabulary": 300, "lowercase": True, "normalization": "nfc"}
    tokenizer = train_tokenizer([COMPOSED, DECOMPOSED, "A b"] * 3, TextConfig.model_validate(values))
    tokenizer.save(tmp_path / "tokenizer.json")
    for one in (tokenizer, load_tokenizer(tmp_path / "tokenizer.json")):
        assert one.fingerprint == tokenizer.fingerprint
        assert one.encode("CAFÉ") == one.encode("cafe\u0301") == one.encode_batch(["Café"])[0]
        assert one.decode(one.encode("CAFÉ")) == one.normalize("CAFE\u0301") == "café"
        assert one.unknown("CAFÉ A") == []
        assert StreamTokenizer(one).encode("A\nB") == StreamTokenizer(one).encode("a\nb")


def test_without_a_form_the_file_is_as_it_was() -> None:
    tokenizer = train_tokenizer(["A b"], TextConfig(tokens="words"))
    assert isinstance(tokenizer, WordTokenizer)
    assert set(json.loads(tokenizer.json())) == {"format", "kind", "symbols"}


def test_a_damaged_form_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text('{"format": 1, "kind": "words", "symbols": ["a"], "form": {"upper": true}}')
    with pytest.raises(ModelFolderError, match="damaged"):
        load_tokenizer(path)


def test_letters_are_compared_composed() -> None:
    tokenizer = NormalizingTokenizer(LetterTokenizer(["e", "\u0301"]), TextForm(lowercase=True))
    assert tokenizer.normalize("E\u0301") == tokenizer.decode(tokenizer.encode("É")) == "é"


def lower_case_model() -> Generator:
    """An untrained model that reads and writes lower case."""
    target = NormalizingTokenizer(WordTokenizer(list("klmno")), TextForm(lowercase=True))
    loaded = untrained_model(LogitBias(end=0.5), target=target)
    source = NormalizingTokenizer(WordTokenizer([*"abcdefghi.!?"]), TextForm(lowercase=True))
    return Generator(replace(loaded, source=source))


def test_inputs_prefixes_phrases_and_given_targets_have_any_case() -> None:
    generator = lower_case_model()
    assert generator.generate("A B c").text == generator.generate("a b c").text
    assert generator.generate("A b").flags == generator.generate("a b").flags
    upper = [{"prefix": "K l"}, {"require": ["N O"]}, {"forbid": ["L", "M"]}, {"n_best": 3}]
    lower = [{"prefix": "k l"}, {"require": ["n o"]}, {"forbid": ["l", "m"]}, {"n_best": 3}]
    for given_options, same in zip(upper, lower, strict=True):
        assert generator.generate("A B c", **given_options).tokens == generator.generate("a b c", **same).tokens
    assert generator.score([("A", "K L")])[0].log_prob == generator.score([("a", "k l")])[0].log_prob


def test_references_have_any_case() -> None:
    generator = lower_case_model()
    texts = ["a b", "c d", "e"]
    examples = [Example((text,), (generator.generate(text).text.upper(),), 1) for text in texts]
    found = evaluate_examples(generator, examples, metrics=["exact_match", "cer"], resamples=0)
    assert [found.values[name].value for name in ("exact_match", "cer")] == [100.0, 0.0]


def test_an_export_to_hugging_face_keeps_the_form() -> None:
    from tokenizers import Tokenizer

    values = {"tokens": "bpe", "vocabulary": 300, "lowercase": True, "normalization": "nfkc"}
    ours = train_tokenizer([COMPOSED, DECOMPOSED, "the cat"] * 3, TextConfig.model_validate(values))
    files = tokenizer_files(ours, ours, longest=100)
    theirs = Tokenizer.from_str(json.dumps(files["tokenizer.json"]))
    for text in (COMPOSED, DECOMPOSED, "The CAT"):
        assert theirs.encode(text, add_special_tokens=False).ids == ours.encode(text)
