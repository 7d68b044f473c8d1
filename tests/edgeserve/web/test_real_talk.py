"""A spoken conversation with real models that is interrupted by speech."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import chromium, needs_browser, opened
from support.server import Running
from support.speech import said_again

pytestmark = [pytest.mark.models, pytest.mark.slow, needs_browser]

STORY, PAUSE_SECONDS = "Tell me a very long story about a lighthouse.", 12
"""A request for an answer that is spoken for longer than the silence after it."""
LOOPS_MS = 120_000
"""Milliseconds in which the microphone asks several times."""


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose microphone asks for a story over and over."""
    with chromium(said_again(tmp_path_factory.mktemp("microphone"), STORY, PAUSE_SECONDS)) as browser:
        yield browser


def test_speech_interrupts_an_answer_that_is_being_spoken(hearing: Any, starters: Running) -> None:
    with opened(hearing, starters.url, settings={"temperature": "0"}) as tab:
        page = tab.page
        page.get_by_role("link", name="Talk").click()
        page.get_by_role("button", name="Start the conversation").click()
        page.get_by_text("Speaking", exact=True).wait_for(timeout=LOOPS_MS)
        page.get_by_text("(interrupted)").first.wait_for(timeout=LOOPS_MS)  # by the request that comes again
        page.get_by_text("Speaking", exact=True).wait_for(timeout=LOOPS_MS)
        assert page.locator(".lines .user").count() >= 2
        page.get_by_role("button", name="End the conversation").click()
        page.get_by_text("Press to start").wait_for()
        assert page.get_by_role("alert").count() == 0
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])
