"""Pictures, sounds, several sources, labels and conversations on the page: files are dropped, views are used."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Open
from playwright.sync_api import Locator, expect
from running_server import RunningServer, serving
from served_models import model_folder, npy_bytes, png_bytes, wav_bytes
from watched_page import WatchedPage, minus, probability

MADE = {"png": png_bytes, "wav": wav_bytes, "npy": npy_bytes}
READS = {"image": "png", "sound": "wav"}  # the files of a model
MODELS = ("image", "sound", "several", "tagger", "dialogue")
Json = dict[str, Any]
Use = Callable[[Locator], None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a model of each kind, and another that reads pictures."""
    folder = tmp_path_factory.mktemp("kinds")
    models = [model_folder(kind, folder / kind) for kind in MODELS]
    with serving(*models, model_folder("image", folder / "other"), options=["--threads", "1"]) as running:
        yield running


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three files of each kind, and one that no model reads."""
    folder = tmp_path_factory.mktemp("files")
    for kind, make in MADE.items():
        for number in (1, 2, 3):
            (folder / f"{number}.{kind}").write_bytes(make(number))
    (folder / "notes.txt").write_text("a b c")
    return folder


def content(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def post(server: RunningServer, path: str, **body: Any) -> Json:  # noqa: ANN401 - any JSON
    answer = server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def searched(server: RunningServer, model: str, inputs: Any, **more: Any) -> Json:  # noqa: ANN401 - any JSON
    """The answer to a request like the page's."""
    returned = ["token_ids", *([] if model == "tagger" else ["attention"])]
    body = {"model": model, "inputs": inputs, "beam": 3, "n_best": 3, "return": returned, **more}
    return dict(post(server, "/v1/search", **body)["output"])


def shown(tokens: list[str]) -> list[str]:
    return ["end" if token == "</s>" else token for token in tokens]


def drop(page: WatchedPage, path: Path, selector: str) -> None:
    """Drop a file from outside the browser on an element."""
    box = page.find(selector).first.bounding_box()
    assert box is not None
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    session = page.context.new_cdp_session(page.page)
    for kind in ("dragEnter", "dragOver", "drop"):
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        session.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})


def choose(page: WatchedPage, path: Path, name: str = "input[type=file]") -> None:
    """Open the dialogue for files by keys, and choose one there."""
    with page.page.expect_file_chooser() as chooser:
        page.find(name).first.press("Enter")
    chooser.value.set_files(path)


WAYS: dict[str, Callable[[WatchedPage, Path], None]] = {
    "on the field": lambda page, path: drop(page, path, ".drop"),
    "beside it": lambda page, path: drop(page, path, "header"),
    "chosen by keys": choose,
}


def give(page: WatchedPage, path: Path, way: str = "on the field") -> Json:
    """Give a file to the page, and wait for its answer; the body of the request."""
    with page.page.expect_request("**/v1/generate/stream") as request:
        WAYS[way](page, path)
    page.settle()
    return dict(request.value.post_data_json)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", READS)
def test_a_file_is_dropped_or_chosen(tab: Open, server: RunningServer, files: Path, model: str, way: str) -> None:
    page = tab(server).open("answer", model=model, beam=3)
    assert page.text_of(".answer") == "The answer stands here."
    for number in (1, 2):  # the second takes the place of the first
        path = files / f"{number}.{READS[model]}"
        body = give(page, path, way)
        assert body["inputs"] == content(path)
        assert page.tokens == shown(searched(server, model, content(path))["tokens"]) != []
        assert path.name in page.text_of(".drop")
        expect(page.find({"image": ".drop img", "sound": ".drop audio"}[model])).to_be_visible()


def test_a_file_that_the_model_does_not_read(tab: Open, server: RunningServer, files: Path) -> None:
    page = tab(server).open("answer", model="image")
    page.allowed += ["422"]
    drop(page, files / "notes.txt", "header")
    expect(page.find(".problem")).to_have_text("notes.txt: this model reads no such file.")
    give(page, files / "notes.txt", "on the field")
    assert "picture" in page.text_of(".problem")
    give(page, files / "1.png", "beside it")
    expect(page.find(".problem")).to_be_empty()
    assert page.tokens == shown(searched(server, "image", content(files / "1.png"), beam=1, n_best=1)["tokens"])


