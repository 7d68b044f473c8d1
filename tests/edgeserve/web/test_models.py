"""The page on real models: a chat, dictation, live transcription, a spoken conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import Tab, answer, ask, chromium, needs_browser, opened
from support.server import Running
from support.speech import said_again, spoken, wav

pytestmark = [pytest.mark.models, pytest.mark.slow, needs_browser]

SAID = "What is the capital of France?"
PAUSE_SECONDS = 8
"""Silence before the question comes again."""


@pytest.fixture(scope="module")
def hearing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser whose microphone hears the question over and over."""
    with chromium(said_again(tmp_path_factory.mktemp("microphone"), SAID, PAUSE_SECONDS)) as browser:
        yield browser


@pytest.fixture
def tab(hearing: Any, starters: Running) -> Iterator[Tab]:
    with opened(hearing, starters.url) as tab:
        yield tab
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])


def test_a_question_is_dictated_answered_and_read_aloud(tab: Tab) -> None:
    page = tab.page
    page.get_by_role("button", name="Dictate").click()
    field = page.get_by_role("textbox", name="Ask something")
    tab.until("document.querySelector('.composer textarea').value.includes('France')")
    page.get_by_role("button", name="Stop dictating").click()
    page.get_by_role("button", name="Dictate").wait_for()
    field.fill(SAID)
    page.get_by_role("button", name="Send").click()
    page.locator("article[aria-busy=false] .markdown").get_by_text("Paris").first.wait_for()
    page.get_by_role("button", name="Read aloud").click()
    page.get_by_role("button", name="Stop reading").click()
    page.get_by_role("button", name="Read aloud").wait_for()


def test_words_appear_while_somebody_speaks(tab: Tab) -> None:
    page = tab.page
    page.get_by_role("link", name="Listen").click()
    page.get_by_role("button", name="Start").click()
    page.get_by_role("log", name="Transcript").get_by_text("France").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Start").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("link", name="TXT").click()
    assert "France" in Path(saved.value.path()).read_text()


def test_a_conversation_is_heard_and_answered(tab: Tab) -> None:
    page = tab.page
    page.get_by_role("link", name="Talk").click()
    page.get_by_role("button", name="Start the conversation").click()
    page.locator(".lines .user").get_by_text("France").first.wait_for()
    page.locator(".lines .assistant").first.wait_for()
    page.get_by_text("Speaking", exact=True).wait_for()
    page.get_by_role("button", name="End the conversation").click()
    page.get_by_text("Press to start").wait_for()
    assert page.get_by_role("alert").count() == 0


def test_a_file_is_transcribed(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "said.wav").write_bytes(wav(spoken(SAID)))
    page = tab.page
    page.get_by_role("link", name="Listen").click()
    page.locator(".drop input").set_input_files(tmp_path / "said.wav")
    assert "capital of France" in page.locator("article .transcript").inner_text()
    for form, beginning in (("SRT", "1\n00:00:00,"), ("VTT", "WEBVTT\n\n00:00:00.")):
        with page.expect_download() as saved:
            page.locator("article").get_by_role("link", name=form).click()
        subtitles = Path(saved.value.path()).read_text()
        assert subtitles.startswith(beginning)
        assert "France" in subtitles


def test_a_text_is_spoken(tab: Tab) -> None:
    page = tab.page
    page.get_by_role("link", name="Speak").click()
    page.get_by_label("Text").fill("Herons stand in shallow water.")
    page.get_by_role("button", name="Speak").click()
    page.locator("audio").wait_for()
    tab.until("document.querySelector('audio').duration > 1")
    with page.expect_download() as saved:
        page.locator("a[download]").click()
    assert Path(saved.value.path()).stat().st_size > 2000


def test_answers_are_read_aloud_in_the_chosen_voice(tab: Tab, starters: Running) -> None:
    voice = starters.client.get("/v1/tts/voices").json()["voices"][-1]
    page = tab.page
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Voice").select_option(voice)
    page.get_by_label("Read answers aloud").check()
    page.get_by_role("link", name="Chat").click()
    with page.expect_response("**/v1/audio/speech") as said:
        ask(tab, SAID)
    assert (said.value.status, said.value.request.post_data_json["voice"]) == (200, voice)
    page.get_by_role("button", name="Stop reading").click()
    page.get_by_role("button", name="Read aloud").wait_for()


def test_no_panel_with_real_models_breaks_a_rule_of_accessibility(tab: Tab) -> None:
    ask(tab, "Name three birds, as a Markdown list.")
    answer(tab)
    for panel in ("Chat", "Talk", "Listen", "Speak", "Models", "Memory", "Settings"):
        tab.page.get_by_role("link", name=panel, exact=True).click()
        tab.page.locator("main .panel:visible, main .chat:visible").first.wait_for()
        assert (panel, tab.violations()) == (panel, [])
