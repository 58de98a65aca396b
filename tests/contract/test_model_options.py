"""Every key of the model's configuration changes what the model computes or learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from model_cases import CONTEXTS, DECODERS, ENCODERS, TRANSFORMER, encoder_decoder, wide
from pydantic import BaseModel
from source_cases import CASES
from tiny_models import INPUTS, ROWS, batch_for, choices, fill
from torch import Tensor, nn

from antiphon.config.checks import check_config
from antiphon.config.networks import (
    AttentionConfig,
    BahdanauConfig,
    ConcatenatedConfig,
    ConvolutionalEncoderConfig,
    EncoderDecoderConfig,
    HardAlignmentConfig,
    LabelsConfig,
    LanguageModelConfig,
    LuongConfig,
    ModelConfig,
    MultiHeadConfig,
    NoEncoderConfig,
    PlainConfig,
    RecurrentEncoderConfig,
    SoftAlignmentConfig,
    StaticContextConfig,
    TaggerConfig,
    TransformerDecoderConfig,
    TransformerEncoderConfig,
)
from antiphon.config.schema import TrainingConfig
from antiphon.config.sections import LearntPositionsConfig, NgramsConfig, NoPositionsConfig, SinusoidalPositionsConfig
from antiphon.config.sources import LinearConfig, SubsampledConfig
from antiphon.data.batches import source_batch
from antiphon.errors import UserError
from antiphon.models.build import build_model
from antiphon.models.layers.blocks import AddAndNorm
from antiphon.models.layers.dropout import Dropout
from antiphon.models.model import SequenceModel
from antiphon.models.multihead import MultiHeadAttention
from antiphon.training.step import training_step

ONLY_CHOICE = object()  # a word with one meaning so far; a second one needs an effect
IN_RUNS = object()  # of training; test_learning_options.py looks at whole runs
TOKENS = {"source_tokens": 11, "target_tokens": 11}
FRONT_ENDS = {"usual": None, "linear": LinearConfig(), "subsampled": SubsampledConfig(channels=4)}


def two(part: dict[str, Any]) -> dict[str, Any]:
    """Two layers, so that what stands between them is seen; vectors of the states' size, so that they can be tied."""
    return wide({**part, "layers": 2})


GRU, BAHDANAU, LUONG, PLAIN, BLOCKS = (
    two(part)
    for part in (
        ENCODERS["gru"],
        DECODERS["bahdanau-gru"],
        DECODERS["luong-gru"],
        DECODERS["plain-gru"],
        TRANSFORMER,
    )
)
ATTENDED = encoder_decoder(GRU, CONTEXTS["additive-soft"], BAHDANAU)
TAGGER = TaggerConfig.model_validate({"encoder": GRU, "decoder": {"dropout": 0.0}})
# The model in which a key of the section is changed.
BASES: dict[type[BaseModel], ModelConfig] = {
    RecurrentEncoderConfig: ATTENDED,
    ConvolutionalEncoderConfig: encoder_decoder(two(ENCODERS["cnn"]), CONTEXTS["additive-soft"], BAHDANAU),
    TransformerEncoderConfig: encoder_decoder(BLOCKS, CONTEXTS["additive-soft"], BAHDANAU),
    NoEncoderConfig: encoder_decoder(ENCODERS["none"], CONTEXTS["additive-soft"], BAHDANAU),
    AttentionConfig: ATTENDED,
    StaticContextConfig: encoder_decoder(GRU, CONTEXTS["last-both-dense"], PLAIN),
    MultiHeadConfig: encoder_decoder(GRU, CONTEXTS["multi-head"], BLOCKS),
    BahdanauConfig: ATTENDED,
    LuongConfig: encoder_decoder(GRU, CONTEXTS["additive-soft"], LUONG),
    PlainConfig: encoder_decoder(GRU, CONTEXTS["last-both-dense"], PLAIN),
    TransformerDecoderConfig: encoder_decoder(GRU, CONTEXTS["multi-head"], BLOCKS),
    EncoderDecoderConfig: ATTENDED,
    LanguageModelConfig: LanguageModelConfig.model_validate({"decoder": PLAIN}),
    ConcatenatedConfig: ConcatenatedConfig.model_validate({"decoder": PLAIN}),
    TaggerConfig: TAGGER,
    LabelsConfig: TAGGER,
}


