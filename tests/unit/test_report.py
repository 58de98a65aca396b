"""report.html and card.md: everything in one file, nothing from a model is markup, nothing missing hurts."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from antiphon.plots.attention_matrix import draw_attention_matrix
from antiphon.reports.card import has_attention, write_card
from antiphon.reports.report import write_report
from antiphon.reports.run_record import read_record

EVIL = "<img src=x onerror=alert(1)>\"'</pre></title><script>alert(2)</script>&amp;\x1b[31m `` ` | $style"
TAGS = {
    "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "p", "h1", "h2", "h3",
    "pre", "span", "div", "b", "i", "img", "figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td",
    "dl", "dt", "dd", "details", "summary",
}  # fmt: skip


class Page(HTMLParser):
    """The text that a browser would show."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "g2p"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(
        "data:\n  train: a.tsv  # the examples\n  dev: null\n  hold_out: 0.05\n"
        "  source: {tokens: characters, max_length: 50}\n"
        "model:\n  encoder: {kind: lstm, layers: 1, bidirectional: true}\n  decoder: {kind: luong, size: 64}\n"
    )
    (run / "command.txt").write_text("antiphon train g2p\n")
    (run / "environment.json").write_text(json.dumps({"python": "3.11.2", "torch": "2.13.0", "threads": 2}))
    places = [{"file": "a.tsv", "line": 17, "reason": "empty target"}]
    dropped = {"total": 1, "reasons": {"empty target": 1}, "places": places}
    data = {"pairs": 12345, "dropped": dropped, "warnings": ["3 dev sources are in train"]}
    (run / "data.json").write_text(json.dumps(data))
    (run / "metrics.csv").write_text(
        "update,epoch,train_loss,dev_loss,per,learning_rate,best\n"
        "100,1,2.5,2.75,40.5,0.001,1\n200,2,1.5,,20.25,0.001,1\nbroken\n"
    )
    samples = [(100, "cat", ["K AE T"], "K"), (200, "cat", ["K AE T", "K A T"], "K A T")]
    lines = [json.dumps({"update": u, "source": s, "references": r, "output": o}) for u, s, r, o in samples]
    (run / "samples.jsonl").write_text("\n".join(lines) + '\n{"update": 3')
    summary = {"parameters": 123456, "best_update": 200, "metric": "per", "best_value": 20.25, "updates": 200}
    ending = {"seconds": 3725, "stopped": "all epochs done", "weights": "best"}
    (run / "summary.json").write_text(json.dumps(summary | ending))
    draw_attention_matrix(np.eye(2), ["a", "b"], ["c", "d"], run / "attention" / "update-200-1.png")
    (run / "results.png").write_bytes((run / "attention" / "update-200-1.png").read_bytes())
    return run


def _page(run: Path) -> tuple[str, Page]:
    write_report(run)
    written = (run / "report.html").read_text(encoding="utf-8")
    page = Page(written)
    assert page.open == []
    return written, page


def test_the_report_holds_the_whole_run(run: Path) -> None:
    written, page = _page(run)
    for fact in ("g2p", "antiphon train g2p", "20.25", "123,456", "1 h 02 min", "all epochs done", "K A T", "12,345",
                 "empty target", "3 dev sources are in train", "# the examples", "2.13.0", "metrics.csv"):  # fmt: skip
        assert fact in page.text, fact
    images = [attributes["src"] or "" for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 2
    assert all(source.startswith("data:image/png;base64,") for source in images)
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"base64,[^\"]*", "", written))


def test_a_run_that_was_never_evaluated(run: Path) -> None:
    summary = {"best_update": None, "weights": "last", "stopped": "interrupted", "epochs": 1.4286}
    (run / "summary.json").write_text(json.dumps(summary))
    (run / "metrics.csv").unlink()
    _, page = _page(run)
    assert "last (no evaluation yet)" in page.text
    assert "None" not in page.text
    assert "1.4epochs" in page.text


def test_epochs_have_one_decimal_and_no_speed_is_an_empty_cell(run: Path) -> None:
    (run / "metrics.csv").write_text("update,epoch,tokens_per_second,dev_loss,best\n10,1.4286,nan,2.5,1\n")
    written, _ = _page(run)
    cells = ["10", "1.4", "", "2.5"]
    assert '<tr class="best">' + "".join(f'<td class="number">{cell}</td>' for cell in cells) + "</tr>" in written


def test_right_and_wrong_by_update(run: Path) -> None:
    written, page = _page(run)
    squares = [attributes["class"] for tag, attributes in page.tags if tag == "i"]
    assert squares == ["wrong", "right"]
    assert "✓ right" in page.text
    assert '<tr class="best"><td class="number">200</td>' in written


def test_text_from_a_model_is_never_markup(run: Path) -> None:
    sample = {"update": 1, "source": EVIL, "references": [EVIL], "output": EVIL + "x"}
    (run / "samples.jsonl").write_text(json.dumps(sample) + "\n" + json.dumps(sample | {"update": 2}))
    (run / "config.yaml").write_text(f"data: # {EVIL[:20]}\n  x: {EVIL}\n")
    (run / "command.txt").write_text(EVIL)
    (run / "summary.json").write_text(json.dumps({"stopped": EVIL, "metric": EVIL, "weights": EVIL, "best_value": 1}))
    evil = {EVIL: EVIL, "torch": EVIL, "list": [{EVIL: EVIL}], "warnings": [EVIL], "deep": {"x": [EVIL]}}
    for name in ("data.json", "environment.json"):
        (run / name).write_text(json.dumps(evil))
    (run / "metrics.csv").write_text("update,<script>,best\n1,2,1\n")
    (run / "attention" / "update-200-1.png").rename(run / "attention" / "<script>.png")
    written, page = _page(run)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "<script" not in written
    assert "\x1b" not in written
    assert "<img src=x onerror=alert(1)>" in page.text


