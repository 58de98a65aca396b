"""Every address of docs/lesson.md shows what it names, on the models of its commands; here they have learnt nothing."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from conftest import Open
from playwright.sync_api import expect
from running_server import RunningServer, serving
from tiny_models import fill

from antiphon.config.load import read_config
from antiphon.data.tokenizers import CharacterTokenizer, WordTokenizer
from antiphon.model_folder import save_model
from antiphon.models.build import build_model

LESSON = (Path(__file__).parents[2] / "docs" / "lesson.md").read_text("utf-8")
ADDRESSES = re.findall(r"`#(\w+)\?([^`\s]+)`", LESSON)
COMMANDS = [shlex.split(line) for line in re.findall(r"^antiphon (?:demo|train) .*", LESSON, flags=re.MULTILINE)]
DRAWN = {"compare": "svg.beam", "step": "svg.worksheet", "attention": "svg.matrix", "beam": "svg.beam"}
BOXES = "texts => texts.map(text => text.getBoundingClientRect()).map(({left, right}) => [left, right])"
LOADED = 60_000  # milliseconds in which a model is loaded and has answered, on a busy machine
PHONES = WordTokenizer(["AA", "B", "K", "S"])
LETTERS = WordTokenizer(list(string.ascii_lowercase))


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a folder of the models that the commands of the lesson make, untrained."""
    runs = tmp_path_factory.mktemp("lesson") / "runs"
    for words in COMMANDS:
        name, overrides = words[2] if words[1] == "train" else "demo", [word for word in words if "=" in word]
        config = read_config(name, [*overrides, "decoding.max_length=12", "decoding.joint=0"])
        source = CharacterTokenizer(list(string.ascii_uppercase)) if name == "demo" else LETTERS
        target = PHONES if name == "demo" else LETTERS
        model = build_model(config.model, source_tokens=source.size, target_tokens=target.size).eval()
        fill(model, scale=0.2)
        save_model(runs / Path(words[words.index("--out") + 1]).name, config, model.state_dict(), source, target)
    with serving(runs, options=["--loaded", str(len(COMMANDS))]) as running:
        yield running


def test_the_addresses_are_found() -> None:
    """Each of the eight steps has an address, and each command makes a model that an address names."""
    steps = re.split(r"^## ", LESSON, flags=re.MULTILINE)[1:]
    assert [step[:2] for step in steps] == [f"{number}." for number in range(1, 9)]
    assert all(re.search(r"`#\w+\?", step) for step in steps)
    named = {
        parse_qs(query)[key][0] for _, query in ADDRESSES for key in parse_qs(query) if key in ("model", "compare.with")
    }
    assert named == {Path(words[words.index("--out") + 1]).name for words in COMMANDS}


@pytest.mark.parametrize(("view", "query"), ADDRESSES)
def test_an_address(view: str, query: str, tab: Open, lesson: RunningServer) -> None:
    page = tab(lesson)
    said = {name: values[0] for name, values in parse_qs(query).items()}
    page.page.goto(f"{lesson.url}/#{view}?{query}")
    expect(page.find(f"#view {DRAWN[view]}").first).to_be_visible(timeout=LOADED)
    page.settle()
    assert page.address == {"view": view, **said}, "the page knows each part, and keeps it"
    assert page.page.input_value("#model") == said["model"]
    assert page.find("textarea:visible").first.input_value() == said["in"]
    expect(page.find(".problem")).to_be_empty()
    sheet = " ".join(page.find("svg.worksheet").all_text_contents())
    assert ("argmax" in sheet) == (view == "step" and said["model"] == "hard"), "the longest formula stands there whole"
    boxes = page.page.eval_on_selector_all("#view .scale text", BOXES)
    assert all(one[1] <= next_[0] for one, next_ in pairwise(sorted(boxes))), "the texts of a scale do not overlap"
    if "compare.with" in said:
        assert page.page.get_by_label("The other model").input_value() == said["compare.with"]
        expect(page.find(f"#view {DRAWN[view]}")).to_have_count(2)
