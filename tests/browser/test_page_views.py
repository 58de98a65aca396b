"""The other views of the page: attention, a step worked out, the map, two models side by side, runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Open
from playwright.sync_api import expect
from running_server import RunningServer
from watched_page import WatchedPage, minus, probability

TEXT = "a b c"
Json = dict[str, Any]


def api(server: RunningServer, path: str, **body: Any) -> Any:  # noqa: ANN401 - any JSON
    answer = server.client.post(path, json=body) if body else server.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def shown(tokens: list[str]) -> list[str]:
    return ["end" if token == "</s>" else token for token in tokens]


def ask(server: RunningServer, model: str, text: str = TEXT, **options: Any) -> Json:  # noqa: ANN401 - any option
    returned = ["tokens", "token_ids", "attention", "heads"] if model != "static" else ["tokens", "token_ids"]
    return dict(api(server, "/v1/generate", model=model, inputs=text, **{"return": returned, **options})["outputs"])


def tints(page: WatchedPage, values: list[list[float]], tint: str = "heat") -> list[str]:
    """The colours of values, by the page's own scale."""
    script = f"values => import('/page/dom.js').then(dom => values.flat().map(dom.{tint}))"
    return list(page.page.evaluate(script, values))


def cells(page: WatchedPage, within: str = "") -> list[str]:
    """The colours of a matrix, row by row, without its scale."""
    found = page.find(f"{within} svg.matrix > rect:not(.ground)").first.locator("xpath=..")
    return list(
        found.locator(":scope > rect:not(.ground)").evaluate_all("all => all.map(one => one.getAttribute('fill'))")
    )


def assert_drawn(page: WatchedPage, weights: list[list[float]], rows: list[str], columns: list[str]) -> None:
    """The matrix, its names and its table are those of these weights."""
    assert page.find("svg.matrix .row").evaluate_all("all => all.map(one => one.firstChild.data)") == rows
    assert page.find("svg.matrix .column").evaluate_all("all => all.map(one => one.firstChild.data)") == columns
    assert cells(page) == tints(page, weights)
    assert page.rows() == [[name, *map(minus, row)] for name, row in zip(rows, weights, strict=True)]


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_the_matrix_of_attention_is_that_of_the_api(tab: Open, lab: RunningServer, model: str) -> None:
    page = tab().open("attention", **{"model": model, "in": TEXT})
    output = ask(lab, model)
    heads = output["heads"]
    source, tokens = shown(output["attention"]["source_tokens"]), shown(output["tokens"])
    assert_drawn(page, np.mean([head for layer in heads["cross"] for head in layer], axis=0).tolist(), tokens, source)
    if model == "bahdanau":
        assert page.find(".thumbnails button").count() == 0
        return
    for kind, rows, columns in (("own", tokens, ["<s>", *tokens[:-1]]), ("source", source, source)):
        page.button({"own": "answer → answer", "source": "source → source"}[kind]).press("Enter")
        page.settle()
        expect(page.button({"own": "answer → answer", "source": "source → source"}[kind])).to_be_focused()
        for layer, head in ((1, 2), (2, 1)):
            page.button(f"layer {layer}, head {head}").click()
            assert page.address["attention.layer"] == str(layer)
            assert_drawn(page, heads[kind][layer - 1][head - 1], rows, columns)
    page.page.reload()
    page.settle()
    assert_drawn(page, heads["source"][1][0], source, source)
    page.button("mean of all").click()
    assert_drawn(page, np.mean([head for layer in heads["source"] for head in layer], axis=0).tolist(), source, source)


def faint(page: WatchedPage, kind: str) -> list[tuple[int, int]]:
    """Row and column of the lines that are faint, or are not."""
    found = page.find(f".links path{kind}").evaluate_all("all => all.map(one => [one.dataset.row, one.dataset.column])")
    return [(int(row), int(column)) for row, column in found]


