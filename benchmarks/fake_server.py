"""The server on an engine that takes no time: what remains is the serving path itself."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from benchmarks.process import ServerProcess, free_port, running

LONG = {"context": 1_000_000}


def serve(port: int, slots: int, delay: float, isolation: str = "thread") -> None:
    """In this process, until SIGTERM. Its chat repeats the last message, a word of each answer in ``delay`` seconds.

    ``isolation``: "process" puts the engine into a worker.
    """
    from edgeserve import app, named
    from edgeserve.config import Config, ServerSettings
    from edgeserve.engine import ModelSpec
    from edgeserve.hosts.process_host import ProcessHost
    from edgeserve.hosts.thread_host import ThreadHost
    from edgeserve.listening import listen
    from edgeserve.memory.governor import make_governor
    from edgeserve.memory.policy import MemoryPolicy
    from edgeserve.model_settings import ModelSettings
    from edgeserve.processes.launcher import make_launcher
    from edgeserve.processes.roster import Roster
    from edgeserve.residency.host import Host
    from edgeserve.residency.pool import Pool
    from edgeserve.server import Server
    from edgeserve.system import turns

    turns.shorten()  # as the server does: an engine without a runtime never lends the interpreter
    spec = ModelSpec(
        "llm", "fake", "edgeserve.engines.fake.chat:FakeBatchChat", options={"slots": slots, "delay": delay, **LONG}
    )
    roster = Roster()
    launcher = roster.add(make_launcher(("edgeserve.hosts.worker_entry", "edgeserve.engines.fake.chat")))
    governor = make_governor(MemoryPolicy(), workers=roster.pids)
    engine = named.make_engine(spec)
    host: Host = ProcessHost(engine, launcher, governor) if isolation == "process" else ThreadHost(engine, governor)
    pool = Pool([host], governor, roster=roster)
    config = Config(server=ServerSettings(), models={"llm": ModelSettings(job="llm", model=spec.name)})
    with contextlib.closing(listen("127.0.0.1", port)) as listener:
        Server(app.build(config, pool), pool, config.server.drain_seconds).run([listener])


@contextlib.contextmanager
def serving(slots: int, delay: float = 0.0, isolation: str = "thread") -> Iterator[ServerProcess]:
    """In a process of its own."""
    port = free_port()
    code = f"from benchmarks.fake_server import serve; serve({port}, {slots}, {delay}, {isolation!r})"
    with running([sys.executable, "-c", code], port) as server:
        server.wait_healthy()
        yield server
