"""A process ends with the program that started it."""

from __future__ import annotations

import os
import signal

import pytest

from edgeserve.system import lifeline


def test_the_end_of_the_other_side_ends_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    ours, theirs = os.pipe()
    try:
        thread = lifeline.end_with(ours)
        os.write(theirs, b"ignored\n")
        thread.join(0.05)
        assert thread.is_alive()
        assert sent == []
        os.close(theirs)
        thread.join(10)
    finally:
        os.close(ours)
    assert sent == [(os.getpid(), signal.SIGTERM)]
