"""What goes wrong between requests: late answers, broken connections, views that were left, models of other kinds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Open
from playwright.sync_api import Route, expect
from running_server import RunningServer, serving
from tiny_generators import tiny_folder

from antiphon.inference.conversation import TurnFormat
from antiphon.inference.flags import FlagLimits

TEXT = "a b c"
ASKED: dict[str, str | float] = {"model": "bahdanau", "in": TEXT, "beam": 4}
SENTENCES = ["a b c", "c b a", "d d d", "h g f e"]


@pytest.fixture(scope="module")
def other_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a language model that has examples, a model of conversations, and a run that has diverged."""
    folder = tmp_path_factory.mktemp("kinds")
    continuing = Path(tiny_folder("rnn-lm", folder / "continuing"))
    rows = [{"update": 1, "source": text, "references": [], "output": "K"} for text in ("K L", "M N")]
    (continuing / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    talking = Path(tiny_folder("bahdanau", folder / "talking"))
    FlagLimits(turns=TurnFormat(" ? ", 3)).save(talking)
    diverged = folder / "runs" / "diverged"
    diverged.mkdir(parents=True)
    shutil.copy(talking / "config.yaml", diverged)
    log = [{"update": update, "loss": loss} for update, loss in enumerate([3.0, 2.5, float("nan")], start=1)]
    (diverged / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log))
    with serving(str(continuing), str(talking), folder / "runs") as running:
        yield running


def test_the_examples_of_a_language_model_are_offered(tab: Open, other_kinds: RunningServer) -> None:
    page = tab(other_kinds).open("answer", model="continuing")
    assert page.find("textarea").input_value() == "M N"  # the latest
    page.button("K L").click()
    page.settle()
    assert page.address["in"] == "K L"
    assert page.find(".answer .token").count() > 0


def test_a_line_typed_meanwhile_is_not_taken_for_the_one_that_was_answered(
    tab: Open, other_kinds: RunningServer
) -> None:
    page = tab(other_kinds).open("answer", model="talking", beam=3)
    held: list[Route] = []
    page.page.route("**/v1/generate", lambda route: held.append(route))  # greedy's answer, the last of a search
    page.find("textarea").fill("a b")
    page.page.keyboard.press("Enter")
    expect(page.find(".answer .token").first).to_be_visible()
    page.page.wait_for_timeout(100)
    page.find("textarea").press_sequentially(" c")
    held[0].continue_()
    page.page.unroute("**/v1/generate")
    page.settle()
    assert page.find(".turns li").count() == 0
    page.page.keyboard.press("Enter")
    page.settle()
    assert page.find(".turns li").first.inner_text() == "a b c"


def test_a_stream_that_ends_too_soon_is_said(tab: Open) -> None:
    page = tab().open("answer", **ASKED)
    page.page.route("**/v1/generate/stream", lambda route: route.fulfill(body="event: text\ndata: {}\n\n", status=200))
    page.type("b b")
    assert "The server does not answer" in page.text_of(".problem")
    page.page.unroute("**/v1/generate/stream")
    page.type("b b b")
    expect(page.find(".problem")).to_be_empty()
    assert page.find(".answer .token").count() > 0


def test_only_the_chosen_model_is_steered(tab: Open) -> None:
    page = tab().open("compare", **ASKED)
    node = page.find(".side:nth-child(2) .node.kept", has_not_text="end").first
    assert page.asked(lambda: node.click(), "/stream") == []
    assert page.prefix == []
    assert page.text_of(".side:nth-child(2) .pointed-line").startswith("Only the search of the model")
    page.find(".side:nth-child(1) .node.kept", has_not_text="end").first.click()
    page.settle()
    assert len(page.prefix) == 1


def test_a_run_to_compare_with_is_loaded_once(tab: Open) -> None:
    page = tab().open("answer", **ASKED)
    held: list[Route] = []
    page.page.route("**/v1/run/open", lambda route: held.append(route))
    page.page.goto(f"{page.url}/#compare?model=bahdanau&in=a+b&beam=4&compare.with=second")
    expect(page.find(".answer .token").first).to_be_attached()
    page.page.wait_for_timeout(200)
    assert len(held) == 1
    held[0].continue_()
    page.settle()
    assert page.find(".side h3").all_inner_texts()[:1] == ["bahdanau"]
    assert page.find(".compared").nth(1).inner_text() != ""


