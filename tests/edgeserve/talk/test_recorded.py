from __future__ import annotations

from edgeserve.talk.recorded import SECOND, Recorded


def test_sound_is_dropped_by_time_and_time_goes_on() -> None:
    one = Recorded()
    one.add(bytes(SECOND) + b"\1" * SECOND)
    one.drop(1.0)
    assert (one.start, one.end, one.seconds, one.look()) == (1.0, 2.0, 1.0, b"\1" * SECOND)
    one.drop(0.5)
    assert one.start == 1.0
    assert one.take() == b"\1" * SECOND
    assert (one.start, one.seconds) == (2.0, 0.0)
    one.drop(9.0)
    assert one.end == 2.0
