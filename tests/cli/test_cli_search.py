"""The options of a search, ensembles, the tree and the alternatives on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_generators import tiny_folder

from antiphon import api

LINES = ["a b c", "d", "", "b b a", "c a d b"]
STDIN = "".join(f"{line}\n" for line in LINES).encode()


def answers(antiphon, *arguments: str) -> list[dict[str, Any]]:  # noqa: ANN001
    ended = antiphon("generate", *arguments, "--json", stdin=STDIN)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.lines]


def test_options_together_say_what_the_library_says(antiphon, model: str) -> None:  # noqa: ANN001
    found = answers(
        antiphon, model, "--beam", "4", "--n-best", "2", "--min-length", "4", "--max-length", "7", "--no-repeat", "3",
        "--forbid", "a a", "--forbid", "b c", "--require", "d d", "--patience", "2", "--coverage", "0.5",
        "--length-penalty", "0.5",
    )  # fmt: skip
    expected = api.load(model).generate(
        LINES, beam=4, n_best=2, min_length=4, max_length=7, no_repeat=3, forbid=["a a", "b c"], require=["d d"],
        patience=2.0, coverage=0.5, length_penalty=0.5,
    )  # fmt: skip
    assert [answer["text"] for answer in found] == [answer.text for answer in expected]
    for line, answer in zip(LINES, found, strict=True):
        if line:
            assert "d d" in answer["text"]
            assert "a a" not in answer["text"]
            assert 4 <= len(answer["tokens"]) <= 7
        else:
            assert answer["text"] == ""


def test_the_precision_of_the_weights(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    """Both commands take it, and scores are those of the library with it; an export keeps its weights."""
    for precision in ("float32", "float16-weights"):
        loaded = api.load(model, precision=precision)  # type: ignore[arg-type]
        found = answers(antiphon, model, "--precision", precision)
        assert [answer["score"] for answer in found] == [answer.score for answer in loaded.generate(LINES)]
        (tmp_path / "pairs.tsv").write_text("a b c\tc b a\nd\td\n")
        ended = antiphon("evaluate", model, str(tmp_path / "pairs.tsv"), "--precision", precision)
        assert ended.code == 0, ended.err
    assert antiphon("generate", model, "--precision", "half").code == 2
    export = api.export_model(model, "onnx", tmp_path / "export")
    refused = antiphon("generate", str(export), "--precision", "float32")
    assert refused.code == 2
    assert "is an export to onnx, whose weights stay as they are; leave it out" in refused.err


def test_ratios_diversity_and_unknown_words(antiphon, model: str) -> None:  # noqa: ANN001
    found = answers(antiphon, model, "--min-ratio", "1.5", "--max-ratio", "2", "--replace-unknown")
    for line, answer in zip(LINES, found, strict=True):
        source = len(line.split()) + 1
        assert not line or int(1.5 * source) <= len(answer["tokens"]) <= 2 * source
    options = ("--beam", "4", "--n-best", "4", "--diversity", "30", "--groups", "4")
    diverse = answers(antiphon, model, *options)
    for answer in filter(lambda answer: answer["tokens"], diverse):
        assert len({other["tokens"][0] for other in answer["alternatives"]}) == 4


def test_samples_and_the_one_most_like_the_others(antiphon, model: str) -> None:  # noqa: ANN001
    drawing = ("--sample", "--temperature", "1.5", "--seed", "3")
    drawn = answers(antiphon, model, *drawing, "--n-best", "5")
    chosen = answers(antiphon, model, *drawing, "--mbr", "chrf", "--samples", "5")
    for one, other in zip(drawn, chosen, strict=True):
        texts = [[alternative["text"] for alternative in answer["alternatives"]] for answer in (one, other)]
        assert sorted(texts[0]) == sorted(texts[1])
        assert not texts[1] or other["text"] == texts[1][0]
    assert [answer["text"] for answer in drawn] != [answer["text"] for answer in chosen]
    assert len(answers(antiphon, model, *drawing, "--mbr", "bleu")[0]["alternatives"]) == 16
    lines = antiphon("generate", model, *drawing, "--mbr", "chrf", "--samples", "5", stdin=STDIN).lines
    assert lines == [answer["text"] for answer in chosen]
    listed = antiphon("generate", model, *drawing, "--mbr", "chrf", "--n-best", "2", stdin=b"a b\n").lines
    assert len(listed) == 2


@pytest.fixture
def other(model: str, tmp_path: Path) -> str:
    """The same run, nudged: it says other things."""
    loaded = api.load(model)
    weights = {name: value * 1.5 for name, value in loaded.model.state_dict().items()}
    from antiphon.model_folder import save_model

    save_model(tmp_path / "other", loaded.config, weights, loaded.source_tokenizer, loaded.target_tokenizer)
    return str(tmp_path / "other")


def test_runs_together(antiphon, model: str, other: str, tmp_path: Path) -> None:  # noqa: ANN001
    """Twice the same run is that run; two runs say what the library's ensemble says."""
    alone, twice = answers(antiphon, model), answers(antiphon, model, "--with", model)
    assert [answer["text"] for answer in twice] == [answer["text"] for answer in alone]
    scores = {}
    for mean in ("arithmetic", "geometric"):
        found = answers(antiphon, model, "--with", other, "--combine", mean)
        expected = api.load([model, other], combine=mean).generate(LINES)  # type: ignore[arg-type]
        assert [answer["text"] for answer in found] == [answer.text for answer in expected]
        scores[mean] = [round(answer["score"], 4) for answer in found]
    assert scores["arithmetic"] != scores["geometric"]
    assert [round(one["score"], 4) for one in answers(antiphon, model, "--with", other)] == scores["arithmetic"]
    refused = antiphon("generate", model, "--with", tiny_folder("bahdanau", tmp_path / "tiny"), stdin=STDIN)
    assert (refused.code, refused.out) == (2, "")
    assert "model 2 has a different source vocabulary from the first; an ensemble needs the same" in refused.err
    assert "model 2 has a different target vocabulary from the first; an ensemble needs the same" in refused.err


