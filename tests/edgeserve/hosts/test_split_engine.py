"""The plan of a model over several machines, its books, and the machine that was lost."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest
from support.gates import CountingGovernor
from support.rpc_server import rpc_server
from support.server import until
from support.split_fake import LAYERS

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engine_abilities import RemotePart
from edgeserve.errors import DoesNotFit, EdgeserveError, EngineFailure
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.hosts.remote import WORKER
from edgeserve.hosts.split_engine import SplitEngine
from edgeserve.named import make_engine
from edgeserve.processes.spawner import Spawner
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


def spec(*nodes: str) -> ModelSpec:
    return ModelSpec("llm", "large", "support.split_fake:SplitChat", options={"nodes": list(nodes or NODES)})


@contextlib.contextmanager
def engine(boxes: Boxes, here: int) -> Iterator[SplitEngine]:
    launcher = Spawner()
    made = SplitEngine(make_engine(spec()), launcher, room=lambda: here, ask=boxes.ask)
    try:
        yield made
    finally:
        made.close()
        launcher.stop()


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
        with pytest.raises(DoesNotFit, match=r"large: 10.0.0.2:50052 has 5 MB free, and its 1 layers take 11 MB"):
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


def test_a_host_of_a_split_model_asks_the_governor_for_its_own_room() -> None:
    governor = CountingGovernor(bytes_here=150 * MB + WORKER)
    with rpc_server() as endpoint:  # which offers 1,000 bytes
        host = ProcessHost(make_engine(spec(endpoint)), Spawner(), governor)
        with pytest.raises(DoesNotFit, match=rf"{endpoint} has 0 MB free.* 150 MB free in all"):
            host.climb(Rung.HOT)
        assert host.remote_parts == ()
        host.close()
        host.stop()
