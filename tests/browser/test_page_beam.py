"""The beam on the page: the tree that is drawn is the tree of the API; it grows, is steered, and goes by keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import Open
from playwright.sync_api import expect
from running_server import RunningServer
from watched_page import WatchedPage, minus, probability

TEXT = "a b c"  # greedy search and a beam of 4 answer it differently
Json = dict[str, Any]


def searched(server: RunningServer, body: Json) -> Json:
    """The output of /v1/search for the same request as the page's."""
    asked = {name: value for name, value in body.items() if name != "search"}
    answer = server.client.post("/v1/search", json=asked)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["output"])


def words(nodes: list[Json], node: Json) -> list[str]:
    """The tokens up to a node."""
    before = [] if node["parent"] is None else words(nodes, nodes[node["parent"]])
    return [*before, "end" if node["token"] == "</s>" else node["token"]]


def expected(nodes: list[Json]) -> dict[int, Json]:
    """What is to be drawn of the nodes of a trace: token, sum, status, and whether it is part of the answer."""
    return {
        node["id"]: {
            "token": words(nodes, node)[-1], "sum": minus(node["total"]),
            "status": node["status"], "winner": node["winner"],
            "label": f"{' '.join(words(nodes, node))}: log p {minus(node['log_prob'])}, sum {minus(node['total'])}, "
            f"{node['status']}",
        }
        for node in nodes
    }  # fmt: skip


def drawn(page: WatchedPage) -> dict[int, Json]:
    """The same of what is drawn."""
    return {
        number: {
            **{name: node[name] for name in ("token", "sum", "label")},
            "status": node["marks"][1], "winner": "winner" in node["marks"],
        }
        for number, node in page.nodes().items()
    }  # fmt: skip


@pytest.fixture
def page(tab: Open) -> WatchedPage:
    return tab().open("beam", **{"model": "bahdanau", "in": TEXT, "beam": 4})


ADDRESSES = [
    {"model": "bahdanau", "beam": 1}, {"model": "bahdanau", "beam": 4}, {"model": "bahdanau", "beam": 9},
    {"model": "bahdanau", "beam": 3, "prefix": "5.4", "length_penalty": 0.4}, {"model": "transformer", "beam": 5},
    {"model": "bahdanau", "beam": 3, "patience": 1},
    {"model": "bahdanau", "sample": "true", "seed": 7, "temperature": 1.5},
    {"model": "static", "beam": 4},
]  # fmt: skip


def test_the_tree_that_is_drawn_is_that_of_the_api(tab: Open, lab: RunningServer) -> None:
    page = tab()
    for parts in ADDRESSES:
        [body] = page.asked(lambda parts=parts: page.open("beam", **{"in": TEXT, **parts}), "/stream")
        output = searched(lab, body)
        nodes = output["trees"][0]["nodes"]
        assert drawn(page) == expected(nodes), parts
        labels = page.find("#view .arc .step-value").all_text_contents()
        assert sorted(labels) == sorted(minus(node["log_prob"]) for node in nodes)
        rows = [
            [str(node["step"] + 1), " ".join(words(nodes, node)), minus(node["log_prob"]), minus(node["total"]),
             minus(node["score"]), f"{node['status']}, winner" if node["winner"] else node["status"]] for node in nodes
        ]  # fmt: skip
        assert page.rows() == rows, parts


def test_nodes_never_move_while_the_tree_grows(tab: Open) -> None:
    page = tab(reduced_motion="no-preference")
    page.page.goto(f"{page.url}/#beam?model=bahdanau&in=a+b+c&beam=4")
    places: dict[int, str] = {}
    sizes = []
    while "step 6 of 6" not in page.text_of(".step-text"):
        now = {number: node["place"] for number, node in page.nodes().items()}
        assert {number: now[number] for number in places.keys() & now.keys()} == {
            number: places[number] for number in places.keys() & now.keys()
        }
        places |= now
        sizes.append(len(now))
    page.settle()
    whole = {number: node["place"] for number, node in page.nodes().items()}
    assert places.items() <= whole.items()
    assert sizes == sorted(sizes)


