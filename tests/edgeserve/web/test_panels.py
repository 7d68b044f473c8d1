"""The panels in a real browser: languages, themes, widths, the key, accessibility, and sound on fake engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.browser import Tab, needs_browser, opened
from support.server import Running, fake_pool, serving
from support.sounds import FORMS, encoded, melody

pytestmark = [pytest.mark.slow, needs_browser]

PANELS = ("chat", "talk", "listen", "speak", "models", "memory", "settings")


def show(tab: Tab, panel: str) -> None:
    tab.page.goto(f"{tab.page.url.partition('#')[0]}#{panel}")
    tab.page.locator("main .panel:visible, main .chat:visible").first.wait_for()
    tab.page.get_by_role("img", name="The server answers").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_panel_breaks_a_rule_of_accessibility(browser: Any, running: Running, scheme: str) -> None:
    for width in (1280, 390):
        with opened(browser, running.url, width=width, scheme=scheme) as tab:
            for panel in PANELS:
                show(tab, panel)
                assert (panel, width, tab.violations()) == (panel, width, [])
            assert tab.errors == []


def test_a_conversation_breaks_no_rule_of_accessibility(browser: Any, running: Running) -> None:
    text = (
        "# A title\n\ntext `code` [link](https://far.example/)\n\n```\nblock\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    for scheme in ("light", "dark"):
        with opened(browser, running.url, scheme=scheme) as tab:
            tab.page.get_by_role("textbox", name="Ask something").fill(f"<think>thoughts</think>{text}")
            tab.page.get_by_role("button", name="Send").click()
            tab.page.locator("article[aria-busy=false] .markdown").wait_for()
            tab.page.locator("summary", has_text="Thoughts").click()
            assert tab.violations() == []


@pytest.mark.parametrize("width", [320, 390, 820, 1280])
def test_no_panel_is_wider_than_its_window(browser: Any, running: Running, width: int) -> None:
    with opened(browser, running.url, width=width, locale="de-DE") as tab:
        for panel in PANELS:
            tab.page.goto(f"{running.url}#{panel}")
            tab.page.locator("main .panel:visible, main .chat:visible").first.wait_for()
            wide = tab.page.evaluate(
                "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth)"
            )
            assert (panel, wide <= width) == (panel, True), wide


def test_the_language_is_the_browsers_until_one_is_chosen(browser: Any, running: Running) -> None:
    with opened(browser, running.url, locale="de-DE") as tab:
        tab.page.get_by_role("link", name="Einstellungen").click()
        tab.until("document.documentElement.lang === 'de'")
        tab.page.get_by_label("Sprache").select_option("en")
        tab.page.get_by_role("heading", name="Settings").wait_for()
        tab.page.reload()
        tab.page.get_by_role("heading", name="Settings").wait_for()
        tab.until("document.documentElement.lang === 'en'")


def test_the_theme_is_the_systems_until_one_is_chosen(tab: Tab) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = tab.page.evaluate(background)
    tab.page.emulate_media(color_scheme="dark")
    tab.until(f"{background} !== '{light}'")
    dark = tab.page.evaluate(background)
    show(tab, "settings")
    tab.page.get_by_label("Appearance").select_option("light")
    tab.until(f"{background} === '{light}'")
    tab.page.emulate_media(color_scheme="light")
    tab.page.get_by_label("Appearance").select_option("dark")
    tab.until(f"{background} === '{dark}'")


def test_the_key_is_asked_for_and_stays_in_the_tab(browser: Any) -> None:
    with serving(fake_pool(), api_key="sesame") as running, opened(browser, running.url) as tab:
        field = tab.page.get_by_role("textbox", name="Key")
        border = "getComputedStyle(document.querySelector('input')).borderColor"
        field.wait_for()
        untouched = tab.page.evaluate(border)
        field.fill("open")
        field.blur()
        assert tab.page.evaluate(border) == untouched, "nothing is wrong before something was filled in"
        tab.page.get_by_role("button", name="Open").click()
        tab.page.get_by_text("does not take this key").wait_for()
        field.fill("sesame")
        tab.page.get_by_role("button", name="Open").click()
        tab.page.get_by_role("textbox", name="Ask something").fill("hello")
        tab.page.get_by_role("button", name="Send").click()
        tab.page.locator("article[aria-busy=false] .markdown").get_by_text("hello").wait_for()
        assert "sesame" not in tab.page.evaluate("JSON.stringify(localStorage)")
        assert "sesame" not in tab.page.url
        opening = "new WebSocket('/v1/transcribe/live', ['edgeserve.live', 'openai-insecure-api-key.sesame'])"
        opened_as = tab.page.evaluate(
            f"new Promise((done) => {{ const line = {opening}; line.onopen = () => (done(line.protocol), line.close());"
            " line.onerror = () => done('refused'); })"
        )
        assert opened_as == "edgeserve.live"


def test_the_key_of_a_qr_code_opens_the_page_and_leaves_the_address(browser: Any) -> None:
    secret = "se/sa+me%25"
    with serving(fake_pool(), api_key=secret) as running:
        with opened(browser, f"{running.url.rstrip('/')}/#key={quote(secret, safe='')}") as tab:
            tab.page.get_by_role("textbox", name="Ask something").wait_for()
            assert "key=" not in tab.page.url
            tab.page.reload()
            tab.page.get_by_role("textbox", name="Ask something").wait_for()
            tab.page.get_by_role("link", name="Listen").click()
            with tab.page.expect_websocket() as line:
                tab.page.get_by_role("button", name="Start").click()
            with line.value.expect_event("framereceived"):  # a refused line carries nothing
                pass  # a sub-protocol takes no slash: the key travels encoded
        with opened(browser, running.url) as tab:
            tab.page.get_by_role("textbox", name="Key").wait_for()
            tab.page.evaluate("location.hash = 'key=' + encodeURIComponent('se/sa+me%25')")
            tab.page.get_by_role("textbox", name="Ask something").wait_for()
            assert "key=" not in tab.page.url


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString"])
def test_an_address_that_names_no_panel_shows_the_chat(tab: Tab, name: str) -> None:
    tab.page.goto(f"{tab.page.url.partition('#')[0]}#{name}")
    tab.page.reload()
    tab.page.get_by_role("textbox", name="Ask something").wait_for()


def test_files_are_transcribed_one_after_the_other(tab: Tab, tmp_path: Path) -> None:
    show(tab, "listen")
    for name in ("one.wav", "two.wav"):
        (tmp_path / name).write_bytes(encoded(melody(2, 44_100), FORMS["wav"]))
    (tmp_path / "none.wav").write_bytes(b"no sound")
    names = [tmp_path / name for name in ("one.wav", "none.wav", "two.wav")]
    tab.page.locator(".drop input").set_input_files(names)
    for name, state in (("one.wav", "Done"), ("none.wav", "Failed"), ("two.wav", "Done")):
        tab.page.get_by_role("article").filter(has_text=name).get_by_text(state, exact=True).wait_for()
    card = tab.page.get_by_role("article").filter(has_text="two.wav")
    assert card.locator(".transcript").inner_text() == "1 2"
    for form, beginning in (
        ("SRT", "1\n00:00:00,000 --> 00:00:01,000\n1\n\n2\n"),
        ("VTT", "WEBVTT\n\n00:00:00.000 -->"),
    ):
        with tab.page.expect_download() as saved:
            card.get_by_role("link", name=form).click()
        assert saved.value.suggested_filename == f"two.{form.lower()}"
        assert Path(saved.value.path()).read_text().startswith(beginning)
    card.get_by_role("button", name="Remove two.wav").click()
    assert tab.page.get_by_role("article").count() == 2
    assert tab.errors == [one for one in tab.errors if "415" in one or "400" in one]
    tab.errors.clear()  # the browser tells every refused request


def test_speech_is_heard_and_saved(tab: Tab) -> None:
    show(tab, "speak")
    tab.page.get_by_label("Text").fill("good morning")
    tab.page.get_by_label("File").select_option("wav")
    tab.page.get_by_role("button", name="Speak").click()
    tab.page.locator("audio").wait_for()
    tab.until("document.querySelector('audio').duration > 0")
    with tab.page.expect_download() as saved:
        tab.page.get_by_role("link", name="WAV").click()
    assert Path(saved.value.path()).read_bytes()[:4] == b"RIFF"


def test_a_server_that_is_lost_is_said_where_sound_is_made_and_heard(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "one.wav").write_bytes(encoded(melody(1, 44_100), FORMS["wav"]))
    show(tab, "speak")
    tab.page.get_by_label("Text").fill("good morning")
    tab.page.context.set_offline(True)
    tab.page.get_by_role("button", name="Speak").click()
    tab.page.locator("form").get_by_role("alert").get_by_text("the server does not answer").wait_for()
    tab.page.get_by_role("link", name="Listen").click()
    tab.page.locator(".drop input").set_input_files(tmp_path / "one.wav")
    tab.page.get_by_role("article").get_by_role("alert").get_by_text("the server does not answer").wait_for()
    tab.page.get_by_role("button", name="Start").click()
    tab.page.get_by_role("alert").get_by_text("The server refused the connection.").wait_for()
    tab.page.context.set_offline(False)
    tab.page.get_by_role("button", name="Start").click()
    tab.page.get_by_role("button", name="Stop").wait_for()
    assert [one for one in tab.errors if "ERR_INTERNET_DISCONNECTED" not in one] == []
    tab.errors.clear()


def test_what_a_server_lacks_is_said(browser: Any) -> None:
    with serving(fake_pool(["llm"])) as running, opened(browser, running.url) as tab:
        show(tab, "talk")
        tab.page.get_by_text("A conversation needs models for: speech recognition, speech.").wait_for()
        assert tab.page.get_by_role("button", name="Start the conversation").is_disabled()
        show(tab, "speak")
        tab.page.get_by_text("No model that speaks is served").wait_for()
        show(tab, "chat")
        assert tab.page.get_by_role("button", name="Dictate").count() == 0
        assert tab.page.get_by_role("button", name="Camera").count() == 0
