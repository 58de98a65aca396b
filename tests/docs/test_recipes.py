"""Every shipped recipe can be read, says what it costs and gives, and fits its data."""

from __future__ import annotations

import math
import re
import shlex
from itertools import islice
from pathlib import Path

import pytest
import torch

from antiphon.api import evaluate, load, train
from antiphon.config.load import read_config, recipe_names, recipe_text
from antiphon.config.schema import SourceConfig, TextConfig
from antiphon.config.sources import AudioConfig, FeaturesConfig, FramesConfig
from antiphon.data.build_source import train_tokenizer
from antiphon.data.pairs import DropLog, read_pairs
from antiphon.models.build import build_for

pytestmark = pytest.mark.usefixtures("no_pictures")
NAMES = recipe_names()
WITH_DATA = [name for name in NAMES if str(read_config(name).data.train).startswith("@")]
OF_TEXT = [name for name in WITH_DATA if isinstance(read_config(name).data.source, TextConfig)]


def header(name: str) -> dict[str, str]:
    """`#   cost     about a minute` and the like."""
    comments = [line for line in recipe_text(name).split("\n") if line.startswith("#   ")]
    return {found[1]: found[2] for line in comments if (found := re.fullmatch(r"# {3}(\w+) +(\S.*)", line))}


def width(source: SourceConfig) -> int:
    """The vocabulary size of a text, or the width of a vector."""
    if isinstance(source, TextConfig | FeaturesConfig):
        return 10
    if isinstance(source, AudioConfig):
        return source.mels
    pixels = source.height * (source.width if isinstance(source, FramesConfig) else 1)
    return pixels * (3 if source.colour else 1)


def test_the_recipes_are_these() -> None:
    assert [name for name in NAMES if name.startswith("lm-")] == ["lm-lstm", "lm-transformer"]
    assert [name for name in NAMES if not name.startswith("lm-")] == [
        "answer", "caption", "demo", "dialogue", "dictate", "digits", "entail", "g2p", "g2p-small", "pretrain", "read",
        "reverse", "scan-lstm", "scan-transformer", "see-answer", "speak", "summarise", "tag", "translate",
        "transliterate", "video", "watch",
    ]  # fmt: skip
    assert WITH_DATA == ["demo", "digits", "g2p", "reverse", "see-answer"]


@pytest.mark.parametrize("name", NAMES)
def test_the_header_says_what_to_expect(name: str) -> None:
    first = recipe_text(name).split("\n")[0]
    assert re.fullmatch(r"# [A-Z].*\.", first), "the first line says what it is; `antiphon recipes` prints it"
    said = header(name)
    assert {"command", "cost", "result"} <= said.keys()
    assert said["command"].startswith("antiphon ")
    assert name in said["command"]


@pytest.mark.parametrize("name", NAMES)
def test_the_model_can_be_built(name: str) -> None:
    config = read_config(name)
    sources = config.data.sources
    model = build_for(config.model, sources, [width(source) for source in sources], target_tokens=10)
    assert model.parameter_count > 0


@pytest.mark.parametrize("name", OF_TEXT)
def test_the_recipe_fits_its_data(name: str) -> None:
    """All of the first pairs are usable, short enough, and answered within decoding.max_length (</s> counts)."""
    data, dropped = read_config(name).data, DropLog()
    assert data.dev is not None
    for files in (data.train, data.dev):
        pairs = list(islice(read_pairs(files, data, dropped), 400))
        assert (len(pairs), dropped.total) == (400, 0)
        assert data.source is not None
        for texts, side, longest in (
            ([pair.source for pair in pairs], data.source, data.source.max_length),
            ([pair.target for pair in pairs], data.target, read_config(name).decoding.max_length - 1),
        ):
            tokenizer = train_tokenizer(texts, side)
            assert max(len(ids) for ids in tokenizer.encode_batch(texts)) <= min(longest, side.max_length)
            assert tokenizer.size < 50, "letters and phones are few: the tokens are those of the task"


@pytest.mark.parametrize("name", ["lm-lstm", "lm-transformer"])
def test_a_language_model_takes_any_plain_text(name: str, tmp_path: Path) -> None:
    """A text that is not shipped comes by an override; one update of the recipe's own network, on a little of it."""
    file = tmp_path / "text.txt"
    file.write_text("".join(f"{number} bottles of beer on the wall,\n\n" for number in range(200)))
    run = train(name, tmp_path / "run", [f"data.train={file}", "training.max_updates=1"])
    found = evaluate(load(run), str(file)).values
    assert list(found) == ["bits_per_character", "perplexity", "word_perplexity"]
    assert found["bits_per_character"].value == pytest.approx(math.log2(found["perplexity"].value), rel=1e-6)


def test_fine_tuning_starts_where_pre_training_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both commands in the header of `pretrain`, one after the other; the second hardly changes the weights here."""
    monkeypatch.chdir(tmp_path)
    lines = [f"a small {colour} boat number {number}" for number in range(30) for colour in ("red", "green")]
    Path("text.txt").write_text("".join(f"{line}\n" for line in lines))
    for file in ("pairs.tsv", "dev.tsv"):
        Path(file).write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))
    small = [f"model.{part}.{key}=16" for part in ("encoder", "decoder") for key in ("size", "feedforward")]
    small += ["training.max_updates=1", "training.schedule.warmup=0", "training.learning_rate=1e-9"]
    command = re.compile(r"^# +(?:command |Fine-tune:) *antiphon train (\S+) (.*) --out (\S+)$", re.MULTILINE)
    runs = []
    for name, words, out in command.findall(recipe_text("pretrain")):
        seed = f"training.seed={len(runs)}"  # random weights would differ
        runs.append(load(train(name, out, [*shlex.split(words), *small, seed])))
    assert [run.config.data.target.column for run in runs] == [0, 1]
    assert [bool(run.config.training.noise.infill) for run in runs] == [True, False]
    before, after = (run.model.state_dict() for run in runs)
    assert before.keys() == after.keys()
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)
