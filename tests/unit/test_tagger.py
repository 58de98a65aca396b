"""A label for each token: the formula, the answers, and what a tagger refuses."""
# B batch, S source steps, V labels

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import ROWS, batch_for, fill, labelled_batch, tiny_model

from antiphon.config.checks import check_config
from antiphon.config.networks import TaggerConfig
from antiphon.config.schema import Config, TrainingConfig
from antiphon.data.affixes import AffixTokenizer, affix_codes
from antiphon.data.batches import source_batch
from antiphon.data.pairs import Example
from antiphon.data.tokenizers import EOS, UNK, WordTokenizer
from antiphon.errors import UserError
from antiphon.evaluation.evaluate import evaluate_examples
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model
from antiphon.plots.attention_views import answer_with_attention, attention_view, explain_attention
from antiphon.plots.sentence_map import sentence_vectors
from antiphon.training.step import training_step

ENCODER = {"kind": "gru", "embedding": 6, "size": 4, "dropout": 0.0}
TAGGER = {"kind": "tagger", "encoder": ENCODER, "decoder": {"dropout": 0.0}}
LABELS = ["N", "V", "D"]
TEXTS = ["the cat sees the dog", "dog", "cats see dogs and a zebra"]


def tagger_config(**sections: dict[str, object]) -> Config:
    values = {"data": {"train": "pairs.tsv"}, "model": TAGGER}
    return Config.model_validate(
        {name: values.get(name, {}) | sections.get(name, {}) for name in {**values, **sections}}
    )


def tagger(*, affixes: bool = False, **sections: dict[str, object]) -> Generator:
    config = tagger_config(**{"data": {"train": "pairs.tsv", "source": {"affixes": affixes}}, **sections})
    words = (AffixTokenizer if affixes else WordTokenizer)(["the", "cat", "dog", "sees"])
    target = WordTokenizer(LABELS)
    model = fresh_model(config, words, target).eval()
    fill(model, scale=1.1)
    return Generator(LoadedModel(config, model, words, target))


def by_formula(generator: Generator, text: str) -> np.ndarray:
    """log softmax(W h_t + b) of all tokens, without </s> among the labels [T, V]."""
    model, ids = generator.model, generator.source_tokenizer.encode(text)
    states = model.encode(source_batch([ids])).states[0, : len(ids)]
    logits = states @ model.decoder.output.weight.T + model.decoder.output.bias
    logits[:, EOS] = -torch.inf
    return torch.log_softmax(logits, dim=-1).detach().numpy()


@pytest.mark.parametrize("text", TEXTS)
def test_each_token_gets_its_most_probable_label(text: str) -> None:
    generator = tagger()
    answer, found = generator.generate(text), by_formula(generator, text)
    best = found[:, UNK + 1 :].argmax(axis=1) + UNK + 1  # <unk> is never written
    assert answer.text == generator.target_tokenizer.decode(best.tolist())
    assert answer.tokens == [*answer.text.split(), "</s>"]
    assert answer.log_probs == pytest.approx([*found[range(len(best)), best], 0.0], abs=1e-6)
    assert answer.weights is None


def test_an_answer_does_not_depend_on_its_batch() -> None:
    generator = tagger()
    together = generator.generate(TEXTS * 5, batch_size=4)
    for text, answer in zip(TEXTS * 5, together, strict=True):
        alone = generator.generate(text)
        assert answer.text == alone.text
        assert answer.log_probs == pytest.approx(alone.log_probs, abs=1e-6)


def test_the_n_best_are_those_of_all_sequences() -> None:
    generator = tagger()
    text = "the cat sees"
    found = by_formula(generator, text)
    labels = range(UNK + 1, found.shape[1])
    ways = sorted(product(labels, repeat=3), key=lambda way: -sum(found[t, one] for t, one in enumerate(way)))
    answers = generator.generate(text, n_best=7).alternatives
    assert [answer.text for answer in answers] == [generator.target_tokenizer.decode(way) for way in ways[:7]]


def test_the_next_best_labels_of_a_token() -> None:
    generator = tagger()
    found = np.exp(by_formula(generator, TEXTS[0]))
    others = generator.alternatives(TEXTS[0], 1, count=3)
    assert sorted(other.token for other in others) == sorted(LABELS)
    assert [other.probability for other in others] == pytest.approx(sorted(found[1, UNK + 1 :], reverse=True), abs=1e-6)


def test_the_score_of_given_labels() -> None:
    generator = tagger()
    [scored] = generator.score([("cat sees dog", "N V D")])
    found = by_formula(generator, "cat sees dog")
    ids = generator.target_tokenizer.encode("N V D")
    assert scored.log_probs == pytest.approx([*found[range(3), ids], 0.0], abs=1e-6)
    with pytest.raises(UserError, match=r"'N V': 2 labels for 3 tokens \('cat sees dog'\); give one label for each"):
        generator.score([("cat sees dog", "N V")])