class Visit:
    """A page with a file, used by clicks or by keys."""

    def __init__(self, page: WatchedPage, server: RunningServer, model: str, files: Path, way: str) -> None:
        self.page, self.server, self.model, self.way = page, server, model, way
        self.files = [files / f"{number}.{READS[model]}" for number in (1, 2, 3)]
        self.inputs = content(self.files[0])
        give(page, self.files[0])
        self.output = searched(server, model, self.inputs)
        self.tokens = shown(self.output["tokens"])

    def use(self, element: Locator) -> None:
        """Click an element, or press Enter on it."""
        element.click() if self.way == "clicks" else element.press("Enter")
        self.page.settle()

    def go(self, view: str, digit: int) -> None:
        """Choose a view."""
        if self.way == "clicks":
            self.page.go(view)
        else:
            self.page.find("main").press(str(digit))
        self.page.settle()
        assert self.page.address["view"] == view

    def take_back(self) -> None:
        """Unlock what was chosen."""
        if self.way == "clicks":
            self.page.button("undo").click()
        else:
            self.page.page.keyboard.press("Escape")
        self.page.settle()
        assert (self.page.prefix, self.page.tokens) == ([], self.tokens)

    def assert_goes_on(self) -> None:
        """The answer begins with what is locked, and the API finds the same."""
        output = searched(self.server, self.model, self.inputs, prefix=self.page.prefix)
        assert output["token_ids"][: len(self.page.prefix)] == self.page.prefix != []
        assert self.page.tokens == shown(output["tokens"])


def use_answer(visit: Visit) -> None:
    page, place = visit.page, 0
    visit.use(page.find(".answer .token").nth(place))
    body = {"model": visit.model, "inputs": visit.inputs, "answer": visit.output["token_ids"], "position": place}
    rows = post(visit.server, "/v1/alternatives", **body, count=9)["alternatives"]
    menu = page.find(".menu-list li")
    assert menu.locator(".figure").all_inner_texts() == [probability(row["probability"]) for row in rows]
    if visit.way == "clicks":
        menu.nth(1).click()
    else:
        page.page.keyboard.press("2")
    page.settle()
    assert page.prefix == [rows[1]["token_id"]]
    visit.assert_goes_on()
    visit.take_back()


def use_beam(visit: Visit) -> None:
    nodes = visit.output["trees"][0]["nodes"]
    assert {key: node["sum"] for key, node in visit.page.nodes().items()} == {
        node["id"]: minus(node["total"]) for node in nodes
    }
    visit.use(visit.page.find("#view .node.pruned", has_not_text="end").first)
    visit.assert_goes_on()
    visit.take_back()


def use_attention(visit: Visit) -> None:
    page, weights = visit.page, np.array(visit.output["attention"]["weights"])
    frames = page.find(".film-frame")
    assert frames.locator("span").all_inner_texts() == visit.tokens
    visit.use(frames.nth(1))
    assert page.address["at"] == "1"
    large = page.find("svg.over:not(.small-over)")
    top = max(weights.max(), min(1, 4 / weights.shape[1]))
    if visit.model == "image":
        drawn = large.locator("rect").evaluate_all("all => all.map(one => Number(one.getAttribute('fill-opacity')))")
        assert drawn == pytest.approx((0.85 * (1 - weights[1] / top)).tolist(), abs=1e-3)
    else:
        assert_words_at_their_times(large, weights, visit.tokens)
    rows = [[name, *map(minus, row)] for name, row in zip(visit.tokens, weights.tolist(), strict=True)]
    assert page.rows() == rows
    visit.use(page.button("Play"))  # from the first word
    expect(frames.nth(1)).to_have_attribute("aria-pressed", "true")
    if page.button("Pause").count():
        visit.use(page.button("Pause"))
    visit.use(page.button("leave one out"))
    body = {"model": visit.model, "inputs": visit.inputs, "answer": visit.output["token_ids"]}
    found = np.array(post(visit.server, "/v1/explain/occlusion", **body)["differences"]).T
    assert [row[1:] for row in page.rows()] == [list(map(minus, row)) for row in found[: len(visit.tokens)].tolist()]