def steps_drawn(page: WatchedPage, nodes: list[Json]) -> int:
    """The number of steps of which the nodes are drawn, each of them whole."""
    there = page.nodes().keys()
    steps = max((nodes[number]["step"] + 1 for number in there), default=0)
    assert there == {node["id"] for node in nodes if node["step"] < steps}
    assert page.text_of(".step-text") == f"step {steps} of {nodes[-1]['step'] + 1}"
    assert page.find("input[aria-label='Step shown']").input_value() == str(steps)
    return steps


def test_the_player_shows_any_step(page: WatchedPage, lab: RunningServer) -> None:
    nodes = searched(lab, {"model": "bahdanau", "inputs": TEXT, "beam": 4})["trees"][0]["nodes"]
    page.find("select[aria-label=Speed]").select_option("0.5")
    assert steps_drawn(page, nodes) == 6
    page.button("Play").click()
    assert steps_drawn(page, nodes) < 6  # from the start
    expect(page.find(".step-text")).to_have_text("step 2 of 6", timeout=20_000)
    page.button("Pause").click()
    paused = steps_drawn(page, nodes)
    page.page.wait_for_timeout(1500)  # longer than a step
    assert steps_drawn(page, nodes) == paused
    page.button("One step on").click()
    assert steps_drawn(page, nodes) == paused + 1
    page.find("select[aria-label=Speed]").select_option("4")
    page.button("Play").press("Enter")
    expect(page.find(".step-text")).to_have_text("step 6 of 6", timeout=20_000)
    page.button("To the start").click()
    assert steps_drawn(page, nodes) == 0
    slider = page.find("input[aria-label='Step shown']")
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    assert steps_drawn(page, nodes) == 2
    slider.press("End")
    assert steps_drawn(page, nodes) == 6
    assert drawn(page) == expected(nodes)


@pytest.mark.parametrize("status", ["kept", "pruned", "finished"])
def test_the_search_goes_on_from_any_node(page: WatchedPage, lab: RunningServer, status: str) -> None:
    [before] = page.asked(lambda: page.type(f"{TEXT} "), "/stream")
    output = searched(lab, before)
    nodes = output["trees"][0]["nodes"]
    loose = [one for one in nodes if one["status"] == status and not one["winner"]]
    node = next(one for one in loose if len(words(nodes, one)) > 1 and (status == "finished" or one["token"] != "</s>"))
    box = page.find(f"#view .node[data-id='{node['id']}']")
    [body] = page.asked(box.click if status == "pruned" else lambda: box.press("Enter"), "/stream")
    assert page.prefix == body["prefix"]
    assert [one for one in words(nodes, node) if one != "end"] == page.tokens[: len(page.prefix)]
    after = searched(lab, body)
    assert drawn(page) == expected(after["trees"][0]["nodes"])
    both = [" ".join(words(tree, one)) for tree in [after["trees"][0]["nodes"]] for one in tree]
    gone = [one for one in nodes if one["status"] != "pruned" and " ".join(words(nodes, one)) not in both]
    assert page.find("#view .ghosts rect").count() == len(gone)
    line = page.text_of(".changed-line")
    assert f"Score {minus(output['score'])} → {minus(after['score'])}" in line
    better = [one for one in nodes if one["status"] == "finished" and one["score"] > after["score"]]
    assert f"rank {len(better) + 1}." in line
    assert line.endswith("The answer is the same." if after["text"] == output["text"] else f"Before: {output['text']}")
    assert page.find("#view .node.locked").count() == len(page.prefix)
    if status != "pruned":
        assert page.page.evaluate("document.activeElement.classList.contains('node')")  # the keys go on in the tree
    page.page.keyboard.press("Escape")
    page.settle()
    assert (page.prefix, drawn(page)) == ([], expected(nodes))
    assert page.find("#view .ghosts rect").count() == 0


def finished(page: WatchedPage) -> list[list[str]]:
    return [
        [row.locator("button").inner_text(), *row.locator(".figure").all_inner_texts()[1:]]
        for row in page.find(".finished .ranking li").all()
    ]


