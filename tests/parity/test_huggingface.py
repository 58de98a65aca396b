"""`transformers` computes what we compute: of our models exported to it, and of its models imported from it."""
# B sentences, T steps, V vocabulary

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from foreign_models import bart, hugging_face, marian, marian_apart, marian_tokenizer, sentences, spm
from torch import Tensor

from antiphon import api
from antiphon.config.schema import Config, TextConfig
from antiphon.data.batches import source_batch
from antiphon.data.build_source import train_tokenizer
from antiphon.data.foreign_tokenizers import UNKNOWN
from antiphon.data.tokenizers import EOS, PAD, SOS, SPECIALS, UNK, Tokenizer
from antiphon.errors import UserError
from antiphon.export.base import export_model
from antiphon.export.sentencepiece_models import convert_sentencepiece, read_sentencepiece
from antiphon.inference.generator import Generator
from antiphon.model_folder import load_model, open_model, save_model
from antiphon.models.build import build_model

POST: dict[str, Any] = {"kind": "transformer", "size": 16, "heads": 2, "feedforward": 24, "layers": 2, "order": "post"}
TEXTS = sentences("source", 5, 200)
ODD = [
    "",
    "  ",
    " ka  mi ",
    "\tka\u00a0mi",
    "ＡＢＣ ﬁ é e\u0301",
    "Ωмир漢字 ka",
    "<unk> </s> <s> <pad>",
    "▁ka",
    "x" * 50,
    "ou",
]


def tied(tie: str) -> dict[str, Any]:
    return {"encoder": POST, "decoder": {**POST, "layers": 1, "heads": 4, "feedforward": 20}, "tie": tie}


def run(folder: Path, tokens: str, model: dict[str, Any], *, shared: bool, end: float = 2.0) -> Generator:
    """A model folder with random weights; `end` makes </s> likely, so that answers end."""
    lines = [*sentences("source", 1, 200), *sentences("target", 1, 200)]
    cut = TextConfig.model_validate({"tokens": tokens, "vocabulary": 320})
    source = train_tokenizer(lines if shared else lines[:200], cut)
    target = source if shared else train_tokenizer(lines[200:], cut)
    data = {"train": "pairs.tsv", "shared_vocabulary": shared, "source": {"tokens": tokens}}
    data["target"] = {"tokens": tokens, "column": 1}
    config = Config.model_validate({"data": data, "model": model, "decoding": {"max_length": 12, "beam": 1}})
    torch.manual_seed(4)
    made = build_model(config.model, source_tokens=source.size, target_tokens=target.size)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
        made.decoder.output.bias[EOS] += end
        made.decoder.output.bias[[PAD, SOS, UNK]] += 2.0  # never to be said
    save_model(folder, config, made.state_dict(), source, target)
    return Generator(open_model(folder, "float32"))


def padded(tokenizer: Tokenizer, texts: list[str]) -> dict[str, Tensor]:
    """Ids for transformers, each with </s>."""
    batch = source_batch([tokenizer.encode(text) for text in texts])
    return {"input_ids": batch.values, "attention_mask": batch.mask.long()}


def logits(generator: Generator, texts: list[str], inputs: Tensor) -> Tensor:
    """Teacher forcing [B, T, V]."""
    with torch.no_grad():
        found = generator.model(source_batch([generator.source_tokenizer.encode(text) for text in texts]), inputs)
    answer: Tensor = found.logits
    return answer


@pytest.mark.parametrize(
    ("tokens", "tie", "shared"),
    [("bpe", "all", True), ("unigram", "tables", True), ("bpe", "output", False), ("words", "none", False)],
)
def test_an_export_says_the_same(tmp_path: Path, tokens: str, tie: str, shared: bool) -> None:
    ours = run(tmp_path / "run", tokens, tied(tie), shared=shared)
    export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    theirs = hugging_face("MarianMTModel").from_pretrained(tmp_path / "out").eval()
    batch = padded(ours.source_tokenizer, TEXTS)
    size = ours.target_tokenizer.size
    inputs = torch.randint(EOS + 2, size, (200, 6), generator=torch.Generator().manual_seed(1))
    inputs[:, 0] = SOS
    with torch.no_grad():
        found = theirs(**batch, decoder_input_ids=inputs).logits
    torch.testing.assert_close(found, logits(ours, TEXTS, inputs), atol=1e-4, rtol=0)
    greedy = [answer.text for answer in ours.generate(TEXTS, weights=False)]
    assert [ours.target_tokenizer.decode(row) for row in theirs.generate(**batch).tolist()] == greedy
    assert len(set(greedy)) > 10