def assert_words_at_their_times(large: Locator, weights: Any, tokens: list[str]) -> None:  # noqa: ANN401 - an array
    """Each word stands above its time, and none on another; the word that is chosen has a line."""
    boxes = large.evaluate(
        "svg => ['.timed', '.tick, .looked'].map(kind => [...svg.querySelectorAll(kind)].map(one => "
        "[one.textContent, Number(one.getAttribute('x') ?? one.getAttribute('x1')), Number(one.getAttribute('y')),"
        " one.classList.contains('here') || one.classList.contains('looked')]))"
    )
    width = float(large.get_attribute("width") or 0)
    times = ((weights.argmax(axis=1) + 0.5) * width / weights.shape[1]).tolist()
    words, lines = boxes
    placed = sorted(
        (name, pytest.approx(time, abs=20), place == 1)
        for place, (name, time) in enumerate(zip(tokens, times, strict=True))
    )
    assert sorted((name, x, here) for name, x, _, here in words) == placed
    assert sorted({x for _, x, _, here in lines if here}) == pytest.approx([times[1]])
    assert len({(x, y) for _, x, y, _ in words}) == len(words)


def use_step(visit: Visit) -> None:
    page, count = visit.page, len(visit.tokens)
    visit.use(page.find(".answer .token").first)
    for place, name in enumerate(visit.tokens[:2]):
        if place:
            visit.use(page.button("The next step"))
        assert page.text_of(".step-name") == f"writing token {place + 1} of {count}: {name}"
        body = {"model": visit.model, "inputs": visit.inputs, "answer": visit.output["token_ids"], "position": place}
        step = post(visit.server, "/v1/explain/step", **body, dimensions=48)
        assert [row[1] for row in page.rows()[: len(step["parts"])]] == [part["symbol"] for part in step["parts"]]


def use_compare(visit: Visit) -> None:
    other = visit.page.find("select[aria-label='The other model'] option").all_inner_texts()
    assert other == (["other"] if visit.model == "image" else [])  # none of the others reads such a file
    if other:
        assert visit.page.find(".compared").all_inner_texts() == [visit.output["text"]] * 2
    else:
        assert "No other model" in visit.page.text_of(".compare-view")


def use_map(visit: Visit) -> None:
    page = visit.page
    page.find(".map-view input[type=file]").set_input_files(visit.files[:2])
    expect(page.find(".map-view p.quiet")).to_have_text("Choose at least three files.")
    page.find(".map-view input[type=file]").set_input_files(visit.files)
    expect(page.find(".point")).to_have_count(3)
    visit.use(page.button("Draw the map"))
    points = post(visit.server, "/v1/map", model=visit.model, inputs=[content(path) for path in visit.files])["points"]
    assert page.rows() == [[path.name, "", *map(minus, at)] for path, at in zip(visit.files, points, strict=True)]
    visit.use(page.find(".point").nth(2))
    assert page.address["view"] == "answer"
    assert page.tokens == shown(searched(visit.server, visit.model, content(visit.files[2]))["tokens"])
    assert visit.files[2].name in page.text_of(".drop")


def use_runs(visit: Visit) -> None:
    assert "antiphon serve runs/" in visit.page.text_of("#view")


USED: dict[str, tuple[int, Callable[[Visit], None]]] = {
    "answer": (1, use_answer), "beam": (2, use_beam), "attention": (3, use_attention), "step": (4, use_step),
    "compare": (6, use_compare), "runs": (7, use_runs), "map": (5, use_map),
}  # fmt: skip


@pytest.mark.parametrize("way", ["clicks", "keys"])
@pytest.mark.parametrize("model", READS)
def test_every_view_of_a_file(tab: Open, server: RunningServer, files: Path, model: str, way: str) -> None:
    visit = Visit(tab(server).open("answer", model=model, beam=3), server, model, files, way)
    for view, (digit, work) in USED.items():
        visit.go(view, digit)
        work(visit)


