"""The limits of a key."""

from __future__ import annotations

import contextlib

import pytest
from support.gates import Clock

from edgeserve.errors import TooManyRequests
from edgeserve.keys.key import Key, digest_of
from edgeserve.keys.pace import Pace


def pace(clock: Clock, **limits: int) -> Pace:
    return Pace(Key("phone", digest_of(b"sesame"), **limits), clock)  # type: ignore[arg-type]


def asked(one: Pace) -> None:
    with one.request():
        pass


def test_a_key_without_limits_asks_as_often_as_it_likes() -> None:
    one = pace(Clock())
    with contextlib.ExitStack() as held:
        for _ in range(1000):
            held.enter_context(one.request())
        assert one.running == 1000
    assert one.running == 0


def test_a_minute_has_so_many_requests_and_no_more() -> None:
    clock = Clock()
    one = pace(clock, per_minute=3)
    for _ in range(3):
        asked(one)
    with pytest.raises(TooManyRequests, match="'phone' has sent its 3 requests of a minute") as refused:
        asked(one)
    assert refused.value.retry_after == pytest.approx(20)
    clock.now += 19.9
    with pytest.raises(TooManyRequests):
        asked(one)
    clock.now += 0.2
    asked(one)
    with pytest.raises(TooManyRequests):
        asked(one)


def test_a_long_rest_saves_no_more_than_a_minute() -> None:
    clock = Clock()
    one = pace(clock, per_minute=2)
    clock.now += 3600
    asked(one)
    asked(one)
    with pytest.raises(TooManyRequests):
        asked(one)


def test_so_many_run_at_once_and_a_refused_one_counts_for_nothing() -> None:
    one = pace(Clock(), at_once=2, per_minute=3)
    with one.request(), one.request():
        for _ in range(5):
            with pytest.raises(TooManyRequests, match="2 requests of the key 'phone' run") as refused:
                asked(one)
            assert refused.value.retry_after == 2
    asked(one)


def test_a_request_that_fails_has_ended() -> None:
    one = pace(Clock(), at_once=1)
    with pytest.raises(ValueError, match="no"), one.request():
        raise ValueError("no")
    asked(one)
