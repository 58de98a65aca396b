"""A page in a browser: what it does wrong is written down, and its parts can be asked for by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import parse_qs, urlencode

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, Page, Request, Response, expect

__all__ = ["FLAGS", "OTHER_NAME", "WatchedPage", "minus", "probability"]

OTHER_NAME = "lab.test"  # of this machine, as another machine would name it
# Sandboxes need rights that root in a container lacks; any host but this machine does not exist.
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
QUIET = 5  # looks in a row, 20 ms apart, at which no request is under way

Json = dict[str, Any]


class WatchedPage:
    """A tab of its own, on the page of one server."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.problems: list[str] = []  # whatever a user's console would show
        self.allowed: list[str] = []  # patterns of problems that a test provokes
        self.requests: list[Request] = []
        self._under_way: set[Request] = set()
        self.page: Page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", self._begin)
        self.page.on("requestfinished", lambda request: self._under_way.discard(request))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._answered)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text} ({message.location.get('url', '')})")

    def _begin(self, request: Request) -> None:
        self.requests.append(request)
        self._under_way.add(request)
        if not request.url.startswith((f"{self.url}/", "data:", f"blob:{self.url}/")):
            self.problems.append(f"request to elsewhere: {request.url}")

    def _failed(self, request: Request) -> None:
        """A search that is replaced by another is aborted; nothing else may fail."""
        self._under_way.discard(request)
        if request.failure != "net::ERR_ABORTED" or "/v1/" not in request.url:
            self.problems.append(f"request failed: {request.url} {request.failure}")

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.problems.append(f"status {response.status}: {response.url}")

    @property
    def unexpected(self) -> list[str]:
        """The problems that the test has not provoked."""
        return [one for one in self.problems if not any(re.search(pattern, one) for pattern in self.allowed)]

    def open(self, view: str = "", **parts: str | float) -> WatchedPage:
        """Go to an address of the page, and wait for its answer."""
        self.page.goto(f"{self.url}/{f'#{view}?{urlencode(parts)}' if view else ''}")
        return self.settle()

    def settle(self) -> WatchedPage:
        """Wait until no request is under way."""
        quiet = 0
        while quiet < QUIET:
            self.page.wait_for_timeout(20)
            quiet = 0 if self._under_way else quiet + 1
        return self

    def asked(self, work: Callable[[], object], path: str = "") -> list[Json]:
        """The bodies of the requests to a path of the API that come of some work."""
        before = len(self.requests)
        work()
        self.settle()
        sent = [one for one in self.requests[before:] if one.method == "POST" and one.url.endswith(path)]
        return [one.post_data_json for one in sent]

    def find(self, selector: str, *, has_text: str | None = None, has_not_text: str | None = None) -> Locator:
        """The elements of a selector."""
        return self.page.locator(selector, has_text=has_text, has_not_text=has_not_text)

    def button(self, name: str) -> Locator:
        """The button with a label."""
        return self.page.get_by_role("button", name=name, exact=True)

    def go(self, view: str) -> WatchedPage:
        """Click on a view."""
        self.find(f"#views a[data-view={view}]").click()
        return self.settle()

    def type(self, text: str) -> None:
        """Type over the text of the only source, and send it."""
        self.find("textarea:visible").first.fill(text)
        self.page.keyboard.press("Enter")
        self.settle()

    @property
    def tokens(self) -> list[str]:
        """The tokens of the answer."""
        return self.find(".answer .token > span:first-child").all_inner_texts()

    @property
    def address(self) -> dict[str, str]:
        """What the address says behind `#`, and its view."""
        view, _, query = self.page.url.partition("#")[2].partition("?")
        return {"view": view, **{name: values[0] for name, values in parse_qs(query).items()}}

    @property
    def prefix(self) -> list[int]:
        """The ids of the tokens that are locked, by the address."""
        return [int(part) for part in self.address.get("prefix", "").split(".") if part]

    def nodes(self, within: str = "#view") -> dict[int, Json]:
        """The nodes of the tree that is drawn: token, numbers, marks and place of each by its id."""
        found = self.page.eval_on_selector_all(
            f"{within} svg.beam .node[data-id]",
            """boxes => boxes.map(box => ({id: Number(box.dataset.id), marks: box.getAttribute("class").split(" "),
                token: box.querySelector(".token").textContent, sum: box.querySelector(".sum").textContent,
                place: box.getAttribute("transform"), label: box.getAttribute("aria-label")}))""",
        )
        return {one["id"]: one for one in found}

    def rows(self, within: str = "#view") -> list[list[str]]:
        """The cells of the table below a picture, which is opened."""
        details = self.find(f"{within} details.as-table").first
        if details.get_attribute("open") is None:
            details.locator("summary").click()
        expect(details.locator("tbody tr").first).to_be_attached()
        return details.locator("tbody").evaluate(
            "body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent))"
        )

    def text_of(self, selector: str) -> str:
        """The text of the first element of a selector, as it stands."""
        return self.find(selector).first.inner_text()


def minus(value: float | None, digits: int = 2) -> str:
    """A number as the page writes it."""
    if value is None:
        return "−∞"
    text = str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
    return (text.replace("-", "") if float(text) == 0 else text).replace("-", "−")


def probability(value: float) -> str:
    """A probability as the page writes it."""
    if 0 < value < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 < value < 1 else minus(value)
