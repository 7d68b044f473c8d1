"""The clients tell right answers from wrong, refused, cut and hanging ones."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks import load
from benchmarks.chaos import asks, clients
from benchmarks.chaos.clients import KINDS, Crowd
from benchmarks.chaos.live import Sound
from benchmarks.chaos.replies import FAILED, HUNG, LEFT, REFUSED, RIGHT, WRONG, Reply
from support.server import Running, fake_pool, serving

TOLD = load.chat("one two three", 10)
STREAMED = load.chat("one bad three", 10, stream=True)
SPOKEN = asks.say("one two. three.", "pcm")
RANKED = asks.rank("a heron", ["a train", "a heron in the water", "a river"])
SECOND = (b"\0\0\x80\x3e" * 16_000,)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr", "tts", "rerank"], fail_word="bad")) as running:
        yield running


def crowd(running: Running, kind: str, one: load.Ask | None = None, **changes: Any) -> Crowd:
    """Clients of one kind, who neither vanish nor pause."""
    ticks = itertools.count()
    made = {"limit": 30.0, "pause": 0.0, **changes}
    found = {kind: [one]} if one else {}
    return Crowd(running.url, found, Sound(SECOND, ("1",)), random.Random(1), lambda: float(next(ticks)), **made)


def ask(one: Crowd, monkeypatch: pytest.MonkeyPatch, kind: str, vanishing: float = 0.0) -> Reply:
    monkeypatch.setattr(clients, "KINDS", (kind,))
    monkeypatch.setattr(clients, "VANISHING", vanishing)
    monkeypatch.setattr("benchmarks.chaos.live.VANISHING", vanishing)
    turns = iter([True])
    asyncio.run(one.stay(lambda: next(turns, False)))
    (reply,) = one.replies
    return reply


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "wanted"), [("chat", TOLD), ("speech pcm", SPOKEN), ("rerank", RANKED)])
def test_a_right_answer_and_a_wrong_one(
    running: Running, monkeypatch: pytest.MonkeyPatch, kind: str, wanted: load.Ask
) -> None:
    one = crowd(running, kind, wanted)
    asyncio.run(one.learn())
    asyncio.run(one.learn())  # and as before
    assert ask(one, monkeypatch, kind).verdict == RIGHT
    one.replies.clear()
    one.bar[wanted] = "else"
    reply = ask(one, monkeypatch, kind)
    assert reply.verdict == WRONG
    assert "instead of 'else'" in reply.told
    with pytest.raises(RuntimeError, match="alone"):
        asyncio.run(one.learn())


def test_the_best_document_comes_first(running: Running) -> None:
    one = crowd(running, "rerank", RANKED)
    asyncio.run(one.learn())
    assert one.bar[RANKED] == [1, 0, 2]


def test_every_kind_of_client_has_requests_without_models() -> None:
    assert Crowd("", asks.of_fakes(b""), Sound(SECOND, ("1",)), random.Random(1), float, 30.0).kinds() == [*KINDS]


def test_clients_without_requests_stay_away(running: Running) -> None:
    assert crowd(running, "chat", TOLD).kinds() == ["chat", "live HTTP", "live WebSocket", "bad"]


@pytest.mark.slow
def test_an_error_inside_a_stream_is_a_failure_with_a_code(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(crowd(running, "chat stream", STREAMED), monkeypatch, "chat stream")
    assert (reply.status, reply.verdict, reply.code) == (200, FAILED, "engine_failure")


def test_a_refusal_has_its_code(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(crowd(running, "chat", load.chat("bad", 10)), monkeypatch, "chat")
    assert (reply.status, reply.verdict, reply.code) == (500, REFUSED, "engine_failure")


def test_a_client_error_to_a_good_request_is_wrong(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    reply = ask(crowd(running, "chat", asks.native("", 10)), monkeypatch, "chat")
    assert (reply.status, reply.verdict, reply.code) == (400, WRONG, "invalid_request")


def test_no_end_within_the_limit_hangs(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(crowd(running, "chat", TOLD, limit=0.0), monkeypatch, "chat").verdict == HUNG


def test_a_client_may_leave(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(crowd(running, "chat", TOLD), monkeypatch, "chat", vanishing=1.0).verdict == LEFT


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["live HTTP", "live WebSocket"])
def test_a_live_transcription(running: Running, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    assert ask(crowd(running, kind), monkeypatch, kind).verdict == RIGHT
    one = crowd(running, kind)
    one.live = Sound(SECOND, ("nobody said this",))
    assert ask(one, monkeypatch, kind).verdict == WRONG


@pytest.mark.parametrize("kind", ["live HTTP", "live WebSocket"])
def test_a_refused_live_transcription(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with serving(fake_pool(["tts"])) as running:
        reply = ask(crowd(running, kind), monkeypatch, kind)
    assert (reply.status, reply.verdict, reply.code) == (404, REFUSED, "engine_not_configured")


@pytest.mark.slow
def test_bad_requests_are_refused(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    one = crowd(running, "bad")
    turns = iter(range(30))
    monkeypatch.setattr(clients, "KINDS", ("bad",))
    asyncio.run(one.stay(lambda: next(turns, None) is not None))
    assert len(one.replies) == 30
    told = {reply.verdict for reply in one.replies if not (reply.job == "vision" and reply.status == 503)}
    assert told <= {REFUSED, RIGHT}


def test_a_server_that_is_gone_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(fake_pool(["llm"])) as running:
        one = crowd(running, "chat", TOLD)
    reply = ask(one, monkeypatch, "chat")
    assert (reply.status, reply.verdict, reply.code) == (0, FAILED, "cut")