def test_a_word_under_the_pointer_shows_where_it_looked(tab: Open, lab: RunningServer) -> None:
    page = tab().open("attention", **{"model": "bahdanau", "in": TEXT})
    output = ask(lab, "bahdanau")
    weights, tokens = output["attention"]["weights"], shown(output["tokens"])
    columns = shown(output["attention"]["source_tokens"])
    page.find(".links .word.start").nth(2).hover()
    assert {row for row, _ in faint(page, ":not(.faint)")} == {2}
    best = int(np.argmax(weights[2]))
    assert (
        page.text_of(".pointed-line")
        == f"“{tokens[2]}” looks most at “{columns[best]}”: {probability(weights[2][best])}."
    )
    assert page.find(".answer .token.selected").get_attribute("data-place") == "2" == page.address["at"]
    page.find(".links .word.end").nth(1).hover()
    assert {column for _, column in faint(page, ":not(.faint)")} == {1}
    assert page.text_of(".pointed-line") == f"Who looked at “{columns[1]}”."
    page.find("svg.matrix > rect:not(.ground)").nth(4 * len(columns) + 1).hover()
    assert faint(page, ":not(.faint)") in ([(4, 1)], [])
    assert page.text_of(".pointed-line") == f"“{tokens[4]}” → “{columns[1]}”: {probability(weights[4][1])}"
    page.find(".answer .token").nth(1).hover()  # the same selection from the answer
    assert {row for row, _ in faint(page, ":not(.faint)")} == {1}
    page.find(".answer .token").nth(1).click()
    page.page.keyboard.press("ArrowRight")
    assert {row for row, _ in faint(page, ":not(.faint)")} == {2}
    expect(page.find("svg.matrix .row.here")).to_have_attribute("data-row", "2")


@pytest.mark.parametrize("model", ["bahdanau", "static"])
def test_leave_one_out_is_the_occlusion_of_the_api(tab: Open, lab: RunningServer, model: str) -> None:
    page = tab().open("attention", **{"model": model, "in": TEXT})
    if model == "static":  # it has no attention to be shown
        assert "This model has no attention" in page.text_of(".attention-drawing")
    page.button("leave one out").click()
    page.settle()
    output = ask(lab, model)
    found = api(lab, "/v1/explain/occlusion", model=model, inputs=TEXT, answer=output["token_ids"], by="word")
    differences = np.array(found["differences"]).T[: len(output["tokens"])]  # the API adds an end where there is none
    scale = max(0.01, float(np.abs(differences).max()))
    columns = shown([part["text"] for part in found["parts"]])
    rows = shown(output["tokens"])
    assert page.rows() == [[name, *map(minus, row)] for name, row in zip(rows, differences.tolist(), strict=True)]
    totals = differences.sum(axis=0)
    colours = tints(page, (differences / scale).tolist(), "signed")
    assert cells(page) == [*colours, *tints(page, [(totals / max(0.01, np.abs(totals).max())).tolist()], "signed")]
    page.find("svg.matrix > rect:not(.ground)").first.hover()
    line = f"Without “{columns[0]}” log p of “{rows[0]}” falls by {minus(differences[0][0])}."
    assert page.text_of(".pointed-line") == line


def sheet(page: WatchedPage) -> dict[str, list[str]]:
    """The texts of each row of the worked figure, by its title."""
    rows = page.find(".worksheet .sheet-row").evaluate_all(
        "all => all.map(row => [row.querySelector('.title').textContent, "
        "[...row.children[1].querySelectorAll('text')].map(one => one.textContent)])"
    )
    return dict(rows)