@pytest.mark.parametrize(
    ("option", "wish"), [("--no-repeat", {"no_repeat": 1}), ("--length-penalty", {"length_penalty": 0.0})]
)
def test_evaluated_is_what_generate_would_say(
    antiphon,  # noqa: ANN001
    model: str,
    tmp_path: Path,
    option: str,
    wish: dict[str, Any],
) -> None:
    pairs, lines = tmp_path / "pairs.tsv", [line for line in [*LINES, "a a a a", "d b d b d"] if line]
    said = api.load(model).generate(lines, **wish)
    assert [answer.text for answer in said] != [answer.text for answer in api.load(model).generate(lines)]
    pairs.write_text("".join(f"{line}\t{answer.text}\n" for line, answer in zip(lines, said, strict=True)))
    right = []
    for options in ([], [option, str(*wish.values())]):
        ended = antiphon("evaluate", model, str(pairs), "--json", "--metric", "exact_match", *options)
        right.append(json.loads(ended.out)["metrics"]["exact_match"]["value"])
    assert right[0] < right[1] == 100
    refused = antiphon("evaluate", model, str(pairs), "--metric", "loss", option, "1")
    assert refused.code == 2
    assert "nothing is decoded for loss; leave it out" in refused.err


def test_runs_are_evaluated_together(antiphon, model: str, other: str, tmp_path: Path) -> None:  # noqa: ANN001
    """Compared is what the ensemble says; the loss is its own, too."""
    pairs, metrics = tmp_path / "pairs.tsv", ["--metric", "exact_match", "--metric", "loss"]
    together = api.load([model, other], combine="geometric")
    pairs.write_text(
        "".join(f"{line}\t{answer.text}\n" for line, answer in zip(LINES, together.generate(LINES), strict=True))
    )
    found = {}
    for name, options in {
        "alone": [],
        "both": ["--with", other, "--combine", "geometric"],
        "mixed": ["--with", other],
    }.items():
        ended = antiphon("evaluate", model, str(pairs), "--json", *metrics, *options)
        assert ended.code == 0, ended.err
        found[name] = {metric: estimate["value"] for metric, estimate in json.loads(ended.out)["metrics"].items()}
    assert found["both"]["exact_match"] == 100
    assert len({round(values["loss"], 6) for values in found.values()}) == 3
    refused = antiphon("evaluate", model, str(pairs), "--combine", "geometric")
    assert refused.code == 2
    assert "--combine: only for several runs; add --with RUN" in refused.err


