"""The speed of reading memory."""

from __future__ import annotations

import ctypes
import threading

import pytest

from edgeserve.system import bandwidth
from edgeserve.units import MB


def test_every_thread_reads_its_part_of_written_memory_and_the_best_round_counts() -> None:
    seen: list[tuple[int, int, bytes]] = []
    lock = threading.Lock()
    times = iter([0.0, 4.0, 10.0, 11.0, 20.0, 22.0])

    def scan(address: int, size: int) -> None:
        with lock:
            seen.append((address, size, ctypes.string_at(address + size - 1, 1)))

    found = bandwidth.measure(3, size=3 * MB, rounds=3, scan=scan, clock=lambda: next(times))
    assert found == 3 * MB / 1.0
    assert {(size, last) for _, size, last in seen} == {(MB, b"\1")}
    assert sorted({address - min(one[0] for one in seen) for address, *_ in seen}) == [0, MB, 2 * MB]


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_read_at_a_plausible_speed(threads: int) -> None:
    assert 1e8 < bandwidth.measure(threads, size=16 * MB, rounds=4) < 5e12


@pytest.mark.parametrize(
    ("available", "size"),
    [(0, bandwidth.LEAST), (1 << 20, bandwidth.LEAST), (400 << 20, 100 << 20), (1 << 40, bandwidth.SIZE)],
)
def test_a_full_machine_is_measured_with_little(available: int, size: int) -> None:
    assert bandwidth.size_for(available) == size