def test_a_beam_finds_the_same(tmp_path: Path) -> None:
    """Of answers that end: what max_length cuts competes there with what has ended, here it does not."""
    ours = run(tmp_path / "run", "bpe", tied("output"), shared=False, end=4.0)
    export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    theirs = hugging_face("MarianMTModel").from_pretrained(tmp_path / "out").eval()
    batch = padded(ours.source_tokenizer, TEXTS)
    found = theirs.generate(
        **batch, num_beams=4, early_stopping=True, max_length=21, return_dict_in_generate=True, output_scores=True
    )
    answers = ours.generate(TEXTS, beam=4, patience=1.0, max_length=20, weights=False)
    rows = list(zip(found.sequences.tolist(), found.sequences_scores.tolist(), answers, strict=True))
    ended = [row for row in rows if EOS in row[0] and not row[2].flags]
    same = [row for row in ended if ours.target_tokenizer.decode(row[0]) == row[2].text]
    assert len(same) >= 0.99 * len(ended)
    assert len(ended) > 100
    assert [score for _, score, _ in same] == pytest.approx([one.score for _, _, one in same], abs=1e-3)


def test_an_export_is_used_as_a_run_is(tmp_path: Path) -> None:
    ours = run(tmp_path / "run", "bpe", tied("all"), shared=True)
    folder = export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    again = Generator(open_model(folder, "float32"))
    for name, tensor in again.model.state_dict().items():
        assert torch.equal(tensor, ours.model.state_dict()[name]), name
    [mine], [other] = (one.score([("ka mi", "be lin")]) for one in (ours, again))
    assert mine == other
    heads = again.generate("ka mi", heads=True).heads
    assert heads is not None
    assert heads.cross is not None


@pytest.mark.parametrize("tokens", ["bpe", "unigram"])
def test_transformers_reads_our_tokenizer(tmp_path: Path, tokens: str) -> None:
    ours = run(tmp_path / "run", tokens, tied("all"), shared=True).source_tokenizer
    export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    theirs = hugging_face("AutoTokenizer").from_pretrained(tmp_path / "out")
    for text in [*TEXTS, *(text for text in ODD if "<" not in text)]:
        ids = [*ours.encode(text), EOS]
        assert theirs(text).input_ids == ids
        assert theirs.decode(ids, skip_special_tokens=True) == ours.decode(ids)
    assert (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id, theirs.unk_token_id) == (0, 1, 2, 3)


def test_two_vocabularies_have_no_tokenizer_there(tmp_path: Path) -> None:
    run(tmp_path / "run", "words", tied("none"), shared=False)
    folder = export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    assert not (folder / "tokenizer.json").exists()
    [_, note] = json.loads((folder / "export.json").read_text())["facts"]["notes"]
    assert "takes and returns ids" in note


@pytest.mark.parametrize(
    ("changes", "reasons"),
    [
        ({"encoder": {"order": "pre"}}, ["model.encoder.order: pre, but Marian has only post"]),
        ({"decoder": {"positions": "learnt"}}, ["model.decoder.positions: learnt, but Marian has only sinusoidal"]),
        (
            {"encoder": {"norm": "batch", "activation": "gelu"}},
            ["model.encoder.norm: batch", "model.encoder.activation: gelu, but the decoder has relu"],
        ),
        ({"encoder": {"ngrams": [3]}}, ["model.encoder.ngrams: [3], but Marian reads tokens only"]),
        ({"encoder": {"embedding_norm": True}}, ["model.encoder.embedding_norm: True, but Marian has only False"]),
    ],
)
def test_what_marian_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], reasons: list[str]) -> None:
    model = tied("none")
    run(
        tmp_path / "run",
        "words",
        {**model, **{side: {**model[side], **more} for side, more in changes.items()}},
        shared=False,
    )
    with pytest.raises(UserError) as refused:
        export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    assert len(refused.value.problems) == len(reasons)
    assert all(problem.startswith(reason) for problem, reason in zip(refused.value.problems, reasons, strict=True))
    assert not (tmp_path / "out").exists()


