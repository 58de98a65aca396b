"""The browser that the tests of the page drive: a Chromium of this machine, if there is one."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["BROWSER_TESTS", "CHROMIUM", "NOT_RUN"]

BROWSER_TESTS = Path(__file__).parent / "browser"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
NOT_RUN = (
    "tests/browser: NOT RUN. No Chromium was found on this machine, so nobody has looked at the page.\n"
    "Install one and run them again:  apt-get install chromium  (as root, `make test` does it by itself)"
)
