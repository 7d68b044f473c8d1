from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgeserve.errors import Busy, ShuttingDown
from edgeserve.parts import Parts


def test_a_part_is_made_once_and_with_its_first_use() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    parts = Parts({"ear": make})
    assert made == []
    assert parts.ear is parts.ear is made[0]
    assert len(made) == 1


def test_threads_get_the_same_part() -> None:
    together = threading.Barrier(4)

    def ask(parts: Parts) -> object:
        together.wait(30)
        return parts.ear

    parts = Parts({"ear": object})
    with ThreadPoolExecutor(4) as threads:
        found = {id(one.result()) for one in [threads.submit(ask, parts) for _ in range(4)]}
    assert len(found) == 1


def test_a_part_may_need_another() -> None:
    parts = Parts({"ear": lambda: ("ear", parts.mouth), "mouth": lambda: "mouth"})
    assert parts.ear == ("ear", "mouth")


def test_a_maker_that_failed_runs_again() -> None:
    tries = iter([Busy("no memory"), None])

    def make() -> str:
        if (error := next(tries)) is not None:
            raise error
        return "made"

    parts = Parts({"ear": make})
    with pytest.raises(Busy):
        _ = parts.ear
    assert parts.ear == "made"


def test_attributes_without_a_maker_are_those_that_were_set() -> None:
    parts = Parts({"ear": object})
    parts.pool = "pool"
    assert parts.pool == "pool"
    with pytest.raises(AttributeError, match="mouth"):
        _ = parts.mouth
    parts.ear = "mine"
    assert parts.ear == "mine"


def test_only_parts_in_use_are_acted_on() -> None:
    acted: list[str] = []
    parts = Parts({"ear": lambda: "ear"})
    parts.used("ear", acted.append)
    assert acted == []
    _ = parts.ear
    parts.used("ear", acted.append)
    assert acted == ["ear"]


def test_after_the_end_no_part_is_made_and_made_ones_stay() -> None:
    parts = Parts({"ear": lambda: "ear", "mouth": lambda: "mouth"})
    _ = parts.ear
    parts.close()
    assert parts.ear == "ear"
    with pytest.raises(ShuttingDown):
        _ = parts.mouth
