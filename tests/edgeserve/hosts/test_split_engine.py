"""The plan of a model over several machines, its books, and the machine that was lost."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.contract import ask
from support.gates import CountingGovernor, run
from support.rpc_server import rpc_server
from support.server import until
from support.split_fake import LAYERS

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engine_abilities import RemotePart
from edgeserve.errors import DoesNotFit, EdgeserveError, EngineFailure, Unreachable
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.hosts.split_engine import SplitEngine
from edgeserve.hosts.steps import WORKER
from edgeserve.named import make_engine
from edgeserve.processes.spawner import Spawner
from edgeserve.residency.gate import Gate
from edgeserve.splits.asking import Offer
from edgeserve.units import MB

NODES = ("10.0.0.2:50052", "10.0.0.3:50052")


class Boxes:
    """Free bytes of the machines; one without an entry is silent."""

    def __init__(self, **free: int) -> None:
        self.free = {f"{address.replace('_', '.')[1:]}:50052": size for address, size in free.items()}
        self.asked: list[str] = []

    def ask(self, endpoint: str, seconds: float = 3.0) -> Offer:
        self.asked.append(endpoint)
        if endpoint not in self.free:
            raise EngineFailure(f"{endpoint} cannot be reached")
        return Offer(self.free[endpoint], self.free[endpoint])


class Pulses:
    """Pulses of machines on paper: those in ``hanging`` are lost as soon as an answer is owed."""

    hanging: tuple[str, ...] = ()

    def __init__(self, endpoints: Sequence[str]) -> None:
        self.endpoints = endpoints
        self.closed = False

    def meet(self) -> tuple[str, ...]:
        return tuple(one for one in self.endpoints if one == NODES[0])

    def look(self, owed: bool) -> tuple[str, ...]:
        return tuple(one for one in self.endpoints if owed and one in self.hanging)

    def close(self) -> None:
        self.closed = True


def hanging(*nodes: str) -> type[Pulses]:
    return type("Hanging", (Pulses,), {"hanging": nodes})


def spec(*nodes: str, **options: object) -> ModelSpec:
    return ModelSpec("llm", "large", "support.split_fake:SplitChat", options={"nodes": list(nodes or NODES), **options})


@contextlib.contextmanager
def engine(boxes: Boxes, here: int, pulses: type[Pulses] = Pulses, **options: object) -> Iterator[SplitEngine]:
    launcher, given = Spawner(), {"room": lambda: here, "ask": boxes.ask, "pulses": pulses, "look_every": 0.01}
    made = SplitEngine(make_engine(spec(**options)), launcher, **given)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()
        launcher.stop()


@pytest.mark.slow
def test_the_parts_follow_the_free_memory_and_the_books_count_them() -> None:
    boxes = Boxes(_10_0_0_2=200 * MB, _10_0_0_3=100 * MB)
    with engine(boxes, 200 * MB + WORKER) as split:
        assert split.estimate().private == 4 * 14 * MB + WORKER  # this machine's part alone
        assert boxes.asked == []  # admission waits for nobody
        split.open()
        assert split.remote_parts == ()
        split.heat()
        assert split.remote_parts == (RemotePart(NODES[0], 4, 56 * MB), RemotePart(NODES[1], 2, 28 * MB))
        split.park()
        assert split.remote_parts == ()


def test_a_smaller_context_comes_before_a_refusal() -> None:
    boxes = Boxes(_10_0_0_2=45 * MB, _10_0_0_3=45 * MB)
    with engine(boxes, 45 * MB + WORKER) as split:
        split.open()
        split.heat()  # 14, 12 or 11 MB a layer; 4 of 10 layers on one machine
        assert sum(part.layers for part in split.remote_parts) == LAYERS - 4
        assert {part.size for part in split.remote_parts} == {3 * 11 * MB}


def test_a_machine_with_less_room_than_an_equal_share_is_asked_for_no_more() -> None:
    with engine(Boxes(), 30 * MB + WORKER) as split:
        assert split.estimate().private == 30 * MB + WORKER


def test_a_machine_without_room_refuses_with_the_sizes_and_the_engine_stays_warm() -> None:
    boxes = Boxes(_10_0_0_2=5 * MB, _10_0_0_3=200 * MB)
    with engine(boxes, 200 * MB + WORKER) as split:
        split.open()
        with pytest.raises(DoesNotFit, match=r"large: 10.0.0.2:50052 has 5 MB free, and its 1 layer would take 11 MB"):
            split.heat()
        assert split.rung is Rung.WARM


def test_a_silent_machine_is_named_before_anything_is_loaded() -> None:
    boxes = Boxes(_10_0_0_2=200 * MB)
    with engine(boxes, 200 * MB + WORKER) as split:
        split.open()
        with pytest.raises(EngineFailure, match=r"10.0.0.3:50052 cannot be reached"):
            split.heat()
        assert split.rung is Rung.WARM


def test_the_death_of_the_worker_names_the_machine_that_was_lost() -> None:
    boxes = Boxes(_10_0_0_2=200 * MB, _10_0_0_3=100 * MB)
    with engine(boxes, 200 * MB + WORKER) as split:
        split.open()
        split.heat()
        link = split.link
        assert link is not None
        del boxes.free[NODES[1]]
        os.kill(link.pid, signal.SIGABRT)
        until(lambda: split.rung is Rung.COLD)
        words = r"large has lost 10.0.0.3:50052 with 2 layers: .*SIGABRT.*starts it again"
        with pytest.raises(EdgeserveError, match=words):
            link.ask("heat")
        assert split.remote_parts == ()


def test_the_death_of_the_worker_names_all_machines_where_each_answers() -> None:
    """One of them may have sent garbage, which ends llama.cpp, or have begun again."""
    with engine(Boxes(_10_0_0_2=200 * MB, _10_0_0_3=100 * MB), 200 * MB + WORKER) as split:
        split.open()
        split.heat()
        link = split.link
        assert link is not None
        os.kill(link.pid, signal.SIGABRT)
        until(lambda: split.rung is Rung.COLD)
        with pytest.raises(EngineFailure, match=r"SIGABRT.*one may log why: 10.0.0.2:50052, 10.0.0.3:50052"):
            link.ask("heat")


def test_a_machine_that_hangs_ends_the_worker_while_it_owes_something(tmp_path: Path) -> None:
    """The worker gives its own pulse all the time: only the machine is silent."""
    os.mkfifo(tmp_path / "heat")
    boxes = Boxes(_10_0_0_2=200 * MB, _10_0_0_3=100 * MB)
    with engine(boxes, 200 * MB + WORKER, hanging(NODES[1]), hold=str(tmp_path)) as split:
        split.open()
        words = r"large has lost 10.0.0.3:50052 with 2 layers: .*10.0.0.3:50052 gave no sign of life for 8 s"
        with pytest.raises(EngineFailure, match=words):
            split.heat()
        assert split.rung is Rung.COLD
        assert split.remote_parts == ()
        assert len(boxes.asked) == 2  # nobody has to be asked who was lost


def test_a_machine_that_hangs_while_nothing_is_owed_stays_unnoticed(caplog: pytest.LogCaptureFixture) -> None:
    boxes = Boxes(_10_0_0_2=200 * MB, _10_0_0_3=100 * MB)
    with engine(boxes, 200 * MB + WORKER) as split:
        split.open()
        split.heat()
        watch = split.node_watch
        assert watch is not None
        assert [one.message for one in caplog.records if "no pulse" in one.message] == [
            f"large: {NODES[0]} gives no pulse by UDP: if it hangs, that is noticed after minutes only"
        ]
        split.park()
        assert split.node_watch is None
        assert not watch.alive


@contextlib.contextmanager
def unreachable(governor: CountingGovernor) -> Iterator[tuple[Gate, str]]:
    """The gate of a split over a machine that takes no connection, and that machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        gone = f"127.0.0.1:{free.getsockname()[1]}"
    launcher = Spawner()
    gate = Gate(ProcessHost(make_engine(spec(gone)), launcher, governor), governor)  # type: ignore[arg-type]
    try:
        yield gate, gone
    finally:
        gate.stop()
        launcher.stop()


