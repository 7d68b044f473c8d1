"""Handlers hold for a time, and those of before come back."""

from __future__ import annotations

import os
import signal

import pytest

from edgeserve.system.signals import handled


def test_handlers_of_before_come_back_after_an_error() -> None:
    before, got = signal.getsignal(signal.SIGUSR1), list[int]()
    with pytest.raises(KeyError):
        interrupted(got)
    assert got == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is before


def interrupted(got: list[int]) -> None:
    with handled({signal.SIGUSR1: lambda number, frame: got.append(number)}):
        os.kill(os.getpid(), signal.SIGUSR1)
        raise KeyError
