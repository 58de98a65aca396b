"""Parts and tokenizers of another run, on the command line: what does not fit is one sentence and exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from antiphon.cli.train import NOTHING_LEARNT

Command = Callable[..., Any]
OTHER_LETTERS = "e f\tf e\ng h\th g\ne e\te e\nf g h\th g f\n"


@pytest.fixture
def others(tmp_path: Path) -> Path:
    """Pairs of other letters."""
    path = tmp_path / "others.tsv"
    path.write_text(OTHER_LETTERS * 3)
    return path


def notices(text: str) -> list[str]:
    """The sentences that begin with a key: a program's name stands before each."""
    lines = [line.removeprefix("antiphon: ") for line in text.split("\n")]
    return [line for line in lines if line.startswith(("model.", "data."))]


@pytest.mark.parametrize("verb", ["check", "train"])
def test_a_part_of_another_shape(verb: str, antiphon: Command, tiny: Path, model: str, tmp_path: Path) -> None:
    options = [f"model.encoder.from={model}", "model.encoder.size=8", f"model.decoder.from={model}"]
    out = ["--out", str(tmp_path / "run")] if verb == "train" else []
    ended = antiphon(verb, str(tiny), *options, *out)
    assert ended.code == 2
    sentences = notices(ended.err)
    assert sentences[0] == f"model.encoder.size: 8, but {model} has 16; set it to 16"
    assert sentences[1].startswith(f"model.decoder.from: decoder.stack.network.weight_ih_l0 is [48, 48] in {model}")
    assert "and [48, 32] here" in sentences[1]
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("verb", ["check", "train"])
def test_a_part_of_another_vocabulary(
    verb: str, antiphon: Command, tiny: Path, model: str, others: Path, tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path / "run")] if verb == "train" else []
    ended = antiphon(verb, str(tiny), f"data.train={others}", f"model.decoder.from={model}", *out)
    assert ended.code == 2
    assert notices(ended.err) == [
        f"model.decoder.from: {model} has 8 tokens, the target here 8, and the vocabularies differ; "
        f"set data.target.tokenizer to {model}"
    ]


def test_the_remedy_works(antiphon: Command, tiny: Path, model: str, few: Path, tmp_path: Path) -> None:
    """The vocabulary of fewer pairs is another; with the tokenizer of the run it is the same."""
    few_letters = tmp_path / "few.tsv"
    few_letters.write_text("".join(line for line in few.read_text().splitlines(keepends=True) if "d" not in line))
    options = [f"data.train={few_letters}", f"model.decoder.from={model}", f"data.target.tokenizer={model}"]
    refused = antiphon("check", str(tiny), *options[:2])
    assert refused.code == 2
    assert f"set data.target.tokenizer to {model}" in refused.err
    ended = antiphon("check", str(tiny), *options)
    assert ended.code == 0, ended.err
    [copied] = [line for line in ended.lines if line.startswith(f"model.decoder.from: {model}: ")]
    assert copied.endswith("tensors copied")
    run = tmp_path / "run"
    trained = antiphon("train", str(tiny), *options, "model.decoder.freeze=true", "--out", str(run))
    assert trained.code in (0, NOTHING_LEARNT), trained.err
    before, after = (load_file(Path(folder) / "model.safetensors") for folder in (model, run))
    names = [name for name in before if name.startswith("decoder.")]
    assert names
    assert all(before[name].equal(after[name]) for name in names)


@pytest.mark.parametrize("verb", ["check", "train"])
def test_runs_that_are_not_there(verb: str, antiphon: Command, tiny: Path, tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run")] if verb == "train" else []
    ended = antiphon(verb, str(tiny), "model.encoder.from=runs/none", *out)
    assert ended.code == 2
    [sentence] = notices(ended.err)
    assert sentence.startswith("model.encoder.from: runs/none: no such folder; ")
    ended = antiphon(verb, str(tiny), "data.source.tokenizer=runs/none", *out)
    assert ended.code == 2
    assert notices(ended.err) == [
        "data.source.tokenizer: runs/none: no such folder; give a run that has been trained, or null"
    ]


def test_check_says_all_of_it_at_once(antiphon: Command, tiny: Path) -> None:
    ended = antiphon("check", str(tiny), "data.target.tokenizer=a", "model.encoder.from=b", "data.train=c.tsv")
    assert ended.code == 2
    assert [words in ended.err for words in ("c.tsv: no such file", "tokenizer: a: no", "from: b: no")] == [True] * 3


def test_a_tokenizer_at_odds_with_the_rest(antiphon: Command, tiny: Path, model: str) -> None:
    options = [f"data.source.tokenizer={model}", "data.source.tokens=characters", "data.source.vocabulary=99"]
    ended = antiphon("check", str(tiny), *options)
    assert ended.code == 2
    first, second = notices(ended.err)
    assert first.startswith(f"data.source.tokens: characters, but the tokenizer of {model} is one of words; ")
    assert second.startswith("data.source.vocabulary: 99 is for a tokenizer to be learnt")


def test_a_fresh_start_with_parts_that_do_not_fit_leaves_the_old_run(
    antiphon: Command, tiny: Path, model: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert antiphon("train", str(tiny), "--out", str(run)).code == 0
    before = (run / "model.safetensors").read_bytes()
    options = [f"model.encoder.from={model}", "model.encoder.size=8"]
    assert antiphon("train", str(tiny), *options, "--out", str(run), "--fresh").code == 2
    assert (run / "model.safetensors").read_bytes() == before
    itself = antiphon("train", str(tiny), f"model.encoder.from={run}", "--out", str(run), "--fresh")
    assert itself.code == 2
    assert f"model.encoder.from: {run} is the run that is being trained" in itself.err
    assert (run / "model.safetensors").read_bytes() == before
