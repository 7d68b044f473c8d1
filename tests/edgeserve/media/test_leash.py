"""A leash kills what it holds, and refuses what begins later."""

from __future__ import annotations

import pytest

from edgeserve.errors import Cancelled
from edgeserve.media.leash import Leash


def test_a_cut_kills_what_is_held() -> None:
    leash, killed = Leash(), []
    leash.hold(lambda: killed.append(1))
    leash.check()
    leash.cut()
    assert killed == [1]
    with pytest.raises(Cancelled, match="the client went away"):
        leash.check()


def test_work_that_begins_after_the_cut_is_refused() -> None:
    leash, killed = Leash(), []
    leash.cut()
    with pytest.raises(Cancelled):
        leash.hold(lambda: killed.append(1))
    leash.cut()
    assert not killed


def test_ended_work_is_not_killed() -> None:
    leash, killed = Leash(), []
    leash.hold(lambda: killed.append(1))
    leash.let_go()
    leash.cut()
    assert not killed
