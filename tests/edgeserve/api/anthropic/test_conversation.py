"""Messages of Anthropic's dialect as conversations for chat templates."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from support.cases import each

from edgeserve.api.anthropic import request
from edgeserve.api.anthropic.conversation import Given, conversation
from edgeserve.api.anthropic.request import AnthropicCount, AnthropicMessages
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import SMALL, read_record
from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest, NotSupported
from edgeserve.messages import Message, TextPart, ToolCall

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {"tz": "UTC"}}
BILLING = "x-anthropic-billing-header: cc_version=2.1.29; cc_entrypoint=cli; cch={};"


def given(*messages: dict[str, Any], **fields: Any) -> Given:
    asked = AnthropicCount(Fields({"messages": list(messages), **fields}), Limits())
    return conversation(asked.system, asked.messages)


def turns(*messages: dict[str, Any], **fields: Any) -> tuple[Message, ...]:
    return given(*messages, **fields).conversation.messages


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said, "cache_control": {"type": "ephemeral"}}


def result(call: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, **fields}


HELLO = {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    "system", ["Be short.", [text("Be short.")], [text(BILLING.format("aaaaa")), text("Be short.")]]
)
def test_a_system_text_stands_first(system: Any) -> None:
    first, second = turns(HELLO, system=system)
    assert (first.role, first.text) == ("system", "Be short.")
    assert (second.role, second.text) == ("user", "hello")


@each("system", [None, "", [], [text("")], BILLING.format("aaaaa"), [text(BILLING.format("aaaaa"))]])
def test_an_empty_system_text_is_none(system: Any) -> None:
    assert [one.role for one in turns(HELLO, system=system)] == ["user"]


def test_the_prompt_does_not_depend_on_the_billing_line() -> None:
    one, other = (turns(HELLO, system=[text(BILLING.format(part)), text("Be short.")]) for part in ("0a1b2", "fffff"))
    assert one == other


def test_texts_stand_on_lines_of_their_own() -> None:
    assert turns(user(text("<reminder>"), text("hello\n"), text("you")))[0].text == "<reminder>\nhello\nyou"
    assert turns(HELLO, system=[text("One."), text("Two.")])[0].text == "One.\nTwo."


def test_turns_of_one_role_become_one() -> None:
    found = turns(HELLO, HELLO, assistant(text("a")), assistant(text("b")), HELLO)
    assert [(one.role, one.text) for one in found] == [
        ("user", "hello\nhello"),
        ("assistant", "a\nb"),
        ("user", "hello"),
    ]


def test_system_texts_among_the_messages_join_the_first_or_stand_alone() -> None:
    late = {"role": "system", "content": "Be kind."}
    assert [(one.role, one.text) for one in turns(late, HELLO, late, system="Be short.")] == [
        ("system", "Be short.\nBe kind."),
        ("user", "hello"),
        ("system", "Be kind."),
    ]


def test_results_are_messages_of_tools_before_all_else() -> None:
    asked = assistant({"type": "thinking", "thinking": "Hm", "signature": "x"}, text("Let me look."), CALL)
    found = turns(HELLO, asked, user(text("and?"), result(content="noon"), result("toolu_2", content=[text("one")])))
    assert found[1] == Message(
        "assistant",
        (TextPart("Let me look."),),
        (ToolCall("get_time", '{"tz":"UTC"}', "toolu_1"),),
        reasoning="Hm",
    )
    assert [(one.role, one.text, one.tool_call_id) for one in found[2:]] == [
        ("tool", "noon", "toolu_1"),
        ("tool", "one", "toolu_2"),
        ("user", "and?", ""),
    ]


@each(
    ("fields", "said"),
    [
        ({}, ""),
        ({"content": None}, ""),
        ({"content": []}, ""),
        ({"content": "no such file", "is_error": True}, "Error: no such file"),
        ({"content": [text("no such file")], "is_error": True}, "Error: no such file"),
        ({"content": [text("a"), {"type": "tool_reference", "tool_name": "x"}, text("b")]}, "a\nb"),
    ],
)
def test_results_of_every_form(fields: dict[str, Any], said: str) -> None:
    assert turns(HELLO, assistant(CALL), user(result(**fields)))[-1].text == said


def test_a_user_with_results_alone_says_nothing_else() -> None:
    assert [one.role for one in turns(HELLO, assistant(CALL), user(result()))] == ["user", "assistant", "tool"]


def test_pictures_keep_their_places() -> None:
    url = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    found = given(
        user(text("one"), IMAGE, text("two"), url), assistant(CALL), user(result(content=[text("see"), IMAGE]))
    )
    pending = [(one.message, one.part, one.address, one.param) for one in found.conversation.pending]
    assert pending == [
        (0, 1, "data:;base64,QUJD", "messages[0].content[1].source"),
        (0, 3, "https://example.com/a.png", "messages[0].content[3].source"),
        (2, 1, "data:;base64,QUJD", "messages[2].content[0].content[1].source"),
    ]
    assert found.conversation.messages[0].text == "onetwo"


def test_a_picture_in_a_failed_result_keeps_its_place() -> None:
    found = given(HELLO, assistant(CALL), user(result(content=[IMAGE], is_error=True)))
    (picture,) = found.conversation.pending
    assert (picture.message, picture.part) == (2, 1)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a text"}}, "a text"),
        (
            {"type": "document", "title": "T", "context": "C", "source": {"type": "content", "content": "a text"}},
            "T\nC\na text",
        ),
        ({"type": "document", "source": {"type": "content", "content": [text("a"), text("b")]}}, "a\nb"),
        (
            {"type": "search_result", "source": "https://a.b", "title": "T", "content": [text("found")]},
            "T\nhttps://a.b\nfound",
        ),
    ],
)
def test_documents_become_text(block: dict[str, Any], said: str) -> None:
    assert turns(user(block))[0].text == said


def test_the_file_of_a_document_keeps_its_place() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}
    found = given(user(text("see"), {"type": "document", "title": "T", "source": source}))
    (one,) = found.conversation.pending
    assert (one.kind, one.address, one.param) == ("file", "QUJD", "messages[0].content[1].source")
    assert found.conversation.messages[0].text == "see\nT\n"
    assert one.part == len(found.conversation.messages[0].parts)


@pytest.mark.parametrize("kind", ["url", "file"])
def test_files_of_documents_are_refused(kind: str) -> None:
    with pytest.raises(NotSupported, match="fetches no documents: send it as base64") as caught:
        turns(user({"type": "document", "source": {"type": kind, "data": "QUJD", "media_type": "application/pdf"}}))
    assert caught.value.param == "messages[0].content[0].source.type"


def test_blocks_of_tools_at_anthropic_and_secret_thoughts_are_left_out() -> None:
    server = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = turns(HELLO, assistant({"type": "redacted_thinking", "data": "x"}, server, text("yes")), HELLO)
    assert found[1] == Message("assistant", (TextPart("yes"),))


def test_a_last_message_of_the_assistant_begins_the_answer() -> None:
    found = given(HELLO, assistant(text("The answer is "), text("(\n ")))
    assert found.continues
    assert found.conversation.messages[-1] == Message("assistant", (TextPart("The answer is \n("),))


@pytest.mark.parametrize("blocks", [(), (text(""),), (text(" \n"),)])
def test_an_empty_beginning_is_none(blocks: tuple[Any, ...]) -> None:
    found = given(HELLO, assistant(*blocks))
    assert not found.continues
    assert [one.role for one in found.conversation.messages] == ["user"]


def test_a_call_begins_no_answer() -> None:
    assert not given(HELLO, assistant(CALL)).continues


@each(
    ("message", "param"),
    [
        ({"role": "tool", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": [5]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "video"}]}, "messages[0].content[0].type"),
        (user(CALL), "messages[0].content[0].type"),
        (assistant(IMAGE), "messages[0].content[0].type"),
        (assistant({**CALL, "input": "{}"}), "messages[0].content[0].input"),
        (assistant({**CALL, "name": "a b"}), "messages[0].content[0].name"),
        (user({"type": "tool_result"}), "messages[0].content[0].tool_use_id"),
        (user({"type": "image", "source": {"type": "file", "file_id": "a"}}), "messages[0].content[0].source.type"),
        (user({"type": "image"}), "messages[0].content[0].source"),
    ],
)
def test_an_error_names_the_field(message: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        turns(message)
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


def test_a_long_conversation_is_made_where_its_body_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread reads a large body. 43,000 messages held the event loop for 0.4 s."""
    threads: list[str] = []

    def noted(*given: Any) -> Given:
        threads.append(threading.current_thread().name)
        return conversation(*given)

    monkeypatch.setattr(request, "conversation", noted)
    body = json.dumps({"messages": [{"role": "user", "content": "a"}] * SMALL, "max_tokens": 1}).encode()
    asked = asyncio.run(read_record(body, AnthropicMessages, Limits()))
    assert len(threads) == 1
    assert threads[0].startswith("edgeserve the reading of bodies")
    assert asked.given.conversation.messages[0].text.count("a") == SMALL
