"""A real Chromium for tests of the page, through Playwright. Without either, such tests are skipped, in one line.

``with chromium() as browser, opened(browser, url) as tab: tab.page.click(...)``. Playwright keeps an event loop on its
thread, so a browser belongs into a fixture of a module that does nothing else with asyncio.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)
AXE = Path(__file__).parent / "axe" / "axe.min.js"
PATIENCE_MS = 30_000
"""Milliseconds that a test waits for what the page does."""


def program() -> str | None:
    """The path of a Chromium on this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def lacking() -> str:
    """The reason why no browser can be started; empty where one can."""
    if importlib.util.find_spec("playwright") is None:
        return "no Playwright: pip install playwright"
    return "" if program() else "no Chromium: apt-get install chromium"


needs_browser = pytest.mark.browser


@contextlib.contextmanager
def chromium(microphone: Path | None = None, camera: Path | None = None, name: str = "") -> Iterator[Any]:
    """A browser. ``microphone``: a WAV file that its microphone hears, once after the other; else beeps. ``camera``: a
    Y4M file that its camera sees; else a picture of the browser's own. ``name``: of a host that leads to 127.0.0.1."""
    from playwright.sync_api import sync_playwright

    heard = [f"--use-file-for-fake-audio-capture={microphone}"] if microphone else []
    seen = [f"--use-file-for-fake-video-capture={camera}"] if camera else []
    named = [f"--host-resolver-rules=MAP {name} 127.0.0.1"] if name else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=[*ARGUMENTS, *heard, *seen, *named])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A page of the server in a browser, and what went wrong in it.

    - ``errors``: errors of scripts and of the policy, as the browser's console tells them
    - ``foreign``: addresses of other sites that the page asked for
    - ``dialogs``: texts of alerts that scripts opened
    """

    page: Any
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def until(self, expression: str) -> None:
        """Wait until an expression of JavaScript is true. Playwright's way needs ``eval``, which the page forbids."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            self.page.wait_for_timeout(50)

    def violations(self) -> list[str]:
        """Findings of axe-core: one line a rule, with the first element that breaks it."""
        self.page.evaluate(f"{AXE.read_text('utf-8')}; undefined")
        found = self.page.evaluate("axe.run(document).then(({violations}) => violations)")
        return [f"{one['id']}: {one['nodes'][0]['html']} {one['nodes'][0]['failureSummary']}" for one in found]


def ask(tab: Tab, text: str) -> None:
    """Send a question from the chat."""
    tab.page.get_by_role("textbox", name="Ask something").fill(text)
    tab.page.get_by_role("button", name="Send").click()


def answer(tab: Tab, number: int = -1) -> Any:
    """The element of an answer, the last one unless ``number`` names another, once the answer is whole."""
    found = tab.page.get_by_role("article", name="Answer")
    last = found.last if number < 0 else found.nth(number)
    last.and_(tab.page.locator("[aria-busy=false]")).wait_for()
    return last


@contextlib.contextmanager
def opened(
    browser: Any,
    url: str,
    *,
    width: int = 1280,
    height: int = 800,
    scheme: str = "light",
    locale: str = "en-GB",
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Tab]:
    """The page at ``url`` in a window of its own, with the page's own ``settings`` and Playwright's ``options``."""
    size = {"width": width, "height": height}
    granted = ["microphone", "camera", "clipboard-read", "clipboard-write"]
    context = browser.new_context(viewport=size, color_scheme=scheme, locale=locale, permissions=granted, **options)
    context.set_default_timeout(PATIENCE_MS)
    if settings:
        stored = json.dumps(json.dumps(settings))
        context.add_init_script(f"localStorage.setItem('edgeserve.settings', {stored})")
    try:
        tab = Tab(context.new_page())
        _watch(tab, urlsplit(url).netloc)
        tab.page.goto(url)
        tab.page.wait_for_selector("main")
        yield tab
    finally:
        context.close()


def _watch(tab: Tab, here: str) -> None:
    def asked(request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.netloc != here:
            tab.foreign.append(request.url)

    def alerted(dialog: Any) -> None:
        tab.dialogs.append(dialog.message)
        dialog.accept()

    tab.page.on("console", lambda message: message.type == "error" and tab.errors.append(message.text))
    tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.page.on("request", asked)
    tab.page.on("dialog", alerted)
