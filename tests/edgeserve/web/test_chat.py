"""The chat in a real browser, on engines that repeat the question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import Tab, answer, ask, needs_browser, opened
from support.server import Running, fake_pool, serving

pytestmark = [pytest.mark.slow, needs_browser]

LONG = " ".join(f"word{number}" for number in range(400))


@pytest.fixture(scope="module")
def slow() -> Iterator[Running]:
    with serving(fake_pool(["llm"], delay=0.05)) as running:
        yield running


def test_an_answer_comes_with_its_figures_and_is_kept(tab: Tab) -> None:
    ask(tab, "a bird **sings**")
    last = answer(tab)
    assert last.locator("strong").inner_text() == "sings"
    assert last.locator(".markdown").inner_text() == "a bird sings"
    assert re.search(r"[\d.,]+ tokens/s · 3 tokens · first after [\d.]+ s", last.inner_text())
    tab.page.reload()
    tab.page.get_by_role("button", name="a bird **sings**", exact=True).click()
    assert answer(tab).locator("strong").inner_text() == "sings"
    tab.page.get_by_role("button", name="Delete “a bird **sings**”").click()
    tab.page.get_by_text("What is on your mind?").wait_for()
    tab.page.reload()
    tab.page.get_by_text("What is on your mind?").wait_for()
    assert tab.page.locator(".conversation").count() == 0


def test_the_keyboard_is_enough(tab: Tab) -> None:
    field = tab.page.get_by_role("textbox", name="Ask something")
    field.press_sequentially("one")
    field.press("Shift+Enter")
    field.press_sequentially("two")
    field.press("Enter")
    answer(tab)
    assert tab.page.get_by_role("article", name="You").locator("p").inner_text() == "one\ntwo"
    tab.page.reload()
    tab.page.wait_for_selector(".composer")
    tab.page.locator("body").press("Tab")
    reached = set()
    for _ in range(30):
        reached.add(tab.page.evaluate("document.activeElement.textContent.trim()"))
        tab.page.keyboard.press("Tab")
    assert {"Skip to content", "Chat", "Models", "Settings"} <= reached


def test_a_question_is_edited_and_an_answer_made_anew(tab: Tab) -> None:
    ask(tab, "first words")
    answer(tab)
    ask(tab, "more words")
    answer(tab, 1)
    question = tab.page.get_by_role("article", name="You").first
    question.hover()
    question.get_by_role("button", name="Edit the question").click()
    tab.page.get_by_role("textbox", name="Edit the question").fill("other words")
    tab.page.get_by_role("button", name="Ask again").click()
    tab.page.get_by_role("article", name="Answer").get_by_text("other words").wait_for()
    assert tab.page.get_by_role("article", name="You").count() == 1
    answer(tab).get_by_role("button", name="Answer anew").click()
    assert answer(tab).locator(".markdown").inner_text() == "other words"
    assert tab.page.get_by_role("article").count() == 2


def test_an_answer_is_stopped_and_the_server_stops_too(browser: Any, slow: Running) -> None:
    with opened(browser, slow.url) as tab:
        ask(tab, LONG)
        tab.page.locator(".markdown").get_by_text("word3").wait_for()
        tab.page.get_by_role("button", name="Stop the answer").click()
        last = answer(tab)
        assert "Stopped." in last.inner_text()
        assert "word399" not in last.locator(".markdown").inner_text()
        ask(tab, "again")  # which waits behind nothing
        assert answer(tab).locator(".markdown").inner_text() == "again"


def test_an_answer_goes_on_while_another_panel_is_shown(browser: Any, slow: Running) -> None:
    with opened(browser, slow.url) as tab:
        ask(tab, "one two three four five six seven eight nine ten")
        tab.page.get_by_role("link", name="Settings").click()
        tab.page.get_by_role("heading", name="Settings").wait_for()
        tab.page.get_by_role("link", name="Chat").click()
        assert answer(tab).locator(".markdown").inner_text().endswith("nine ten")


def test_thoughts_are_folded(tab: Tab) -> None:
    ask(tab, "<think>hidden thoughts</think> open words")
    last = answer(tab)
    assert last.locator(".markdown").inner_text() == "open words"
    thoughts = last.locator(".thoughts")
    assert not thoughts.is_visible()
    last.locator("summary").click()
    assert "hidden thoughts" in thoughts.inner_text()


def test_a_system_message_and_the_settings_are_sent(browser: Any, running: Running) -> None:
    settings = {"temperature": "0.4", "keepAlive": "90", "system": "Be short.", "model": "fake-llm"}
    with opened(browser, running.url, settings=settings) as tab:
        with tab.page.expect_request("**/v1/chat/completions") as asked:
            ask(tab, "hello")
        body = json.loads(asked.value.post_data)
        assert body["messages"][0] == {"role": "system", "content": "Be short."}
        assert (body["temperature"], body["keep_alive"], body["model"]) == (0.4, 90, "fake-llm")
        assert answer(tab).locator(".markdown").inner_text() == "hello"


def test_an_answer_is_copied_and_read_aloud(tab: Tab) -> None:
    ask(tab, "some *words*")
    last = answer(tab)
    last.get_by_role("button", name="Copy").click()
    last.get_by_role("button", name="Copied").wait_for()
    assert tab.page.evaluate("navigator.clipboard.readText()") == "some *words*"
    with tab.page.expect_request("**/v1/audio/speech") as asked:
        last.get_by_role("button", name="Read aloud").click()
    assert json.loads(asked.value.post_data)["input"] == "some words"
    last.get_by_role("button", name="Read aloud").wait_for()  # the sound has ended


def test_a_failure_in_the_middle_tells_the_servers_words(browser: Any) -> None:
    with serving(fake_pool(["llm"], fail_word="breaks")) as running, opened(browser, running.url) as tab:
        ask(tab, "this breaks now")
        last = answer(tab)
        assert last.locator(".markdown").inner_text() == "this"
        assert last.get_by_role("alert").inner_text() != ""


def test_a_refused_load_tells_the_servers_words(browser: Any) -> None:
    with serving(fake_pool(["llm"], fail_on="heat")) as running, opened(browser, running.url) as tab:
        ask(tab, "hello")
        assert "failed on heat" in answer(tab).get_by_role("alert").inner_text()
        assert tab.page.get_by_role("button", name="Answer anew").is_visible()


HALF = 'data: {"choices": [{"index": 0, "delta": {"content": "half an"}, "finish_reason": null}]}\n\n'


def test_an_answer_that_breaks_off_says_so(tab: Tab) -> None:
    tab.page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=HALF))
    ask(tab, "hello")
    last = answer(tab)
    assert last.locator(".markdown").inner_text() == "half an"
    assert "connection was lost" in last.get_by_role("alert").inner_text()


def test_a_lost_server_is_told_and_found_again(browser: Any, running: Running) -> None:
    with opened(browser, running.url) as tab:
        tab.page.get_by_role("img", name="The server answers").wait_for()
        tab.page.context.set_offline(True)
        tab.page.evaluate("dispatchEvent(new Event('focus'))")
        tab.page.get_by_role("alert").get_by_text("The server does not answer").wait_for()
        ask(tab, "hello")
        assert "does not answer" in answer(tab).get_by_role("alert").inner_text()
        tab.page.context.set_offline(False)
        tab.page.get_by_role("img", name="The server answers").wait_for()
        answer(tab).get_by_role("button", name="Answer anew").click()
        tab.page.get_by_role("article", name="Answer").get_by_text("hello").wait_for()