@pytest.mark.parametrize(
    ("arguments", "sentences"),
    [
        (["--mbr", "chrf"], ["mbr: only with sample; add sample, or leave mbr out"]),
        (["--samples", "4"], ["samples: only with mbr; add mbr, or leave samples out"]),
        (["--combine", "geometric"], ["--combine: only for several runs; add --with RUN, or leave it out"]),
        (
            ["--weights", "--samples", "4", "--top-k", "2", "--combine", "arithmetic"],
            [
                "--weights: only in JSON",
                "samples: only with mbr",
                "top_k: only with sample",
                "--combine: only for several",
            ],
        ),
        (["--groups", "2"], ["groups: only with diversity; add diversity, or leave groups out"]),
        (["--diversity", "1"], ["groups: 2 groups cannot share a beam of 3 evenly; give a divisor"]),
        (
            ["--max-ratio", "nan", "--patience", "inf", "--coverage", "-1"],
            [
                "max_ratio: must be a finite number",
                "patience: must be a finite number",
                "coverage: must be at least 0",
            ],
        ),
        (["--require", "é", "--forbid", ""], ["require 'é': the model does not know 'é'", "forbid: an empty phrase"]),
        (["--require", "a b", "--forbid", "b"], ["forbid: a phrase in it is part of one that require asks for"]),
        (["--beam", "99"], ["beam: 99 is more than the 8 tokens that the model knows; give at most 8"]),
        (["--min-length", "9"], ["min_length: 9 is more than max_length 8; change one of them"]),
    ],
    ids=str,
)
def test_contradictions_exit_with_2(antiphon, model: str, arguments: list[str], sentences: list[str]) -> None:  # noqa: ANN001
    refused = antiphon("generate", model, *arguments, stdin=STDIN)
    assert (refused.code, refused.out) == (2, "")
    assert all(sentence in refused.err for sentence in sentences)
    assert "Traceback" not in refused.err


def test_the_tree_as_text(antiphon, model: str) -> None:  # noqa: ANN001
    """`*` marks the way that won, and its tokens are the answer's."""
    answer = json.loads(antiphon("generate", model, "--json", "--beam", "3", stdin=b"a b c\n").out)
    ended = antiphon("explain", model, "a b c", "--tree", "--beam", "3", "--pruned", "2")
    assert ended.code == 0
    assert [line.split()[1] for line in ended.lines if line.startswith("*")] == answer["tokens"]
    kept, dropped = ([line for line in ended.lines if line.startswith(mark)] for mark in (" ", "x"))
    assert kept
    assert dropped
    without = antiphon("explain", model, "a b c", "--tree", "--beam", "3", "--pruned", "0").lines
    assert without == [line for line in ended.lines if not line.startswith("x")]
    winning = ended.lines[[line.startswith("*") for line in ended.lines].index(True)]
    assert winning.endswith(f"{answer['log_probs'][0]:.2f}  sum {answer['log_probs'][0]:.2f}")
    assert "the sum of log p so far, which decides what is pruned" in ended.err


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_tree_as_a_picture(antiphon, model: str, tmp_path: Path, suffix: str) -> None:  # noqa: ANN001
    path = tmp_path / f"tree.{suffix}"
    ended = antiphon("explain", model, "a b c", "--tree", "--out", str(path))
    assert (ended.code, ended.out, ended.err) == (0, "", f"antiphon: wrote {path}\n")
    if suffix == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        text, found = path.read_text(encoding="utf-8"), api.load(model).tree("a b c")
        assert set(found.symbols) >= {"</s>"}
        for symbol in {"<s>", *found.symbols}:
            assert symbol.replace("<", "&lt;").replace(">", "&gt;") in text


