"""The application on fake engines, behind a real Uvicorn on a free port."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import uvicorn.server
from starlette.applications import Starlette
from support.gates import FAKES, PATIENCE_SECONDS, fake_spec
from support.memory import POLICY, FakeProbe

from edgeserve import app
from edgeserve.attendants import Attendant
from edgeserve.config import Config, ResidencySettings, ServerSettings
from edgeserve.connections import Connections, Patience
from edgeserve.engine import Rung
from edgeserve.figures.spans import Traces
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import JOBS, Job
from edgeserve.manage.manager import Means
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.governor import Governor, make_governor
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.resident import Moved
from edgeserve.model_settings import ModelSettings
from edgeserve.residency.gate import Gate
from edgeserve.residency.pool import Pool
from edgeserve.server import Server, address, listen
from edgeserve.tls.certificate import Certificate
from edgeserve.units import MB
from edgeserve.wyoming import WyomingPort

BEAT_SECONDS = 0.1
"""Seconds between two samples of memory, and between two looks of the server, where the product takes 1 s."""


def fake_pool(
    jobs: Sequence[Job] = JOBS,
    *,
    queue_limit: int = 8,
    governor: Governor | None = None,
    fakes: Mapping[Job, Any] = FAKES,
    **options: Any,
) -> Pool:
    governor = governor or considerate_governor()
    engines = [fakes[job](fake_spec(job, **options)) for job in jobs]
    return Pool([ThreadHost(one, governor) for one in engines], governor, queue_limit=queue_limit)


def considerate_governor() -> Governor:
    """A governor of this machine that takes from the process of the tests neither heap nor code: 40 ms each time.

    The kernel does not count the pages of that process one by one, which takes 5 ms. Its samples come soon.
    """
    governor = make_governor(MemoryPolicy())
    governor.probe.interval = BEAT_SECONDS
    governor.release_idle_heap = lambda: None  # type: ignore[method-assign]
    governor.probe.read = governor.probe.read_quick  # type: ignore[method-assign]
    return governor


def small_pool(
    total_mb: int, options: Mapping[Job, dict[str, float]], chains: Mapping[str, Sequence[Job]] | None = None
) -> Pool:
    """Fake engines on a machine where they alone take memory, as much as their options say."""
    probe: Any = FakeProbe(total_mb * MB)
    governor = Governor(Accounts(POLICY), probe, trim=lambda: None, drop_code=lambda: 0)
    hosts = [ThreadHost(FAKES[job](fake_spec(job, **given)), governor) for job, given in options.items()]
    pool = Pool(hosts, governor, chains=chains or {})
    probe.residents.extend(pool.gates.values())
    return pool


def build(
    pool: Pool,
    *,
    drain_seconds: float = 5.0,
    residency: ResidencySettings | None = None,
    config: Config | None = None,
    means: Means | None = None,
    traces: Traces | None = None,
    **server: Any,
) -> Starlette:
    if config is not None:
        return app.build(config, pool, means, traces)
    engines = {job: ModelSettings(job=job, model=spec.name) for job, spec in pool.configured.items()}
    server.setdefault("isolation", "thread")
    settings = ServerSettings(drain_seconds=drain_seconds, **server)
    config = Config(server=settings, residency=residency or ResidencySettings(), models=engines)
    return app.build(config, pool, means, traces)


class Prompt:
    """``asyncio`` for Uvicorn, which sleeps 100 ms between two looks whether to exit, and before it ends: here 5 ms."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.005))


uvicorn.server.asyncio = Prompt()  # type: ignore[assignment]


def trusting(certificate: Path) -> ssl.SSLContext:
    """A client's context that trusts this certificate alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificate)
    return context


class Running:
    """A served pool: its ``url``, an HTTP ``client``, and the ``server`` itself."""

    def __init__(self, url: str, pool: Pool, app: Starlette, client: httpx.Client, server: Server) -> None:
        self.url, self.pool, self.app, self.client, self.server = url, pool, app, client, server


@contextlib.contextmanager
def serving(
    pool: Pool,
    *,
    drain_seconds: float = 5.0,
    connections: Connections | None = None,
    patience: Patience | None = None,
    wyoming: socket.socket | None = None,
    certificate: Certificate | None = None,
    attendants: Sequence[Attendant] = (),
    **server: Any,
) -> Iterator[Running]:
    """``wyoming``: a bound socket for that protocol. ``certificate``: HTTP is spoken over TLS."""
    listener = listen("127.0.0.1", 0)
    built = build(pool, drain_seconds=drain_seconds, **server)
    running = Server(built, pool, drain_seconds, connections=connections, patience=patience, certificate=certificate)
    running.attendants = attendants
    running.look_seconds = min(running.look_seconds, BEAT_SECONDS)
    if wyoming is not None:
        running.ports.append(WyomingPort(wyoming, built.state, server.get("live_idle_seconds", 60.0)))
    ready = threading.Event()
    running.on_ready = ready.set
    thread = threading.Thread(target=running.run, args=([listener],))
    thread.start()
    try:
        assert ready.wait(PATIENCE_SECONDS)
        scheme, verify = ("https", trusting(certificate.path)) if certificate else ("http", True)
        with httpx.Client(base_url=address(listener, scheme), timeout=PATIENCE_SECONDS, verify=verify) as client:
            yield Running(str(client.base_url), pool, built, client, running)
    finally:
        running.should_exit = True
        thread.join(PATIENCE_SECONDS)
        listener.close()
        assert not thread.is_alive(), stacks()


def stacks() -> str:
    """The stack of every thread, for a test that waited too long."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return f"waited too long; all threads:\n{file.read()}"


def until(true: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for what the server does on a thread of its own."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, stacks()
        time.sleep(0.005)


def lower(gate: Gate, to: Rung) -> None:
    """Step down. The engine is at work for a moment after the last word of an answer was read."""
    until(lambda: isinstance(gate.step_down(to), Moved))
