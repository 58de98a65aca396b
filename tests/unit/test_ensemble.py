"""Several models that answer as one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tiny_generators import tiny_generator
from untrained_models import TARGET, TEXTS, LogitBias, untrained_model

from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import EOS, PAD, SOS, UNK, WordTokenizer
from antiphon.errors import UserError
from antiphon.inference.ensemble import Combine, ensemble_of
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel

ONE, TWO = untrained_model(), untrained_model(LogitBias(end=0.5, shift=0.2))
MEANS: list[Combine] = ["arithmetic", "geometric"]


def probabilities(loaded: LoadedModel, text: str, said: list[int]) -> list[float]:
    """p(y | said, text) of one model, from its logits."""
    with torch.no_grad():
        logits = loaded.model(source_batch([loaded.source_tokenizer.encode(text)]), torch.tensor([[SOS, *said]])).logits
    return torch.softmax(logits[0, -1].double(), dim=-1).tolist()


def mixed(text: str, said: list[int], combine: Combine) -> list[float]:
    """The mean of both, multiplied out."""
    pairs = list(zip(probabilities(ONE, text, said), probabilities(TWO, text, said), strict=True))
    if combine == "arithmetic":
        return [(p + q) / 2 for p, q in pairs]
    roots = [math.sqrt(p * q) for p, q in pairs]
    return [root / sum(roots) for root in roots]


@pytest.mark.parametrize("combine", MEANS)
@pytest.mark.parametrize("text", TEXTS[1:6])
def test_each_step_is_the_mean_by_hand(combine: Combine, text: str) -> None:
    """Greedily, step by step: the token that is best by hand is said, and its probability is the one by hand."""
    answer = Generator(ensemble_of([ONE, TWO], combine)).generate(text, beam=1)
    said: list[int] = []
    for token, log_prob in zip(answer.tokens, answer.log_probs, strict=True):
        p = mixed(text, said, combine)
        best = max((number for number in range(len(p)) if number not in (PAD, SOS, UNK)), key=p.__getitem__)
        assert TARGET.symbols([best]) == [token]
        assert log_prob == pytest.approx(math.log(p[best]), abs=1e-4)
        said.append(best)
    assert said[-1] == EOS or len(said) == 10


@pytest.mark.parametrize("combine", MEANS)
def test_score_is_the_mean_by_hand(combine: Combine) -> None:
    [scored] = Generator(ensemble_of([ONE, TWO], combine)).score([("a b c", "K L M")])
    ids = [*TARGET.encode("K L M"), EOS]
    expected = [math.log(mixed("a b c", ids[:place], combine)[token]) for place, token in enumerate(ids)]
    assert scored.log_probs == pytest.approx(expected, abs=1e-4)


def test_the_means_differ_and_so_do_the_models() -> None:
    """Else the tests above could not fail."""
    pairs = [(text, "K L") for text in TEXTS]
    members = [Generator(loaded).score(pairs) for loaded in (ONE, TWO)]
    means = [Generator(ensemble_of([ONE, TWO], combine)).score(pairs) for combine in MEANS]
    for kinds in zip(*members, *means, strict=True):
        assert len({round(scored.log_prob, 3) for scored in kinds}) == 4


@pytest.mark.parametrize("combine", MEANS)
@pytest.mark.parametrize("wishes", [{"beam": 4, "n_best": 4}, {"sample": True, "n_best": 2}], ids=str)
def test_one_model_twice_is_the_model(combine: Combine, wishes: dict[str, Any]) -> None:
    alone = Generator(ONE).generate(TEXTS, **wishes)
    twice = Generator(ensemble_of([ONE, ONE], combine)).generate(TEXTS, **wishes, batch_size=5)
    for one, other in zip(alone, twice, strict=True):
        assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-5)


def test_weights_are_the_mean_of_those_who_look() -> None:
    both = Generator(ensemble_of([ONE, TWO], "arithmetic"))
    answer = both.generate("a b c")
    target = [*map(TARGET.symbols(range(TARGET.size)).index, answer.tokens)]
    source = ONE.source_tokenizer.encode("a b c")
    [[first], [second]] = (Generator(loaded).engine.weights([source], [target]) for loaded in (ONE, TWO))
    assert first is not None
    assert second is not None
    np.testing.assert_allclose(answer.weights, (first + second) / 2, atol=1e-5)
    assert not np.allclose(first, second, atol=1e-2)
    blind, seeing = loaded_of(tiny_generator("static")), loaded_of(tiny_generator("bahdanau"))
    half = Generator(ensemble_of([blind, seeing], "arithmetic")).generate("a b c")
    assert half.weights is not None
    assert half.weights.sum(axis=1) == pytest.approx(np.ones(len(half.tokens)), abs=1e-5)
    none = Generator(ensemble_of([blind, blind], "arithmetic")).generate("a b c")
    assert none.weights is None


def loaded_of(made: Generator) -> LoadedModel:
    return LoadedModel(made.config, made.model, made.source_tokenizer, made.target_tokenizer)


@pytest.mark.parametrize("kinds", [("bahdanau", "transformer"), ("static", "mixed"), ("rnn-lm", "transformer-lm")])
def test_models_of_all_kinds_mix(kinds: tuple[str, str]) -> None:
    """Search is the same in any company, and says of its answers what scoring says."""
    made = Generator(ensemble_of([loaded_of(tiny_generator(kind)) for kind in kinds], "geometric"))
    texts = ["K L", "M", "O O N"] if made.config.data.source is None else ["a b", "c", "f e d"]
    answers = made.generate(texts, beam=3, batch_size=1)
    assert [answer.text for answer in made.generate(texts, beam=3)] == [answer.text for answer in answers]
    if made.config.data.source is not None:
        scored = made.score([(text, answer.text) for text, answer in zip(texts, answers, strict=True)])
        for one, answer in zip(scored, answers, strict=True):
            shared = len(answer.text.split())
            assert one.log_probs[:shared] == pytest.approx(answer.log_probs[:shared], abs=1e-4)


def test_the_tree_of_a_search_can_be_seen_but_no_heads() -> None:
    both = Generator(ensemble_of([ONE, TWO], "arithmetic"))
    assert both.tree("a b c", beam=3).tree.nodes
    with pytest.raises(UserError, match="an ensemble has no layers and heads of its own; explain one of its runs"):
        both.generate("a b c", heads=True)


def refused(*members: LoadedModel, combine: Any = "arithmetic") -> list[str]:  # noqa: ANN401 (also what is no mean)
    with pytest.raises(UserError) as error:
        ensemble_of(list(members), combine)
    return error.value.problems


def test_what_does_not_go_together_is_refused_with_all_facts() -> None:
    other_target = untrained_model(target=WordTokenizer(list("KLMN")))
    other_source = untrained_model(characters=True)
    language = loaded_of(tiny_generator("rnn-lm"))
    same = "; an ensemble needs the same for all"
    assert refused(ONE, TWO, other_target, other_source, language) == [
        f"model 3 has a different target vocabulary from the first{same}",
        f"model 4 has a different source vocabulary from the first{same}",
        f"model 5 is of a different kind (one has a source, one has none){same}",
    ]
    stream = loaded_of(tiny_generator("rnn-lm", window=4))
    assert refused(language, stream) == [
        f"model 2 reads a different kind of text from the first (one a stream, one line by line){same}"
    ]
    assert refused(ONE, TWO, combine="harmonic") == ["combine: must be arithmetic or geometric, not 'harmonic'"]


def test_windows_of_unlike_length_are_refused() -> None:
    short, long = (loaded_of(tiny_generator("transformer-lm", window=window)) for window in (4, 6))
    [sentence] = refused(short, long)
    assert sentence.startswith("model 2 has learnt a different number of positions from the first")
