"""The memory feed as the commands read it."""

from __future__ import annotations

from typing import Any

import pytest
from support.managed import managed, model
from support.server import until

from edgeserve.commands.feed import Follower, Shown, follow
from edgeserve.commands.remote import Server
from edgeserve.errors import EdgeserveError


@pytest.mark.slow
def test_each_sample_is_a_state() -> None:
    with managed({"llm": model()}) as (running, _):
        feed = follow(Server(running.url))
        first = next(feed)
        assert first.sample["pressure"] in ("LOW", "MODERATE", "HIGH", "CRITICAL")
        assert first.sample["total_mb"] > first.sample["available_mb"] > 0
        assert [one["rung"] for one in first.models] == ["warm"]
        assert first.pulls == []
        running.client.post("/admin/load", json={"model": "llm"}).raise_for_status()
        assert any(shown.models[0]["rung"] == "hot" for shown, _ in zip(feed, range(50), strict=False))
        feed.close()


def test_idle_times_go_on_between_two_rows() -> None:
    row: dict[str, Any] = {"idle_seconds": 3.0}
    shown = Shown({}, [row], at=100.0, pulls=())
    assert [one["idle_seconds"] for one in shown.aged(107.0)] == [10.0]
    assert [one["idle_seconds"] for one in shown.aged(99.0)] == [3.0]
    assert row == {"idle_seconds": 3.0}


def test_a_follower_shows_the_latest_state_or_the_error() -> None:
    with managed({"llm": model()}) as (running, _):
        one = Server(running.url)
        feed = follow(one)
        first = next(feed)
        feed.close()
        follower = Follower(one, first)
        assert follower.latest() is first
        follower.start()
        running.client.post("/admin/load", json={"model": "llm"}).raise_for_status()
        until(lambda: follower.latest().models[0]["rung"] == "hot")

    def gone() -> bool:
        try:
            follower.latest()
        except EdgeserveError as error:
            return "no edgeserve answers" in error.message
        return False

    until(gone)
    follower.stop()


def test_an_address_without_a_server_is_an_error() -> None:
    with pytest.raises(EdgeserveError, match="no edgeserve answers"):
        next(follow(Server("http://127.0.0.1:9")))