def test_a_trace_is_drawn_again_without_the_model(antiphon, model: str, tmp_path: Path) -> None:  # noqa: ANN001
    trace, search = tmp_path / "trace.json", ("explain", model, "a b c", "--tree", "--beam", "3", "--pruned", "2")
    ended = antiphon(*search, "--out", str(trace))
    assert (ended.code, ended.out, ended.err) == (0, "", f"antiphon: wrote {trace}\n")
    assert antiphon("explain", str(trace)).out == antiphon(*search).out
    antiphon(*search, "--out", str(tmp_path / "first.svg"))
    assert antiphon("explain", str(trace), "--tree", "--out", str(tmp_path / "again.svg")).code == 0
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "first.svg").read_bytes()
    for arguments, sentence in (
        (["a b c"], "leave out all others but --out"),
        (["--beam", "2"], "leave out all others but --out"),
        (["--out", str(tmp_path / "x.gif")], "PNG, SVG or JSON can be written"),
    ):
        refused = antiphon("explain", str(trace), *arguments)
        assert (refused.code, refused.out) == (2, "")
        assert sentence in refused.err
    missing = antiphon("explain", str(tmp_path / "no.json"))
    assert (missing.code, missing.err) == (
        2, f"antiphon: {tmp_path}/no.json: cannot be read (No such file or directory); "
        "give the trace of a search\n",
    )  # fmt: skip
    assert "PNG or SVG can be written" in antiphon("explain", model, "a", "--out", str(tmp_path / "x.json")).err


def test_what_else_could_stand_there(antiphon, model: str) -> None:  # noqa: ANN001
    ended = antiphon("explain", model, "a b c", "--at", "2")
    assert (ended.code, ended.err) == (0, "")
    choices = api.load(model).alternatives("a b c", 1)
    assert [line.split("\t") for line in ended.lines] == [
        [f"{choice.probability:.4f}", choice.token, choice.text] for choice in choices
    ]
    assert len(choices) == 5


@pytest.mark.parametrize(
    ("arguments", "sentences"),
    [
        (["a", "--tree", "--at", "1"], ["--tree and --at: one at a time; leave one out"]),
        (["a", "--pruned", "2"], ["--pruned: only for --tree; add it, or leave it out"]),
        (["a", "--at", "1", "--beam", "2"], ["--at: it follows the greedy answer; leave out --beam"]),
        (
            ["a", "--at", "1", "--out", "x.png", "--layer", "1"],
            ["--at: the list goes to stdout; leave out --out", "--attention, --layer, --head: they choose"],
        ),
        (["--tree"], ["TEXT: it is missing; give a text, or --positions"]),
        (["--positions", "--out", "x.png", "--tree"], ["--positions: they are the same for every search"]),
        (["a", "--tree", "--out", "x.gif"], ["x.gif"]),
        (["a", "--at", "99"], ["position: the answer has"]),
        (["", "--tree"], ["empty source; there is nothing to search for"]),
        (["a", "--tree", "--beam", "99"], ["beam: 99 is more than the 8 tokens that the model knows"]),
    ],
    ids=str,
)
def test_explain_refuses_with_2(antiphon, model: str, arguments: list[str], sentences: list[str]) -> None:  # noqa: ANN001
    refused = antiphon("explain", model, *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert all(sentence in refused.err for sentence in sentences)
