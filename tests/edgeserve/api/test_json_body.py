"""Bodies of JSON that cost more than they weigh."""

from __future__ import annotations

import asyncio
import json
import threading
import tracemalloc
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from support.cases import each
from support.examples import examples
from support.server import Running, fake_pool, serving, until
from support.turns import calls_in_json

from edgeserve.api import json_body
from edgeserve.api.json_body import MAX_DIGITS, MAX_OBJECTS, MAX_VALUES, SMALL, VALUE_BYTES, read_noted, read_object
from edgeserve.api.limits import PARSE, Limits
from edgeserve.api.schema import Record
from edgeserve.api.values import Text
from edgeserve.errors import Busy, InvalidRequest

MB = 1 << 20
MANY = MAX_VALUES + 2
BOMBS = {
    "numbers": b'{"a": [' + b"1," * MANY + b"1]}",
    "lists": b'{"a": [' + b"[]," * MANY + b"[]]}",
    "objects": b'{"a": [' + b"{}," * MANY + b"{}]}",
    "strings": b'{"a": [' + b'"",' * MANY + b'""]}',
    "keys": b"{" + b",".join(b'"%d":0' % number for number in range(MANY)) + b"}",
    "one key": b"{" + b'"a":0,' * MANY + b'"a":0}',
    "depth": b'{"a":' + b"[" * MANY,
    "quotes": b'{"a":' + b'"",' * (3 * MANY),
    "escapes": b'{"a": [' + rb'"\\\"",' * MANY + b'""]}',
    "spread": b'{"a": [' + b"1 , " * MANY + b"1]}",
}


@pytest.mark.slow
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_before_it_is_read(bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="holds more than 131,072 values; send fewer at a time"):
            read_object(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * MB + 4 * len(bomb)


TEXTS = st.text('a,"\\[{:]}', max_size=9)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def count(value: Any) -> int:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, children))


@examples(60)
@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.booleans())
def test_only_values_are_counted_and_all_of_them(value: dict[str, Any], ascii_only: bool) -> None:
    """Commas in strings do not count: the limit counts values only, and the parser refuses one more."""
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_body, "MAX_VALUES", 2 * count(value))
        read_object(data)
        patch.setattr(json_body, "MAX_VALUES", count(value) - 2)
        with pytest.raises(InvalidRequest, match="values; send fewer"):
            read_object(data) if count(value) > 1 else read_object(BOMBS["depth"])


MESSAGE = '{"role":"user","content":"a {b}"}'