def test_the_request_is_that_of_the_view(tab: Open) -> None:
    page = tab().open("answer", **ASKED)

    def shown() -> str:
        page.button("The request as curl and Python").click()
        code = page.text_of(".panel pre")
        page.page.keyboard.press("Escape")
        return code

    answer = shown()
    assert "/v1/generate/stream" in answer
    assert '"model": "bahdanau"' in answer
    for view, path in (("compare", "/v1/generate/stream"), ("step", "/v1/explain/step")):
        page.go(view)
        assert path in shown()
    page.go("attention")
    page.button("leave one out").click()
    page.settle()
    assert "/v1/explain/occlusion" in shown()
    page.go("answer")
    assert shown() == answer


def test_a_step_has_the_colours_of_a_theme_chosen_in_another_view(tab: Open) -> None:
    page = tab(color_scheme="light").open("step", **ASKED)

    def colours() -> list[str]:
        return page.find(".worksheet rect[fill]").evaluate_all("all => all.map(one => one.getAttribute('fill'))")

    light = colours()
    page.go("answer")
    page.button("Light or dark").click()
    page.go("step")
    dark = colours()
    assert dark != light
    page.page.reload()
    page.settle()
    assert colours() == dark


def test_a_map_that_was_refused_leaves_the_one_before(tab: Open) -> None:
    page = tab().open("map", model="bahdanau")
    page.find(".map-lines").fill("\n".join(SENTENCES))
    page.button("Draw the map").click()
    page.settle()
    page.find(".map-lines").fill("a b c")
    page.button("Draw the map").click()
    assert "three sentences" in page.text_of(".map-view p.quiet")
    page.button("Larger").click()
    assert page.find("svg.map .point").count() == len(SENTENCES)
    assert [row[0] for row in page.rows()] == SENTENCES
    page.find("svg.map .point").nth(1).press(" ")
    page.settle()
    assert (page.address["view"], page.address["in"]) == ("answer", SENTENCES[1])


def test_a_map_is_drawn_anew_for_a_model_chosen_in_another_view(tab: Open) -> None:
    page = tab().open("map", model="bahdanau")
    page.find(".map-lines").fill("\n".join(SENTENCES))
    page.button("Draw the map").click()
    page.settle()
    before = page.rows()
    page.go("answer")
    page.find("#model").select_option("transformer")
    page.settle()
    [body] = page.asked(lambda: page.go("map"), "/map")
    assert body["model"] == "transformer"
    assert page.rows() != before


def test_details_of_a_run_that_come_late_are_not_shown(tab: Open) -> None:
    page = tab().open("runs")
    for box in page.find(".runs-list input:checked").all():
        box.uncheck()
    held: list[Route] = []
    page.page.route("**/v1/run?name=first", lambda route: held.append(route))
    page.find("input[aria-label='Show first']").check()
    expect(page.find(".runs-view figure polyline")).to_have_count(1)
    page.find("input[aria-label='Show second']").check()
    expect(page.find(".run-details h3")).to_contain_text("differ")
    held[0].continue_()
    page.settle()
    expect(page.find(".run-details h3")).to_contain_text("differ")


def test_a_loss_that_is_no_number_is_left_out(tab: Open, other_kinds: RunningServer) -> None:
    page = tab(other_kinds).open("runs")
    expect(page.find(".runs-view figure polyline")).to_have_count(1)
    assert [row[1:] for row in page.rows()] == [["1", "3.0000"], ["2", "2.5000"]]


def test_the_last_of_two_addresses_counts(tab: Open) -> None:
    page = tab().open("answer", **ASKED)
    held: list[Route] = []
    page.page.route("**/v1/run/open", lambda route: held.append(route))
    page.page.evaluate("location.hash = '#answer?model=halted&in=a'")
    expect(page.find("[role=status]", has_text="Loading halted")).to_be_visible()
    page.page.evaluate("location.hash = '#beam?model=transformer&in=c+b'")
    expect(page.find("#model")).to_have_value("transformer")
    held[0].continue_()
    page.settle()
    assert (page.address["view"], page.address["model"], page.address["in"]) == ("beam", "transformer", "c b")


def test_keys_with_ctrl_do_not_choose_from_a_menu(tab: Open) -> None:
    page = tab().open("answer", **ASKED)
    page.find(".answer .token").nth(1).click()
    page.settle()
    assert page.asked(lambda: page.page.keyboard.press("Control+2"), "/stream") == []
    expect(page.find(".menu")).to_be_visible()


def test_of_an_input_that_was_emptied_nothing_is_saved(tab: Open) -> None:
    page = tab().open("attention", **ASKED)
    page.type("")
    for view in ("attention", "beam", "step", "compare", "answer"):
        page.go(view)
        page.button("Save this view").click()
        expect(page.find(".panel")).to_have_text("There is nothing to save yet.")
        page.page.keyboard.press("Escape")
