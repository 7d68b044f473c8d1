"""A spoken conversation with a scripted server: what the page sends, plays, shows, and how it is interrupted."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import Tab, needs_browser, opened
from support.server import Running

pytestmark = [pytest.mark.slow, needs_browser]

SECOND = base64.b64encode(bytes(2 * 24_000)).decode()


class Script:
    """The server's end of the WebSocket: keeps every event of the page, and sends what a test tells it to."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.line: Any = None

    def open(self, line: Any) -> None:
        self.line = line
        line.on_message(lambda text: self.events.append(json.loads(text)))
        self.send("session.created", session={"id": "sess_1"})

    def send(self, kind: str, **fields: Any) -> None:
        self.line.send(json.dumps({"type": kind, **fields}))

    def got(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["type"] == kind]

    def answer(self, number: int, text: str, seconds: int) -> None:
        item = {"id": f"item_{number}", "type": "message", "role": "assistant", "content": []}
        self.send("response.created", response={"id": f"resp_{number}"})
        self.send("conversation.item.added", item=item)
        place = {"response_id": f"resp_{number}", "item_id": item["id"], "output_index": 0, "content_index": 0}
        self.send("response.output_audio_transcript.delta", **place, delta=text)
        for _ in range(seconds):
            self.send("response.output_audio.delta", **place, delta=SECOND)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def tab(browser: Any, running: Running, script: Script) -> Iterator[Tab]:
    settings = {"voice": "hum", "system": "Be kind.", "temperature": "0.5", "model": "fake-llm"}
    with opened(browser, running.url, settings=settings) as tab:
        tab.page.route_web_socket("**/v1/realtime*", script.open)
        tab.page.goto(f"{running.url}#talk")
        tab.page.reload()
        tab.page.get_by_role("button", name="Start the conversation").click()
        tab.page.get_by_role("status").get_by_text("Listening").wait_for()
        yield tab
        assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])


def state(tab: Tab, text: str) -> None:
    tab.page.get_by_role("status").get_by_text(text, exact=True).wait_for()


def wait(tab: Tab, script: Script, kind: str) -> dict[str, Any]:
    """The first event of a kind, once the page has sent it."""
    for _ in range(600):
        if found := script.got(kind):
            return found[0]
        tab.page.wait_for_timeout(50)
    raise AssertionError(f"no {kind} among {[one['type'] for one in script.events][-9:]}")


def test_the_settings_and_the_microphone_are_sent(tab: Tab, script: Script) -> None:
    session = wait(tab, script, "session.update")["session"]
    assert session["instructions"] == "Be kind."
    assert session["temperature"] == 0.5
    assert session["audio"]["output"] == {"voice": "hum"}
    assert session["audio"]["input"]["turn_detection"] == {"type": "server_vad"}
    sound = base64.b64decode(wait(tab, script, "input_audio_buffer.append")["audio"])
    assert len(sound) == 2 * 24_000 // 20
    assert "model=fake-llm" in script.line.url


def test_a_turn_is_shown_and_its_answer_played(tab: Tab, script: Script) -> None:
    script.send("input_audio_buffer.speech_started", item_id="item_1", audio_start_ms=0)
    state(tab, "I hear you")
    script.send("input_audio_buffer.speech_stopped", item_id="item_1", audio_end_ms=900)
    state(tab, "Thinking …")
    script.send("conversation.item.added", item={"id": "item_1", "type": "message", "role": "user", "content": []})
    script.answer(2, "Good morning.", 1)
    done = {"item_id": "item_1", "content_index": 0, "transcript": "Hello."}
    script.send("conversation.item.input_audio_transcription.completed", **done)
    state(tab, "Speaking")
    script.send("response.done", response={"id": "resp_2", "status": "completed"})
    state(tab, "Listening")  # when all has been played
    shown = tab.page.locator(".lines li span").all_inner_texts()
    assert shown == ["Hello.", "Good morning."]


def test_speech_interrupts_an_answer_and_the_server_learns_how_much_was_heard(tab: Tab, script: Script) -> None:
    script.answer(1, "A very long story.", 30)
    state(tab, "Speaking")
    script.send("input_audio_buffer.speech_started", item_id="item_2", audio_start_ms=0)
    cut = wait(tab, script, "conversation.item.truncate")
    assert (cut["item_id"], cut["content_index"]) == ("item_1", 0)
    assert 0 <= cut["audio_end_ms"] < 30_000
    state(tab, "I hear you")
    tab.page.get_by_text("(interrupted)").wait_for()
    script.send("response.output_audio.delta", item_id="item_1", delta=SECOND)  # it was on its way
    script.send("response.done", response={"id": "resp_1", "status": "cancelled"})
    script.answer(3, "Another one.", 1)
    state(tab, "Speaking")
    assert len(script.got("conversation.item.truncate")) == 1


def test_a_failure_is_told_and_the_talk_goes_on(tab: Tab, script: Script) -> None:
    script.send("error", error={"code": "response_cancel_not_active", "message": "harmless"})
    error = {"code": "engine_failed", "message": "the voice failed, as configured"}
    details = {"type": "failed", "error": error}
    script.send("response.done", response={"id": "resp_1", "status": "failed", "status_details": details})
    tab.page.get_by_role("alert").get_by_text("the voice failed").wait_for()
    assert tab.page.get_by_text("harmless").count() == 0
    state(tab, "Listening")


def test_a_lost_line_ends_the_talk_and_says_so(tab: Tab, script: Script) -> None:
    script.line.close()
    tab.page.get_by_role("alert").get_by_text("The connection was lost.").wait_for()
    state(tab, "Press to start")
    tab.page.get_by_role("button", name="Start the conversation").click()
    state(tab, "Listening")