def assert_worked_out(page: WatchedPage, step: Json, count: int) -> None:
    """The figure, its table and its lines are those of a step of the API."""
    assert page.text_of(".step-name") == f"writing token {step['position'] + 1} of {count}: {shown([step['token']])[0]}"
    table = page.rows()
    assert [row[:3] for row in table[: len(step["parts"])]] == [
        [part[name] for name in ("name", "symbol", "formula")] for part in step["parts"]
    ]
    for row, part in zip(table, step["parts"], strict=False):
        values = [
            float("-inf") if value is None else value for value in np.ravel(np.array(part["values"], dtype=object))
        ]
        texts = [minus(None if value == float("-inf") else value) for value in values]
        assert row[4] == ", ".join(texts[:12]) + (", …" if len(texts) > 12 else "")
    best = [[shown([one["token"]])[0], probability(one["probability"])] for one in step["most_probable"]]
    assert [[row[0], row[4]] for row in table[len(step["parts"]) :]] == best
    drawn = sheet(page)
    assert drawn["the most probable tokens"] == [text for pair in best for text in pair]
    parts = {part["name"]: part["values"] for part in step["parts"]}
    titles = {"scores": "scores", "weights": "softmax", "cross_scores": "scores of this step"}
    for name in titles.keys() & parts.keys():
        numbers = [minus(value) for value in parts[name]]
        assert [text.split("\u200b")[0] for text in drawn[titles[name]][: len(numbers)]] == numbers
    assert page.text_of(".config-line") == f"This drawing comes from {step['config']}"
    assert page.find(".notes li").all_inner_texts() == step["notes"]


@pytest.mark.parametrize("model", ["bahdanau", "transformer", "static"])
def test_a_step_is_worked_out_with_the_numbers_of_the_api(tab: Open, lab: RunningServer, model: str) -> None:
    page = tab().open("step", **{"model": model, "in": TEXT})
    answer = ask(lab, model)["token_ids"]

    def worked_out(**more: int) -> Json:
        body = {"model": model, "inputs": TEXT, "answer": answer, "dimensions": 48, **more}
        return dict(api(lab, "/v1/explain/step", **body))

    assert_worked_out(page, worked_out(position=0), len(answer))
    expect(page.button("The step before")).to_be_disabled()
    for _ in range(2):  # by the same key again
        page.button("The next step").press("Enter")
        page.settle()
        expect(page.button("The next step")).to_be_focused()
    assert_worked_out(page, worked_out(position=2), len(answer))
    page.button("The step before").click()
    page.settle()
    assert_worked_out(page, worked_out(position=1), len(answer))
    page.find(".answer .token").last.click()
    page.settle()
    last = worked_out(position=len(answer) - 1)
    assert_worked_out(page, last, len(answer))
    expect(page.button("The next step")).to_be_disabled()
    if model != "transformer":
        assert page.find(".step-view select").count() == 0
        return
    page.find("select[aria-label=layer]").select_option("1")
    page.settle()
    page.find("select[aria-label=head]").select_option("2")
    page.settle()
    assert_worked_out(page, worked_out(position=len(answer) - 1, layer=1, head=2), len(answer))
    assert (page.address["step.layer"], page.address["step.head"]) == ("1", "2")
    masked = [
        value
        for part in last["parts"]
        if part["name"] == "own_matrix"
        for row in part["values"]
        for value in row
        if value is None
    ]
    assert page.find(".worksheet .masked").count() == len(masked) > 0


def test_the_values_of_a_row_are_copied(tab: Open, lab: RunningServer) -> None:
    page = tab(permissions=["clipboard-read", "clipboard-write"])
    page.open("step", **{"model": "bahdanau", "in": TEXT})
    page.button("Copy the values of scores").press("Enter")
    expect(page.find("#said")).to_have_text("scores: copied")
    copied = json.loads(page.page.evaluate("navigator.clipboard.readText()"))
    answer = ask(lab, "bahdanau")["token_ids"]
    step = api(lab, "/v1/explain/step", model="bahdanau", inputs=TEXT, answer=answer, position=0, dimensions=48)
    assert [copied] == [part["values"] for part in step["parts"] if part["name"] == "scores"]


SENTENCES = ["a b c\tfirst", "c b a\tfirst", "d d d\tsecond", "h g f e\tsecond", "b\tthird"]


