"""The copy mechanism: its formula, what can be copied, and what is said of it."""
# B sentences, R rows, T steps, S source steps, V vocabulary

from __future__ import annotations

import json
import math
import re
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from model_cases import CONTEXTS, DECODERS, ENCODERS, TRANSFORMER, copies, encoder_decoder
from tiny_models import INPUTS, ROWS, close, fill, tiny_model

import antiphon
from antiphon.config.checks import check_config
from antiphon.config.schema import Config
from antiphon.config.sources import FeaturesConfig
from antiphon.data.arrays import FeaturesReader
from antiphon.data.batches import source_batch
from antiphon.data.tokenizers import UNK, WordTokenizer, by_number, by_symbol
from antiphon.errors import UserError
from antiphon.inference.generator import Generator
from antiphon.model_folder import LoadedModel, fresh_model, load_model, save_model
from antiphon.models.build import build_for
from antiphon.models.decoders.copying import CopyMechanism
from antiphon.plots.terminal import attention_text
from antiphon.sequence import NO_COPY, MultiSource, Sequence
from antiphon.training.side_models import make_shortlist

# Two sentences with two hypotheses each; in the first a token stands twice, in the second nothing can be copied.
COPIES = torch.tensor([[4, 5, 4, NO_COPY], [NO_COPY, NO_COPY, NO_COPY, NO_COPY]])
R, T, S, V, D = 4, 3, 4, 7, 5
SOURCE, TARGET = WordTokenizer(list("abcde")), WordTokenizer(list("edcKL"))
GRU: dict[str, Any] = {"kind": "gru", "embedding": 6, "size": 6, "dropout": 0.0}
LUONG: dict[str, Any] = {"kind": "luong", "cell": "gru", "embedding": 6, "size": 8, "dropout": 0.0}
BLOCKS: dict[str, Any] = {
    "kind": "transformer", "size": 8, "layers": 2, "heads": 2, "feedforward": 8, "dropout": 0.0
}  # fmt: skip
PARTS = {"luong": {"encoder": GRU, "decoder": LUONG}, "transformer": {"encoder": BLOCKS, "decoder": BLOCKS}}


