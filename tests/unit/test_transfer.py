"""Parts of a network from another run: which tensors, what does not fit; and parts that are frozen."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import fill
from torch import Tensor

from antiphon.config.schema import Config
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import CharacterTokenizer, Tokenizer, WordTokenizer
from antiphon.errors import ConfigError
from antiphon.model_folder import save_model
from antiphon.models.build import build_model
from antiphon.models.model import SequenceModel
from antiphon.training.transfer import (
    check_transfer,
    freeze_parts,
    missing_runs,
    refuse_transfer_from_self,
    transfer_weights,
)

LETTERS, WORDS, OTHERS = CharacterTokenizer(list("abc")), WordTokenizer(["a", "b"]), WordTokenizer(["a", "c", "d"])
Values = dict[str, Any]
PLAIN: Values = {"kind": "plain", "cell": "gru", "embedding": 6, "size": 8, "dropout": 0.0}
LUONG: Values = {**PLAIN, "kind": "luong"}
BAHDANAU: Values = {**PLAIN, "kind": "bahdanau"}
ENCODER: Values = {"kind": "gru", "embedding": 6, "size": 8, "dropout": 0.0}
BLOCKS: Values = {"kind": "transformer", "size": 8, "layers": 2, "heads": 2, "feedforward": 12, "dropout": 0.0}
SEQ: Values = {"kind": "encoder-decoder", "encoder": ENCODER, "decoder": LUONG}
LM: Values = {"kind": "language-model", "decoder": PLAIN}
BLOCKS_LM: Values = {"kind": "language-model", "decoder": BLOCKS}
TRANSFORMER: Values = {"kind": "encoder-decoder", "encoder": {**BLOCKS}, "decoder": {**BLOCKS}}


def changed(model: Values, path: str, value: object) -> Values:
    """A copy with another value: `decoder.size`."""
    values = copy.deepcopy(model)
    *sections, key = path.split(".")
    inner = values
    for section in sections:
        inner = inner.setdefault(section, {})
    inner[key] = value
    return values


def config_of(model: Values) -> Config:
    evaluation = {"metrics": ["loss"]} if model["kind"] == "language-model" else {}
    data = {"train": "none", "shared_vocabulary": model.get("tie") in ("tables", "all")}
    return Config.model_validate({"data": data, "model": model, "evaluation": evaluation})


def built(config: Config, source: Tokenizer, target: Tokenizer) -> SequenceModel:
    return build_model(config.model, source_tokens=source.size, target_tokens=target.size)


def made(folder: Path, model: Values, source: Tokenizer = LETTERS, target: Tokenizer = WORDS) -> dict[str, Tensor]:
    """A run with weights from a formula; returns them."""
    config = config_of(model)
    source = target if model["kind"] == "language-model" else source
    network = built(config, source, target)
    fill(network)
    save_model(folder, config, network.state_dict(), source, target)
    return network.state_dict()


class Filled:
    """A network that was built afresh and filled."""

    def __init__(self, model: Values, source: Tokenizer = LETTERS, target: Tokenizer = WORDS) -> None:
        config = config_of(model)
        torch.manual_seed(5)
        self.model = built(config, source, target)
        self.before = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        self.said: list[str] = []
        transfer_weights(self.model, config, source, target, self.said.append)
        self.after = self.model.state_dict()

    @property
    def changed(self) -> set[str]:
        return {name for name, tensor in self.after.items() if not torch.equal(tensor, self.before[name])}


def problems(model: Values, source: Tokenizer = LETTERS, target: Tokenizer = WORDS) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        Filled(model, source, target)
    return caught.value.problems


def test_an_encoder_of_the_same_shape_is_taken_whole(tmp_path: Path) -> None:
    there = made(tmp_path / "run", SEQ)
    run = str(tmp_path / "run")
    filled = Filled(changed(SEQ, "encoder.from", run))
    assert filled.changed == {name for name in there if name.startswith(("source.", "encoder."))}
    assert all(torch.equal(filled.after[name], there[name]) for name in filled.changed)
    assert filled.said == [f"model.encoder.from: {run}: 9 tensors copied"]


def test_a_decoder_of_the_same_shape_is_taken_whole(tmp_path: Path) -> None:
    there = made(tmp_path / "run", SEQ)
    filled = Filled(changed(SEQ, "decoder.from", str(tmp_path / "run")))
    assert filled.changed == {name for name in there if name.startswith("decoder.")}
    assert all(torch.equal(filled.after[name], there[name]) for name in filled.changed)


def test_nothing_asked_for_changes_nothing() -> None:
    filled = Filled(SEQ)
    assert filled.changed == set()
    assert filled.said == []


def test_a_language_model_becomes_a_decoder(tmp_path: Path) -> None:
    """Its weights are copied; those it lacks (cross-attention) are fresh, and named."""
    there, run = made(tmp_path / "lm", LM), str(tmp_path / "lm")
    filled = Filled(changed(SEQ, "decoder.from", run))
    assert filled.changed == set(there)
    assert all(torch.equal(filled.after[name], there[name]) for name in there)
    assert filled.said == [f"model.decoder.from: {run}: 7 tensors copied, 8 new (context, bridge, combine)"]


def test_a_language_model_becomes_an_encoder(tmp_path: Path) -> None:
    """Its layers are the forward directions; the backward ones are fresh."""
    there = made(tmp_path / "lm", changed(LM, "decoder.layers", 2))
    one_way = changed(changed(SEQ, "encoder.bidirectional", False), "encoder.layers", 2)
    filled = Filled(changed(one_way, "encoder.from", str(tmp_path / "lm")), source=WORDS)
    for number in (0, 1):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            here = filled.after[f"encoder.layers.{number}.directions.0.network.{name}_l0"]
            assert torch.equal(here, there[f"decoder.stack.network.{name}_l{number}"])
    assert torch.equal(filled.after["source.embedding.table.weight"], there["decoder.embedding.table.weight"])
    assert len(filled.changed) == 9
    made(tmp_path / "small", LM)
    both = Filled(changed(SEQ, "encoder.from", str(tmp_path / "small")), source=WORDS)
    assert len(both.changed) == 5
    assert both.said[0].endswith("5 tensors copied, 4 new (layers.0.directions.1), 2 unused (output)")


def test_an_encoder_reads_as_the_language_model_did(tmp_path: Path) -> None:
    """The states are the same, so the tensors went where they mean the same."""
    made(tmp_path / "lm", changed(LM, "decoder.layers", 2))
    one_way = changed(changed(SEQ, "encoder.bidirectional", False), "encoder.layers", 2)
    reader = Filled(changed(one_way, "encoder.from", str(tmp_path / "lm")), source=WORDS).model.eval()
    writer = Filled(changed(changed(LM, "decoder.layers", 2), "decoder.from", str(tmp_path / "lm"))).model.eval()
    source = source_batch([[4, 5, 4]])
    states = reader.encode(source).states  # type: ignore[operator]
    words = writer.decoder.embedding(source.values)
    tops, _ = writer.decoder.stack.run(words, writer.decoder.stack.zeros(1))
    torch.testing.assert_close(states, tops)


def test_a_transformer_language_model_becomes_either_part(tmp_path: Path) -> None:
    there, run = made(tmp_path / "lm", BLOCKS_LM), str(tmp_path / "lm")
    reader = Filled(changed(TRANSFORMER, "encoder.from", run), source=WORDS)
    for name, tensor in reader.after.items():
        if name.startswith("encoder."):
            assert torch.equal(tensor, there[name.replace("encoder.", "decoder.", 1)]), name
    assert torch.equal(reader.after["source.embedding.table.weight"], there["decoder.embedding.table.weight"])
    writer = Filled(changed(TRANSFORMER, "decoder.from", run))
    assert writer.changed == set(there)
    assert writer.said[0].endswith("new (cross-attention)")


def test_a_concatenated_network_takes_both_tables_where_the_tokens_are_the_same(tmp_path: Path) -> None:
    one: Values = {"kind": "concatenated", "decoder": PLAIN}
    there, run = made(tmp_path / "one", one), str(tmp_path / "one")
    assert Filled(changed(one, "decoder.from", run)).changed == set(there)
    made(tmp_path / "lm", LM)
    filled = Filled(changed(one, "decoder.from", str(tmp_path / "lm")))  # the source is spelt in letters
    assert "source.embedding.table.weight" not in filled.changed
    alike = Filled(changed(one, "decoder.from", str(tmp_path / "lm")), source=WORDS)
    table = "embedding.table.weight"
    assert torch.equal(alike.after[f"source.{table}"], alike.after[f"decoder.{table}"])
    reader = Filled(changed(SEQ, "encoder.from", run))
    assert torch.equal(reader.after[f"source.{table}"], there[f"source.{table}"])


def test_another_score_keeps_its_own_fresh_weights(tmp_path: Path) -> None:
    """Weights of the same name mean something else in another formula."""
    made(tmp_path / "run", SEQ)
    other = changed(changed(SEQ, "decoder.from", str(tmp_path / "run")), "context", {"kind": "attention"})
    filled = Filled(changed(other, "context.score", "bilinear"))
    assert not any(name.startswith("decoder.context.") for name in filled.changed)
    assert "1 new (context), 4 unused (context)" in filled.said[0]


def test_a_deeper_run_leaves_layers_out_and_says_so(tmp_path: Path) -> None:
    made(tmp_path / "run", changed(SEQ, "decoder.layers", 2))
    [sentence] = Filled(changed(SEQ, "decoder.from", str(tmp_path / "run"))).said
    assert "unused (stack, bridge)" in sentence
    made(tmp_path / "flat", SEQ)
    [sentence] = Filled(changed(changed(SEQ, "decoder.from", str(tmp_path / "flat")), "decoder.layers", 2)).said
    assert "new (stack, bridge)" in sentence


def test_drawing_goes_on_as_if_nothing_had_been_loaded(tmp_path: Path) -> None:
    made(tmp_path / "run", SEQ)
    Filled(SEQ)
    expected = torch.rand(3)
    Filled(changed(SEQ, "encoder.from", str(tmp_path / "run")))
    assert torch.equal(torch.rand(3), expected)


PROBLEMS: dict[str, tuple[Values, Values, str, str]] = {
    "another size": (
        SEQ, changed(SEQ, "encoder.size", 5), "encoder", "model.encoder.size: 5, but RUN has 8; set it to 8",
    ),
    "another table": (
        LM, changed(SEQ, "decoder.embedding", 7), "decoder", "model.decoder.embedding: 7, but RUN has 6; set it to 6",
    ),
    "another cell": (
        SEQ, changed(SEQ, "encoder.kind", "lstm"), "encoder",
        "model.encoder.from: RUN has a network of kind gru; set model.encoder.kind to gru (it is lstm)",
    ),
    "another cell of a decoder": (
        LM, changed(SEQ, "decoder.cell", "rnn"), "decoder",
        "model.decoder.from: RUN has a network of kind gru; set model.decoder.cell to gru (it is rnn)",
    ),
    "the other bend": (  # the same shapes, another function
        changed(LM, "decoder.cell", "rnn"), changed(SEQ, "decoder.cell", "rnn-relu"), "decoder",
        "model.decoder.from: RUN has a network of kind rnn; set model.decoder.cell to rnn (it is rnn-relu)",
    ),
    "another architecture": (
        BLOCKS_LM, SEQ, "decoder",
        "model.decoder.from: RUN has a network of kind transformer; set model.decoder.kind to transformer "
        "(it is luong)",
    ),
    "the other architecture": (
        LM, TRANSFORMER, "decoder",
        "model.decoder.from: RUN has a network of kind gru; set model.decoder.kind (it is transformer) to a recurrent "
        "one with cell gru",
    ),
    "other heads": (  # the same shapes, another function
        BLOCKS_LM, changed(TRANSFORMER, "decoder.heads", 4), "decoder",
        "model.decoder.heads: 4, but RUN has 2; set it to 2",
    ),
    "another bend": (
        BLOCKS_LM, changed(TRANSFORMER, "decoder.activation", "gelu"), "decoder",
        "model.decoder.activation: gelu, but RUN has relu; set it to relu",
    ),
    "more enters a step": (
        LM, {**SEQ, "decoder": BAHDANAU}, "decoder",
        "model.decoder.from: a step in RUN reads the last token, here the last token and the context; "
        "choose a decoder of that kind: luong without input_feeding, or plain with model.context.feed: start",
    ),
    "the context enters a step": (
        {**SEQ, "decoder": BAHDANAU}, SEQ, "decoder",
        "model.decoder.from: a step in RUN reads the last token and the context, here the last token; "
        "choose a decoder of that kind: bahdanau, or plain with model.context.feed: every-step or both",
    ),
    "a language model has no context": (
        {**SEQ, "decoder": BAHDANAU}, LM, "decoder",
        "model.decoder.from: a step in RUN reads the last token and the context, here the last token; model.kind: "
        "language-model has no such step, so this run cannot be used: give another run, or null",
    ),
    "nor has one network for both sides": (
        changed(SEQ, "decoder.input_feeding", True), {"kind": "concatenated", "decoder": PLAIN}, "decoder",
        "model.decoder.from: a step in RUN reads the last token and the last attended state, here the last token; "
        "model.kind: concatenated has no such step, so this run cannot be used: give another run, or null",
    ),
    "residuals that a language model has not": (
        changed(LM, "decoder.layers", 2),
        {**SEQ, "encoder": {**ENCODER, "layers": 2, "bidirectional": False, "residual": True}}, "encoder",
        "model.encoder.residual: true, but RUN has false; set it to false",
    ),
    "tables of other n-grams": (
        changed(SEQ, "encoder.ngrams", [3, 5]), changed(SEQ, "encoder.ngrams", [5, 7]), "encoder",
        "model.encoder.ngrams: [5, 7], but RUN has [3, 5]; set it to [3, 5]",
    ),
    "less enters a step": (
        changed(SEQ, "decoder.input_feeding", True), SEQ, "decoder",
        "model.decoder.from: a step in RUN reads the last token and the last attended state, here the last token; "
        "choose a decoder of that kind: luong with input_feeding",
    ),
    "another encoder": (
        SEQ, changed(SEQ, "encoder.bidirectional", False), "decoder",
        "model.decoder.from: decoder.context.score.U.weight is [8, 16] in RUN and [8, 8] here; it depends on "
        "model.encoder and model.context: make them as in RUN/config.yaml",
    ),
    "both directions above the first layer": (
        changed(LM, "decoder.layers", 2), changed(SEQ, "encoder.layers", 2), "encoder",
        "model.encoder.from: encoder.layers.1.directions.0.network.weight_ih_l0 is [24, 8] in RUN and [24, 16] here; "
        "set model.encoder.bidirectional to false, or model.encoder.layers to 1",
    ),
    "fewer positions": (
        changed(BLOCKS_LM, "decoder.positions", {"kind": "learnt", "longest": 300}),
        changed(TRANSFORMER, "decoder.positions", {"kind": "learnt", "longest": 250}), "decoder",
        "model.decoder.from: decoder.positions.table.weight is [300, 8] in RUN and [250, 8] here; "
        "set model.decoder.positions.longest to 300",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_does_not_fit_is_said_with_both_numbers(name: str, tmp_path: Path) -> None:
    there, here, part, sentence = PROBLEMS[name]
    made(tmp_path / "run", there)
    run = str(tmp_path / "run")
    tokens = {"source": WORDS} if there["kind"] == "language-model" else {}
    assert problems(changed(here, f"{part}.from", run), **tokens)[0] == sentence.replace("RUN", run)


def test_only_some_of_many_problems_are_listed(tmp_path: Path) -> None:
    made(tmp_path / "run", changed(SEQ, "decoder.layers", 3))
    other = changed(changed(SEQ, "decoder.layers", 3), "encoder.size", 5)
    assert len(problems(changed(other, "decoder.from", str(tmp_path / "run")))) == 5


def test_other_tokens_are_named_with_both_sizes_and_the_remedy(tmp_path: Path) -> None:
    made(tmp_path / "run", SEQ)
    made(tmp_path / "lm", LM)
    run, lm = str(tmp_path / "run"), str(tmp_path / "lm")
    both = changed(changed(SEQ, "encoder.from", lm), "decoder.from", run)
    assert problems(both, target=OTHERS) == [
        f"model.encoder.from: {lm} has 6 tokens, the source here 7, and the vocabularies differ; "
        f"set data.source.tokenizer to {lm}",
        f"model.decoder.from: {run} has 6 tokens, the target here 7, and the vocabularies differ; "
        f"set data.target.tokenizer to {run}",
    ]


def test_the_same_number_of_other_tokens_is_no_match(tmp_path: Path) -> None:
    made(tmp_path / "run", SEQ)
    other = WordTokenizer(["b", "a"])
    [sentence] = problems(changed(SEQ, "decoder.from", str(tmp_path / "run")), target=other)
    assert "has 6 tokens, the target here 6, and the vocabularies differ" in sentence


def test_a_run_that_is_not_there_or_damaged(tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere")
    asked = changed(SEQ, "encoder.from", missing)
    [sentence] = problems(asked)
    assert sentence.startswith(f"model.encoder.from: {missing}: no such folder; ")
    [early] = missing_runs(config_of(asked).model)
    assert early.startswith(f"model.encoder.from: {missing}: no such folder; ")
    assert missing_runs(config_of(SEQ).model) == []
    made(tmp_path / "run", SEQ)
    (tmp_path / "run" / "model.safetensors").write_bytes(b"?")
    [sentence] = problems(changed(SEQ, "decoder.from", str(tmp_path / "run")))
    assert sentence.startswith(f"model.decoder.from: {tmp_path / 'run'}/model.safetensors: damaged")


def test_one_table_cannot_begin_as_two(tmp_path: Path) -> None:
    tied = changed({**SEQ, "tie": "output"}, "decoder.embedding", 8)
    made(tmp_path / "two", {**tied, "tie": "none"})
    [sentence] = problems(changed(tied, "decoder.from", str(tmp_path / "two")))
    assert sentence.startswith("model.tie: output makes decoder.embedding.table.weight and decoder.output.weight one")
    there = made(tmp_path / "one", tied)
    filled = Filled(changed(tied, "decoder.from", str(tmp_path / "one")))
    assert torch.equal(filled.after["decoder.output.weight"], there["decoder.embedding.table.weight"])
    loose = Filled(changed({**tied, "tie": "none"}, "decoder.from", str(tmp_path / "one")))
    assert torch.equal(loose.after["decoder.output.weight"], loose.after["decoder.embedding.table.weight"])


def test_the_table_of_both_sides_is_taken_once(tmp_path: Path) -> None:
    shared = {**SEQ, "tie": "tables"}
    there = made(tmp_path / "run", shared, source=WORDS)
    filled = Filled(changed(shared, "decoder.from", str(tmp_path / "run")), source=WORDS)
    table = "embedding.table.weight"
    assert torch.equal(filled.after[f"source.{table}"], there[f"decoder.{table}"])
    assert not torch.equal(filled.after["decoder.output.weight"], filled.before["decoder.output.weight"])


def test_trying_says_the_same_and_draws_nothing(tmp_path: Path) -> None:
    made(tmp_path / "run", SEQ)
    config = config_of(changed(changed(SEQ, "encoder.from", str(tmp_path / "run")), "encoder.size", 5))
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with pytest.raises(ConfigError, match=r"model\.encoder\.size: 5, but .* has 8"):
        check_transfer(config, LETTERS, WORDS)
    assert torch.equal(torch.rand(2), expected)
    check_transfer(config_of(SEQ), LETTERS, WORDS)


def test_a_run_cannot_begin_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = config_of(changed(SEQ, "decoder.from", "./runs/../run"))
    refuse_transfer_from_self(config, tmp_path / "other")
    with pytest.raises(ConfigError, match=r"model\.decoder\.from: .* is the run that is being trained"):
        refuse_transfer_from_self(config, Path("run"))


def test_a_frozen_part_has_no_gradient() -> None:
    def frozen(model: Values) -> set[str]:
        config = config_of(model).model
        network = build_model(config, source_tokens=7, target_tokens=6)
        parts = freeze_parts(network, config)
        names = {name for name, parameter in network.named_parameters() if not parameter.requires_grad}
        inside = {id(parameter) for part in parts for parameter in part.parameters()}
        assert {name for name, parameter in network.named_parameters() if id(parameter) in inside} == names
        return {name.split(".")[0] for name in names}

    assert frozen(SEQ) == set()
    assert frozen(changed(SEQ, "encoder.freeze", True)) == {"source", "encoder"}
    assert frozen(changed(SEQ, "decoder.freeze", True)) == {"decoder"}
    assert frozen({"kind": "concatenated", "decoder": {**PLAIN, "freeze": True}}) == {"decoder"}


def test_weights_that_nobody_learns_are_said(tmp_path: Path) -> None:
    made(tmp_path / "lm", LM)
    frozen = changed(changed(SEQ, "decoder.from", str(tmp_path / "lm")), "decoder.freeze", True)
    [_, warning] = Filled(frozen).said
    assert warning.startswith("warning: model.decoder.freeze: 8 tensors (context, bridge, combine) come from no run")
    [warning] = Filled(changed(SEQ, "encoder.freeze", True)).said
    assert warning.startswith("warning: model.encoder.freeze: 8 tensors (layers.0.directions.0, ")