def changed(section: type[BaseModel], **values: Any) -> ModelConfig:  # noqa: ANN401
    """The base with other values in this section."""
    base = BASES[section]
    if type(base) is section:
        return base.model_copy(update=values)
    parts = {name: value for name, value in base if type(value) is section}
    others = {name: section.model_validate({**dict(part), **values}) for name, part in parts.items()}
    return base.model_copy(update=others)


def made(config: ModelConfig) -> SequenceModel:
    model = build_model(config, **TOKENS)
    fill(model)
    return model.double()


def learnt(config: ModelConfig) -> Tensor:
    """The output in training, and two losses: the second depends on the state that the first one left."""
    model = made(config).train()
    torch.manual_seed(1)
    logits = model(source_batch(ROWS), INPUTS).logits.detach()
    losses = [training_step(model, batch_for(config), TrainingConfig()).loss.total.detach() for _ in range(2)]
    return torch.cat([logits.flatten(), torch.stack(losses)])


def alignment() -> None:
    """Of the weights, hard leaves one."""
    weights = made(changed(AttentionConfig, alignment="hard"))(source_batch(ROWS), INPUTS).weights
    assert set(weights.flatten().tolist()) == {0.0, 1.0}


def hard_only(key: str, value: float) -> Callable[[], None]:
    """Options that affect only the loss of hard attention."""

    def effect() -> None:
        usual, other = (
            learnt(changed(AttentionConfig, alignment={"kind": "hard", **more})) for more in ({}, {key: value})
        )
        assert torch.equal(usual[:-2], other[:-2])
        assert not torch.allclose(usual[-2:], other[-2:], rtol=1e-3)

    return effect


def matches() -> None:
    """It is for several texts, and test_matches.py has what it does; without them it is refused."""
    case = CASES["linear_none"]
    found = check_config(replace(case, model=case.model.model_copy(update={"matches": True})).config)
    assert "model.matches" in [problem.partition(":")[0] for problem in found]


def ctc() -> None:
    """Options that affect only the loss."""
    plain, spelt = (learnt(changed(EncoderDecoderConfig, ctc=weight)) for weight in (0.0, 0.5))
    assert torch.equal(plain[:-2], spelt[:-2])
    assert not torch.allclose(plain[-2:], spelt[-2:], rtol=1e-3)


def inner_size() -> None:
    """Of additive and concat."""
    for score in ("additive", "concat"):
        for size, inner in ((3, 3), (None, 8)):
            asked = made(changed(AttentionConfig, score=score, size=size)).decoder.context.score
            assert {parameter.size(-1) for parameter in asked.parameters() if parameter.size(0) == 1} == {inner}


def longest() -> None:
    """A table of n learnt positions is for sequences of up to n tokens."""
    source = len(ROWS[0]) + 1
    for section, needed in (
        (ConvolutionalEncoderConfig, source),
        (TransformerEncoderConfig, source),
        (TransformerDecoderConfig, INPUTS.size(1)),
    ):
        fitting, short = (
            changed(section, positions={"kind": "learnt", "longest": rows}) for rows in (needed, needed - 1)
        )
        made(fitting)(source_batch(ROWS), INPUTS)
        with pytest.raises(UserError, match=f"a sequence of {needed} tokens, .* learnt {needed - 1} positions"):
            made(short)(source_batch(ROWS), INPUTS)


def ngrams() -> None:
    """A table of each length, with this many rows."""
    for lengths, rows in (([3, 5], 1), ([3, 5], 7), ([3], 7)):
        around = made(changed(RecurrentEncoderConfig, ngrams={"lengths": lengths, "rows": rows})).source.around
        assert [tuple(parameter.shape) for parameter in around.parameters()] == [(rows, 8) for _ in lengths]