def by_penalty(nodes: list[Json], penalty: float) -> list[list[str]]:
    """The finished hypotheses in the order of total / length ** penalty."""
    ends = [(node["total"] / (node["step"] + 1) ** penalty, node) for node in nodes if node["status"] == "finished"]
    ends.sort(key=lambda one: -one[0])
    return [
        [" ".join(words(nodes, node)[:-1]) or "(empty)", minus(score), f"Σ {minus(node['total'])} / {node['step'] + 1}"]
        for score, node in ends
    ]


def test_the_length_penalty_orders_the_finished_at_once(page: WatchedPage, lab: RunningServer) -> None:
    nodes = searched(lab, {"model": "bahdanau", "inputs": TEXT, "beam": 4})["trees"][0]["nodes"]
    assert finished(page) == by_penalty(nodes, 1.0)
    assert [row[1] for row in finished(page)] == [
        minus(score) for score in sorted((one["score"] for one in nodes if one["status"] == "finished"), reverse=True)
    ]
    slider = page.find("#length-penalty")

    def drag() -> None:
        slider.evaluate("slider => {slider.value = 2; slider.dispatchEvent(new Event('input'))}")

    assert page.asked(drag) == []
    assert finished(page) == by_penalty(nodes, 2.0)
    assert [row[0] for row in finished(page)] != [row[0] for row in by_penalty(nodes, 1.0)]
    [body] = page.asked(lambda: slider.press("ArrowLeft"), "/stream")
    assert body["length_penalty"] == pytest.approx(1.9)
    nodes = searched(lab, body)["trees"][0]["nodes"]
    assert finished(page) == by_penalty(nodes, 1.9)


def test_every_control_of_the_search_changes_it(page: WatchedPage, lab: RunningServer) -> None:
    def asks(work: Any, **options: Any) -> None:  # noqa: ANN401 - a click, and any option
        body = page.asked(work, "/stream")[-1]
        assert {name: body.get(name) for name in options} == options
        assert drawn(page) == expected(searched(lab, body)["trees"][0]["nodes"])

    width = page.find("#beam-width")
    asks(lambda: (width.fill("7"), width.press("Enter"), width.blur()), beam=7, n_best=7)
    asks(lambda: (width.fill("99"), width.blur()), beam=9)  # all tokens that there are
    asks(lambda: (width.fill("3"), width.blur()), beam=3)
    asks(lambda: page.find("#patience").select_option("1"), patience=1, beam=3)
    asks(lambda: page.find("#search-kind").select_option("greedy"), beam=None, patience=None)  # the model's own
    expect(page.find("#beam-width")).to_be_hidden()
    asks(lambda: page.find("#search-kind").select_option("sample"), sample=True, beam=None)
    asks(page.button("Draw another sample").click, sample=True)
    seed = page.address["seed"]
    asks(page.button("Draw another sample").click, sample=True)
    assert page.address["seed"] != seed
    asks(lambda: page.find("#temperature").press("ArrowRight"), temperature=pytest.approx(1.1))
    asks(lambda: page.find("#search-kind").select_option("beam"), sample=None, temperature=None, beam=4)


def test_the_path_of_greedy_search_is_marked(page: WatchedPage, lab: RunningServer) -> None:
    greedy = lab.client.post("/v1/search", json={"model": "bahdanau", "inputs": TEXT, "beam": 1}).json()["output"]
    beam = searched(lab, {"model": "bahdanau", "inputs": TEXT, "beam": 4})
    marked = [node["token"] for node in page.nodes().values() if "greedy" in node["marks"]]
    assert marked == greedy["tokens"][: len(marked)] != beam["tokens"]
    line = f"Greedy search writes “{greedy['text']}” (score {minus(greedy['score'])})"
    assert page.text_of(".legend").startswith(f"{line}; the beam's answer has {minus(beam['score'])}.")
    page.find("#greedy").press("Space")
    assert page.find("#view .node.greedy").count() == 0
    assert page.find(".legend").inner_text() == ""


def test_numbers_are_log_probabilities_or_probabilities(page: WatchedPage, lab: RunningServer) -> None:
    page.find("select[aria-label=Numbers]").select_option("p")
    nodes = searched(lab, {"model": "bahdanau", "inputs": TEXT, "beam": 4})["trees"][0]["nodes"]
    assert {number: node["sum"] for number, node in page.nodes().items()} == {
        node["id"]: probability(math.exp(node["total"])) for node in nodes
    }
    page.find("select[aria-label=Numbers]").select_option("log")
    assert drawn(page) == expected(nodes)


