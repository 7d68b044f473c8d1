from __future__ import annotations

import threading

from edgeserve.hosts.busy import Busy


def test_busy_as_long_as_one_thread_has_work() -> None:
    busy = Busy()
    assert not busy.wait(0)
    busy.begin("engine")
    busy.begin("prepare")
    busy.end("engine")
    assert busy.wait(0)
    busy.end("prepare")
    assert not busy.wait(0)


def test_work_wakes_who_waits() -> None:
    busy = Busy()
    waiting = threading.Thread(target=busy.wait)
    waiting.start()
    busy.begin("engine")
    waiting.join(10)
    assert not waiting.is_alive()
