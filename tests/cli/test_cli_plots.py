"""explain and map, on a model of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from tiny_generators import MODELS, tiny_folder

from antiphon.cli.train import NOTHING_LEARNT

Folders = Callable[[str], str]
SVG_TEXT = re.compile(r"<!-- (.*?) -->")
LINES = [" ".join(letters) for length in (1, 2) for letters in product("abcdefgh", repeat=length)]
TEXTS = [" ".join(letters) for length in (1, 2) for letters in product("KLMNO", repeat=length)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The model folder of a kind, made when first asked for."""
    root = tmp_path_factory.mktemp("models")
    return lambda kind: str(root / kind) if (root / kind).exists() else tiny_folder(kind, root / kind)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lines") / "lines.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@pytest.mark.parametrize("kind", ["bahdanau", "transformer", "mixed", "transformer-concatenated", "transformer-lm"])
def test_explain_every_model_with_attention(antiphon, folder: Folders, kind: str, tmp_path: Path) -> None:  # noqa: ANN001
    text = "K L M" if kind == "transformer-lm" else "a b c"
    drawn = antiphon("explain", folder(kind), text)
    assert drawn.code == 0, drawn.err
    assert any(shade in drawn.out for shade in "░▒▓█")
    ended = antiphon("explain", folder(kind), text, "--out", str(tmp_path / "a.png"))
    assert (ended.code, ended.lines) == (0, drawn.lines[:1])
    assert f"wrote {tmp_path / 'a.png'}" in ended.err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_the_terminal_shows_the_mean_or_one_head(antiphon, folder: Folders) -> None:  # noqa: ANN001
    mean = antiphon("explain", folder("transformer"), "a b c")
    assert "cross attention, the mean over 3 layers and 2 heads" in mean.err
    one = antiphon("explain", folder("transformer"), "a b c", "--layer", "3", "--head", "2")
    assert "mean" not in one.err
    assert one.lines[0] == mean.lines[0]
    assert one.lines[2:] != mean.lines[2:]
    layer = antiphon("explain", folder("transformer"), "a b c", "--layer", "3")
    assert "the mean over 2 heads;" in layer.err
    own = antiphon("explain", folder("transformer"), "a b c", "--attention", "own")
    assert own.lines[1].split()[0] == "<s>"
    recurrent = antiphon("explain", folder("bahdanau"), "a b c")
    assert "attention" not in recurrent.err


def test_the_picture_shows_what_was_chosen(antiphon, folder: Folders, tmp_path: Path) -> None:  # noqa: ANN001
    path = tmp_path / "a.svg"
    options = ["--attention", "source", "--layer", "2", "--out", str(path)]
    assert antiphon("explain", folder("transformer"), "a b c", *options).code == 0
    texts = SVG_TEXT.findall(path.read_text())
    assert {"a b c   (layer 2)", "layer 2", "head 1", "head 2"} <= {*texts}
    assert "layer 1" not in texts


@pytest.mark.parametrize("kind", ["transformer", "convolutions", "transformer-lm"])
def test_positions(antiphon, folder: Folders, kind: str, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("explain", folder(kind), "--positions", "--out", str(tmp_path / "p.png"))
    assert (ended.code, ended.out) == (0, "")
    assert "positions of 8 dimensions" in ended.err
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("static", ["a b"], "model.context.kind: last is one context for the whole answer, so there is no attention"),
        ("rnn-lm", ["K L"], "model.decoder.kind: plain is a recurrent network"),
        ("bahdanau", ["a", "--attention", "own"], "attention: this model has no attention of the kind own; choose"),
        ("transformer", ["a", "--layer", "4"], "layer: 4, but there are 3 in this attention; give 1 to 3"),
        ("transformer", [], "TEXT: it is missing; give a text, or --positions"),
        ("transformer", [""], "'': empty source; there is nothing to draw"),
        ("transformer", ["--positions"], "--positions: it cannot be shown in a terminal; add --out positions.png"),
        ("transformer", ["a", "--positions", "--out", "p.png"], "--positions: they are the same for every text; "),
        ("bahdanau", ["a", "--beside", "x"], "--beside: it needs --out, and excludes --attention, --layer, --head, "),
        ("bahdanau", ["a", "--beside", "x", "--out", "p.png", "--tree"], "--beside: it needs --out"),
        ("bahdanau", ["--positions", "--out", "p.png"], "positions: this model reads in order and needs no"),
    ],
)
def test_explain_refusals(antiphon, folder: Folders, kind: str, arguments: list[str], words: str) -> None:  # noqa: ANN001
    ended = antiphon("explain", folder(kind), *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"antiphon: {words}")
    assert "Traceback" not in ended.err