def test_a_round_trip_is_equal(tmp_path: Path) -> None:
    ours = run(tmp_path / "run", "bpe", tied("all"), shared=True)
    export_model(tmp_path / "run", "huggingface", tmp_path / "out")
    api.import_model(tmp_path / "out", tmp_path / "back")
    again = Generator(load_model(tmp_path / "back"))
    assert again.config.model == ours.config.model
    assert again.config.decoding == ours.config.decoding
    assert again.source_tokenizer.fingerprint == ours.source_tokenizer.fingerprint
    for name, tensor in again.model.state_dict().items():
        assert torch.equal(tensor, ours.model.state_dict()[name]), name


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("unigram", {}),
        ("bpe", {}),
        ("unigram", {"byte_fallback": True, "vocab_size": 400}),
        ("unigram", {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}),
        ("unigram", {"user_defined_symbols": ["tor", "<x>"], "add_dummy_prefix": False}),
    ],
)
def test_pieces_are_those_of_sentencepiece(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    (tmp_path / "one.spm").write_bytes(content := spm("source", model_type=kind, **options))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=content)
    found, inner = convert_sentencepiece(read_sentencepiece(tmp_path / "one.spm"))
    assert found == kind
    for text in [*TEXTS, *ODD, "aqq漢ka", "<x>tor"]:
        expected = theirs.encode(text, out_type=str)
        known = [piece if theirs.piece_to_id(piece) != theirs.unk_id() else UNKNOWN for piece in expected]
        assert [piece if piece in inner.get_vocab() else UNKNOWN for piece in inner.encode(text).tokens] == known


def renamed(tokenizer: Tokenizer, names: dict[str, int]) -> Tensor:
    """For each of their ids the one it has here."""
    here = {name: number for number, name in enumerate([*SPECIALS, *tokenizer.content()["pieces"]])}
    return torch.tensor([here[name] for name, _ in sorted(names.items(), key=lambda item: item[1])])


