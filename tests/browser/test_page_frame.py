"""What all views of the page share: saving, the request behind it, themes, small screens, keys of servers, safety."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import KEY, Open
from hostile_model import HOSTILE_RUN, HOSTILE_WORDS
from PIL import Image
from playwright.sync_api import expect
from running_server import RunningServer
from watched_page import OTHER_NAME, WatchedPage

TEXT = "a b c"
VIEWS = ("answer", "beam", "attention", "step", "map", "compare", "runs")
ASKED: dict[str, str | float] = {"model": "bahdanau", "in": TEXT, "beam": 4}
SENTENCES = ["a b c\tfirst", "c b a\tsecond", "d d d\tthird", "h g f e\tfourth", "b\tfifth"]
Json = dict[str, Any]


def draw_map(page: WatchedPage) -> None:
    page.find(".map-lines").fill("\n".join(SENTENCES))
    page.button("Draw the map").click()
    page.settle()


def saved(page: WatchedPage, kind: str) -> tuple[str, bytes]:
    """The name and the content of the file that is saved."""
    page.button("Save this view").click()
    with page.page.expect_download() as download:
        page.find(".panel").get_by_role("button", name=kind, exact=True).click()
    expect(page.find(".panel")).to_have_count(0)
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def assert_harmless(svg: str) -> None:
    """A picture without scripts, without references to elsewhere, and with a value for every colour."""
    root = ElementTree.fromstring(svg)  # noqa: S314 - of the page itself
    names = [element.tag.rpartition("}")[2].lower() for element in root.iter()]
    assert not {"script", "foreignobject", "iframe", "a", "use"} & set(names)
    for element in root.iter():
        for name, value in element.attrib.items():
            bare = name.rpartition("}")[2].lower()
            assert not bare.startswith("on")
            assert bare not in ("href", "src") or value.startswith("data:image/")
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/)", svg)
    given = dict(re.findall(r"(--[\w-]+): *([^;}]*)", svg))
    assert {name for name in re.findall(r"var\((--[\w-]+)\)", svg) if not given.get(name, "").strip()} == set()


class Harmless(HTMLParser):
    """Reads a page and remembers its elements; what could load or run is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "img", "link", "iframe", "object", "embed", "base", "form", "a")
        assert [name for name, _ in attrs if name.startswith("on")] == []
        assert all((value or "").startswith("data:image/") for name, value in attrs if name in ("src", "href"))
        self.elements.append(tag)


def test_every_view_is_saved_as_what_it_shows(tab: Open) -> None:
    page = tab().open("answer", **ASKED)
    for view in VIEWS:
        page.go(view)
        if view == "map":
            draw_map(page)
        if view == "runs":
            page.find("input[aria-label='Show first']").check()
            expect(page.find(".runs-view figure polyline").first).to_be_visible()
        name, svg = saved(page, "SVG")
        assert name.startswith("bahdanau-")
        assert name.endswith(f"-{view}.svg")
        assert_harmless(svg.decode())
        _, png = saved(page, "PNG")
        picture = Image.open(io.BytesIO(png)).convert("RGB")
        viewed = ElementTree.fromstring(svg).attrib["viewBox"].split()  # noqa: S314
        assert picture.size == pytest.approx([2 * float(viewed[2]), 2 * float(viewed[3])], abs=2)
        assert len(np.unique(np.array(picture).reshape(-1, 3), axis=0)) > 5, view
        _, document = saved(page, "HTML")
        parser = Harmless()
        parser.feed(document.decode())
        assert {"svg", "table", "pre", "style"} <= set(parser.elements), view


def test_the_saved_trace_is_that_of_the_api(tab: Open, lab: RunningServer) -> None:
    page = tab().open("beam", **ASKED, prefix="5")
    name, content = saved(page, "JSON")
    assert name == "bahdanau-beam.json"
    body = {"model": "bahdanau", "inputs": TEXT, "beam": 4, "n_best": 4, "prefix": [5], "return": ["attention"]}
    output = lab.client.post("/v1/search", json=body).json()["output"]
    trace = json.loads(content)
    assert trace["trees"][0]["nodes"] == output["trees"][0]["nodes"]
    assert trace["output"] == output
    assert (trace["model"], trace["input"], trace["prefix"]) == ("bahdanau", TEXT, [5])


def test_the_saved_numbers_of_the_other_views_are_those_of_the_api(tab: Open, lab: RunningServer) -> None:
    page = tab().open("attention", **{**ASKED, "model": "transformer", "attention.layer": 2, "attention.head": 1})
    asked = {"model": "transformer", "inputs": TEXT, "beam": 4, "return": ["token_ids", "heads"]}
    output = lab.client.post("/v1/generate", json=asked).json()["outputs"]
    assert json.loads(saved(page, "JSON")[1])["weights"] == output["heads"]["cross"][1][0]
    page.go("step")
    body = {"model": "transformer", "inputs": TEXT, "answer": output["token_ids"], "position": 0, "dimensions": 48}
    assert json.loads(saved(page, "JSON")[1]) == lab.client.post("/v1/explain/step", json=body).json()
    page.go("map")
    draw_map(page)
    texts = [line.partition("\t")[0] for line in SENTENCES]
    points = lab.client.post("/v1/map", json={"model": "transformer", "inputs": texts}).json()["points"]
    assert [row["point"] for row in json.loads(saved(page, "JSON")[1])["points"]] == points


