"""GET /memory/feed: the past, then samples, happenings and models as they change, to the end of the server."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
from support.managed import managed, model
from support.raw import dialled, read_answer
from support.server import Running, until

from edgeserve.api import feed
from edgeserve.api.places import SILENT_SECONDS, Places
from edgeserve.clients import Client
from edgeserve.memory.timeline import Point, Sample, Timeline


@contextlib.contextmanager
def following(running: Running, **query: Any) -> Iterator[Iterator[dict[str, Any]]]:
    with httpx.stream("GET", f"{running.url}/memory/feed", params=query, timeout=60) as stream:
        assert stream.status_code == 200, stream.read()
        assert stream.headers["content-type"].startswith("text/event-stream")
        yield (json.loads(line.removeprefix("data: ")) for line in stream.iter_lines() if line.startswith("data: "))


def awaited(events: Iterator[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(event for event in events if event["type"] == kind)


def sampled(running: Running, **query: Any) -> list[dict[str, Any]]:
    """Samples of the first event with some, by the names of their columns."""
    with following(running, **query) as events:
        names = next(events)["sample"]
        return [dict(zip(names, one, strict=False)) for one in awaited(events, "samples")["samples"]]


def test_it_begins_with_the_past_and_all_models() -> None:
    with managed() as (running, world):
        world.pool.governor.sampler.sample()
        first = sampled(running)[0]
        stats = running.client.get("/memory/stats").json()
        assert set(first["models"]) == {"llm", "asr"}
        assert first["models"]["llm"][0] == 1, "warm"
        assert first["total_mb"] == stats["total_mb"]
        assert 0 < first["budget_mb"] <= first["total_mb"]  # it follows the memory that is available now
        assert first["private_mb"] > 10


@pytest.mark.slow
def test_a_load_comes_as_a_happening_a_sample_and_a_row() -> None:
    with managed() as (running, _), following(running, past=0) as events:
        start = next(events)
        assert start["rungs"] == ["cold", "warm", "hot"]
        rows, told = awaited(events, "models")["models"], running.client.get("/memory/models").json()
        assert [one | {"idle_seconds": 0} for one in rows] == [one | {"idle_seconds": 0} for one in told]
        running.client.post("/admin/load", json={"model": "asr"}).raise_for_status()
        (step,) = (one for one in awaited(events, "events")["events"] if one["kind"] == "step_up")
        assert (step["model"], step["before"], step["after"]) == ("asr", "cold", "hot")
        wanted = start["rungs"].index("hot")
        assert any("asr" in changed and changed["asr"][0] == wanted for changed in models_of(events))
        rows = {one["id"]: one for one in awaited(events, "models")["models"]}
        assert rows["asr"]["rung"] == "hot"
        assert rows["llm"]["default"] is True


def models_of(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The models of each further sample; at most the next hundred events."""
    for event, _ in zip(events, range(100), strict=False):
        for row in event.get("samples", ()):
            yield row[8] if len(row) > 8 else {}


@pytest.mark.slow
def test_models_that_come_and_go_are_in_it() -> None:
    with managed({"llm": model()}) as (running, world), following(running) as events:
        assert [one["id"] for one in awaited(events, "models")["models"]] == ["llm"]
        world.rewrite({"llm": model(), "asr": model("asr")})
        running.client.post("/admin/reload").raise_for_status()
        until(lambda: world.pool.governor.timeline.changes >= 2)
        assert any("asr" in changed for changed in models_of(events))
        world.rewrite({"llm": model()})
        running.client.post("/admin/reload").raise_for_status()
        assert any("asr" in changed and changed["asr"] is None for changed in models_of(events))


def test_it_ends_with_the_server_and_says_so() -> None:
    with managed() as (running, _), following(running) as events:
        awaited(events, "models")
        running.server.should_exit = True
        assert list(events)[-1] == {"type": "end", "reason": "the server is shutting down"}


def test_listeners_are_bounded_and_leave_their_places() -> None:
    with managed() as (running, _):
        listeners = running.app.state.listeners = Places(4, "streams of the memory feed", "close one")
        with following(running) as one, following(running) as other:
            assert next(one) == next(other)
            answer = running.client.get("/memory/feed")
            assert answer.status_code == 503
            assert answer.headers["retry-after"]
            assert "2 streams of the memory feed of yours are open" in answer.json()["error"]["message"]
        until(lambda: len(listeners) == 0)
        assert sampled(running)


