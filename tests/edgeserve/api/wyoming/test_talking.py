"""Conversation. The fake engine repeats what the user said."""

from __future__ import annotations

from typing import Any

from support.gates import engine_of
from support.server import fake_pool
from support.wyoming import Client, Wyoming, speaking_wyoming

from edgeserve.errors import ContextOverflow


def ask(client: Client, text: str, number: str = "01ABC") -> dict[str, Any]:
    client.send("transcript", {"text": text, "language": "en", "context": {"conversation_id": number}})
    return client.until("handled")[-1].data


def test_an_answer_in_pieces(wyoming: Wyoming) -> None:
    asked = {"text": "turn on the light", "language": "en", "context": {"conversation_id": "1", "device_id": "x"}}
    events = wyoming.ask("transcript", asked, until="handled-stop")
    context = {"conversation_id": "1"}
    assert (events[0].type, events[0].data) == ("handled-start", {"context": context})
    assert (events[-2].type, events[-2].data) == ("handled", {"text": "turn on the light", "context": context})
    assert "".join(one.data["text"] for one in events[1:-2]) == "turn on the light"


def test_a_conversation_is_remembered_by_its_id() -> None:
    pool = fake_pool(["llm"])
    seen: list[list[str]] = []
    with speaking_wyoming(pool) as running:
        engine = engine_of(pool.gates["llm"])
        chat = engine.chat

        def noted(request: Any, cancel: Any) -> Any:
            seen.append([one.text for one in request.messages])
            return chat(request, cancel)

        engine.chat = noted
        for text, number in (("one", "a"), ("two", "b"), ("three", "a"), ("four", "")):
            with running.dialled() as client:
                ask(client, text, number)
    assert seen == [["one"], ["two"], ["one", "one", "three"], ["four"]]


def test_old_turns_are_left_out_where_they_do_not_fit() -> None:
    pool = fake_pool(["llm"])
    seen: list[list[str]] = []
    with speaking_wyoming(pool) as running, running.dialled() as client:
        engine = engine_of(pool.gates["llm"])
        chat = engine.chat

        def short(request: Any, cancel: Any) -> Any:
            if len(request.messages) > 3:
                raise ContextOverflow("too long")
            seen.append([one.text for one in request.messages])
            yield from chat(request, cancel)

        engine.chat = short
        for text in ("one", "two", "three", "four"):
            assert ask(client, text)["text"] == text
    assert seen[-1] == ["three", "three", "four"]


def test_errors_are_not_handled(wyoming: Wyoming) -> None:
    with speaking_wyoming(fake_pool(["tts"])) as running:
        (event,) = running.ask("transcript", {"text": "hello"}, until="not-handled")
    assert "no llm" in event.data["text"] or "not configured" in event.data["text"]
    (event,) = wyoming.ask("transcript", {"text": ""}, until="error")
    assert "text is required" in event.data["text"]


def test_an_answer_that_breaks_off_is_not_handled() -> None:
    with speaking_wyoming(fake_pool(["llm"], fail_word="three")) as running:
        events = running.ask("transcript", {"text": "one two three four"}, until="handled-stop")
    assert [one.type for one in events if one.type != "handled-chunk"] == [
        "handled-start",
        "not-handled",
        "handled-stop",
    ]
