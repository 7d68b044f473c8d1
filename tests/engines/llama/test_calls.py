"""Calls in the text of a model, however that text is cut into pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.examples import examples

from edgeserve import strict_json
from edgeserve.engines.llama.calls import CallReader, with_calls
from edgeserve.messages import FinishEvent, ReadEvent, TokenEvent, Tool, ToolCall, ToolCallEvent

F, G = ToolCall("f", '{"a": 1}'), ToolCall("g", "{}")
BLOCK = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


@each("size", [1, 3, 1000])
@each(
    ("said", "text", "calls"),
    [
        ("Hello, {world}!", "Hello, {world}!", []),
        (BLOCK, "", [F]),
        (f'I look.\n{BLOCK}\n<tool_call>{{"name": "g"}}</tool_call>\n', "I look.\n", [F, G]),
        (f"{BLOCK} and more", "and more", [F]),
        ('<tool_call>{"name": "f", "arguments": {"a": 1}}', "", [F]),  # the model ended without closing
        ("<tool_call>nonsense</tool_call> then", "<tool_call>nonsense</tool_call> then", []),
        ("a < b and <tool> or <tool_ca", "a < b and <tool> or <tool_ca", []),
        ('{"name": "f", "arguments": {"a": 1}}', "", [F]),
        ('<|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name": "g", "parameters": {}}', "", [F, G]),
        ('```json\n{"name": "f", "arguments": {"a": 1}}\n```', "", [F]),
        ('[{"name": "f", "arguments": "{\\"a\\": 1}"}, {"name": "g"}]', "", [F, G]),
        ('{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}', "", [F]),
        ('{"name": "stranger", "arguments": {}}', '{"name": "stranger", "arguments": {}}', []),
        ('{"name": "f", "arguments": 3}', '{"name": "f", "arguments": 3}', []),
        ('{"name": "f", "arguments": {"a": NaN}}', '{"name": "f", "arguments": {"a": NaN}}', []),
        ('{"name": "f", "arguments": {"a": 1e999}}', '{"name": "f", "arguments": {"a": 1e999}}', []),
        ('{"name": "f", "arguments": {"a": "\\ud800"}}', '{"name": "f", "arguments": {"a": "\\ud800"}}', []),
        ('{"name": "f", "arguments": "{\\"a\\": 1e999}"}', '{"name": "f", "arguments": "{\\"a\\": 1e999}"}', []),
        ('{"name": "f"} is how to call it', '{"name": "f"} is how to call it', []),
        ('{"name": "f", "argum', '{"name": "f", "argum', []),
        ('{"city": "Paris"}', '{"city": "Paris"}', []),
        ("[" * 2000 + '{"name": "f"', "[" * 2000 + '{"name": "f"', []),
        ("", "", []),
    ],
)
def test_calls_are_found_and_all_else_is_text(said: str, text: str, calls: list[ToolCall], size: int) -> None:
    reader = CallReader({"f", "g"})
    found = [one for at in range(0, len(said), size) for one in reader.feed(said[at : at + size])] + reader.flush()
    assert [one for one in found if isinstance(one, ToolCall)] == calls
    assert "".join(one for one in found if isinstance(one, str)) == text


def test_text_goes_out_as_soon_as_it_cannot_be_a_call() -> None:
    reader = CallReader({"f"})
    assert reader.feed("\n") == []
    assert reader.feed("Hi") == ["\nHi"]
    assert reader.feed(" <") == [" "]
    assert reader.feed("b>") == ["<b>"]
    assert CallReader({"f"}).feed('{"city"') == ['{"city"']


@pytest.mark.parametrize(("several", "count"), [(True, 2), (False, 1)])
def test_events_end_with_tool_calls(several: bool, count: int) -> None:
    events = [None, TokenEvent(BLOCK), TokenEvent(BLOCK), FinishEvent("stop", 5, 9, 2)]
    got = list(with_calls(events, (Tool("f"),), several=several))
    assert got == [None, *[ToolCallEvent(F)] * count, FinishEvent("tool_calls", 5, 9, 2)]
    cut = [TokenEvent('{"name": "f"'), FinishEvent("length", 5, 9)]
    assert list(with_calls(cut, (Tool("f"),), several=several)) == [ReadEvent(), *cut]


def test_an_answer_that_tells_nothing_yet_tells_that_its_prompt_was_read() -> None:
    """Once: other prompts of its client wait for that."""
    events = [TokenEvent(one) for one in ("<tool", "_call>", '{"name": "f"}</tool_call>')]
    assert list(with_calls(events, (Tool("f"),), several=True)) == [ReadEvent(), ToolCallEvent(ToolCall("f", "{}"))]


arguments = st.recursive(
    st.sampled_from(["1e999", "-1e999", "NaN", "1", "0.5", '"\\ud800"', '"\\ud83d\\ude00"', '"é"', "1" * 400, "null"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
        | st.lists(inner, max_size=3).map(
            lambda parts: "{" + ",".join(f'"{at}":{part}' for at, part in enumerate(parts)) + "}"
        )
    ),
    max_leaves=6,
)


@given(arguments, st.sampled_from(["{}", "<tool_call>{}</tool_call>", "```json\n{}\n```"]), st.booleans())
@examples(150)
def test_whatever_is_called_has_arguments_that_any_reader_takes(value: str, around: str, quoted: bool) -> None:
    text = f'{{"a": {value}}}'
    said = around.format(f'{{"name": "f", "arguments": {json.dumps(text) if quoted else text}}}')
    reader = CallReader({"f"})
    found = [*reader.feed(said), *reader.flush()]
    for one in found:
        if isinstance(one, ToolCall):
            strict_json.loads(one.arguments)
            one.arguments.encode()
    assert found


@each("said", [" " * 40_000, "[" + "\n" * 40_000, '{"' + "a" * 40_000, " " * 40_000 + "{}", "`" * 40_000])
def test_what_may_yet_be_a_call_is_decided_in_bounded_time(said: str) -> None:
    """Blanks that could be shared among parts in each way took minutes."""
    reader = CallReader({"f"})
    found = [one for at in range(0, len(said), 50) for one in reader.feed(said[at : at + 50])] + reader.flush()
    assert "".join(str(one) for one in found) == said