def test_an_unknown_attention_is_wrong_usage(antiphon) -> None:  # noqa: ANN001
    ended = antiphon("explain", "nowhere", "a", "--attention", "across")
    assert ended.code == 2
    assert "'cross', 'own', 'source'" in ended.err


@pytest.mark.parametrize("kind", MODELS)
def test_map_every_model(antiphon, folder: Folders, kind: str, tmp_path: Path) -> None:  # noqa: ANN001
    """Two sentences lie apart as their points say, whatever the model is."""
    texts = TEXTS if kind.endswith("-lm") else LINES
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    ended = antiphon("map", folder(kind), str(tmp_path / "lines.txt"))
    assert ended.code == 0, ended.err
    rows = [line.split("\t") for line in ended.lines]
    assert [sentence for _, _, sentence in rows] == texts
    points = [(float(x), float(y)) for x, y, _ in rows]
    assert len({*points}) > len(points) / 2
    assert sum(x for x, _ in points) == pytest.approx(0, abs=0.01)
    usual = "mean" if kind in ("transformer", "mixed", "convolutions") else "last state"
    assert usual in ended.err
    assert "of the variance" in ended.err


@pytest.mark.parametrize("name", ["map.png", "map.svg"])
def test_map_writes_pictures(antiphon, folder: Folders, lines: Path, name: str, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("map", folder("bahdanau"), str(lines), "--out", str(tmp_path / name))
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.endswith(f"wrote {tmp_path / name}\n")
    text = (tmp_path / name).read_bytes().decode("latin-1")
    if name == "map.svg":
        shown = {*SVG_TEXT.findall(text)} & {*LINES}
        assert 5 < len(shown) <= len(LINES)
        assert "72 sentences of lines.txt: the last state of the encoder" in text


def test_the_pool_has_an_effect(antiphon, folder: Folders, lines: Path) -> None:  # noqa: ANN001
    made = {pool: antiphon("map", folder("bahdanau"), str(lines), "--pool", pool) for pool in ("last", "mean", "max")}
    assert [ended.code for ended in made.values()] == [0, 0, 0]
    assert len({ended.out for ended in made.values()}) == 3
    assert antiphon("map", folder("bahdanau"), str(lines)).out == made["last"].out


def test_map_reads_stdin_and_says_what_it_leaves_out(antiphon, folder: Folders, tmp_path: Path) -> None:  # noqa: ANN001
    piped = antiphon("map", folder("bahdanau"), "-", stdin="a b\n\nc ß\na b\n".encode())
    assert [line.split("\t")[2] for line in piped.lines] == ["a b", "c ß"]
    assert "'c ß': unknown symbols in the source: 'ß' x 1" in piped.err
    assert "stdin: left out 2 of 4 lines (1 x empty, 1 x duplicate)" in piped.err
    assert "left out" not in antiphon("map", folder("bahdanau"), "-", stdin=b"a b\nc\n").err
    long = " ".join("a" * 40)  # what is too long has two flags, and is one sentence
    (tmp_path / "many.tsv").write_text("".join(f"{line} ß {long}\tK\n" for line in LINES) + "\n")
    many = antiphon("map", folder("bahdanau"), str(tmp_path / "many.tsv"))
    assert many.code == 0
    assert many.err.count("unknown symbols") == 20
    assert "52 more sentences are flagged" in many.err
    assert "line 73: empty line; left out" in many.err


def test_sentences_that_are_the_same_to_the_model(antiphon, folder: Folders) -> None:  # noqa: ANN001
    ended = antiphon("map", folder("bahdanau"), "-", stdin="ß\nü\n".encode())
    assert ended.code == 0
    assert "the last state of the encoder; these sentences are the same to the model" in ended.err


@pytest.mark.parametrize(
    ("kind", "arguments", "words"),
    [
        ("bahdanau", ["LINES", "--out", "map.html"], "map.html: PNG or SVG can be written; give a name that ends in"),
        ("bahdanau", ["LINES", "--out", "no/map.png"], "no/map.png: there is no folder no; make it first"),
        ("bahdanau", ["nowhere.txt"], "nowhere.txt: no such file"),
        ("bahdanau", ["ONE"], "ONE: a map needs at least two sentences that differ, got 1; give more"),
        ("bahdanau", ["EMPTY"], "EMPTY: not one line can be used"),
        ("rnn-concatenated", ["LINES", "--pool", "mean"], "pool: mean of the source's states cannot be had"),
    ],
)
def test_map_refusals(
    antiphon,  # noqa: ANN001
    folder: Folders,
    lines: Path,
    tmp_path: Path,
    kind: str,
    arguments: list[str],
    words: str,
) -> None:
    files = {"LINES": lines, "ONE": tmp_path / "one.txt", "EMPTY": tmp_path / "empty.txt"}
    files["ONE"].write_text("a b\na b\n")
    files["EMPTY"].write_text("\n \n")
    ended = antiphon("map", folder(kind), *(str(files.get(argument, argument)) for argument in arguments))
    assert (ended.code, ended.out) == (2, "")
    for name, path in files.items():
        words = words.replace(f"{name}:", f"{path}:")
    assert f"antiphon: {words}" in ended.err
    assert "Traceback" not in ended.err


BLOCKS = "{kind: transformer, size: 8, layers: 2, heads: 2, feedforward: 8}"
PLAIN = "{kind: plain, size: 8, embedding: 8}"
TRAINED = {  # a model, and the pictures that its training leaves
    "transformer": (f"encoder: {BLOCKS}, decoder: {BLOCKS}", ["1-heads", "1", "2-heads", "2", "3", "4"]),
    "bahdanau": ("encoder: {kind: gru, size: 8}", ["1", "2", "3", "4"]),
    "mixed": (f"encoder: {BLOCKS}, decoder: {PLAIN}", ["1-heads", "2-heads"]),
    "static": (f"encoder: {{kind: gru, size: 8}}, decoder: {PLAIN}", []),
    "lm": (f"kind: language-model, decoder: {BLOCKS}", []),
}


@pytest.mark.parametrize("kind", TRAINED)
def test_training_leaves_a_picture_of_every_attention(antiphon, pairs: Path, kind: str, tmp_path: Path) -> None:  # noqa: ANN001
    model, names = TRAINED[kind]
    config = f"""\
data: {{train: {pairs}, target: {{tokens: words, column: 1}}{"" if kind == "lm" else ", source: {tokens: words}"}}}
model: {{{model}}}
training: {{max_updates: 1{"" if kind == "lm" else ", dev_examples: 4"}}}
decoding: {{max_length: 5}}
evaluation: {{metrics: [loss]}}
"""
    (tmp_path / "config.yaml").write_text(config)
    ended = antiphon("train", str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run"))
    assert ended.code == NOTHING_LEARNT, ended.err
    assert sorted(path.stem for path in (tmp_path / "run").glob("attention/*.png")) == sorted(names)
    report, card = ((tmp_path / "run" / name).read_text() for name in ("report.html", "card.md"))
    assert ('class="gallery wide"' in report) == ("1-heads" in names)
    assert ("attention/1.png" in report) == ("1" in names)
    assert ("antiphon explain" in card) == bool(names)
    assert ("antiphon map" in card) == (kind == "static")
    following = f"map {tmp_path / 'run'} FILE" if kind == "static" else f"explain {tmp_path / 'run'} TEXT"
    assert f"{following}, or open " in ended.err
    command = following.replace("FILE", str(pairs)).replace("TEXT", "a").split()
    assert antiphon(*command).code == 0


def test_a_folder_that_is_no_model(antiphon, lines: Path, tmp_path: Path) -> None:  # noqa: ANN001
    ended = antiphon("map", str(tmp_path / "nowhere"), str(lines))
    assert ended.code == 2
    assert f"{tmp_path / 'nowhere'}: no such folder" in ended.err