def test_nothing_is_saved_of_nothing(tab: Open) -> None:
    page = tab().open("attention", **{**ASKED, "in": ""})
    page.button("Save this view").click()
    expect(page.find(".panel")).to_have_text("There is nothing to save yet.")
    page.button("The request as curl and Python").click()
    expect(page.find(".panel")).to_have_text("Nothing has been asked yet.")
    page.page.keyboard.press("Escape")
    expect(page.find(".panel")).to_have_count(0)


def run_shown(page: WatchedPage, kind: str, folder: Path) -> Json:
    """What comes of the command, or the program, that the panel shows."""
    page.button("The request as curl and Python").click()
    page.find(".panel").get_by_role("button", name=kind, exact=True).click()
    code = page.text_of(".panel pre")
    page.page.keyboard.press("Escape")
    script = folder / "shown"
    script.write_text(code)
    program = "sh" if kind == "curl" else sys.executable
    environment = {**os.environ, "ANTIPHON_API_KEY": KEY, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([program, str(script)], capture_output=True, text=True, env=environment, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("data: ", "{"))]
    if lines[-1].startswith("{'"):  # as Python prints it
        return dict(ast.literal_eval(lines[-1]))
    return dict(json.loads(lines[-1].removeprefix("data: ")))


@pytest.mark.parametrize("text", [TEXT, 'it\'s "quoted" `$HOME` \\n ü'])
def test_the_request_that_is_shown_runs(tab: Open, tmp_path: Path, text: str) -> None:
    page = tab().open("beam", **{**ASKED, "in": text}, prefix="5")
    shown = page.find(".answer .token > span:first-child").all_inner_texts()
    for kind in ("curl", "Python"):
        output = run_shown(page, kind, tmp_path)["output"]
        assert ["end" if token == "</s>" else token for token in output["tokens"]] == shown
    page.go("step")
    for kind in ("curl", "Python"):
        assert run_shown(page, kind, tmp_path)["position"] == 0


def test_the_page_of_a_guarded_server_asks_for_its_key(tab: Open, guarded: RunningServer, tmp_path: Path) -> None:
    page = tab(guarded)
    page.allowed += [r"401"]
    page.open()
    field = page.find("input[type=password]")
    field.fill("not-the-key")
    field.press("Enter")
    page.page.wait_for_load_state()
    page.settle()
    assert "key" in page.text_of(".problem")
    page.find("input[type=password]").fill(KEY)
    page.button("use this key").click()
    page.page.wait_for_load_state()
    page.settle()
    expect(page.find(".problem")).to_be_empty()
    page.type(TEXT)
    assert page.find(".answer .token").count() > 0
    output = run_shown(page, "curl", tmp_path)["output"]
    assert output["tokens"][0] == page.tokens[0]
    assert KEY not in page.page.content()


def test_a_page_from_another_machine_copies_too(tab: Open, lab: RunningServer) -> None:
    page = tab()
    page.url = lab.url.replace("127.0.0.1", OTHER_NAME)
    page.open("answer", **ASKED)
    assert page.page.evaluate("navigator.clipboard === undefined")  # plain HTTP from elsewhere has none
    answer = page.tokens
    page.button("copy").click()
    expect(page.find("#said")).to_have_text("copied")
    page.find("textarea").fill("")
    page.find("textarea").press("Control+v")
    assert page.find("textarea").input_value().split() == [token for token in answer if token != "end"]
    page.settle()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_has_a_serious_fault_of_accessibility(tab: Open, theme: str) -> None:
    page = tab(color_scheme=theme).open("answer", **ASKED)
    axe = Axe()
    found: list[tuple[str, str, str]] = []

    def look(where: str) -> None:
        result = axe.run(page.page, options={"resultTypes": ["violations"]}).response
        found.extend(
            (where, fault["id"], node["html"][:120])
            for fault in result["violations"] if fault["impact"] in ("serious", "critical") for node in fault["nodes"]
        )  # fmt: skip

    for view in VIEWS:
        page.go(view)
        if view == "map":
            draw_map(page)
        for details in page.find("#view details > summary:visible").all():
            details.click()
        look(view)
    page.go("answer")
    page.find(".answer .token").first.click()
    page.settle()
    look("menu")
    page.find(".menu-list li", has_not_text="end").first.click()
    page.settle()
    look("locked")
    page.button("Save this view").click()
    look("save")
    page.button("The request as curl and Python").click()
    look("request")
    page.go("attention")
    page.button("leave one out").click()
    page.settle()
    look("occlusion")
    page.type("z " * 30)
    look("flags")
    assert found == [], "\n".join(map(str, found))


def ground(page: WatchedPage) -> int:
    """The brightness of the page, from 0 to 255."""
    colour = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return max(map(int, re.findall(r"\d+", colour)[:3]))