@pytest.mark.parametrize(
    "options",
    [{"max_length": 3}, {"length_penalty": 1.0}, {"no_repeat": 2}, {"beam": 2, "patience": 2.0}, {"require": ["N"]}],
    ids=lambda options: str(list(options)[-1]),
)
def test_options_that_have_no_meaning_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"{list(options)[-1]}: a tagger gives each token one label, chosen alone"):
        tagger().generate("cat", **options)


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ({"decoding": {"max_length": 50}}, "decoding.max_length: 50 has no effect on a tagger"),
        ({"decoding": {"beam": 2}}, "decoding.beam: 2 has no effect on a tagger"),
        ({"training": {"noise": {"delete": 0.1}}}, "training.noise.delete: it moves tokens away from their labels"),
        ({"training": {"noise": {"shuffle": 2}}}, "training.noise.shuffle: it moves tokens away from their labels"),
        ({"training": {"scheduled_sampling": {"probability": 0.1}}}, "training.scheduled_sampling: a tagger reads no"),
        ({"training": {"guided_attention": {"weight": 1.0}}}, "training.guided_attention: a tagger has no attention"),
        ({"data": {"shared_vocabulary": True}}, "data.shared_vocabulary: tokens and labels have a vocabulary each"),
        ({"data": {"labels": False}}, "data.labels: a tagger needs a label for each token"),
        ({"data": {"source": {"tokens": "characters"}}}, "data.source.tokens: characters, but a tagger labels words"),
        ({"data": {"target": {"column": [1, 2]}}}, "data.target.column: a token has one label"),
        ({"data": {"source": {"normalization": "nfkc"}}}, "data.source.normalization: nfkc may divide a token"),
        ({"data": {"source": {"kind": "audio"}}}, "data.source: a tagger reads one text"),
        ({"data": {"target": {"column": 1, "affixes": True}}}, "data.target.affixes: they are for a source"),
    ],
)
def test_a_configuration_that_does_not_fit(sections: dict[str, dict[str, object]], problem: str) -> None:
    assert any(found.startswith(problem) for found in check_config(tagger_config(**sections)))


def test_the_usual_configuration() -> None:
    config = tagger_config()
    assert check_config(config) == []
    assert (config.data.text.tokens, config.data.target.tokens, config.data.labels) == ("words", "words", True)
    assert config.evaluation.metrics == ["token_accuracy", "exact_match"]


def test_label_smoothing_spreads_over_the_labels_only() -> None:
    """Where only </s> is possible it costs nothing, and the loss is finite."""
    config = TaggerConfig.model_validate({"encoder": ENCODER, "decoder": {"dropout": 0.0}})
    model, batch = tiny_model(config), batch_for(config)
    loss = training_step(model, batch, TrainingConfig(label_smoothing=0.1)).loss
    logits = model(batch.source, batch.inputs).logits.detach()
    expected = 0.0
    for row, ids in enumerate(ROWS):
        log_probs = torch.log_softmax(logits[row, : len(ids)], dim=-1)
        gold = log_probs[range(len(ids)), batch.outputs.values[row, : len(ids)]]
        others = torch.cat([log_probs[:, :EOS], log_probs[:, EOS + 1 :]], dim=1).mean(dim=1)
        expected += float(-(0.9 * gold + 0.1 * others).sum())
    assert loss.total.item() == pytest.approx(expected)
    assert loss.count == sum(len(ids) + 1 for ids in ROWS)
    assert torch.equal(labelled_batch().outputs.values, batch.outputs.values)


def test_a_picture_of_the_labels(tmp_path: Path) -> None:
    generator = tagger()
    answer = answer_with_attention(generator, TEXTS[0])
    view = attention_view(generator, answer)
    assert (view.rows, view.columns, view.kind) == (TEXTS[0].split(), LABELS, "labels")
    assert view.mean == pytest.approx(np.exp(by_formula(generator, TEXTS[0]))[:, UNK + 1 :], abs=1e-6)
    explained = explain_attention(generator, TEXTS[0], tmp_path / "labels.svg")
    assert "a row is a token, a column a label" in (tmp_path / "labels.svg").read_text()
    assert explained.answer.text == answer.text


def test_texts_as_points() -> None:
    vectors = sentence_vectors(tagger(), TEXTS).vectors
    assert vectors.shape == (3, 8)


def test_an_evaluation_counts_labels() -> None:
    generator = tagger()
    answer = generator.generate(TEXTS[0]).text.split()
    wrong = [LABELS[0] if answer[0] != LABELS[0] else LABELS[1], *answer[1:]]
    examples = [Example((TEXTS[0],), (" ".join(wrong),), 1)]
    found = evaluate_examples(generator, examples, metrics=["token_accuracy", "exact_match"], resamples=0)
    assert {name: one.value for name, one in found.values.items()} == {"token_accuracy": 80.0, "exact_match": 0.0}


# Words and their affixes.


def test_unknown_words_are_told_apart_by_their_affixes() -> None:
    plain, known = tagger(), tagger(affixes=True)
    one, other = "the walking", "the Paris"
    assert plain.generate(one).log_probs == plain.generate(other).log_probs
    assert known.generate(one).log_probs != known.generate(other).log_probs
    assert known.generate(one).flags == plain.generate(one).flags != []


def test_a_known_word_has_its_affixes_too() -> None:
    """e(x) + Σ_k E_k[affix k]; an unknown word with the same affixes differs by e(<unk>) - e(x) only."""
    generator = tagger(affixes=True)
    front = generator.model.source
    [ids] = [generator.source_tokenizer.encode("dog")]
    stranger = generator.source_tokenizer.size + int(affix_codes(generator.source_tokenizer)[ids[0]])
    both = front(source_batch([ids, [stranger]])).values[:, 0]
    table = front.embedding.table.weight
    assert torch.allclose(both[0] - both[1], table[ids[0]] - table[UNK], atol=1e-6)


def test_an_unknown_word_is_read_as_unknown() -> None:
    tokenizer = AffixTokenizer(["dog"])
    assert tokenizer.decode(tokenizer.encode("dog zebra")) == "dog <unk>"
    assert tokenizer.unknown("dog zebra dog") == ["zebra"]
