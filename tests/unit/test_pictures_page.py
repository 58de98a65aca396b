"""The map as a page: alone, safe, and every sentence in it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from antiphon.errors import DiskError, UserError
from antiphon.plots.map_page import MOST, write_page
from antiphon.plots.map_plane import Plane

EVIL = ["<script>alert(1)</script>", "</title></svg><img src=x onerror=alert(1)>", '"&amp;', "a\n\u202eb", "plain"]
PLANE = Plane(np.array([[0.0, 0.0], [4.0, 0.0], [4.0, 1.0], [0.0, 1.0], [2.0, 0.5]]), (0.75, 0.25))


class Reader(HTMLParser):
    """What a browser would make of it: the tags, and the text of each title inside a circle."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.titles: list[str] = []
        self.inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside.append(tag)
        if self.inside[-2:] == ["circle", "title"]:
            self.titles.append("")

    def handle_endtag(self, tag: str) -> None:
        while tag in self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.inside[-2:] == ["circle", "title"]:
            self.titles[-1] += data


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "map.html"
    write_page(PLANE, EVIL, path, "five <b>sentences</b>", "a note & more")
    return path.read_text()


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_sentences_are_text_whatever_they_say(page: str, read: Reader) -> None:
    assert read.titles == [EVIL[0], EVIL[1], EVIL[2], "a␊U+202Eb", "plain"]
    assert [tag for tag, _ in read.tags if tag in ("script", "img", "b")] == ["script"]
    assert "<b>sentences" not in page
    assert "five &lt;b&gt;sentences&lt;/b&gt;" in page


def test_only_its_own_script_may_run(page: str) -> None:
    """The policy names the script by its checksum, so a script that got in by any other way does not run."""
    [script] = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    [policy] = re.findall(r'Content-Security-Policy" content="(.*?)"', page)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" in policy
    assert "innerHTML" not in script
    assert "eval(" not in script


def test_it_needs_nothing_but_itself(page: str, read: Reader) -> None:
    assert [one for _, attributes in read.tags for one in attributes if one in ("src", "href")] == []
    assert re.findall(r"(?:https?:)?//[a-z]\S*", page.replace("http://www.w3.org/2000/svg", "")) == []
    assert "$" not in re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def test_points_stand_where_they_belong(read: Reader) -> None:
    circles = [attributes for tag, attributes in read.tags if tag == "circle"]
    x = [float(str(circle["cx"])) for circle in circles]
    y = [float(str(circle["cy"])) for circle in circles]
    assert (x[0], x[1], x[4]) == pytest.approx((40, 960, 500))
    assert y[0] - y[2] == pytest.approx((960 - 40) / 4)  # upwards is more, and one scale for both axes
    assert y[0] == y[1]
    [svg] = [attributes for tag, attributes in read.tags if tag == "svg"]
    assert svg["viewbox"] == "0 0 1000 450"


def test_the_shares_and_the_note_are_said(page: str) -> None:
    assert "first principal component, 75 % of the variance" in page
    assert "second principal component, 25 % of the variance" in page
    assert "a note &amp; more" in page


def test_refusals(tmp_path: Path) -> None:
    many = Plane(np.zeros((MOST + 1, 2)), (0.0, 0.0))
    with pytest.raises(UserError, match=r"map\.html: 5,001 points are too many for a page; draw at most 5,000"):
        write_page(many, ["a"] * (MOST + 1), tmp_path / "map.html", "many")
    with pytest.raises(ValueError, match="1 labels do not fit 5 points"):
        write_page(PLANE, ["a"], tmp_path / "map.html", "few")
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="cannot be written"):
        write_page(PLANE, EVIL, tmp_path / "file" / "map.html", "no")
