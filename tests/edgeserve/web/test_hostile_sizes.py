"""The page with names that attack it, long conversations, long texts, and two tabs."""

from __future__ import annotations

from typing import Any

import pytest
from support.browser import Tab, answer, ask, needs_browser, opened
from support.managed import managed, model

pytestmark = [pytest.mark.slow, needs_browser]

HOSTILE = '<img src=x onerror="alert(1)">{name}'
"""A name of a model: markup, and a place of the page's texts."""
MANY = 10_000
SLOW = 120_000
"""Milliseconds that a slow, loaded box may take for so many messages."""
STORE_MANY = """(count) => new Promise((resolve, reject) => {
  indexedDB.open("edgeserve").onsuccess = ({ target: { result } }) => {
    const transaction = result.transaction("conversations", "readwrite");
    const messages = Array.from({ length: count }, (_, at) => (
      at % 2 ? { role: "assistant", content: `answer **${at}**` } : { role: "user", content: `question ${at}` }
    ));
    transaction.objectStore("conversations").put({ id: "long", title: "a long one", updated: 1, system: "", messages });
    transaction.oncomplete = () => resolve(count);
    transaction.onerror = () => reject(transaction.error);
  };
})"""


def refused(tab: Tab) -> str:
    """The server's words under the answer. The browser tells the status of each refused request, too."""
    words = answer(tab).get_by_role("alert").inner_text()
    tab.errors[:] = [one for one in tab.errors if "status of 400" not in one]
    return str(words)


def test_a_models_name_is_shown_as_it_is(browser: Any) -> None:
    with managed({"llm": model("llm", HOSTILE)}) as (running, _), opened(browser, running.url) as tab:
        tab.page.get_by_text(f"{HOSTILE} answers on this machine.").wait_for()
        for panel in ("Models", "Memory", "Settings"):
            tab.page.get_by_role("link", name=panel, exact=True).click()
            tab.page.locator("main .panel:visible").get_by_text(HOSTILE).first.wait_for(state="attached")
            assert tab.page.locator("main img").count() == 0
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])


def test_a_conversation_of_ten_thousand_messages_opens_and_answers(tab: Tab) -> None:
    tab.page.get_by_role("textbox", name="Ask something").wait_for()
    tab.page.evaluate(STORE_MANY, MANY)
    tab.page.reload()
    tab.page.get_by_role("button", name="a long one", exact=True).click(timeout=SLOW)
    tab.page.get_by_text(f"question {MANY - 2}", exact=True).wait_for(timeout=SLOW)
    ask(tab, "and now?")
    assert refused(tab) == f"the prompt is {2 * MANY + 2} tokens long; the context holds 1024"


def test_a_long_text_is_pasted_sent_and_shown(tab: Tab) -> None:
    text = "word " * 40_000
    tab.page.get_by_role("textbox", name="Ask something").fill(text)
    assert tab.page.locator(".composer").bounding_box()["height"] < 400
    tab.page.get_by_role("button", name="Send").click()
    tab.page.get_by_role("article", name="You").wait_for()
    assert refused(tab) == "the prompt is 40000 tokens long; the context holds 1024"
    wide = tab.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 1280


def test_two_tabs_keep_their_conversations(tab: Tab) -> None:
    other = Tab(tab.page.context.new_page())
    other.page.goto(tab.page.url)
    ask(tab, "from the first")
    answer(tab)
    ask(other, "from the second")
    answer(other)
    for one in (tab, other):
        one.page.reload()
        for words in ("from the first", "from the second"):
            one.page.get_by_role("button", name=words, exact=True).wait_for()
    other.page.get_by_role("button", name="Delete “from the first”").click()
    other.page.get_by_role("button", name="from the first", exact=True).wait_for(state="detached")
    tab.page.reload()
    tab.page.get_by_role("button", name="from the second", exact=True).wait_for()
    assert tab.page.locator(".conversation").count() == 1
