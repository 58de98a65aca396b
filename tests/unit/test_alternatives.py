"""Alternatives to a token of an answer."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tiny_generators import tiny_generator
from untrained_models import TEXTS, LogitBias, untrained_generator, untrained_model

from antiphon.data.tokenizers import EOS
from antiphon.errors import UserError
from antiphon.inference.generator import Generator


@pytest.fixture(scope="module")
def generator() -> Generator:
    return untrained_generator()


@pytest.mark.parametrize("text", TEXTS[3:6])
def test_probabilities_are_those_of_score(generator: Generator, text: str) -> None:
    """At every position of the answer; the most probable first, and the one that was said is the first of them."""
    greedy = generator.generate(text, beam=1)
    for position, token in enumerate(greedy.tokens):
        choices = generator.alternatives(text, position, count=4)
        before = greedy.tokens[:position]
        assert choices[0].token == token
        assert choices[0].text == greedy.text
        found = [choice.probability for choice in choices]
        assert found == sorted(found, reverse=True)
        ends = ["" if choice.token == "</s>" else choice.token for choice in choices]
        scored = generator.score([(text, " ".join([*before, end])) for end in ends])
        assert found == pytest.approx([math.exp(one.log_probs[position]) for one in scored], abs=1e-5)


@pytest.mark.parametrize("text", TEXTS[3:6])
def test_each_text_is_what_follows_that_prefix(generator: Generator, text: str) -> None:
    greedy = generator.generate(text, beam=1)
    for position in range(len(greedy.tokens)):
        before = greedy.tokens[:position]
        for choice in generator.alternatives(text, position, count=4):
            if choice.token == "</s>":
                assert choice.text == " ".join(before)
            else:
                prefix = " ".join([*before, choice.token])
                assert choice.text == generator.generate(text, beam=1, prefix=prefix).text


def test_all_that_can_be_said_and_no_more(generator: Generator) -> None:
    choices = generator.alternatives("a b c", 0, count=9)
    assert {choice.token for choice in choices} == {"</s>", *"KLMNO"}
    assert sum(choice.probability for choice in choices) < 1
    assert len(generator.alternatives("a b c", 0, count=1)) == 1


def test_of_a_given_answer(generator: Generator) -> None:
    """It may be one that the model would not have given."""
    choices = generator.alternatives("a b c", 2, count=3, answer="N O N K")
    assert all(choice.text.startswith("N O") for choice in choices)
    scored = generator.score([("a b c", f"N O {choice.token}".removesuffix(" </s>")) for choice in choices])
    assert [choice.probability for choice in choices] == pytest.approx(
        [math.exp(one.log_probs[2]) for one in scored], abs=1e-5
    )


def test_of_ids_and_with_ids(generator: Generator) -> None:
    """Ids that end in </s> are the whole answer; others are its beginning."""
    ids = generator.target_tokenizer.encode("N O N K")
    assert generator.alternatives("a b c", 2, 3, ids) == generator.alternatives("a b c", 2, 3, "N O N K")
    whole = generator.alternatives("a b c", 4, 9, [*ids, EOS])
    assert next(one for one in whole if one.token_id == EOS).token_ids == [*ids, EOS]
    for choice in whole:
        assert choice.token_ids[:5] == [*ids, choice.token_id]
        assert choice.text == generator.target_tokenizer.decode(choice.token_ids)
        assert math.exp(choice.log_prob) == choice.probability
        [again] = [one for one in generator.alternatives("a b c", 4, 9, choice.token_ids) if one.token == choice.token]
        assert again.token_ids == choice.token_ids
    with pytest.raises(UserError, match="position: the answer has 5 tokens; choose one of them"):
        generator.alternatives("a b c", 5, answer=[*ids, EOS])
    with pytest.raises(UserError, match="token 2 cannot stand in an answer"):
        generator.alternatives("a b c", 1, answer=[EOS, *ids])


def test_a_language_model_goes_on_after_the_prompt() -> None:
    made = tiny_generator("rnn-lm")
    greedy = made.generate("K L")
    choices = made.alternatives("K L", 1, count=3)
    assert choices[0].text == greedy.text
    for choice in choices:
        [scored] = made.score([f"K L {greedy.tokens[0]} {choice.token}"])
        assert choice.probability == pytest.approx(math.exp(scored.log_probs[3]), abs=1e-5)
        assert choice.text.startswith(f"K L {greedy.tokens[0]} {choice.token}")


def test_what_is_refused(generator: Generator) -> None:
    tokens = len(generator.generate("a b c", beam=1).tokens)
    for position in (-1, tokens):
        with pytest.raises(UserError, match=f"position: the answer has {tokens} tokens; choose one of them"):
            generator.alternatives("a b c", position)
    for count in (0, 10):
        with pytest.raises(UserError, match=f"count: must be from 1 to the 9 tokens of the model, not {count}"):
            generator.alternatives("a b c", 0, count=count)
    with pytest.raises(UserError, match="prefix 'X': the model does not know 'X'"):
        generator.alternatives("a b c", 0, answer="X")


def test_a_tree_is_refused_what_would_do_nothing_or_harm(generator: Generator) -> None:
    with pytest.raises(UserError, match="pruned: must be at least 0, not -1"):
        generator.tree("a b c", pruned=-1)
    with pytest.raises(UserError, match="tree: coverage reranks answers after the search; leave it out"):
        generator.tree("a b c", coverage=1.0)
    with pytest.raises(UserError, match="shortlist: only an export to CTranslate2 uses one"):
        generator.tree("a b c", shortlist=True)


def test_unknown_words_stand_as_they_are_written() -> None:
    loaded = untrained_model(LogitBias(unknown=6.0, end=-3.0))
    decoding = loaded.config.decoding.model_copy(update={"replace_unknown": True})
    made = Generator(replace(loaded, config=loaded.config.model_copy(update={"decoding": decoding})))
    first, *_ = made.alternatives("Zürich", 0)
    assert first.token == "‹Zürich›"
    assert {*first.text.split()} == {"Zürich"}
