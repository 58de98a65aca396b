"""Sequences that are longer than a table of learnt positions: refused before anything is computed, by name."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest
import torch
from tiny_generators import SOURCE, TARGET, tiny_generator
from tiny_models import fill

from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import PAD, SOS
from antiphon.errors import UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel
from antiphon.models.build import build_model

BLOCKS = {"kind": "transformer", "size": 8, "heads": 2, "layers": 1, "feedforward": 8}
DECODER = "the decoder has learnt 12 positions (model.decoder.positions.longest)"


def made(encoder: int | None, decoder: int, **source: Any) -> Generator:  # noqa: ANN401 (any key of data.source)
    """With tables of so many positions; no encoder: one network reads both."""
    model: dict[str, Any] = {
        "kind": "concatenated",
        "decoder": {**BLOCKS, "positions": {"kind": "learnt", "longest": decoder}},
    }
    if encoder is not None:
        model |= {"kind": "encoder-decoder", "encoder": {**BLOCKS, "positions": {"kind": "learnt", "longest": encoder}}}
    config = Config.model_validate(
        {
            "data": {
                "train": "a.tsv",
                "source": {"tokens": "words", "column": 0, **source},
                "target": {"tokens": "words", "column": 1},
            },
            "model": model,
            "decoding": {"beam": 1, "max_length": 5},
        }
    )
    built = build_model(config.model, source_tokens=SOURCE.size, target_tokens=TARGET.size).eval()
    fill(built, scale=1.1)
    return Generator(LoadedModel(config, built, SOURCE, TARGET))


def idle(generator: Generator) -> Generator:
    """One that may not compute anything."""

    def busy() -> NoReturn:
        raise AssertionError("something is computed")

    tokenizers = (generator.source_tokenizer, generator.target_tokenizer)
    return Generator(LoadedModel(generator.config, generator.model, *tokenizers), busy)


def refusal(verb: Any, *given: Any, **options: Any) -> list[str]:  # noqa: ANN401 (what the verb takes)
    with pytest.raises(UserError) as caught:
        verb(*given, **options)
    return caught.value.problems


@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"sample": True}])
def test_an_answer_longer_than_the_table(options: dict[str, Any]) -> None:
    generator = made(31, 12)
    generator.generate("a b", max_length=12, **options)
    problems = refusal(idle(generator).generate, ["a", "a b"], max_length=100, **options)
    assert problems == [f"max_length: 100, but {DECODER}; give at most 12"]


def test_a_source_takes_positions_from_its_answer() -> None:
    generator = made(None, 12)
    texts = ["a", "a b c", ""]
    with torch.no_grad():
        generator.model.decoder.output.bias[2] = -1e9  # no end: every position is used
    assert [len(answer.tokens) for answer in generator.generate(texts, max_length=8)] == [8, 8, 0]
    generator = idle(generator)
    assert refusal(generator.generate, texts, max_length=9) == [
        f"max_length: 9, but {DECODER} and 'a b c' takes 4 of them; give at most 8"
    ]
    assert refusal(generator.generate, "a b c d a b c d a b c d") == [
        f"max_length: 5, but {DECODER} and 'a b c d a b c d a b c d' takes 13 of them; "
        "shorten the text, or leave it out"
    ]


def test_a_source_longer_than_the_table() -> None:
    generator = made(4, 12)
    generator.generate("a b c")
    generator = idle(generator)
    expected = [
        "'a b c d': 5 tokens with </s>, but the encoder has learnt 4 positions (model.encoder.positions.longest); "
        "shorten it, or leave it out"
    ]
    assert refusal(generator.generate, ["a", "a b c d"]) == expected
    assert refusal(generator.score, [("a", "K"), ("a b c d", "K")]) == expected
    assert made(4, 12, max_length=3).generate("a b c d").flags[0].startswith("truncated"), "it is cut before it is read"


def test_a_target_longer_than_the_table() -> None:
    long = " ".join("K" * 12)
    generator = made(31, 12)
    generator.score([("a", long[2:])])
    said = f"{long!r}: 13 tokens with </s>, but {DECODER}; shorten it, or leave it out"
    assert refusal(idle(generator).score, [("a", "K"), ("b", long)]) == [said]
    assert refusal(generator.score, [("a", long)] * 8) == [*[said] * 5, "and 3 more that are too long"]
    single = made(None, 12)
    single.score([("a b", "K L M N O K L M")])
    assert refusal(idle(single).score, [("a b", "K L M N O K L M N")]) == [
        f"'K L M N O K L M N': 13 tokens with its source, but {DECODER}; shorten it, or leave it out"
    ]


def test_padding_is_not_too_long() -> None:
    """A long source with a short target beside a short source with a long target: each fits, and so do both."""
    generator = made(None, 12)
    pairs = [("a b c d e f g h", "K"), ("a", "K L M N O K L")]
    alone = [generator.score([pair])[0].log_prob for pair in pairs]
    assert [one.log_prob for one in generator.score(pairs)] == pytest.approx(alone, abs=1e-4)
    sources = source_batch([SOURCE.encode(source) for source, _ in pairs])
    inputs = torch.full((2, 8), PAD)
    inputs[0, :2], inputs[1] = torch.tensor([SOS, 4]), torch.tensor([SOS, *TARGET.encode(pairs[1][1])])
    with torch.inference_mode():
        assert generator.model.attention_weights(sources, inputs).own is not None


def test_heads_of_more_than_a_language_model_can_attend_to() -> None:
    generator = tiny_generator("transformer-lm", window=8)
    assert generator.generate("K L M", max_length=5, heads=True).heads is not None
    assert len(generator.generate("K L M", max_length=20).tokens) == 20
    assert refusal(idle(generator).generate, ["K", "K L M"], max_length=6, heads=True) == [
        "heads: 'K L M' has 3 tokens, and 6 to write (max_length) make more than the 8 that the model can attend to; "
        "shorten the text or max_length, or leave heads out"
    ]
