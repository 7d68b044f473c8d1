"""Pictures of the page for docs/page.md: each panel at three widths, light and dark.

    python tools/screenshots.py                     starts a server with the starter models
    python tools/screenshots.py http://127.0.0.1:8080    takes pictures of one that runs
    python tools/screenshots.py http://127.0.0.1:8080 memory models    takes pictures of these panels

Also prints the milliseconds until the browser first painted the page. Needs a Chromium and Playwright.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.process import ServerProcess, free_port  # noqa: E402
from support.browser import Tab, chromium, lacking, opened  # noqa: E402
from support.speech import spoken, wav  # noqa: E402

FOLDER = ROOT / "docs" / "page"
WIDTHS = {1280: 800, 820: 1100, 390: 780}
"""Widths of a desk, a tablet and a telephone, and the heights that go with them."""
LARGEST = 150_000
"""Bytes of a picture."""
QUESTIONS = ("What is the capital of France?", "Name three birds that live near water, as a list.")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
PANELS = ("chat", "talk", "listen", "speak", "models", "memory", "settings")
DARK = {("chat", 390), ("memory", 1280), ("settings", 820)}
SHOTS = [(panel, width, "dark" if (panel, width) in DARK else "light") for panel in PANELS for width in WIDTHS]
PAUSE_SECONDS = 10
"""Silence before the microphone hears the question again."""


@contextlib.contextmanager
def served() -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "edgeserve", "serve", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        ServerProcess(process, port, time.perf_counter()).wait_healthy()
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(60)


def asking(folder: Path) -> Path:
    """A WAV file of a question, with silence around it."""
    path = folder / "question.wav"
    samples = [numpy.zeros(8_000), spoken(QUESTIONS[0]), numpy.zeros(16_000 * PAUSE_SECONDS)]
    path.write_bytes(wav(numpy.concatenate(samples)))
    return path


def prepare(tab: Tab, panel: str) -> None:
    """Fill the panel with something to look at."""
    page = tab.page
    if panel == "chat":
        for number, question in enumerate(QUESTIONS):
            page.get_by_role("textbox", name="Ask something").fill(question)
            page.get_by_role("button", name="Send").click()
            page.locator("article[aria-busy=false]").nth(number).wait_for()
    elif panel == "speak":
        page.get_by_label("Text").fill("Herons stand in shallow water. They wait for fish.")
        page.get_by_role("button", name="Speak").click()
        page.locator("audio").wait_for()
    elif panel == "listen":
        page.get_by_role("button", name="Start").click()
        page.get_by_role("log", name="Transcript").get_by_text("France").wait_for()
    elif panel == "talk":
        page.get_by_role("button", name="Start the conversation").click()
        page.get_by_text("Speaking", exact=True).wait_for()
        page.locator(".lines .assistant").get_by_text("Paris").wait_for()
    page.mouse.move(0, 0)


def take(browser: Any, url: str, panel: str, width: int, scheme: str) -> str:
    with opened(browser, f"{url}#{panel}", width=width, height=WIDTHS[width], scheme=scheme) as tab:
        tab.page.get_by_role("img", name="The server answers").wait_for()
        paint = tab.page.evaluate(PAINT)
        prepare(tab, panel)
        path = FOLDER / f"{panel}-{width}.png"
        size = len(tab.page.screenshot(path=path))
        if size > LARGEST:
            raise SystemExit(f"{path} has {size:,} bytes; at most {LARGEST:,}")
        return f"{path.name}: {size:,} bytes, first paint after {paint:.0f} ms"


def main(arguments: list[str]) -> int:
    if reason := lacking():
        print(reason)
        return 1
    FOLDER.mkdir(exist_ok=True)
    wanted = arguments[1:] or PANELS
    with contextlib.ExitStack() as stack:
        url = arguments[0].rstrip("/") + "/" if arguments else stack.enter_context(served())
        browser = stack.enter_context(chromium(asking(Path(stack.enter_context(tempfile.TemporaryDirectory())))))
        for panel, width, scheme in (shot for shot in SHOTS if shot[0] in wanted):
            print(take(browser, url, panel, width, scheme), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