def front() -> None:
    """The network that turns a source into vectors; test_source_options.py has every key of each."""
    case = CASES["linear_none"]
    made = {kind: replace(case, model=case.model.model_copy(update={"front": one})) for kind, one in FRONT_ENDS.items()}
    names = {kind: type(case.build().front_ends[0]).__name__ for kind, case in made.items()}
    assert names == {"usual": "LinearFrontEnd", "linear": "LinearFrontEnd", "subsampled": "SubsampledFrontEnd"}


def tied(section: type[BaseModel]) -> Callable[[], None]:
    """One tensor where there were two or three: the target's table is the output layer's, the source's, or both."""
    ways = {"none": (False, False), "output": (True, False), "tables": (False, True), "all": (True, True)}

    def effect() -> None:
        assert set(choices(section, "tie")) == ({"none", "output"} if section is LanguageModelConfig else set(ways))
        for tie in choices(section, "tie"):
            model = made(changed(section, tie=tie))
            table = model.decoder.embedding.table.weight
            source = None if section is LanguageModelConfig else model.source.embedding.table.weight
            assert (model.decoder.output.weight is table, source is table) == ways[tie]
            assert learnt(changed(section, tie=tie)).isfinite().all()

    return effect


NGRAMS = {"ngrams": [[3], [3, 5]]}
RECURRENT = {"embedding": [3], "size": [5], "layers": [1, 3], "dropout": [0.3], "from_run": IN_RUNS, "freeze": IN_RUNS}
BLOCK = {
    "kind": ONLY_CHOICE,
    "size": [6],
    "layers": [1, 3],
    "heads": [1, 4],
    "feedforward": [5],
    "order": ["post"],
    "norm": ["batch"],
    "activation": ["gelu", "swish"],
    "scale": [False],
    "embedding_norm": [True],
    "dropout": [0.3],
    "from_run": IN_RUNS,
    "freeze": IN_RUNS,
}
CELLS = ["lstm", "rnn", "rnn-relu"]
# Section, key → values other than those of its base, each of which has to be seen; or a test of its own.
MODEL_EFFECTS: dict[type[BaseModel], dict[str, Any]] = {
    RecurrentEncoderConfig: {
        **RECURRENT,
        **NGRAMS,
        "kind": CELLS,
        "bidirectional": [False],
        "residual": [True],
        "scale": [True],
    },
    ConvolutionalEncoderConfig: {
        **RECURRENT,
        **NGRAMS,
        "kind": ONLY_CHOICE,
        "size": [6],
        "kernel": [1, 5],
        "positions": ["learnt", "none"],
    },
    TransformerEncoderConfig: {
        **BLOCK,
        **NGRAMS,
        "positions": ["learnt", "none"],
    },
    NoEncoderConfig: {
        **NGRAMS,
        "kind": ONLY_CHOICE,
        "size": [6],
        "dropout": [0.3],
        "from_run": IN_RUNS,
        "freeze": IN_RUNS,
    },
    AttentionConfig: {
        "kind": ONLY_CHOICE,
        "score": ["dot", "scaled-dot", "cosine", "bilinear", "concat"],
        "alignment": alignment,
        "size": inner_size,
    },
    SoftAlignmentConfig: {"kind": ONLY_CHOICE},
    HardAlignmentConfig: {
        "kind": ONLY_CHOICE,
        "entropy": hard_only("entropy", 0.5),
        "baseline": hard_only("baseline", 0.1),
    },
    SinusoidalPositionsConfig: {"kind": ONLY_CHOICE},
    LearntPositionsConfig: {"kind": ONLY_CHOICE, "longest": longest},
    NoPositionsConfig: {"kind": ONLY_CHOICE},
    NgramsConfig: {"lengths": ngrams, "rows": ngrams},
    StaticContextConfig: {"kind": ["mean", "max"], "feed": ["start", "every-step"], "bridge": ["direct"]},
    MultiHeadConfig: {"kind": ONLY_CHOICE},
    BahdanauConfig: {**RECURRENT, "kind": ONLY_CHOICE, "cell": CELLS},
    LuongConfig: {**RECURRENT, "kind": ONLY_CHOICE, "cell": CELLS, "input_feeding": [True]},
    PlainConfig: {**RECURRENT, "kind": ONLY_CHOICE, "cell": CELLS},
    TransformerDecoderConfig: {
        **BLOCK,
        "positions": ["learnt"],
    },
    EncoderDecoderConfig: {
        "kind": ONLY_CHOICE,
        "front": front,
        "encoder": [
            BASES[section].encoder
            for section in (ConvolutionalEncoderConfig, TransformerEncoderConfig, NoEncoderConfig)
        ],
        "context": [changed(AttentionConfig, score="bilinear").context],
        "decoder": [BASES[LuongConfig].decoder],
        "tie": tied(EncoderDecoderConfig),
        "copying": [True],
        "ctc": ctc,
        "matches": matches,
    },
    LanguageModelConfig: {
        "kind": ONLY_CHOICE,
        "decoder": [BASES[TransformerDecoderConfig].decoder],
        "tie": tied(LanguageModelConfig),
    },
    ConcatenatedConfig: {
        "kind": ONLY_CHOICE,
        "decoder": [BASES[TransformerDecoderConfig].decoder],
        "tie": tied(ConcatenatedConfig),
    },
    TaggerConfig: {
        "kind": ONLY_CHOICE,
        "encoder": [BASES[TransformerEncoderConfig].encoder],
        "decoder": [LabelsConfig(dropout=0.3)],
    },
    LabelsConfig: {"kind": ONLY_CHOICE, "dropout": [0.3], "from_run": IN_RUNS, "freeze": IN_RUNS},
}
KEYS = [(section, key, effect) for section, keys in MODEL_EFFECTS.items() for key, effect in keys.items()]
EFFECTS = [
    pytest.param(section, key, value, id=f"{section.__name__}.{key}={getattr(value, 'kind', value)}")
    for section, key, values in KEYS
    if isinstance(values, list)
    for value in values
]
OWN = [
    pytest.param(effect, id=f"{section.__name__}.{key}")
    for section, key, effect in KEYS
    if effect not in (ONLY_CHOICE, IN_RUNS) and not isinstance(effect, list)
]
WORDS = [
    pytest.param(section, key, effect, id=f"{section.__name__}.{key}")
    for section, key, effect in KEYS
    if isinstance(effect, list) and isinstance(effect[0], str)
]