@each(
    "text",
    [
        '{"messages":[' + ",".join([MESSAGE] * MAX_OBJECTS) + "]}",
        '{"a":"' + "{" * 20_000 + '","b":[' + ",".join(["{}"] * MAX_OBJECTS) + "]}",
        '{"a\\"{":[' + ",".join(['{"b":{}}'] * (MAX_OBJECTS // 2 + 1)) + "]}",
    ],
)
def test_more_objects_than_a_conversation_has_are_refused(text: str) -> None:
    """With 40,000 messages a collection of Python's garbage stopped all threads for 0.2 s, eight times a body."""
    with pytest.raises(InvalidRequest, match=r"the body holds 16,38\d objects, .*; the limit is 16,384: send fewer"):
        read_object(text.encode())


@each(
    "text",
    [
        '{"messages":[' + ",".join([MESSAGE] * (MAX_OBJECTS - 1)) + "]}",
        '{"a":"' + "{" * 100_000 + '"}',
        '{"a":"\\"{' + "{" * 100_000 + '"}',
    ],
)
def test_braces_in_texts_are_no_objects(text: str) -> None:
    assert read_object(text.encode())


def test_long_texts_full_of_punctuation_are_read() -> None:
    text = ',[{:"\\' * 500_000
    assert read_object(json.dumps({"prompt": text}).encode()).raw("prompt") == text


def test_pictures_of_megabytes_are_read() -> None:
    body = {"messages": [{"content": "data:image/png;base64," + "A" * (3 * MB)} for _ in range(4)]}
    assert read_object(json.dumps(body).encode()).has("messages")


@pytest.mark.parametrize("digits", [MAX_DIGITS + 1, 4300, 100_000])
def test_long_numbers_are_refused(digits: int) -> None:
    data = b'{"a": [' + b",".join([b"9" * digits] * (4 * MB // digits)) + b"]}"
    with pytest.raises(InvalidRequest, match=f"a number that is too long: {digits} digits; the limit is 400"):
        read_object(data)
    assert read_object(b'{"a": -%s}' % (b"9" * 300)).raw("a") < 0


@pytest.mark.parametrize("number", ["0." + "9" * MAX_DIGITS, "1e" + "0" * MAX_DIGITS])
def test_long_floats_are_refused(number: str) -> None:
    text = f"a number that is too long: {MAX_DIGITS + 2} characters; the limit is 400"
    with pytest.raises(InvalidRequest, match=text):
        read_object(f'{{"a": {number}}}'.encode())
    assert read_object(b'{"a": 0.%s}' % (b"9" * 300)).raw("a") == 1


def test_other_threads_run_while_many_numbers_are_read() -> None:
    """``json`` itself holds the interpreter for a second while it reads 130,000 numbers between two floats."""
    body = json.dumps({"a": ["\U0001f600", *[2.5e-7, 17] * 1_000]}).encode()
    assert calls_in_json(lambda: read_object(body)) >= 2_000


def test_a_long_name_above_many_values_is_copied_for_none_of_them() -> None:
    """A path was made of each value below the name: one body of 14 MB took minutes."""
    name, levels = "k" * MB, 50
    body = f'{{"{name}": {"[" * levels}{{"b": "\\ud800"}}{"]" * levels}}}'.encode()
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match=r"holds \\ud800 alone") as caught:
            read_object(body)
        assert tracemalloc.get_traced_memory()[1] < 10 * MB, "levels have paths of their own"
    finally:
        tracemalloc.stop()
    assert caught.value.param == f"{name}{'[0]' * levels}.b"


def test_a_large_body_is_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []

    class Body(Record):
        a = Text("")

    def noted(data: bytes) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return read_object(data)

    monkeypatch.setattr(json_body, "read_object", noted)
    for size in (10, SMALL):
        text = "x" * size
        body = asyncio.run(json_body.read_record(json.dumps({"a": text}).encode(), Body, Limits()))
        assert body.a == text
    assert threads == [True, False]


@pytest.fixture(scope="module")
def small() -> Any:
    with serving(fake_pool(["llm", "asr"]), max_json_mb=1) as running:
        yield running


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/chat/completions", "/v1/embeddings", "/memory/preload"])
@pytest.mark.parametrize("declared", [True, False])
def test_json_has_a_limit_of_its_own(small: Running, path: str, declared: bool) -> None:
    body = b" " * MB + b"{}"
    content: Any = body if declared else (body[at : at + 99_999] for at in range(0, len(body), 99_999))
    answer = small.client.post(path, content=content)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    assert "the limit of this route is 1.0 MB" in answer.json()["error"]["message"]
    assert "max_json_mb" in answer.json()["error"]["message"]


def test_the_governor_knows_the_bodies_that_are_here(small: Running) -> None:
    traffic = small.pool.governor.accounts.traffic
    came = traffic.came
    for text in ("x" * 100_000, 7):  # served, and refused
        small.client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": text}]})
    assert traffic.came > came + 100_000
    until(lambda: traffic.held == 0)


def test_uploads_may_be_larger(small: Running) -> None:
    upload = small.client.post("/v1/transcribe/file", files={"audio": bytes(3 * MB)})
    assert upload.status_code == 415
    payload = json.dumps({"prompt": "x" * MB + "x"})
    answer = small.client.post("/v1/chat/completions", files={"payload": (None, payload), "a": b"1"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (413, "payload")


@pytest.mark.parametrize("path", ["/v1/transcribe/stream", "/v1/transcribe/push"])
def test_live_requests_are_small(small: Running, path: str) -> None:
    answer = small.client.post(path, content=bytes(8 * MB))
    assert answer.status_code == 413


def test_somebody_else_is_served_meanwhile(small: Running) -> None:
    """A body of half a million values used to hold the event loop for a second, and one of 31 MB for seven."""
    stop = threading.Event()

    def bomb() -> None:
        with httpx.Client(base_url=small.url) as client:
            while not stop.is_set():
                assert client.post("/v1/chat", content=BOMBS["objects"]).status_code == 400

    attackers = [threading.Thread(target=bomb) for _ in range(2)]
    for one in attackers:
        one.start()
    try:
        for _ in range(20):
            assert small.client.get("/v1/health", timeout=10).status_code == 200
    finally:
        stop.set()
        for one in attackers:
            one.join()


@pytest.mark.slow
def test_a_body_of_many_parts_takes_no_more_than_its_size() -> None:
    count = 100_000
    sent = iter(range(count))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"ab", "more_body": next(sent) < count - 1}

    async def read() -> bytes:
        scope = {"type": "http", "method": "POST", "headers": []}
        return await json_body.read_bytes(Request(scope, receive), MB, "")

    tracemalloc.start()
    try:
        assert len(asyncio.run(read())) == 2 * count
        assert tracemalloc.get_traced_memory()[1] < 10 * count, "each part was kept as an object"
    finally:
        tracemalloc.stop()


class Counted(Record):
    OPEN = True
    text = Text("")

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.thread = threading.current_thread().name


@pytest.mark.parametrize("values", [10, SMALL, MAX_VALUES - 2])
def test_values_are_counted_before_they_are_made(values: int) -> None:
    """A body of a megabyte takes thirty: forty of them at once took 1.7 GB."""
    counted: list[int] = []
    app = SimpleNamespace(state=SimpleNamespace(limits=Limits()))
    request = Request({"type": "http", "app": app, PARSE: counted.append})
    read = asyncio.run(read_noted(request, b'{"a": [' + b"1," * values + b"1]}", Counted))
    large = 2 * values > SMALL
    assert counted == ([VALUE_BYTES * (values + 2)] if large else [])
    assert read.thread.startswith("edgeserve the reading of bodies") is large, "clients take turns there"


def test_a_body_whose_values_have_no_room_is_not_read() -> None:
    def full(size: int) -> None:
        raise Busy("full", retry_after=2)

    app = SimpleNamespace(state=SimpleNamespace(limits=Limits()))
    request = Request({"type": "http", "app": app, PARSE: full})
    with pytest.raises(Busy):
        asyncio.run(read_noted(request, b"[" * 2 * SMALL, Counted))
