"""How soon the page is painted, and how many frames a second it draws while a beam of five grows.

    python benchmarks/page.py runs/demo PHILHARMONIC

Measured by the browser's own trace, over loopback, with a server that is started here; needs chromium and playwright.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROUNDS = 5
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
FRAME = 1000 / 60  # milliseconds


@contextmanager
def served(run: Path) -> Iterator[str]:
    """The address of a server of this run."""
    command = [sys.executable, "-m", "antiphon.cli.main", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if " at http" in line)
        found = re.search(r"at (http://\S+);", line)
        assert found is not None
        try:
            yield found[1]
        finally:
            process.kill()


def first_paint(browser: Browser, url: str) -> tuple[float, float]:
    """Milliseconds to the first contentful paint, and to the answer of the example."""
    page = browser.new_context().new_page()
    page.goto(url)
    page.wait_for_selector(".token.end")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    answered = page.evaluate(
        "performance.getEntriesByType('resource').filter((one) => one.name.includes('/v1/'))[0].responseEnd"
    )
    page.context.close()
    return float(paint), float(answered)


def growth(browser: Browser, url: str) -> tuple[list[float], Counter[str]]:
    """CPU time in milliseconds of each task of the page while the tree grew, and its frames by their fate."""
    page = browser.new_context().new_page()
    page.goto(url)
    page.wait_for_selector("g.node.winner")
    page.select_option("select[aria-label='Speed']", "4")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        browser.start_tracing(page=page, path=str(trace), categories=["toplevel", "cc", "benchmark"])
        page.click("button[aria-label='Play']")
        page.wait_for_selector("button[aria-label='Pause']")
        page.wait_for_selector("button[aria-label='Play']", timeout=60_000)
        browser.stop_tracing()
        events: list[dict[str, Any]] = json.loads(trace.read_text("utf-8"))["traceEvents"]
    page.context.close()
    mains = {(one["pid"], one["tid"]) for one in events if one.get("args", {}).get("name") == "CrRendererMain"}
    tasks = [
        one["tdur"] / 1000
        for one in events
        if one["name"].endswith("RunTask") and "tdur" in one and (one["pid"], one["tid"]) in mains
    ]
    reports = [one["args"]["frame_reporter"] for one in events if "frame_reporter" in one.get("args", {})]
    return tasks, Counter(str(report.get("state", "")) for report in reports)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("text")
    arguments = parser.parse_args()
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with served(arguments.run) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        paints = [first_paint(browser, f"{url}/#answer?in={arguments.text}") for _ in range(ROUNDS)]
        grown = [growth(browser, f"{url}/#beam?in={arguments.text}&beam=5") for _ in range(ROUNDS)]
        browser.close()
    folder = Path(__file__).parents[1] / "src" / "antiphon" / "serve" / "page"
    size = sum(file.stat().st_size for file in folder.iterdir())
    tasks = [task for found, _ in grown for task in found]
    frames: Counter[str] = sum((fates for _, fates in grown), Counter())
    print(f"cores {os.cpu_count()}, medians of {ROUNDS}")
    print(f"first contentful paint {statistics.median(paint for paint, _ in paints):.0f} ms")
    print(f"answer {statistics.median(answer for _, answer in paints):.0f} ms")
    over = sum(task > FRAME for task in tasks)
    print(f"while the tree grew: {len(tasks)} tasks, longest {max(tasks):.1f} ms, longer than a frame: {over}")
    print("frames: " + ", ".join(f"{count} {fate}" for fate, count in frames.most_common() if fate))
    print(f"files of the page {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
