"""The sampler of the benchmarks: what it records, and what is read from a record."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading

import pytest
from benchmarks.process import Memory, memory_of
from benchmarks.sampling import Mark, Record, Sample, Sampler


def memory(pss: float) -> Memory:
    return Memory(pss, pss - 1.0, 1.0)


def record(*sizes: float) -> Record:
    """One sample a second."""
    return Record([Sample(float(at), (memory(size),)) for at, size in enumerate(sizes)])


def test_processes_are_added_up() -> None:
    assert Sample(0.0, (memory(10), memory(5))).memory == Memory(15.0, 13.0, 2.0)
    assert Sample(0.0, ()).memory == Memory(0.0, 0.0, 0.0)


def test_peak_and_end_of_a_span() -> None:
    one = record(10, 50, 90, 70, 20)
    one.marks.append(Mark("chat", 0.5, 3.5))
    assert (one.peak("chat"), one.end("chat")) == (memory(90), memory(70))


def test_a_span_shorter_than_the_interval_takes_the_nearest_sample() -> None:
    one = record(10, 50, 90)
    one.marks.append(Mark("chat", 1.1, 1.3))
    assert one.peak("chat") == memory(50)


def test_an_unknown_mark_is_named() -> None:
    with pytest.raises(KeyError, match="nothing is marked 'tts'; marked: chat"):
        Record(marks=[Mark("chat", 0.0, 1.0)]).mark("tts")


def test_samples_until_the_block_ends_and_once_more() -> None:
    sizes, thrice = itertools.count(1), threading.Event()

    def read(pid: int) -> Memory:
        size = next(sizes)
        if size == 3:
            thrice.set()
        return memory(size)

    with Sampler(7, interval=0.001, read=read) as sampler:
        assert thrice.wait(10)
        with sampler.span("load"):
            sampler.event("loaded")
    taken = [one.memory.pss for one in sampler.record.samples]
    assert taken == [float(one + 1) for one in range(len(taken))]
    assert len(taken) >= 4
    loaded, load = sampler.record.marks
    assert (loaded.name, load.name) == ("loaded", "load")
    assert load.at <= loaded.at <= load.until <= sampler.record.samples[-1].at


def test_a_process_that_ended_counts_as_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with Sampler(ended.pid, os.getpid()) as sampler:
        pass
    gone, ours = sampler.record.samples[-1].processes
    assert gone == Memory(0.0, 0.0, 0.0)
    assert ours.anonymous > 1.0


def test_what_cannot_be_read_is_raised_at_the_end() -> None:
    def read(pid: int) -> Memory:
        raise PermissionError(f"process {pid} is not ours to read")

    with pytest.raises(PermissionError, match="process 7"), Sampler(7, read=read):
        pass


def test_memory_of_no_process() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(ProcessLookupError):
        memory_of(ended.pid)