@pytest.mark.parametrize("section", MODEL_EFFECTS, ids=lambda section: section.__name__)
def test_every_key_is_in_the_table(section: type[BaseModel]) -> None:
    assert set(MODEL_EFFECTS[section]) == set(section.model_fields)
    assert {key for key, effect in MODEL_EFFECTS[section].items() if effect is IN_RUNS} <= {"from_run", "freeze"}


@pytest.mark.parametrize(("section", "key"), [key[:2] for key in KEYS if key[2] is ONLY_CHOICE])
def test_a_key_without_effect_has_one_choice(section: type[BaseModel], key: str) -> None:
    assert len(choices(section, key)) == 1


@pytest.mark.parametrize(("section", "key", "values"), WORDS)
def test_every_choice_is_in_the_table(section: type[BaseModel], key: str, values: list[str]) -> None:
    value = next(getattr(part, key) for _, part in BASES[section] if type(part) is section)
    now = getattr(value, "kind", value)
    assert sorted([now, *values]) == sorted(choices(section, key))


@pytest.mark.parametrize(("section", "key", "value"), EFFECTS)
def test_the_key_changes_what_comes_out(section: type[BaseModel], key: str, value: Any) -> None:  # noqa: ANN401
    before, after = learnt(BASES[section]), learnt(changed(section, **{key: value}))
    assert before.shape == after.shape
    assert not torch.allclose(before[:-2], after[:-2], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("effect", OWN)
def test_the_key_does_what_it_says(effect: Callable[[], None]) -> None:
    effect()


def test_sizes_are_those_of_the_config() -> None:
    config = EncoderDecoderConfig(
        encoder=RecurrentEncoderConfig(embedding=3, size=5, layers=2, bidirectional=True),
        context=AttentionConfig(size=7),
        decoder=LuongConfig(embedding=4, size=6, layers=3, input_feeding=True),
    )
    model = build_model(config, source_tokens=11, target_tokens=9)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
    assert shapes["source.embedding.table.weight"] == (11, 3)
    assert shapes["encoder.layers.1.directions.1.network.weight_ih_l0"] == (4 * 5, 2 * 5)
    assert shapes["decoder.context.score.W.weight"] == (7, 6)
    assert shapes["decoder.context.score.U.weight"] == (7, 2 * 5)
    assert shapes["decoder.stack.network.weight_ih_l0"] == (4 * 6, 4 + 6)
    assert shapes["decoder.stack.network.weight_hh_l2"] == (4 * 6, 6)
    assert shapes["decoder.bridge.dense.1.2.weight"] == (6, 2 * 5)
    assert shapes["decoder.output.weight"] == (9, 6)


def test_no_bridge_is_drawn_that_nothing_goes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.models.build.Bridge", None)
    assert build_model(changed(StaticContextConfig, feed="every-step"), **TOKENS).decoder.context.bridge is None


def dropping(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Each place that drops values: its name, and where its share stands."""
    for name, module in model.named_modules():
        key = {Dropout: "p", nn.GRU: "dropout", MultiHeadAttention: "dropout", AddAndNorm: "dropout"}.get(type(module))
        if key is not None and getattr(module, key) > 0:
            yield name, module, key


STACKED = ["embedding.dropout", "stack.network", "dropout"]  # on embeddings, between layers, on the output
# Section → the places that its dropout names: in every block where there are blocks.
PLACES: dict[type[BaseModel], list[str]] = {
    RecurrentEncoderConfig: ["source.embedding.dropout", "encoder.dropout"],
    ConvolutionalEncoderConfig: ["source.embedding.dropout", *(f"encoder.blocks.{n}.dropout" for n in (0, 1))],
    TransformerEncoderConfig: [
        "encoder.dropout",
        *(f"encoder.blocks.{n}.{part}" for n in (0, 1) for part in ("attention", "feedforward.dropout", "norms")),
    ],
    NoEncoderConfig: ["encoder.dropout"],
    BahdanauConfig: [f"decoder.{place}" for place in STACKED],
    LuongConfig: [f"decoder.{place}" for place in STACKED],
    PlainConfig: [f"decoder.{place}" for place in STACKED],
    LabelsConfig: ["decoder.dropout"],
    TransformerDecoderConfig: [
        "decoder.dropout",
        *(
            f"decoder.blocks.{n}.{part}"
            for n in (0, 1)
            for part in ("attention", "cross", "feedforward.dropout", "norms")
        ),
    ],
}


def test_every_section_with_dropout_has_its_places() -> None:
    assert set(PLACES) == {section for section in MODEL_EFFECTS if "dropout" in section.model_fields}


@pytest.mark.parametrize(("section", "feeding"), [*((section, False) for section in PLACES), (LuongConfig, True)])
def test_dropout_acts_in_each_place_that_it_names(section: type[BaseModel], feeding: bool) -> None:
    """Each alone changes training, none changes use."""
    values = {"input_feeding": feeding} if section is LuongConfig else {}
    still = made(changed(section, **values)).eval()(source_batch(ROWS), INPUTS).logits
    dropped = changed(section, **values, dropout=0.4)
    assert sorted(name for name, _, _ in dropping(made(dropped))) == sorted(PLACES[section])
    for place in PLACES[section]:
        model = made(dropped)
        for name, module, key in list(dropping(model)):
            setattr(module, key, 0.4 if name == place else 0.0)
        torch.manual_seed(2)
        assert not torch.allclose(model.train()(source_batch(ROWS), INPUTS).logits, still), place
        assert torch.equal(model.eval()(source_batch(ROWS), INPUTS).logits, still), place


def test_each_side_drops_for_itself() -> None:
    """The encoder's dropout and the decoder's are two numbers, and neither acts on the other's side."""
    for side, other in (("encoder", "decoder"), ("decoder", "encoder")):
        part = getattr(ATTENDED, side).model_copy(update={"dropout": 0.4})
        model = made(ATTENDED.model_copy(update={side: part}))
        assert not any(name.startswith(other) for name, _, _ in dropping(model))
