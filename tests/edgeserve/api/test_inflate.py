"""Compressed bodies: read like others, and bounded in size, ratio and time."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
import json
import random
import threading
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.cases import each
from support.server import fake_pool, serving

from edgeserve import clients
from edgeserve.api import inflate
from edgeserve.api.inflate import FREE, PIECE, RATIO, Inflated
from edgeserve.clients import Client
from edgeserve.errors import InvalidRequest, TooLarge

MB = 1 << 20
QUESTION = json.dumps({"prompt": "hello"}).encode()
NOISE = random.Random(1).randbytes(300_000)


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)


async def inflated(*parts: bytes, hold: Callable[[int], None] = lambda size: None) -> list[bytes]:
    """The bytes of each message that the application gets for a body in these parts."""
    messages: list[Any] = [{"type": "http.request", "body": part, "more_body": True} for part in parts[:-1]]
    messages.append({"type": "http.request", "body": parts[-1]})
    messages.append({"type": "http.disconnect"})

    async def receive() -> Any:
        return messages.pop(0)

    body, made = Inflated(receive, hold), []
    while (message := await body.next()).get("more_body"):
        made.append(message["body"])
    assert (await body.next())["type"] == "http.disconnect"
    return [*made, message["body"]]


@pytest.mark.slow
@pytest.mark.parametrize("compress", [gzip.compress, raw_deflate])
@pytest.mark.parametrize("data", [b"", b"a", QUESTION, NOISE, bytes(PIECE), bytes(3 * PIECE), NOISE * 3 + bytes(7)])
@pytest.mark.parametrize("size", [997, 10 * MB])
def test_all_bytes_arrive_however_they_are_cut(compress: Callable[[bytes], bytes], data: bytes, size: int) -> None:
    whole = compress(data)
    parts = [whole[start : start + size] for start in range(0, len(whole), size)]
    held: list[int] = []
    made = asyncio.run(inflated(*parts, b"", hold=held.append))
    assert b"".join(made) == data
    assert max(map(len, made)) <= PIECE
    assert sum(held) == len(data)


def test_a_body_of_single_bytes_is_read() -> None:
    whole = gzip.compress(QUESTION)
    assert b"".join(asyncio.run(inflated(*(whole[at : at + 1] for at in range(len(whole)))))) == QUESTION


def test_inflating_takes_no_time_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    made = zlib.decompressobj

    class Told:
        def __init__(self, *given: int) -> None:
            self._inner = made(*given)

        def decompress(self, *given: Any) -> bytes:
            threads.append(threading.current_thread())
            return self._inner.decompress(*given)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    monkeypatch.setattr(inflate.zlib, "decompressobj", Told)
    asyncio.run(inflated(gzip.compress(NOISE)))
    assert threads
    assert threading.main_thread() not in threads


def test_bodies_of_one_client_hold_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """They used to share few threads with all other short work, without turns."""
    made, go_on = zlib.decompressobj, threading.Event()

    class Slow:
        def __init__(self, *given: int) -> None:
            self._inner = made(*given)

        def decompress(self, *given: Any) -> bytes:
            assert clients.current.get().address != "ada" or go_on.wait(60)
            return self._inner.decompress(*given)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    def ask(client: str) -> asyncio.Task[list[bytes]]:
        context = contextvars.copy_context()
        context.run(clients.current.set, Client(address=client))
        return asyncio.get_running_loop().create_task(inflated(gzip.compress(QUESTION)), context=context)

    async def run() -> None:
        try:
            adas = [ask("ada") for _ in range(50)]
            await asyncio.sleep(0)
            assert await asyncio.wait_for(ask("bob"), 20) == [QUESTION]
            assert not any(one.done() for one in adas)
        finally:
            go_on.set()
        assert await asyncio.gather(*adas) == [[QUESTION]] * 50

    monkeypatch.setattr(inflate.zlib, "decompressobj", Slow)
    asyncio.run(run())


@each(
    ("parts", "words"),
    [
        ((b"no gzip at all",), "damaged"),
        ((gzip.compress(NOISE)[:1000],), "ends before its compressed data do"),
        ((gzip.compress(NOISE)[:-1],), "ends before"),
        ((b"",), "ends before"),
        ((gzip.compress(b"a") + b"b",), "something follows"),
        ((gzip.compress(b"a"), b"b"), "something follows"),
        ((gzip.compress(b"a") * 2,), "something follows"),
        ((gzip.compress(NOISE)[:-8] + bytes(8),), "damaged"),
    ],
)
def test_damaged_data_are_the_clients_error(parts: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        asyncio.run(inflated(*parts))


def test_a_bomb_is_stopped_at_its_ratio() -> None:
    held: list[int] = []
    bomb = gzip.compress(bytes(64 * MB))
    with pytest.raises(TooLarge, match=f"more than {RATIO} times its size"):
        asyncio.run(inflated(bomb, hold=held.append))
    assert sum(held) <= FREE + RATIO * len(bomb)


@pytest.mark.slow
def test_the_limit_of_bodies_holds_for_inflated_bytes() -> None:
    with serving(fake_pool(["llm"]), max_body_mb=1, max_json_mb=64) as running:
        noise = bytes(random.Random(2).choices(b"0123456789", k=3 * MB))
        packed = gzip.compress(b'{"prompt": "' + noise + b'"}', 1)[: 3 * MB]
        assert len(packed) > MB // 2
        answer = running.client.post("/v1/chat", content=packed, headers={"Content-Encoding": "gzip"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert running.client.post("/v1/chat", json={"prompt": "on"}).status_code == 200


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "identity, gzip"])
def test_a_compressed_question_is_answered(client: httpx.Client, coding: str) -> None:
    answer = client.post("/v1/chat", content=gzip.compress(QUESTION), headers={"Content-Encoding": coding})
    assert answer.json() == {"text": "hello"}


def test_a_compressed_form_is_read(client: httpx.Client) -> None:
    built = client.build_request("POST", "/v1/vision/ocr", files={"image": b"no picture"}, data={"prompt": "what?"})
    headers = {"Content-Type": built.headers["content-type"], "Content-Encoding": "deflate"}
    answer = client.post("/v1/vision/ocr", content=raw_deflate(built.read()), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media")


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "x" * 5000])
def test_other_codings_are_refused_with_those_that_are_read(client: httpx.Client, coding: str) -> None:
    answer = client.post("/v1/chat", content=QUESTION, headers={"Content-Encoding": coding})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media")
    assert "send gzip, deflate or none" in answer.json()["error"]["message"]
    assert len(answer.content) < 1000


def test_a_body_without_compression_is_read_as_it_is(client: httpx.Client) -> None:
    answer = client.post("/v1/chat", content=QUESTION, headers={"Content-Encoding": "identity"})
    assert answer.json() == {"text": "hello"}