def test_text_from_a_model_is_only_code_in_the_card(run: Path) -> None:
    decoder = {"kind": EVIL, "x": EVIL}
    (run / "config.yaml").write_text(json.dumps({"data": {"train": EVIL}, "model": {"decoder": decoder}}))
    (run / "command.txt").write_text(EVIL)
    (run / "environment.json").write_text(json.dumps({"torch": EVIL}))
    (run / "data.json").write_text(json.dumps({"warnings": [EVIL, "two\n# lines"]}))
    (run / "summary.json").write_text(json.dumps({"metric": EVIL, "weights": EVIL}))
    (run / "metrics.csv").write_text("update,<script>|,best\n1,2,1\n")
    write_card(run)
    card = (run / "card.md").read_text(encoding="utf-8")
    # train, the decoder's kind (said twice) and x, command, torch, warning, metric, weights, the column's name
    assert card.count("<script>") == 10
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", card)
    assert "<" not in outside
    assert "\n# lines" not in card


def test_an_empty_or_broken_run_still_gets_its_report_and_card(tmp_path: Path) -> None:
    _, page = _page(tmp_path)
    assert tmp_path.name in page.text
    files = "config.yaml environment.json data.json metrics.csv samples.jsonl summary.json results.png command.txt"
    for name in files.split():
        (tmp_path / name).write_bytes(b"\xff{[: \x00\n- ]")
    _page(tmp_path)
    write_card(tmp_path)
    assert "antiphon generate" in (tmp_path / "card.md").read_text()


def test_the_newest_pictures_are_shown_and_the_rest_counted(run: Path) -> None:
    picture = (run / "results.png").read_bytes()
    for update in range(100, 2100, 100):
        (run / "attention" / f"update-{update}-1.png").write_bytes(picture)
    _, page = _page(run)
    assert "8 older ones" in page.text
    assert "update-2000-1" in page.text
    assert "update-900-1" in page.text
    assert "update-800-1" not in page.text


def test_the_card_says_what_it_is_and_how_to_use_it(run: Path) -> None:
    write_card(run)
    card = (run / "card.md").read_text(encoding="utf-8")
    for fact in ("# `g2p`", "Luong encoder-decoder with 123,456 parameters", "- train: `a.tsv`", "5 % of the sources",
                 "layers 1, bidirectional yes", "| phoneme error rate (%) | 20.25 |", "At update 200",
                 "antiphon generate g2p input.txt", "antiphon.load('g2p')", "at most 50 tokens",
                 "`3 dev sources are in train`", "- torch: `2.13.0`", "left out: 1"):  # fmt: skip
        assert fact in card, fact


@pytest.mark.parametrize(
    ("model", "draws"),
    [
        ("{kind: language-model, decoder: {kind: plain}}", False),
        ("{kind: language-model, decoder: {kind: transformer}}", True),
        ("{kind: concatenated, decoder: {kind: plain}}", False),
        ("{kind: encoder-decoder, encoder: {kind: gru}, context: {kind: last}, decoder: {kind: plain}}", False),
        ("{kind: encoder-decoder, encoder: {kind: transformer}, context: {kind: last}, decoder: {kind: plain}}", True),
        ("{encoder: {kind: gru}, context: {kind: attention}, decoder: {kind: luong}}", True),
    ],
)
def test_only_a_model_with_attention_is_explained(run: Path, model: str, draws: bool) -> None:
    (run / "config.yaml").write_text(f"model: {model}\n")
    assert has_attention(run) == draws


def test_the_card_says_what_null_means_and_what_is_held_out_of_a_stream(run: Path) -> None:
    (run / "config.yaml").write_text(
        "data: {train: a.txt, dev: null, hold_out: 0.05, window: 64}\n"
        "model: {kind: language-model, decoder: {kind: plain, size: 64, from: null}}\n"
    )
    write_card(run)
    card = (run / "card.md").read_text(encoding="utf-8")
    assert "- decoder: `plain` (size 64, from scratch)" in card
    assert "- dev: the last 5 % of the lines (at most 2,000), held out of train" in card


def test_the_card_of_averaged_weights_gives_their_own_value(run: Path) -> None:
    write_card(run)
    assert "average" not in (run / "card.md").read_text(encoding="utf-8")
    summary = {"best_update": 200, "metric": "per", "best_value": 19.5, "weights": "averaged"}
    (run / "summary.json").write_text(json.dumps(summary))
    write_card(run)
    card = (run / "card.md").read_text(encoding="utf-8")
    assert "an average and do better: phoneme error rate (%) 19.5" in card
    assert "| phoneme error rate (%) | 20.25 |" in card


def test_the_record_reads_what_is_whole(run: Path) -> None:
    record = read_record(run)
    assert [row["update"] for row in record.metrics] == [100.0, 200.0]
    assert "dev_loss" not in record.metrics[1]
    assert [sample.correct for sample in record.samples] == [False, True]
    assert record.best() == record.metrics[1]
    assert record.best_value() == 20.25
    (run / "summary.json").unlink()
    (run / "metrics.csv").write_text("update,dev_loss,best\n1,3.5,1\n2,3.25,1\n3,4.0,0\n")
    assert read_record(run).best_value() == 3.25
