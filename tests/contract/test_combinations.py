"""Combinations of parts: every allowed one is tested, every other one is refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Any, get_args

import pytest
from model_cases import CASES, CROSSED, DECODERS, ENCODERS, encoder_decoder
from pydantic import BaseModel
from tiny_models import choices, one_table, sizes

from antiphon.config import networks as models
from antiphon.config import schema
from antiphon.config.checks import check_config
from antiphon.config.messages import sections_in
from antiphon.config.networks import EncoderDecoderConfig, ModelConfig
from antiphon.config.schema import FRONT_ENDS_OF_KIND, Config
from antiphon.errors import ConfigError
from antiphon.models import build
from antiphon.models.build import build_model

# The words that make a combination; all others are options of one part.
CROSSING = {
    models.AttentionConfig: ("kind", "score", "alignment"),
    models.StaticContextConfig: ("kind", "feed", "bridge"),
    models.MultiHeadConfig: ("kind",),
}


def sections(union: Any) -> tuple[type[BaseModel], ...]:  # noqa: ANN401 (an annotation)
    """The sections that may stand in one place."""
    found = sections_in(union)
    return tuple(
        section for section in found if section is not models.RegisteredEncoderConfig
    )  # tests/docs/test_extending


def kinds(union: Any) -> set[str]:  # noqa: ANN401
    return {kind for section in sections(union) for kind in choices(section, "kind")}


def contexts() -> Iterator[dict[str, Any]]:
    """Every context that can be written down."""
    for section in sections(models.ContextConfig):
        keys = CROSSING[section]
        for values in product(*(choices(section, key) for key in keys)):
            yield dict(zip(keys, values, strict=True))


ALL = [
    encoder_decoder(encoder, context, decoder)
    for encoder, context, decoder in product(ENCODERS.values(), contexts(), DECODERS.values())
]


def problems(model: ModelConfig) -> list[str]:
    data = {"train": "pairs.tsv", "shared_vocabulary": one_table(model)}
    return check_config(Config.model_validate({"data": data, "model": model}))


def test_tables_are_the_choices_of_the_config() -> None:
    assert set(build.ENCODERS) == kinds(models.EncoderConfig)
    assert set(build.DECODERS) == kinds(models.DecoderConfig)
    assert set(build.FRONT_ENDS) == kinds(models.FrontEndConfig)
    assert {front for fronts in FRONT_ENDS_OF_KIND.values() for front in fronts} == set(build.FRONT_ENDS)
    assert set(FRONT_ENDS_OF_KIND) == kinds(schema.SourceConfig)
    assert set(build.MODELS) == kinds(models.ModelConfig)
    assert set(build.SCORES) == set(choices(models.AttentionConfig, "score"))
    assert set(build.ALIGNMENTS) == set(choices(models.AttentionConfig, "alignment"))


def test_the_parts_of_the_cases_are_those_of_the_tables() -> None:
    assert {part["kind"] for part in ENCODERS.values()} == set(build.ENCODERS)
    recurrent = product(("bahdanau", "luong", "plain"), get_args(models.Cell))
    feeding = [("luong", cell, True) for cell in get_args(models.Cell)]
    expected = {*((kind, cell, False) for kind, cell in recurrent), *feeding, ("transformer", None, False)}
    found = [(part["kind"], part.get("cell"), part.get("input_feeding", False)) for part in DECODERS.values()]
    assert set(found) == expected
    assert len(found) == len(expected)
    assert {kind for kind, _, _ in found} == set(build.DECODERS)


def pairs(models: Iterable[ModelConfig]) -> set[tuple[str, str]]:
    """Every two parts that meet in some encoder-decoder."""
    found = set()
    for model in models:
        if isinstance(model, EncoderDecoderConfig):
            assert not isinstance(model.encoder, list)
            parts = [one.model_dump_json() for one in (model.encoder, model.context, model.decoder)]
            found |= set(combinations(parts, 2))
    return found


def test_all_that_may_meet_does_in_a_case() -> None:
    """Each case is allowed, and each two parts of an allowed model are in one. The cases are so many: say so here."""
    allowed = [model for model in ALL if not problems(model)]
    assert pairs(allowed) == pairs(CROSSED.values())
    print(f"{len(ALL)} combinations, {len(allowed)} allowed; {len(CROSSED)} crossed cases, {len(CASES)} with options")
    assert (len(ALL), len(allowed), len(CROSSED), len(CASES)) == (3689, 1435, 288, 761)


def words(section: type[BaseModel]) -> Iterator[tuple[str, set[Any]]]:
    """The keys of a section that are a choice of words, or a switch."""
    for key, field in section.model_fields.items():
        options = {True, False} if field.annotation is bool else set(get_args(field.annotation))
        if all(isinstance(option, str | bool) for option in options) and options:
            yield key, options


def parts(config: ModelConfig) -> list[BaseModel]:
    return [config, *(value for _, value in config if isinstance(value, BaseModel))]


ELSEWHERE = ("freeze", "matches")  # of training, and of several sources
EVERY = [
    section
    for union in (models.EncoderConfig, models.ContextConfig, models.DecoderConfig, models.ModelConfig)
    for section in sections(union)
]


@pytest.mark.parametrize("section", EVERY, ids=lambda section: section.__name__)
def test_every_word_of_every_section_is_in_a_case(section: type[BaseModel]) -> None:
    found = [part for config in CASES.values() for part in parts(config) if type(part) is section]
    wanted = {key: options for key, options in words(section) if key not in ELSEWHERE}
    assert {key: {getattr(part, key) for part in found} for key in wanted} == wanted


def test_every_case_is_allowed() -> None:
    assert {name: found for name, config in CASES.items() if (found := problems(config))} == {}


def test_every_other_combination_is_refused_in_one_sentence_that_names_both() -> None:
    refused = [(model, found) for model in ALL if (found := problems(model))]
    assert len(refused) == 3689 - 1435
    for model, found in refused:
        [sentence] = found
        context, decoder = model.context, model.decoder.kind
        if sentence.startswith("model.context.kind"):
            assert f"{context.kind} is not for the decoder {decoder}" in sentence
            assert "; set it to " in sentence
        else:
            assert (context.feed, context.bridge, decoder) == ("every-step", "direct", "plain")
            assert sentence.startswith("model.context.bridge: direct")
            assert "every-step" in sentence


@pytest.mark.parametrize("score", ["dot", "scaled-dot", "cosine"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_equal_sizes_are_asked_of_every_encoder(encoder: str, score: str) -> None:
    """The sentence has both sizes, and what it says helps."""
    attention = {"kind": "attention", "score": score}
    model = encoder_decoder(ENCODERS[encoder], attention, {**DECODERS["luong-gru"], "size": 10})
    [sentence] = problems(model)
    for part in ("model.context.score", score, "10", "8", "set model.decoder.size to 8", "the score to bilinear"):
        assert part in sentence
    with pytest.raises(ConfigError, match=r"model\.context\.score: .* 10 and 8 .*; set model\.decoder\.size to 8, or"):
        build_model(model, **sizes(model))
    for better in ({"score": "bilinear"}, {}):
        decoder = {**DECODERS["luong-gru"], "size": 10 if better else 8}
        assert problems(encoder_decoder(ENCODERS[encoder], {**attention, **better}, decoder)) == []
