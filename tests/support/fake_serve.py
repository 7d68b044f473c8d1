"""A server on fake engines as a program, for what only a process can be told: ``fake_serve.py DRAIN_SECONDS DELAY``.

It prints its address. ``FAKE_TERMINAL`` as in ``fake_cli``; ``FAKE_IGNORE`` names a signal to ignore, as nohup does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from support import fake_cli
from support.gates import BATCHING_FAKES
from support.server import build, fake_pool

from edgeserve import logs
from edgeserve.server import Server, address, listen


def main(drain_seconds: float, delay: float) -> int:
    logs.configure("info")
    pool = fake_pool(["llm"], fakes=BATCHING_FAKES, delay=delay)
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