def compare(theirs: Any, ours: Generator, batch: Any, texts: list[str], names: dict[str, int]) -> None:  # noqa: ANN401
    """Logits and probabilities, teacher-forced."""
    places, size = renamed(ours.target_tokenizer, names), len(names)
    inputs = torch.randint(4, size - 1, (len(texts), 6), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        inputs[:, 0] = theirs.config.decoder_start_token_id
        expected = theirs(
            input_ids=batch.input_ids, attention_mask=batch.attention_mask, decoder_input_ids=inputs
        ).logits
    known = places[inputs]
    known[:, 0] = SOS
    found = logits(ours, texts, known)
    torch.testing.assert_close(found[..., places], expected, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.log_softmax(-1)[..., places], expected.log_softmax(-1), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("kind", "options", "tie"),
    [("unigram", {}, "all"), ("bpe", {"scale_embedding": False, "activation_function": "gelu", "seed": 5}, "all")],
)
def test_marian_is_imported_with_its_tokenizers(tmp_path: Path, kind: str, options: dict[str, Any], tie: str) -> None:
    theirs = marian(tmp_path / "opus", kind, **options)
    api.import_model(tmp_path / "opus", tmp_path / "model")
    ours, cut = api.load(tmp_path / "model", precision="float32"), marian_tokenizer(tmp_path / "opus")
    assert ours.config.model.tie == tie
    texts = [*TEXTS, *(f">>xyz<< {text}" for text in TEXTS[:5]), "Ωмир漢字 ka ou", ">>abc<< ka"]
    batch = cut(texts, return_tensors="pt", padding=True)
    rows = [cut.convert_ids_to_tokens(row[row != cut.pad_token_id]) for row in batch.input_ids]
    ids = ours.source_tokenizer.encode_batch(texts)
    assert [ours.source_tokenizer.symbols([*row, EOS]) for row in ids] == rows
    assert ids == [ours.source_tokenizer.encode(text) for text in texts]
    for text in sentences("target", 6, 200):
        pieces = ours.target_tokenizer.encode(text)
        assert ours.target_tokenizer.symbols([*pieces, EOS]) == cut.convert_ids_to_tokens(
            cut(text_target=text).input_ids
        )
        assert ours.target_tokenizer.decode(pieces) == text
    names = json.loads((tmp_path / "opus" / "vocab.json").read_text())
    compare(theirs, ours, batch, texts, names)
    silent = [names["<pad>"], names["<unk>"]]
    said = theirs.generate(**batch, max_length=15, suppress_tokens=silent)
    expected = [cut.decode(row, skip_special_tokens=True, use_source_tokenizer=False) for row in said]
    answers = [answer.text for answer in ours.generate(texts, beam=1, max_length=14, weights=False)]
    assert answers == expected
    assert len(set(answers)) > 10


def test_marian_with_two_vocabularies_in_several_files(tmp_path: Path) -> None:
    theirs, source, target = marian_apart(tmp_path / "opus")
    assert len(list((tmp_path / "opus").glob("model-*.safetensors"))) > 1
    api.import_model(tmp_path / "opus", tmp_path / "model")
    ours = api.load(tmp_path / "model", precision="float32")
    assert (ours.config.model.tie, ours.config.data.shared_vocabulary) == ("none", False)
    here, there = renamed(ours.source_tokenizer, source), renamed(ours.target_tokenizer, target)
    read = torch.randint(3, len(source), (9, 7), generator=torch.Generator().manual_seed(1))
    read[:, -1] = source["</s>"]
    said = torch.randint(3, len(target), (9, 6), generator=torch.Generator().manual_seed(2))
    said[:, 0] = theirs.config.decoder_start_token_id
    known = there[said]
    known[:, 0] = SOS
    with torch.no_grad():
        expected = theirs(input_ids=read, decoder_input_ids=said).logits
        found = ours.model(source_batch(here[read[:, :-1]].tolist()), known).logits
    torch.testing.assert_close(found[..., there], expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("fast", "options"), [(True, {}), (False, {"scale_embedding": True, "activation_function": "relu"})]
)
def test_bart_is_imported_with_its_tokenizer(tmp_path: Path, fast: bool, options: dict[str, Any]) -> None:
    theirs = bart(tmp_path / "bart", fast=fast, **options)
    api.import_model(tmp_path / "bart", tmp_path / "model")
    ours, cut = (
        api.load(tmp_path / "model", precision="float32"),
        hugging_face("BartTokenizer").from_pretrained(tmp_path / "bart"),
    )
    texts = [*TEXTS, *(text for text in ODD if text and "<" not in text)]
    batch = cut(texts, return_tensors="pt", padding=True)
    places = renamed(ours.source_tokenizer, cut.get_vocab())
    expected = [places[row[row != cut.pad_token_id]].tolist() for row in batch.input_ids]
    assert [[*ours.source_tokenizer.encode(text), EOS] for text in texts] == expected
    assert ours.source_tokenizer.decode(ours.source_tokenizer.encode(" ka  mi")) == " ka  mi"
    compare(theirs, ours, batch, texts, cut.get_vocab())
    said = theirs.generate(**batch, max_length=15, num_beams=1, suppress_tokens=[cut.pad_token_id, cut.unk_token_id])
    answers = [answer.text for answer in ours.generate(texts, beam=1, max_length=14, weights=False)]
    assert answers == [cut.decode(row, skip_special_tokens=True) for row in said]
    assert len(set(answers)) > 10


def test_what_an_encoder_spells_with_is_left_behind(tmp_path: Path) -> None:
    """A run that was trained with model.ctc says the same once it is exported."""
    made = run(tmp_path / "run", "words", {**tied("none"), "ctc": 0.5}, shared=False)
    export = Generator(open_model(export_model(tmp_path / "run", "huggingface", tmp_path / "export"), "float32"))
    assert export.config.model.ctc == 0.0
    for text in TEXTS[:5]:
        assert export.generate(text).text == made.generate(text).text