def test_unreachable_machines_are_asked_before_memory_is_reserved(caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log, and no traceback: there is nothing wrong with the engine."""
    governor = CountingGovernor()
    with unreachable(governor) as (gate, gone):
        events, error = run(gate, ask("hello"))
        assert events == []
        assert isinstance(error, Unreachable)
        assert error.message.startswith(f"{gone} cannot be reached")
        with pytest.raises(Unreachable):
            gate.preload()
        gate.warm_up()
        until(lambda: not gate.warming)
    assert governor.reserved == 0
    (told,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert told.exc_info is None
    assert told.getMessage().startswith(f"large: {gone} cannot be reached")
    assert gate.rung is Rung.COLD


@pytest.mark.parametrize(("waited_for", "rung"), [(True, Rung.COLD), (False, Rung.WARM)])
def test_a_split_makes_way_before_it_asks_its_machines(waited_for: bool, rung: Rung) -> None:
    """Each question to a machine that hangs takes seconds, in which this thread holds the engine.

    Chats without end had transcriptions of others refused so: nobody could take the memory of the warm engine.
    """
    governor = CountingGovernor(waited_for=waited_for)
    with unreachable(governor) as (gate, _):
        gate.map()
        assert isinstance(run(gate, ask("hello"))[1], Unreachable)
        assert gate.rung is rung
        assert governor.steps == ([("large", Rung.COLD, "memory_needed")] if waited_for else [])
        assert governor.reserved == 0


def test_a_host_of_a_split_model_asks_the_governor_for_its_own_room() -> None:
    governor = CountingGovernor(bytes_here=150 * MB + WORKER)
    with rpc_server() as endpoint:  # which offers 1,000 bytes
        host = ProcessHost(make_engine(spec(endpoint)), Spawner(), governor)
        with pytest.raises(DoesNotFit, match=rf"{endpoint} has 0 MB free.* 150 MB free in all"):
            host.climb(Rung.HOT)
        assert host.remote_parts == ()
        host.close()
        host.stop()
