"""The page under the name of another machine: over TLS with a key, and over plain HTTP without a microphone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import Tab, answer, ask, chromium, needs_browser, opened
from support.server import Running, fake_pool, serving
from support.tls import made, needs_openssl

from edgeserve.tls.certificate import Certificate

pytestmark = [pytest.mark.slow, needs_browser]

NAME, SECRET = "box.local", "sesame"
WAY_OUT = "edgeserve serve --tls self-signed"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium(name=NAME) as browser:
        yield browser


def address(running: Running) -> str:
    assert "127.0.0.1" in running.url
    return running.url.replace("127.0.0.1", NAME)


def unlock(tab: Tab) -> None:
    tab.page.get_by_role("textbox", name="Key").fill(SECRET)
    tab.page.get_by_role("button", name="Open").click()
    tab.page.get_by_role("textbox", name="Ask something").wait_for()


@needs_openssl
def test_over_tls_the_page_chats_and_hears_with_a_key(browser: Any, tmp_path: Path) -> None:
    certificate = Certificate(made(tmp_path))
    with (
        serving(fake_pool(), api_key=SECRET, certificate=certificate) as running,
        opened(browser, address(running), ignore_https_errors=True) as tab,
    ):
        unlock(tab)
        ask(tab, "hello over there")
        assert answer(tab).locator(".markdown").inner_text() == "hello over there"
        with tab.page.expect_websocket() as line:
            tab.page.get_by_role("button", name="Dictate").click()
        assert line.value.url.startswith("wss://")
        with line.value.expect_event("framereceived"):
            pass
        tab.page.get_by_role("button", name="Stop dictating").click()
        tab.page.get_by_role("button", name="Dictate").wait_for()
        assert tab.page.get_by_role("alert").count() == 0
        assert (tab.foreign, tab.dialogs) == ([], [])


@pytest.fixture(scope="module")
def plain() -> Iterator[Running]:
    with serving(fake_pool(), api_key=SECRET) as running:
        yield running


@pytest.fixture
def tab(browser: Any, plain: Running) -> Iterator[Tab]:
    with opened(browser, address(plain)) as tab:
        unlock(tab)
        assert tab.page.evaluate("isSecureContext") is False
        yield tab
        assert (tab.foreign, tab.dialogs) == ([], [])


@pytest.mark.parametrize(
    ("panel", "button"),
    [("Chat", "Dictate"), ("Chat", "Camera"), ("Listen", "Start"), ("Talk", "Start the conversation")],
)
def test_over_plain_http_the_way_to_a_microphone_is_named(tab: Tab, panel: str, button: str) -> None:
    tab.page.get_by_role("link", name=panel, exact=True).click()
    tab.page.get_by_role("button", name=button, exact=True).click()
    tab.page.get_by_role("alert").get_by_text(WAY_OUT).wait_for()
    assert tab.violations() == []


def test_over_plain_http_the_page_chats_and_copies(tab: Tab) -> None:
    ask(tab, "some *words*")
    last = answer(tab)
    last.get_by_role("button", name="Copy").click()
    last.get_by_role("button", name="Copied").wait_for()
    field = tab.page.get_by_role("textbox", name="Ask something")
    field.press("Control+v")
    assert field.input_value() == "some *words*"