@pytest.mark.parametrize("path", ["/memory/feed", "/models/sse"])
def test_the_head_alone_is_an_answer_that_ends(path: str) -> None:
    with managed() as (running, _):
        for _ in range(2):  # on one connection: the second one would wait behind the first for ever
            answer = running.client.head(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
        assert running.client.get("/v1/health").status_code == 200
        assert len(running.app.state.listeners) == 0


@pytest.mark.parametrize("path", ["/memory/feed", "/models/sse"])
def test_a_body_that_does_not_come_is_refused(path: str) -> None:
    """The stream went on without its client for ever, and kept its places."""
    with managed({}, server={"body_timeout": 0.2}) as (running, _):
        with dialled(running) as link:
            link.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n".encode())
            status, told = read_answer(link)
        assert (status, told["error"]["code"]) == (408, "request_timeout")
        assert len(running.app.state.listeners) == 0


def test_a_body_without_use_is_read() -> None:
    with managed({}) as (running, _):
        with running.client.stream("GET", "/memory/feed", content=b"123456789") as stream:
            assert next(stream.iter_lines()).startswith("data: ")
        until(lambda: len(running.app.state.listeners) == 0)
        assert running.client.request("GET", "/memory/feed", content=bytes(100_000)).status_code == 413


@pytest.mark.slow
def test_a_feed_whose_place_is_given_away_ends_and_says_so() -> None:
    now = [0.0]
    with managed() as (running, _):
        listeners = running.app.state.listeners = Places(6, "streams", "close one", clock=lambda: now[0])
        with (
            following(running) as one,
            following(running) as other,
            following(running) as third,
            contextlib.ExitStack() as rest,
        ):
            for events in (one, other, third):
                awaited(events, "models")
            for number in range(3):
                rest.enter_context(listeners.one(Client("", f"10.0.{number}.1")))
            now[0] += SILENT_SECONDS
            rest.enter_context(listeners.one(Client("", "10.0.9.1")))
            assert list(one)[-1] == {"type": "end", "reason": "another client has this place: all are taken"}


@pytest.mark.parametrize("past", ["-1", "1801", "x", "1e999"])
def test_a_wrong_past_is_refused_by_name(past: str) -> None:
    with managed({}) as (running, _):
        answer = running.client.get("/memory/feed", params={"past": past})
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "past")
        assert len(running.app.state.listeners) == 0


def test_a_silent_feed_has_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgeserve.api.manage.stream.BEAT_SECONDS", 0.01)
    with managed({}) as (running, _), httpx.stream("GET", f"{running.url}/memory/feed", timeout=60) as stream:
        assert feed.PING.decode().strip() in stream.iter_lines()


def test_the_past_comes_in_parts() -> None:
    with managed({}) as (running, world):
        timeline = world.pool.governor.timeline
        for _ in range(700):
            timeline.record(Sample(0, 10, 20, 30, 900, 800, 1000), {})
        with following(running) as events:
            sizes = [len(awaited(events, "samples")["samples"]) for _ in range(3)]
        assert sizes[:2] == [feed.BATCH, feed.BATCH]
        assert sum(sizes) >= 700


def test_a_thread_writes_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client that connected held the event loop for 20 ms, and may connect many times a second."""
    written, threads = feed._samples, list[tuple[bool, str]]()

    def noted(timeline: Timeline, points: Sequence[Point]) -> bytes:
        threads.append((len(points) >= feed.FEW, threading.current_thread().name))
        return written(timeline, points)

    monkeypatch.setattr(feed, "_samples", noted)
    with managed({}) as (running, world):
        timeline = world.pool.governor.timeline
        for _ in range(feed.BATCH):
            timeline.record(Sample(0, 10, 20, 30, 900, 800, 1000), {})
        with following(running) as events:
            assert awaited(events, "samples")
    assert any(many for many, _ in threads)
    assert all((name == "edgeserve the past of the memory") is many for many, name in threads)
