"""The answer on the page: typed, taken apart, repaired by clicks and by keys, copied, and kept in an address."""

from __future__ import annotations

import math
from typing import Any

import pytest
from conftest import Open
from playwright.sync_api import Route, expect
from running_server import RunningServer
from watched_page import WatchedPage, minus, probability

TEXT = "b b b"
Json = dict[str, Any]


def api(server: RunningServer, path: str, **body: Any) -> Any:  # noqa: ANN401 - any JSON
    answer = server.client.post(path, json={"inputs": TEXT, "model": "bahdanau", **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def search(server: RunningServer, **body: Any) -> Json:  # noqa: ANN401 - any JSON
    return api(server, "/v1/search", **{"beam": 4, "n_best": 4, **body})["output"]


def shown(tokens: list[str]) -> list[str]:
    return ["end" if token == "</s>" else token for token in tokens]


@pytest.fixture
def page(tab: Open) -> WatchedPage:
    return tab().open("answer", **{"model": "bahdanau", "in": TEXT, "beam": 4})


def menu_rows(page: WatchedPage) -> list[list[str]]:
    """The rows of the menu: token, probability and text of each."""
    parts = (".menu-token", ".figure", ".menu-text")
    return [[row.locator(part).inner_text() for part in parts] for row in page.find(".menu-list li[role=option]").all()]


def other_rows(server: RunningServer, place: int) -> list[list[str]]:
    """The same rows as the API gives them."""
    found = api(server, "/v1/alternatives", position=place, count=9, answer=search(server)["token_ids"])["alternatives"]
    return [[shown([one["token"]])[0], probability(one["probability"]), one["text"]] for one in found]


def test_every_number_of_the_answer_is_that_of_the_api(page: WatchedPage, lab: RunningServer) -> None:
    output = search(lab)
    assert page.tokens == shown(output["tokens"])
    shares = [math.exp(value) for value in output["log_probs"]]
    labels = [one.get_attribute("aria-label") for one in page.find(".answer .token").all()]
    assert labels == [f"{one}, probability {probability(p)}" for one, p in zip(page.tokens, shares, strict=True)]
    drawn = page.find(".answer .share").evaluate_all("all => all.map(one => one.style.getPropertyValue('--share'))")
    assert [float(one) for one in drawn] == pytest.approx(shares, abs=6e-4)
    facts = page.find(".answer-facts > span").all_inner_texts()
    mean = sum(output["log_probs"]) / len(shares)
    assert facts[:3] == [f"{minus(mean)} a token", "beam 4", f"{len(shares)} steps"]
    others = [[one["text"], minus(one["score"])] for one in output["alternatives"][1:]]
    rows = page.find(".best .ranking li").all()
    assert [[row.locator(":scope > *").nth(part).inner_text() for part in (0, 1)] for row in rows] == others
    assert page.find(".flags li").all_inner_texts() == output["flags"] != []


def test_what_is_typed_is_answered_once_it_pauses(page: WatchedPage, lab: RunningServer) -> None:
    def typing() -> None:
        page.find("textarea").fill("")
        page.find("textarea").press_sequentially("g h", delay=15)
        assert page.tokens == shown(search(lab)["tokens"])  # the answer before stays until then
        page.page.wait_for_event("request", lambda request: request.url.endswith("/stream"))

    assert [body["inputs"] for body in page.asked(typing, "/stream")] == ["g h"]
    assert page.tokens == shown(search(lab, inputs="g h")["tokens"])
    assert page.address["in"] == "g h"


def test_enter_asks_at_once_and_only_once(page: WatchedPage) -> None:
    def typing() -> None:
        page.find("textarea").fill("z a")
        page.page.keyboard.press("Enter")
        page.page.wait_for_timeout(600)  # longer than the pause after which what is typed is asked

    assert [body["inputs"] for body in page.asked(typing, "/stream")] == ["z a"]
    assert "unknown symbols in the source: 'z' x 1" in page.find(".flags li").all_inner_texts()
    page.find("textarea").press("Shift+Enter")
    assert page.find("textarea").input_value() == "z a\n"


def test_an_empty_field_has_no_answer(page: WatchedPage) -> None:
    assert page.asked(lambda: page.type(""), "/stream") == []
    assert page.text_of(".answer") == "The answer stands here."
    assert page.find(".flags li:visible, .best li:visible, #view .node:visible").count() == 0
    page.type(TEXT)
    assert page.find("#view .node:visible").count() > 0


def test_a_click_on_a_token_shows_what_else_could_stand_there(page: WatchedPage, lab: RunningServer) -> None:
    page.find(".answer .token").nth(1).click()
    page.settle()
    assert menu_rows(page) == other_rows(lab, 1)
    bars = page.find(".menu-list .score-bar").evaluate_all("all => all.map(bar => Number.parseFloat(bar.style.width))")
    shares = [
        one["probability"]
        for one in api(lab, "/v1/alternatives", position=1, count=9, answer=search(lab)["token_ids"])["alternatives"]
    ]
    assert bars == pytest.approx([max(1, 100 * p) for p in shares], rel=1e-3)
    page.find(".answer .token").nth(3).click()  # another token, another menu
    page.settle()
    assert menu_rows(page) == other_rows(lab, 3)
    page.find("main").click(position={"x": 5, "y": 5})
    expect(page.find(".menu")).to_be_hidden()


def test_a_choice_by_click_locks_the_answer_up_to_it(page: WatchedPage, lab: RunningServer) -> None:
    before = page.tokens
    page.find(".answer .token").nth(1).click()
    page.settle()
    row = page.find(".menu-list li:not(.now)", has_not_text="end").nth(1)
    chosen = row.locator(".menu-token").inner_text()
    [asked] = page.asked(row.click, "/stream")
    assert page.prefix == asked["prefix"]
    output = search(lab, prefix=page.prefix)
    assert page.tokens == shown(output["tokens"]) != before
    assert page.tokens[:2] == [before[0], chosen]
    assert page.find(".answer .token.locked").count() == 2
    assert (
        page.find(".answer .token").nth(1).get_attribute("aria-label")
        == f"{chosen}, probability {probability(math.exp(output['log_probs'][1]))}, locked"
    )
    page.find(".answer .token").nth(2).click()  # a second choice, behind the first
    page.settle()
    page.find(".menu-list li:not(.now)", has_not_text="end").first.click()
    page.settle()
    assert len(page.prefix) == 3
    page.button("undo").click()
    page.settle()
    assert page.prefix == asked["prefix"]
    page.button("unlock all").click()
    page.settle()
    assert (page.prefix, page.tokens) == ([], before)


@pytest.mark.parametrize("undo", ["Escape", "Control+z"])
def test_a_choice_by_keys_and_its_undoing(page: WatchedPage, lab: RunningServer, undo: str) -> None:
    keys = page.page.keyboard
    before = page.tokens
    page.find(".answer .token").first.focus()
    keys.press("ArrowRight")
    keys.press("ArrowRight")
    keys.press("Enter")
    page.settle()
    assert menu_rows(page) == other_rows(lab, 2)
    keys.press("Escape")
    expect(page.find(".menu")).to_be_hidden()
    expect(page.find(".answer .token").nth(2)).to_be_focused()
    keys.press("Enter")
    page.settle()
    names = [row[0] for row in menu_rows(page)]
    chosen = next(name for name in names if name not in ("end", before[2]))
    keys.press(str(names.index(chosen) + 1))
    page.settle()
    assert page.tokens[:3] == [*before[:2], chosen]
    expect(page.find(".answer .token").nth(2)).to_be_focused()  # the keys go on from there
    keys.press("Enter")
    page.settle()
    names = [row[0] for row in menu_rows(page)]
    other = next(name for name in names if name not in ("end", chosen))
    keys.press("Home")
    for _ in range(names.index(other)):
        keys.press("ArrowDown")
    keys.press("Enter")
    page.settle()
    assert page.tokens[2] == other
    keys.press(undo)
    page.settle()
    assert len(page.prefix) == 3
    keys.press(undo)
    page.settle()
    assert (page.prefix, page.tokens) == ([], before)


def test_escape_closes_a_menu_whatever_has_the_focus(page: WatchedPage) -> None:
    page.find(".answer .token").nth(1).click()
    page.settle()
    page.find(".menu-list li", has_not_text="end").first.click()
    page.settle()
    locked = page.prefix
    held: list[Route] = []
    page.page.route("**/v1/alternatives", lambda route: held.append(route))
    page.find(".answer .token").nth(0).click()  # its rows never come
    expect(page.find(".menu")).to_be_visible()
    page.page.keyboard.press("Escape")
    expect(page.find(".menu")).to_be_hidden()
    assert page.prefix == locked
    held[0].abort()


def test_a_menu_stays_when_the_greedy_answer_comes_later(tab: Open) -> None:
    page = tab()
    held: list[Route] = []
    page.page.route("**/v1/generate", lambda route: held.append(route))
    page.page.goto(f"{page.url}/#answer?model=bahdanau&in=b+b+b&beam=4")
    page.find(".answer .token").nth(1).click()
    expect(page.find(".menu-list li.now")).to_be_focused()
    held[0].continue_()
    page.settle()
    expect(page.find(".menu-list li.now")).to_be_focused()


def test_another_answer_of_the_list_can_be_locked(page: WatchedPage, lab: RunningServer) -> None:
    other = page.find(".best .ranking button").nth(1)
    text = other.inner_text()
    other.click()
    page.settle()
    [wanted] = [one["token_ids"] for one in search(lab)["alternatives"] if one["text"] == text]
    assert search(lab, prefix=page.prefix)["token_ids"][: len(page.prefix)] == page.prefix
    assert wanted[: len(page.prefix)] == page.prefix
    assert page.tokens == shown(search(lab, prefix=page.prefix)["tokens"])


def test_the_text_is_copied(tab: Open, lab: RunningServer) -> None:
    page = tab(permissions=["clipboard-read", "clipboard-write"])
    page.open("answer", **{"model": "bahdanau", "in": TEXT})
    page.button("copy").click()
    assert page.page.evaluate("navigator.clipboard.readText()") == search(lab, beam=1, n_best=1)["text"]
    expect(page.find("#said")).to_have_text("copied")


def test_an_address_shows_another_visitor_the_same(page: WatchedPage, tab: Open) -> None:
    page.go("beam")
    page.find("#view .node.pruned", has_not_text="end").first.click()
    page.settle()
    page.find("#length-penalty").focus()
    page.page.keyboard.press("ArrowLeft")
    page.settle()
    other = tab()
    other.page.goto(page.page.url)
    other.settle()
    assert other.address == page.address
    assert {"view", "model", "in", "beam", "length_penalty", "prefix"} <= other.address.keys()
    assert (other.tokens, other.nodes()) == (page.tokens, page.nodes())
    assert other.find("textarea").input_value() == TEXT
    assert other.find("#beam-width").input_value() == "4"
    assert other.find("#length-penalty").input_value() == page.find("#length-penalty").input_value() == "0.9"
    other.button("undo").click()  # it was locked by the address, not by this visitor
    other.settle()
    assert other.prefix == []


def test_back_and_forward_lead_through_the_views(page: WatchedPage) -> None:
    page.go("beam")
    page.go("step")
    page.page.go_back()
    page.settle()
    assert page.find("#views a[aria-current=page]").inner_text() == "Beam"
    page.page.keyboard.press("3")  # the third view
    page.settle()
    assert (page.address["view"], page.address["in"]) == ("attention", TEXT)