def copy_case(scale: float = 1.0) -> tuple[CopyMechanism, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    copying = CopyMechanism(query=D).double()
    logits, query = (scale * torch.randn(R, T, size, dtype=torch.float64) for size in (V, D))
    return copying, logits, query, torch.randn(R, T, S, dtype=torch.float64).softmax(-1)


def test_the_formula_written_out() -> None:
    copying, logits, query, weights = copy_case()
    log_p, copied = copying(logits, query, weights, COPIES)
    [w], [b] = copying.gate.weight.tolist(), copying.gate.bias.tolist()
    for r in range(R):
        for t in range(T):
            g = 1 / (1 + math.exp(-sum(x * y for x, y in zip(w, query[r, t].tolist(), strict=True)) - b))
            P, p = logits[r, t].softmax(-1).tolist(), [0.0] * V
            for y in range(V):
                p[y] = g * P[y]
            for j in range(S):
                x, a = int(COPIES[r // 2, j]), float(weights[r, t, j])
                if x != NO_COPY:
                    p[x] += (1 - g) * a
                for y in range(V):
                    p[y] += (1 - g) * a * P[y] if x == NO_COPY else 0.0
            assert log_p[r, t].exp().tolist() == pytest.approx(p, rel=1e-9)
            shares = [(1 - g) * float(weights[r, t, j]) * (int(COPIES[r // 2, j]) >= 0) for j in range(S)]
            assert copied.shares[r, t].tolist() == pytest.approx(shares, rel=1e-9)
    close(copied.share, copied.shares.sum(-1))
    close(log_p[2:], logits[2:].log_softmax(-1))  # without a position to copy it is P


def test_what_is_copied_of_a_token() -> None:
    """p(y) is what is copied of it and what is left of P, for every y."""
    copying, logits, query, weights = copy_case()
    log_p, copied = copying(logits, query, weights, COPIES)
    for y in range(V):
        own = (1 - copied.share) * logits.softmax(-1)[..., y]
        tokens = torch.full((R, T), y)
        close(copied.of(tokens).sum(-1) + own, log_p[..., y].exp())
    assert copied.of(torch.full((R, T), 4))[0, 0].nonzero().flatten().tolist() == [0, 2]


@pytest.mark.parametrize("bias", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("place", range(S))
def test_nothing_breaks_where_a_probability_is_0(bias: float, place: int) -> None:
    """All weight on one position, a gate that is shut or open, tokens that P rules out, in single precision."""
    copying, logits, query, weights = (value.float() for value in copy_case(scale=300.0))
    one = torch.zeros_like(weights)
    one[..., place] = 1.0
    logits, query, one = (value.detach().requires_grad_() for value in (logits, query, one))
    torch.nn.init.constant_(copying.gate.bias, bias)
    log_p, _ = copying(logits, query, one, COPIES)
    assert bool(log_p.isfinite().all())
    close(log_p.exp().sum(-1).double().round(decimals=3), torch.ones(R, T, dtype=torch.float64))
    log_p.sum().backward()
    for value in (logits, query, one, *copying.parameters()):
        assert value.grad is not None
        assert bool(value.grad.isfinite().all())


@pytest.mark.parametrize("decoder", ["bahdanau-lstm", "luong-gru", "luong-fed-gru"])
def test_the_gate_sees_state_context_and_word(decoder: str) -> None:
    model = tiny_model(copies(encoder_decoder(ENCODERS["gru"], CONTEXTS["additive-soft"], DECODERS[decoder])))
    assert model.decoder.copying.gate.in_features == 8 + 8 + 6
    with torch.no_grad():
        step = model(source_batch(ROWS), INPUTS)
        words = source_batch(ROWS).mask.clone()
        words[[0, 1, 2], [len(row) for row in ROWS]] = False  # </s>
        ratio = step.copied.shares / step.weights.masked_fill(~words[:, None], torch.inf)
    close(ratio.amax(-1)[..., None].expand_as(ratio)[words[:, None].expand_as(ratio)], ratio[ratio > 0])
    close(step.logits.exp().sum(-1), torch.ones(3, 4, dtype=torch.float64))


def test_a_transformer_copies_by_its_last_block() -> None:
    """The mean of all heads, without dropout in training either."""
    part = {**TRANSFORMER, "layers": 2, "dropout": 0.5}
    model = tiny_model(copies(encoder_decoder(ENCODERS["gru"], CONTEXTS["multi-head"], part)))
    source = source_batch(ROWS)
    with torch.no_grad():
        step, looks = model(source, INPUTS), model.attention_weights(source, INPUTS)
        gates = step.copied.shares[:, :, 0] / looks.cross[:, -1].mean(1)[:, :, 0]  # the first is a word in every row
        words = torch.tensor([[*[1.0] * len(row), *[0.0] * (6 - len(row))] for row in ROWS], dtype=torch.float64)
        close(step.copied.shares, gates[..., None] * looks.cross[:, -1].mean(1) * words[:, None])
        torch.manual_seed(1)
        dropped = model.train()(source, INPUTS).copied.shares
    own = dropped.sum(-1, keepdim=True)
    assert bool(((dropped / own).sum(-1) - 1.0 < 1e-9).all())


def test_which_token_a_token_is() -> None:
    """By how it is written; <unk> is <unk>, also for what the target does not know, and no other special is copied."""
    assert by_symbol(SOURCE, TARGET).tolist() == [-1, -1, -1, UNK, UNK, UNK, 6, 5, 4]
    assert by_symbol(SOURCE, SOURCE).tolist() == by_number(9, 9).tolist() == [-1, -1, -1, UNK, 4, 5, 6, 7, 8]
    assert by_number(9, 6).tolist() == [-1, -1, -1, UNK, 4, 5, UNK, UNK, UNK]
    assert by_symbol(FeaturesReader.__new__(FeaturesReader), TARGET) is None


def test_of_several_sources_only_texts_are_copied() -> None:
    ids, mask = torch.tensor([[5, 6, 2], [7, 2, 0]]), torch.tensor([[True] * 3, [True, True, False]])
    vectors = Sequence(torch.randn(2, 2, 3), torch.tensor([[True, False], [True, True]]))
    words = Sequence(torch.randn(2, 3, 3), mask, copies=torch.where(ids > 3, ids, NO_COPY))
    expected = [[NO_COPY, 5, 6, NO_COPY], [NO_COPY, NO_COPY, 7, NO_COPY]]
    assert MultiSource((vectors, words)).copies.tolist() == expected
    assert Sequence.joined([vectors, words]).copies.tolist() == expected
    assert MultiSource((vectors, vectors)).copies is None
    gru = {**GRU, "embedding": 3}
    for encoder in (gru, [{"kind": "none", "size": 12}, gru]):
        made = Config.model_validate(
            {
                "data": {"train": "t", "source": [{"kind": "features"}, {"column": 1}], "target": {"column": 2}},
                "model": {"encoder": encoder, "decoder": LUONG, "copy": True},
            }
        )
        assert check_config(made) == []
        assert isinstance(made.data.sources[0], FeaturesConfig)
        model = build_for(made.model, made.data.sources, [3, 9], target_tokens=9).eval()
        fill(model)
        step = model(MultiSource((vectors, Sequence(ids, mask))), INPUTS[:2])
        assert step.copied.copies.tolist() == expected
        torch.testing.assert_close(step.logits.exp().sum(-1), torch.ones(2, 4))


def generator(kind: str, *, gate: float | None = None) -> Generator:
    """It knows "c", "d" and "e" on both sides; a gate of its own opens or shuts the copying for good."""
    words = {"tokens": "words"}
    config = Config.model_validate(
        {
            "data": {"train": "pairs.tsv", "source": words, "target": {**words, "column": 1}},
            "model": {**PARTS[kind], "copy": True},
            "decoding": {"beam": 1, "max_length": 6},
        }
    )
    model = fresh_model(config, SOURCE, TARGET).eval()
    fill(model, scale=1.1)
    if gate is not None:
        torch.nn.init.constant_(model.decoder.copying.gate.bias, gate)
    return Generator(LoadedModel(config, model, SOURCE, TARGET))


def saved(made: Generator, folder: Path) -> Path:
    save_model(folder, made.config, made.model.state_dict(), SOURCE, TARGET)
    return folder


@pytest.mark.parametrize("kind", PARTS)
def test_an_answer_says_what_was_copied(kind: str, tmp_path: Path) -> None:
    """Of each token how probable that is; also after saving, in a batch, as JSON."""
    made = generator(kind)
    texts = ["c d e", "e", "a b c d"]
    answers = made.generate(texts)
    for text, answer in zip(texts, answers, strict=True):
        assert answer.copied is not None
        assert len(answer.copied) == len(answer.tokens)
        assert answer.copied == pytest.approx(made.generate(text).copied, abs=1e-6)
        assert all(0.0 <= share <= 1.0 for share in answer.copied)
        assert [token for token, share in zip(answer.tokens, answer.copied, strict=True) if share] == [
            token for token in answer.tokens if token in text
        ]
    loaded = Generator(load_model(saved(made, tmp_path / "run")))
    assert loaded.generate(texts[0]).copied == pytest.approx(answers[0].copied, abs=1e-6)
    assert json.loads(json.dumps(answers[0].as_dict(weights=True)))["copied"] == answers[0].copied
    assert made.generate(texts[0], weights=False).copied is None
    shut = generator(kind, gate=1e4).generate(texts[0]).copied
    assert shut == pytest.approx([0.0] * len(shut or []))


def test_an_unknown_word_is_the_one_that_was_copied() -> None:
    """Even where a known word is attended to most, which several unknown ones outweigh together."""
    made, elsewhere = generator("luong", gate=-1e4), 0
    texts = sorted({" ".join(words) for words in permutations("aabbc")})
    for text, answer in zip(texts, made.generate(texts, replace_unknown=True), strict=True):
        for token, word, row in zip(answer.tokens, answer.text.split(), answer.weights, strict=False):
            assert token == f"‹{word}›" if word in "ab" else word == token
            elsewhere += token[0] == "‹" and text.split()[int(np.argmax(row[:-1]))] == "c"
    assert elsewhere > 0


def test_pictures_show_it(tmp_path: Path) -> None:
    for kind in PARTS:
        out = tmp_path / f"{kind}.svg"
        answer = antiphon.explain(generator(kind), "c d e", out)
        texts = re.findall(r"<!-- (.*?) -->", out.read_text())
        assert texts.count("copied") == 1
        assert answer.copied is not None
        assert all(f"{share:.2f}" in texts for share in answer.copied)
    lines = attention_text(np.eye(2), ["a", "b"], ["x", "yy"], copy_probs=[1.0, 0.031]).split("\n")
    assert lines[:3] == ["         a b", "x   100% ██·", "yy    3% · ██"]
    assert lines[-1] == "the number before a row: how probable it is that the token was copied"
    narrow = attention_text(np.full((1, 50), 0.02), ["w"] * 50, ["x"], width=40, copy_probs=[0.5])
    assert narrow == "x   50% ← spread over all tokens"


def test_what_a_model_that_copies_cannot_have(tmp_path: Path) -> None:
    run = saved(generator("transformer"), tmp_path / "run")
    for engine in ("ctranslate2", "onnx", "huggingface"):
        with pytest.raises(UserError, match=r"run: model.copy: an export cannot copy words of its source; use the run"):
            antiphon.export_model(run, engine, tmp_path / engine)
        assert not (tmp_path / engine).exists()
    with pytest.raises(UserError, match="this run copies, and words of its source may be on no list"):
        make_shortlist(run)


def problems(source: dict[str, Any], **model: Any) -> list[str]:  # noqa: ANN401
    data = {"train": "t.tsv", "source": source, "target": {"column": 1}}
    return check_config(Config.model_validate({"data": data, "model": {"copy": True, **model}}))


def test_what_a_configuration_that_copies_needs() -> None:
    assert problems({"kind": "text"}) == []
    assert problems({"kind": "text"}, decoder={"kind": "plain"}) == [
        "model.copy: tokens are copied by their attention weights, and the decoder plain has none; set "
        "model.decoder.kind to bahdanau, luong or transformer, or copy to false"
    ]
    assert problems({"kind": "features"}) == [
        "model.copy: tokens are copied from a text, but data.source is of kind features; set it to false"
    ]
    assert problems({"kind": "text", "tokens": "words"}) == [
        "model.copy: a token is copied unchanged, but the source has words and the target characters; set "
        "data.target.tokens to words, or copy to false"
    ]