def places(page: WatchedPage) -> list[tuple[float, float]]:
    circles = page.find("svg.map .point circle")
    found = circles.evaluate_all(
        "all => all.map(one => [Number(one.getAttribute('cx')), Number(one.getAttribute('cy'))])"
    )
    return [(x, y) for x, y in found]


def test_the_map_shows_the_points_of_the_api(tab: Open, lab: RunningServer) -> None:
    page = tab().open("map", model="bahdanau")
    lines = page.find(".map-lines")
    lines.fill("\n".join(SENTENCES[:2]))
    page.button("Draw the map").click()
    expect(page.find(".map-view p.quiet")).to_have_text("Give at least three sentences, one a line.")
    lines.fill("\n".join(SENTENCES))
    page.button("Draw the map").press("Enter")
    page.settle()
    texts, labels = zip(*(line.split("\t") for line in SENTENCES), strict=True)
    found = api(lab, "/v1/map", model="bahdanau", inputs=list(texts))
    points = np.array(found["points"])
    expected = [
        [text, label, *map(minus, point)] for text, label, point in zip(texts, labels, points.tolist(), strict=True)
    ]
    assert page.rows() == expected
    drawn = np.array(places(page))
    scale = (drawn[0] - drawn[1])[0] / (points[0] - points[1])[0]
    assert drawn - drawn[0] == pytest.approx((points - points[0]) * [scale, -scale], abs=0.02)
    assert len({page.find("svg.map .point circle").nth(place).get_attribute("fill") for place in (0, 2, 4)}) == 3
    page.find("svg.map .point").nth(3).hover()
    assert page.text_of(".map-view .pointed-line") == texts[3]
    page.button("Larger").click()
    wide = np.array(places(page))
    assert wide - wide[0] == pytest.approx(1.4 * (drawn - drawn[0]), abs=0.02)
    page.button("All").click()
    assert places(page) == [tuple(place) for place in drawn.tolist()]
    box = page.find("svg.map").bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 2, steps=4)
    page.page.mouse.up()
    assert page.find(".map-list button").all_inner_texts() == list(texts)
    page.find("svg.map .point").nth(1).press("Enter")
    page.settle()
    assert (page.address["view"], page.address["in"]) == ("answer", texts[1])
    assert page.tokens == shown(ask(lab, "bahdanau", texts[1])["tokens"])


def test_two_models_stand_side_by_side(tab: Open, lab: RunningServer) -> None:
    page = tab().open("compare", **{"model": "bahdanau", "in": TEXT, "beam": 3})
    for other in ("transformer", "static"):  # the second is loaded when it is chosen
        if other == "static":
            page.find("select[aria-label='The other model']").select_option("static")
            page.settle()
            assert page.address["compare.with"] == "static"
        outputs = [ask(lab, name, beam=3) for name in ("bahdanau", other)]
        sides = page.find(".side").all()
        assert [side.locator("h3").first.inner_text() for side in sides] == ["bahdanau", other]
        assert [side.locator(".compared").inner_text() for side in sides] == [output["text"] for output in outputs]
        scores = [side.locator(".answer-facts .figure").first.inner_text() for side in sides]
        assert scores == [f"score {minus(output['score'])}" for output in outputs]
        for number, (name, output) in enumerate(zip(("bahdanau", other), outputs, strict=True)):
            tree = api(lab, "/v1/search", model=name, inputs=TEXT, beam=3, n_best=3)["output"]["trees"][0]["nodes"]
            boxes = page.nodes(f".side:nth-child({number + 1})")
            assert {key: box["sum"] for key, box in boxes.items()} == {
                node["id"]: minus(node["total"]) for node in tree
            }
            if name != "static":
                weights = [one["attention"]["weights"] for one in outputs if "attention" in one]
                most = max(max(row) for rows in weights for row in rows)
                scaled = (np.array(output["attention"]["weights"]) / most).tolist()
                assert cells(page, f".side:nth-child({number + 1})") == tints(page, scaled)
    assert page.find(".compared mark").count() > 0
    page.type("b b b")  # asked of both
    assert page.find(".compared").all_inner_texts() == [
        ask(lab, name, "b b b", beam=3)["text"] for name in ("bahdanau", "static")
    ]
    page.type("")
    assert page.find(".compared").all_inner_texts() == ["", ""]