def test_light_and_dark(tab: Open) -> None:
    page = tab(color_scheme="dark").open("attention", **ASKED)
    assert ground(page) < 60
    tint = "() => document.querySelector('.answer .share').style.getPropertyValue('--tint')"
    colours = page.find("svg.matrix rect").first.get_attribute("fill"), page.page.evaluate(tint)
    dark = page.find("svg.matrix rect").nth(2).get_attribute("fill"), page.page.evaluate(tint)
    page.button("Light or dark").press("Enter")
    assert ground(page) > 240
    light = page.find("svg.matrix rect").nth(2).get_attribute("fill"), page.page.evaluate(tint)
    assert all(one != other for one, other in zip(dark, light, strict=True)), colours
    page.page.reload()
    page.settle()
    assert ground(page) > 240
    other = tab(color_scheme="light").open("beam", **ASKED)
    assert ground(other) > 240
    other.page.emulate_media(color_scheme="dark")
    other.page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert ground(other) < 60


def test_a_telephone_scrolls_in_one_direction(tab: Open) -> None:
    page = tab(viewport={"width": 360, "height": 740}, has_touch=True).open("answer", **ASKED)
    for view in VIEWS:
        page.go(view)
        if view == "map":
            draw_map(page)
        wide = page.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360, view
    page.go("answer")
    page.find(".answer .token").first.tap()
    page.settle()
    box = page.find(".menu").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360


def elements_of_text(page: WatchedPage) -> list[str]:
    """Elements that no view makes, but hostile texts would."""
    return page.page.eval_on_selector_all(
        "img, script:not([src]), iframe, b, svg[onload]", "all => all.map(one => one.outerHTML)"
    )


def test_hostile_text_stays_text_in_every_view(tab: Open) -> None:
    page = tab()
    text = " ".join(HOSTILE_WORDS)
    page.open("answer", **{"model": HOSTILE_RUN, "in": text, "beam": 4})
    seen = ""
    for view in VIEWS:
        page.go(view)
        if view == "map":
            page.find(".map-lines").fill("\n".join(f"{word}\t{word}" for word in HOSTILE_WORDS))
            page.button("Draw the map").click()
            page.settle()
        if view == "runs":
            page.find(".runs-list tr", has_text=HOSTILE_RUN).locator("input").check()
            for box in page.find(".runs-list tr", has_not_text=HOSTILE_RUN).locator("input:checked").all():
                box.uncheck()
            expect(page.find(".run-details tbody tr")).to_have_count(len(HOSTILE_WORDS))
        for summary in page.find("#view details > summary:visible").all():
            summary.click()
        seen += page.find("body").inner_text()
        assert elements_of_text(page) == [], view
        if view not in ("runs", "compare"):
            parser = Harmless()
            parser.feed(saved(page, "HTML")[1].decode())
            assert_harmless(saved(page, "SVG")[1].decode())
    assert all(word in seen for word in (*HOSTILE_WORDS, HOSTILE_RUN))
    page.go("answer")
    page.find(".answer .token").first.click()
    page.settle()
    page.find(".menu-list li", has_not_text="end").nth(1).click()
    page.settle()
    page.button("The request as curl and Python").click()
    assert elements_of_text(page) == []


def test_the_policy_forbids_what_the_page_does_not_need(tab: Open, lab: RunningServer) -> None:
    for path in ("/", "/page/main.js", "/page/style.css", "/page/icon.svg"):
        policy = lab.client.get(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert [word for word in ("unsafe", "http", "*") if word in policy] == []
    page = tab().open("answer", **ASKED)
    page.allowed += ["Content Security Policy"]
    page.page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = true'}))"
    )
    page.page.evaluate("document.body.setAttribute('onclick', 'window.ran = true')")
    page.find("body").click(position={"x": 2, "y": 2})
    assert page.page.evaluate("window.ran") is None
    assert page.problems != []


def test_a_server_of_runs_alone_begins_without_a_model(tab: Open, library: RunningServer) -> None:
    page = tab(library).open()
    assert page.address["view"] == "runs"
    for key in "1234567":
        page.page.keyboard.press(key)
        page.settle()
        assert page.text_of("main") != ""
    assert "ask it" in page.go("answer").text_of("#question")
    assert page.find("textarea:visible").count() == 0
    page.go("runs")
    page.find(".runs-list tr", has_text="static").get_by_role("button", name="ask it").press("Enter")
    page.settle()
    page.type(TEXT)
    assert page.find(".answer .token").count() > 0


def test_what_the_server_refuses_is_said(tab: Open) -> None:
    page = tab()
    page.allowed += ["413", "422", "404"]
    page.open("answer", **{**ASKED, "beam": 1000})
    assert "beam" in page.text_of(".problem")
    page.open("answer", **{**ASKED, "prefix": "999"})
    assert "prefix" in page.text_of(".problem")
    page.open("no-such-view", **ASKED)
    assert page.find(".answer .token").count() > 0
    page.page.goto("about:blank")
    page.open("answer", **{**ASKED, "model": "no-such-run"})
    assert "no-such-run" in page.text_of(".problem")
