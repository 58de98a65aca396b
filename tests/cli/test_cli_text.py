"""Language models from file to command line, on lines and on a stream."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from cli_calls import Ended, call

LINES = [f"{who} {does} the {what}." for who in ("Ann", "Bob") for does in ("sees", "hears") for what in ("dog", "cat")]
TEXT = """\
data: {train: TRAIN, dev: DEV, WINDOWtarget: {tokens: characters}}
model: {kind: language-model, decoder: {kind: plain, cell: gru, embedding: 16, size: 32, dropout: 0.0}}
training: {epochs: 6, batch_tokens: 128, learning_rate: 2e-2, schedule: {kind: cosine, warmup: 0}}
decoding: {beam: 1, max_length: 30, batch_size: 4}
"""


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "train.txt").write_text("\n\n".join(LINES * 4) + "\n")
    (folder / "dev.txt").write_text("\n\n".join(LINES[::3]) + "\n")
    return folder


def trained(files: Path, name: str, window: str) -> str:
    config = files / f"{name}.yaml"
    text = TEXT.replace("TRAIN", str(files / "train.txt")).replace("DEV", str(files / "dev.txt"))
    config.write_text(text.replace("WINDOW", window))
    ended = call("train", str(config), "--out", str(files / name))
    assert ended.code == 0, ended.err
    assert f"map {files / name} FILE, or open " in ended.err, "a recurrent network has no attention to explain"
    return str(files / name)


@pytest.fixture(scope="session")
def lines(files: Path) -> str:
    """A model of lines."""
    return trained(files, "lines", "")


@pytest.fixture(scope="session")
def stream(files: Path) -> str:
    """A model of the text as one stream."""
    return trained(files, "stream", "window: 16, ")


def sentences(ended: Ended) -> list[str]:
    assert ended.code == 2, ended.err
    assert ended.out == ""
    return [line.removeprefix("antiphon: ") for line in ended.err.split("\n")[:-1]]


def test_check_speaks_of_texts(antiphon, files: Path, lines: str, stream: str) -> None:  # noqa: ANN001
    found = antiphon("check", f"{lines}.yaml")
    assert found.lines[0] == "train: 32 texts; dev: 3 texts"
    assert found.lines[1].startswith("vocabulary: ")
    assert f"warning: 33 examples left out: 33 x empty line (first: {files / 'dev.txt'}, line 2)" in found.err
    found = antiphon("check", f"{stream}.yaml")
    tokens = len((files / "train.txt").read_text())
    assert found.lines[0] == f"train: a stream of {tokens:,} tokens in 63 lines; dev: 5 lines"
    assert "left out" not in found.err


@pytest.mark.parametrize("name", ["lines", "stream"])
def test_the_run_folder_speaks_of_texts(request: pytest.FixtureRequest, name: str) -> None:
    run = Path(request.getfixturevalue(name))
    samples = [json.loads(line) for line in (run / "samples.jsonl").read_text().split("\n")[:-1]]
    assert all(one["output"].startswith(one["source"]) and one["references"] == [] for one in samples)
    assert {len(one["source"]) for one in samples} <= set(range(1, 13))
    card = (run / "card.md").read_text()
    assert "Plain language model with" in card
    assert "antiphon score" in card
    assert "explain" not in card
    report = (run / "report.html").read_text()
    assert "<dt>prompt</dt>" in report
    assert "wrong" not in report.split("</style>")[1]
    assert not (run / "attention").exists()
    head = (run / "metrics.csv").read_text().split("\n")[0].split(",")
    assert {"dev_loss", "perplexity", "bits_per_character"} <= set(head)
    assert (run / "tokenizer.source.json").read_bytes() == (run / "tokenizer.target.json").read_bytes()


def test_generate_goes_on_where_a_line_ends(antiphon, lines: str) -> None:  # noqa: ANN001
    ended = antiphon("generate", lines, stdin=b"Ann se\n\nBob\nxAnn\n")
    assert [line[: len(prompt)] for line, prompt in zip(ended.lines, ("Ann se", "", "Bob", "xAnn"), strict=True)] == [
        "Ann se", "", "Bob", "xAnn"
    ]  # fmt: skip
    assert ended.lines[1] != "", "an empty prompt begins at <s>"
    assert "line 4: unknown symbols in the prompt: 'x' x 1" in ended.err
    one = json.loads(antiphon("generate", lines, "--json", stdin=b"Ann se\n").out)
    assert one["text"] == ended.lines[0]
    assert len(one["tokens"]) == len(one["log_probs"])


def test_a_stream_writes_lines(antiphon, stream: str) -> None:  # noqa: ANN001
    command = ["generate", stream, "--max-length", "60", "--sample", "--temperature", "2"]
    ended = antiphon(*command, stdin=b"Ann se\nBob\n")
    first, second = (json.loads(line)["text"] for line in antiphon(*command, "--json", stdin=b"Ann se\nBob\n").lines)
    assert "\n" in first + second
    assert ended.out == f"{first}\n\n{second}\n"
    assert (len(first), len(second)) == (66, 63)
    assert ended.err == "", "that there is no end is no news"


def test_sampling_depends_on_the_seed_and_the_text_only(antiphon, lines: str) -> None:  # noqa: ANN001
    stdin = b"Ann\n" * 40
    drawn = antiphon("generate", lines, "--sample", "--temperature", "1.5", stdin=stdin)
    assert len(set(drawn.lines)) > 10
    for options in (["--batch-size", "1"], ["--batch-size", "7"], ["--seed", "1"]):
        again = antiphon("generate", lines, "--sample", "--temperature", "1.5", *options, stdin=stdin)
        assert again.lines == drawn.lines
    mixed = antiphon("generate", lines, "--sample", "--temperature", "1.5", stdin=b"Bob\nAnn\n" * 40)
    assert mixed.lines[1::2] == drawn.lines
    other = antiphon("generate", lines, "--sample", "--temperature", "1.5", "--seed", "2", stdin=stdin)
    assert other.lines != drawn.lines
    best = antiphon("generate", lines, stdin=b"Ann\n").lines
    assert antiphon("generate", lines, "--sample", "--top-k", "1", stdin=b"Ann\n").lines == best
    assert antiphon("generate", lines, "--sample", "--top-p", "0.01", stdin=b"Ann\n").lines == best
    several = antiphon("generate", lines, "--sample", "--n-best", "3", stdin=b"Ann\nBob\n").lines
    assert [line.split("\t")[0] for line in several] == ["1", "1", "1", "2", "2", "2"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--temperature", "0.5"], "temperature: only with sample; add sample, or leave temperature out"),
        (["--top-k", "3"], "top_k: only with sample; add sample, or leave top_k out"),
        (
            ["--sample", "--beam", "3"],
            "beam: a beam of 3 looks for the most probable answer, sample draws one; leave one out",
        ),
        (
            ["--sample", "--temperature", "0"],
            "temperature: must be above 0, not 0; for greedy search leave sample out and set beam to 1",
        ),
        (["--sample", "--top-p", "2"], "top_p: must be above 0 and at most 1, not 2"),
        (["--prefix", "a"], "prefix: a language model continues the text; put the prefix at its end"),
    ],
)
def test_options_that_contradict(antiphon, lines: str, options: list[str], sentence: str) -> None:  # noqa: ANN001
    assert sentences(antiphon("generate", lines, *options, stdin=b"a\n")) == [sentence]


def test_sampling_is_for_every_model(antiphon, model: str) -> None:  # noqa: ANN001
    drawn = antiphon("generate", model, "--sample", "--temperature", "3", stdin=b"a b c\n" * 9).lines
    assert len(set(drawn)) > 3


@pytest.mark.parametrize("name", ["lines", "stream"])
def test_score_has_a_line_for_each_text(antiphon, request: pytest.FixtureRequest, files: Path, name: str) -> None:  # noqa: ANN001
    run = request.getfixturevalue(name)
    ended = antiphon("score", run, str(files / "dev.txt"))
    rows = [line.split("\t") for line in ended.lines]
    texts = (files / "dev.txt").read_text().split("\n")[:-1]
    assert [text for _, text, _ in rows] == (texts if name == "stream" else [text for text in texts if text])
    for total, text, each in rows:
        assert len(each.split()) == len(text) + 1
        assert float(total) == pytest.approx(sum(map(float, each.split())), abs=0.01)
    first = json.loads(antiphon("score", run, "--json", str(files / "dev.txt")).lines[0])
    assert set(first) == {"text", "log_prob", "tokens", "log_probs", "flags"}


@pytest.mark.parametrize("name", ["lines", "stream"])
def test_evaluate_says_how_surprised_it_is(antiphon, request: pytest.FixtureRequest, files: Path, name: str) -> None:  # noqa: ANN001
    run = request.getfixturevalue(name)
    metrics = ["loss", "perplexity", "word_perplexity", "bits_per_character"]
    options = [word for metric in metrics for word in ("--metric", metric)]
    found = json.loads(antiphon("evaluate", run, str(files / "dev.txt"), "--json", *options).out)
    values = {metric: found["metrics"][metric]["value"] for metric in metrics}
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"]))
    assert values["bits_per_character"] == pytest.approx(values["loss"] / math.log(2))
    assert found["unit"] == ("texts" if name == "lines" else "windows of 16 tokens")
    ended = antiphon("evaluate", run, str(files / "dev.txt"))
    assert [line.split()[0] for line in ended.lines] == ["perplexity", "bits_per_character"]
    assert values["perplexity"] < 12, "it has learnt something"
    last = [row for row in (Path(run) / "metrics.csv").read_text().split("\n") if row.endswith(",1")]
    assert f"{values['loss']:.4f}" in {f"{float(cell):.4f}" for cell in last[0].split(",")}, "dev is measured alike"


def test_what_cannot_be_evaluated(antiphon, lines: str, files: Path, tmp_path: Path) -> None:  # noqa: ANN001
    dev = str(files / "dev.txt")
    [sentence] = sentences(antiphon("evaluate", lines, dev, "--metric", "bleu"))
    assert sentence.startswith("metrics: bleu compares answers with references, and a language model has none; choose")
    [sentence] = sentences(antiphon("score", lines, dev, dev))
    assert "a language model reads one file of texts, not two side by side" in sentence
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    *_, sentence = antiphon("evaluate", lines, str(empty)).err.split("\n")[:-1]
    assert sentence.endswith("not one line can be used (2 x empty line); put one text on each line")


def test_check_finds_what_does_not_fit(antiphon, lines: str) -> None:  # noqa: ANN001
    found = sentences(antiphon("check", f"{lines}.yaml", "data.source={column: 0}", "training.metric=bleu"))
    assert [sentence.split(":")[0] for sentence in found] == ["data.source", "training.metric"]
    found = sentences(antiphon("check", f"{lines}.yaml", "model.decoder.size=none"))
    assert found[-1].startswith("model.decoder.size: ")
    assert not any("column" in sentence for sentence in found), "though half of it is broken, it is a language model's"


def test_init_proposes_a_language_model_for_plain_text(antiphon, files: Path, tmp_path: Path) -> None:  # noqa: ANN001
    out = tmp_path / "config.yaml"
    ended = antiphon("init", str(files / "train.txt"), "--out", str(out))
    assert "plain text in one column: a language model" in ended.err
    checked = antiphon("check", str(out))
    assert checked.code == 0, checked.err
