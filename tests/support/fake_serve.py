"""A server on fake engines as a program, for what only a process can be told: ``fake_serve.py DRAIN_SECONDS DELAY``.

It prints its address. ``FAKE_TERMINAL`` as in ``fake_cli``; ``FAKE_IGNORE`` names a signal to ignore, as nohup does.
``FAKE_HOLD`` is the option ``hold`` of the engine. ``FAKE_WORKER`` puts the engine into a process of its own.
``FAKE_END`` is the time for its end after the drain time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from support import fake_cli
from support.gates import BATCHING_FAKES, FAKES, fake_spec
from support.server import build, considerate_governor, fake_pool

import edgeserve.server
from edgeserve import logs
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.listening import address, listen
from edgeserve.processes.roster import Roster
from edgeserve.processes.spawner import Spawner
from edgeserve.residency.pool import Pool
from edgeserve.server import Server


def in_a_worker(**options: Any) -> Pool:
    governor, roster = considerate_governor(), Roster()
    host = ProcessHost(FAKES["llm"](fake_spec("llm", **options)), roster.add(Spawner()), governor)
    return Pool([host], governor, roster=roster)


def main(drain_seconds: float, delay: float) -> int:
    logs.configure("info")
    if end := os.environ.get("FAKE_END"):
        edgeserve.server.END_SECONDS = edgeserve.server.LAST_WORDS_SECONDS = float(end)
    hold = {"hold": os.environ["FAKE_HOLD"]} if "FAKE_HOLD" in os.environ else {}
    if "FAKE_WORKER" in os.environ:
        pool = in_a_worker(**hold)
    else:
        pool = fake_pool(["llm"], fakes=BATCHING_FAKES, delay=delay, **hold)
    listener = listen("127.0.0.1", 0)
    server = Server(build(pool, drain_seconds=drain_seconds), pool, drain_seconds)
    server.on_ready = lambda: print(address(listener), flush=True)
    asyncio.run(server.serve(sockets=[listener]))
    return 0 if server.started else 128 + server.ended_by


if __name__ == "__main__":
    if "FAKE_TERMINAL" in os.environ:
        fake_cli.take_terminal()
    if "FAKE_IGNORE" in os.environ:
        signal.signal(signal.Signals[os.environ["FAKE_IGNORE"]], signal.SIG_IGN)
    sys.exit(main(float(sys.argv[1]), float(sys.argv[2])))
