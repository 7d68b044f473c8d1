"""The benchmarks' own client reads the bytes of a streamed answer."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from benchmarks.streams import Stream, percentile, understood
from support.server import fake_pool, serving

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}


def delta(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def chunks(*pieces: bytes) -> bytes:
    return b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in (*pieces, b""))


def answer(*events: Any) -> bytes:
    return HEAD + chunks(*(event(one) for one in events))


def cut(data: bytes, places: Sequence[int]) -> list[tuple[float, bytes]]:
    """Reads that end at these places, at seconds 1, 2, …"""
    borders = [0, *places, len(data)]
    pairs = itertools.pairwise(borders)
    return [(float(at), data[start:end]) for at, (start, end) in enumerate(pairs, start=1)]


def test_text_counts_when_its_last_byte_came() -> None:
    data = answer(delta(""), delta("one"), delta(" two"), USAGE, b"[DONE]")
    inside = data.index(b" two") + 2
    told = understood(0.5, cut(data, [data.index(b"one"), inside]))
    assert (told.times, told.first, told.gaps) == ([2.0, 3.0], 1.5, [1.0])
    assert (told.prompt, told.said, told.cached) == (7, 2, 0)


def test_every_cut_reads_the_same() -> None:
    data = answer(delta("one"), delta("zwölf"), USAGE, b"[DONE]")
    for place in range(1, len(data)):
        assert len(understood(0.0, cut(data, [place])).times) == 2


def test_an_event_may_be_spread_over_chunks() -> None:
    whole = event(delta("one")) + event(USAGE) + event(b"[DONE]")
    told = understood(0.0, [(1.0, HEAD + chunks(whole[:20], whole[20:]))])
    assert told.times == [1.0]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n{}", "not a stream"),
        (answer({"error": {"message": "no"}}, b"[DONE]"), "was cut"),
        (answer(delta("one"), USAGE), "not whole"),
        (answer(delta("one"), b"[DONE]"), "not whole"),
    ],
)
def test_what_is_not_a_whole_answer_is_an_error(data: bytes, why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        understood(0.0, [(1.0, data)])


async def _ask(port: int, text: str) -> Any:
    return await Stream(port, {"messages": [{"role": "user", "content": text}]}).run()


def test_a_real_stream() -> None:
    with serving(fake_pool(["llm"])) as running:
        told = asyncio.run(_ask(int(running.client.base_url.port or 0), "one two three"))
    assert (len(told.times), told.said) == (3, 3)
    assert told.sent < told.times[0] <= told.times[-1]


def test_percentile() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(list(map(float, range(100))), 0.99) == 99.0