def test_the_arrow_keys_lead_through_the_tree(page: WatchedPage, lab: RunningServer) -> None:
    nodes = searched(lab, {"model": "bahdanau", "inputs": TEXT, "beam": 4})["trees"][0]["nodes"]
    start = page.find("#view .node[tabindex='0']")
    assert start.count() == 1
    start.focus()

    def here() -> Json:
        return nodes[int(page.page.evaluate("document.activeElement.dataset.id"))]

    def press(key: str) -> Json:
        page.page.keyboard.press(key)
        return here()

    first = here()
    assert (first["parent"], first["winner"]) == (None, True)
    second = press("ArrowRight")
    assert second["parent"] == first["id"]
    assert press("ArrowLeft") == first
    column = [node for node in nodes if node["step"] == 0]
    for node in column[1:]:
        assert press("ArrowDown") == node
    assert press("ArrowDown") == column[-1]  # nothing is below the last
    for node in column[-2::-1]:
        assert press("ArrowUp") == node
    press("ArrowDown")
    node = here()
    line = page.text_of("#view .pointed-line")
    assert line.startswith(f"{node['token']} · log p {minus(node['log_prob'])}")
    assert "rank 2 of step 1 · kept" in line
    assert page.find("#view .node[tabindex='0']").count() == 1


def test_a_long_tree_has_a_strip_that_moves_it(tab: Open) -> None:
    page = tab(viewport={"width": 700, "height": 900}).open("beam", **{"model": "bahdanau", "in": TEXT, "beam": 4})
    expect(page.find(".minimap")).to_be_hidden()
    before = page.find("#view svg.beam").bounding_box()
    for _ in range(3):
        page.button("Larger").click()
    after = page.find("#view svg.beam").bounding_box()
    assert before is not None
    assert after is not None
    assert after["width"] == pytest.approx(1.2**3 * before["width"], rel=0.01)
    expect(page.find(".minimap")).to_be_visible()
    assert page.find(".minimap rect:not(.frame)").count() == len(page.nodes())
    scroller = page.find("#view .beam-scroll")
    strip = page.find(".minimap")
    box = strip.bounding_box()
    assert box is not None
    strip.click(position={"x": box["width"] - 2, "y": 10})
    two_frames = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    scroller.evaluate(two_frames)  # the strip follows when the browser tells it that the tree has moved
    at = scroller.evaluate("one => [one.scrollLeft, one.scrollWidth - one.clientWidth]")
    assert at[0] == pytest.approx(at[1], abs=2)
    frame = page.find(".minimap .frame").bounding_box()
    assert frame is not None
    assert frame["x"] + frame["width"] == pytest.approx(box["x"] + box["width"], abs=6)
    for _ in range(4):
        page.button("Smaller").click()
    expect(strip).to_be_hidden()


def test_no_label_of_a_large_tree_lies_on_another(tab: Open) -> None:
    """A beam of ten over thirty steps; what stands in a node may not leave it either."""
    page = tab().open("beam", **{"model": "bahdanau", "in": TEXT, "beam": 9, "max_length": 30, "length_penalty": 2})
    boxes = np.array(
        page.page.evaluate(
            """() => [...document.querySelectorAll("#view svg.beam text")].map(one => one.getBoundingClientRect())
                .map(box => [box.left, box.top, box.right, box.bottom])"""
        )
    )
    shrunk = boxes + np.array([1, 3, -1, -3])  # a line of text is higher than its letters
    for number, box in enumerate(shrunk[:-1]):
        rest = shrunk[number + 1 :]
        apart = (rest[:, 0] >= box[2]) | (rest[:, 2] <= box[0]) | (rest[:, 1] >= box[3]) | (rest[:, 3] <= box[1])
        assert apart.all()
    assert len(boxes) > 2 * 9 * 25


def test_without_an_input_nothing_of_the_last_search_is_left(page: WatchedPage) -> None:
    page.type("")
    assert page.find("#view .node:visible, .finished li, .legend span").count() == 0
    assert "Type something above" in page.text_of("#view .pointed-line")
