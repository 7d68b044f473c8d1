"""The microphone for live words in a real browser: stopped, left or without a line before it is open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import Tab, needs_browser, opened
from support.server import Running

pytestmark = [pytest.mark.slow, needs_browser]

HELD = """() => {
  const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  navigator.mediaDevices.getUserMedia = (wanted) => new Promise((resolve) => {
    globalThis.give = async () => resolve((globalThis.stream = await real(wanted)));
  });
  globalThis.lines = [];
  globalThis.WebSocket = class extends WebSocket {
    constructor(...given) {
      super(...given);
      lines.push(this);
    }
  };
}"""
"""The user is asked for the microphone, and gives it when the test calls ``give``. ``lines``: all WebSockets."""
ASKED = "globalThis.give !== undefined"
CLOSED = "stream.getTracks().every((track) => track.readyState === 'ended')"


@pytest.fixture
def tab(browser: Any, running: Running) -> Iterator[Tab]:
    with opened(browser, running.url) as tab:
        tab.page.evaluate(HELD)
        yield tab
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])


@pytest.mark.parametrize(
    ("panel", "start", "stop"), [("Chat", "Dictate", "Stop dictating"), ("Listen", "Start", "Stop")]
)
def test_a_stop_before_the_microphone_is_open_closes_it(tab: Tab, panel: str, start: str, stop: str) -> None:
    tab.page.get_by_role("link", name=panel, exact=True).click()
    tab.page.get_by_role("button", name=start, exact=True).click()
    tab.until(ASKED)
    tab.page.get_by_role("button", name=stop, exact=True).click()
    tab.page.evaluate("give()")
    tab.until(CLOSED)
    tab.page.get_by_role("button", name=start, exact=True).wait_for()
    assert tab.page.get_by_role("alert").count() == 0


def test_a_panel_that_is_left_before_the_microphone_is_open_closes_it(tab: Tab) -> None:
    tab.page.get_by_role("link", name="Listen").click()
    tab.page.get_by_role("button", name="Start").click()
    tab.until(ASKED)
    tab.page.get_by_role("link", name="Settings").click()
    tab.page.get_by_role("heading", name="Settings").wait_for()
    tab.page.evaluate("give()")
    tab.until(CLOSED)


def test_a_dictation_ends_when_another_panel_is_shown(tab: Tab) -> None:
    tab.page.get_by_role("button", name="Dictate").click()
    tab.until(ASKED)
    tab.page.evaluate("give()")
    tab.until("stream?.active && lines[0].readyState === WebSocket.OPEN")
    tab.page.get_by_role("link", name="Settings").click()
    tab.until(CLOSED)
    tab.page.get_by_role("link", name="Chat").click()
    tab.page.get_by_role("button", name="Dictate").wait_for()


def test_a_line_that_is_lost_before_the_microphone_is_open_is_told(tab: Tab) -> None:
    with tab.page.expect_websocket() as line:
        tab.page.get_by_role("link", name="Listen").click()
        tab.page.get_by_role("button", name="Start").click()
    tab.until(ASKED)
    with line.value.expect_event("close"):
        tab.page.evaluate("lines[0].close()")
    tab.page.evaluate("give()")
    tab.page.get_by_role("alert").get_by_text("The connection was lost.").wait_for()
    tab.until(CLOSED)
    tab.page.get_by_role("button", name="Start").wait_for()