def test_several_sources_are_asked_together(tab: Open, server: RunningServer, files: Path) -> None:
    page = tab(server).open("answer", model="several", beam=3)
    assert page.asked(lambda: page.type("a b")) == []
    for kind in ("png", "wav"):
        drop(page, files / f"1.{kind}", "header")  # each goes to the source that reads it
        expect(page.find(".drop", has_text=f"1.{kind}")).to_be_visible()
        assert page.text_of(".answer") == "The answer stands here."
    body = give(page, files / "1.npy", "beside it")
    inputs = {"question": "a b", **{name: content(files / f"1.{kind}") for name, kind in NAMES.items()}}
    assert body["inputs"] == inputs
    output = searched(server, "several", inputs)
    assert page.tokens == shown(output["tokens"])
    assert page.address["in.question"] == "a b"
    page.go("attention")
    assert page.find("svg.over:not(.small-over)").count() == len(NAMES)
    assert [row[1:] for row in page.rows()] == [list(map(minus, row)) for row in output["attention"]["weights"]]
    [again] = page.asked(lambda: page.type("c"), "/stream")  # with the same files
    assert again["inputs"] == inputs | {"question": "c"}
    page.go("map")
    assert "models with one source" in page.text_of("#view")


NAMES = {"picture": "png", "sound": "wav", "array": "npy"}


def test_a_tagger_is_taken_apart(tab: Open, server: RunningServer) -> None:
    page = tab(server).open("answer", **{"model": "tagger", "in": "a b c", "beam": 3})
    output = searched(server, "tagger", "a b c")
    assert page.tokens == shown(output["tokens"])
    page.find(".answer .token").nth(1).click()
    page.settle()
    page.page.keyboard.press("2")
    page.settle()
    changed = searched(server, "tagger", "a b c", prefix=page.prefix)
    assert page.tokens == shown(changed["tokens"]) != shown(output["tokens"])
    page.button("undo").press("Enter")
    page.settle()
    page.go("beam")
    nodes = output["trees"][0]["nodes"]
    assert {key: node["sum"] for key, node in page.nodes().items()} == {
        node["id"]: minus(node["total"]) for node in nodes
    }
    page.find("main").press("3")
    page.settle()
    assert "A tagger has no attention" in page.text_of(".attention-drawing")
    page.button("leave one out").press("Enter")
    page.settle()
    assert page.find("svg.matrix .row").count() == len(output["tokens"])
    page.find("main").press("4")
    page.settle()
    assert page.text_of(".step-name") == f"writing token 2 of {len(output['tokens'])}: {page.tokens[1]}"
    assert "A label depends on the state of its token alone" in page.text_of(".notes")


def test_a_conversation_stays(tab: Open, server: RunningServer) -> None:
    page = tab(server).open("answer", model="dialogue", beam=3)
    turns: list[str] = []

    def talk(line: str) -> None:
        source = " b ".join([*turns, line][-3:])  # as many turns as it was trained with
        asked = page.asked(lambda: page.type(line), "/stream")
        assert asked[-1]["inputs"] == source
        output = searched(server, "dialogue", source)
        assert page.tokens == shown(output["tokens"])
        turns.extend([line, output["text"]])
        assert page.find(".turns li:not(.turn-tools)").all_inner_texts() == turns
        assert page.find("textarea").input_value() == ""

    talk("a c")
    talk("d")
    for view in ("beam", "attention", "step", "compare", "answer"):
        page.go(view)
        assert page.find(".turns li:not(.turn-tools)").all_inner_texts() == turns
    talk("e f")
    page.button("take back").press("Enter")
    assert page.find("textarea").input_value() == "e f"
    assert page.find(".turns li:not(.turn-tools)").all_inner_texts() == (turns := turns[:-2])
    page.settle()
    talk("g")
    page.button("new conversation").click()
    turns = []
    talk("h")
    page.open("answer", model="tagger")  # another model has nothing of it
    assert page.find(".turns li").count() == 0
