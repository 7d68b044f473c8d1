"""Settings of the page in a real browser: the voice, reading aloud, and the end of all conversations."""

from __future__ import annotations

import json

import pytest
from support.browser import Tab, answer, ask, needs_browser
from support.server import Running

pytestmark = [pytest.mark.slow, needs_browser]

STORED = """new Promise((resolve) => {
  indexedDB.open("edgeserve").onsuccess = ({ target: { result } }) => {
    const asked = result.transaction("conversations").objectStore("conversations").getAll();
    asked.onsuccess = () => resolve(asked.result.length);
  };
})"""
"""The number of conversations that the browser keeps."""


def show(tab: Tab, panel: str) -> None:
    tab.page.get_by_role("link", name=panel, exact=True).click()


def test_an_answer_is_read_aloud_by_itself_in_the_chosen_voice(tab: Tab, running: Running) -> None:
    voice = running.client.get("/v1/tts/voices").json()["voices"][-1]
    show(tab, "Settings")
    tab.page.get_by_label("Voice").select_option(voice)
    tab.page.get_by_label("Read answers aloud").check()
    show(tab, "Chat")
    with tab.page.expect_request("**/v1/audio/speech") as asked:
        ask(tab, "some *words*")
    sent = json.loads(asked.value.post_data)
    assert (sent["input"], sent["voice"]) == ("some words", voice)
    answer(tab).get_by_role("button", name="Read aloud").wait_for()  # the sound has ended
    tab.page.reload()
    show(tab, "Settings")
    assert tab.page.get_by_label("Voice").input_value() == voice
    assert tab.page.get_by_label("Read answers aloud").is_checked()
    show(tab, "Speak")
    assert tab.page.get_by_label("Voice").input_value() == voice


def test_an_answer_is_not_read_aloud_unasked(tab: Tab) -> None:
    spoken: list[str] = []
    tab.page.on("request", lambda request: request.url.endswith("/v1/audio/speech") and spoken.append(request.url))
    ask(tab, "words")
    answer(tab).get_by_role("button", name="Read aloud").wait_for()
    ask(tab, "more words")  # by now the first answer would have been read
    answer(tab, 1)
    assert spoken == []


def test_all_conversations_are_deleted_after_a_question(tab: Tab) -> None:
    for words in ("first", "second"):
        ask(tab, words)
        answer(tab)
        tab.page.get_by_role("button", name="New conversation").first.click()
    assert tab.page.evaluate(STORED) == 2
    show(tab, "Settings")
    tab.page.get_by_role("button", name="Delete all conversations").click()
    tab.until(f"({STORED}).then((count) => count === 0)")
    assert tab.dialogs.pop() == "Delete all conversations in this browser?"
    show(tab, "Chat")
    tab.page.get_by_text("What is on your mind?").wait_for()
    assert tab.page.locator(".conversation").count() == 0
    tab.page.reload()
    tab.page.get_by_text("What is on your mind?").wait_for()
    assert tab.page.locator(".conversation").count() == 0


def test_conversations_stay_when_the_question_is_denied(tab: Tab) -> None:
    ask(tab, "keep me")
    answer(tab)
    show(tab, "Settings")
    tab.page.evaluate("globalThis.confirm = () => false")
    tab.page.get_by_role("button", name="Delete all conversations").click()
    show(tab, "Chat")
    tab.page.locator(".conversation").get_by_text("keep me").wait_for()
    assert tab.page.evaluate(STORED) == 1
