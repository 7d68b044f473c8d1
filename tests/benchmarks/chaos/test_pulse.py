"""The pulse asks for the health until its block ends, on the clock of the run."""

from __future__ import annotations

import logging
import time

import pytest
from benchmarks.chaos.pulse import Pulse
from support.server import fake_pool, serving, until


@pytest.mark.slow
def test_every_look_is_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "edgeserve.access")
    started = time.perf_counter()
    with serving(fake_pool(["llm"])) as running:
        port = int(running.url.rstrip("/").rpartition(":")[2])
        with Pulse(port, lambda: time.perf_counter() - started) as beat:
            until(lambda: caplog.text.count("GET /v1/health 200") >= 2)
    assert len(beat.looks) >= 2
    assert {one.status for one in beat.looks} == {200}
    assert all(0 < one.at < time.perf_counter() - started for one in beat.looks)