def test_runs_are_listed_and_followed(tab: Open, lab: RunningServer, runs: Path) -> None:
    page = tab().open()  # a server with a folder of runs begins with them
    assert page.address["view"] == "runs"
    rows = api(lab, "/v1/runs")["runs"]
    listed = page.find(".runs-list tbody tr").all()
    assert [row.locator("strong").inner_text() for row in listed] == [row["name"] for row in rows]
    assert [row.locator(".state").inner_text() for row in listed] == [row["state"] for row in rows]
    best = [row.locator("td.figure").first.inner_text() for row in listed]
    assert best == ["–" if row["best"] is None else f"{row['metric']} {minus(row['best'])}" for row in rows]
    for box in page.find(".runs-list input:checked").all():
        box.uncheck()
    box = page.find("input[aria-label='Show halted']")
    box.check()
    log = api(lab, "/v1/run/log?name=halted&after=0")
    line = page.find(".runs-view figure polyline")
    expect(line).to_have_count(1)
    counted = "line => line.getAttribute('points').split(' ').length"
    assert line.evaluate(counted) == len(log["rows"])
    assert len(page.rows()) == len(log["rows"])
    losses = [minus(row["loss"], 4) for row in log["rows"]]
    assert [row[2] for row in page.rows()] == losses
    last = log["rows"][-1]
    with (runs / "halted" / "log.jsonl").open("a") as file:  # as if it still learnt
        file.write(json.dumps({**last, "update": last["update"] + 1, "loss": 0.125}) + "\n")
    expect(page.find(".runs-view figure tbody tr")).to_have_count(len(losses) + 1, timeout=20_000)
    assert page.rows()[-1] == ["halted", str(last["update"] + 1), "0.1250"]
    page.find("select[aria-label=Curve]").select_option("learning_rate")
    assert [row[2] for row in page.rows()][:3] == [minus(row["learning_rate"], 4) for row in log["rows"][:3]]
    assert page.find(".run-details tbody tr").count() == len(api(lab, "/v1/run?name=halted")["samples"][-8:])
    box.focus()
    page.page.wait_for_event("requestfinished", lambda request: request.url.endswith("/v1/runs"))
    page.settle()
    expect(box).to_be_focused()  # of the list that was read again


def test_two_runs_differ_in_some_keys_and_one_is_asked(tab: Open, lab: RunningServer) -> None:
    page = tab().open("runs")
    for box in page.find(".runs-list input:checked").all():
        box.uncheck()
    page.find("input[aria-label='Show first']").check()
    page.find("input[aria-label='Show second']").check()
    page.settle()
    found = api(lab, "/v1/runs/compare?one=first&other=second")["differences"]
    rows = page.find(".run-details tbody tr").all()
    expected = [[row[name] for name in ("key", "one", "other")] for row in found]
    assert [row.locator("th, td").all_inner_texts() for row in rows] == expected != []
    expect(page.find(".runs-view figure polyline")).to_have_count(2)
    page.find(".runs-list tr", has_text="second").get_by_role("button", name="ask it").click()
    page.settle()
    assert (page.address["view"], page.address["model"]) == ("answer", "second")
    text = page.address["in"]  # an example of its own
    assert page.tokens == shown(ask(lab, "second", text)["tokens"])
    assert page.find(".weights").count() == 0  # its training has ended
    page.open("answer", **{"model": "halted", "in": text})
    rows = {row["name"]: row for row in api(lab, "/v1/runs")["runs"]}
    best, all_updates = rows["halted"]["best_update"], rows["first"]["update"]
    assert page.text_of(".weights") == f"weights of update {best} of {all_updates}"
    assert api(lab, "/v1/generate", model="halted", inputs=text)["update"] == best
