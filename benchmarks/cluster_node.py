"""The node of a cluster on fake engines, as a process (``command``). It prints its address.

Chat repeats the last message, a word in DELAY seconds; a node answers four chats at a time. The node ends with its
stdin, as ``edgeserve serve --until-eof`` does. EDGESERVE_API_KEY and EDGESERVE_OVERRIDE_MEMORY_MB mean what they always
mean.
"""

from __future__ import annotations

import contextlib
import os
import sys

SLOTS = 4


def command(delay: float = 0.0, leak_mb: int = 0) -> tuple[str, ...]:
    """``leak_mb``: memory that each chat takes and never returns."""
    return (sys.executable, "-c", f"from benchmarks.cluster_node import serve; serve({delay}, {leak_mb})")


def serve(delay: float, leak_mb: int = 0) -> None:
    """In this process, until SIGTERM or the end of stdin."""
    from edgeserve import app, named
    from edgeserve.config import Config, ServerSettings
    from edgeserve.engine import ModelSpec
    from edgeserve.hosts.thread_host import ThreadHost
    from edgeserve.listening import address, listen
    from edgeserve.memory.governor import make_governor
    from edgeserve.memory.policy import MemoryPolicy
    from edgeserve.model_settings import ModelSettings
    from edgeserve.residency.pool import Pool
    from edgeserve.server import Server
    from edgeserve.system import lifeline

    options = {"slots": SLOTS, "delay": delay, "context": 1_000_000, "leak_mb": leak_mb}
    specs = [
        ModelSpec("llm", "fake-llm", "edgeserve.engines.fake.chat:FakeBatchChat", options=options),
        ModelSpec("asr", "fake-asr", "edgeserve.engines.fake.engine:FakeSpeechToText"),
    ]
    governor = make_governor(MemoryPolicy(override_memory_mb=int(os.environ.get("EDGESERVE_OVERRIDE_MEMORY_MB", "0"))))
    pool = Pool([ThreadHost(named.make_engine(one), governor) for one in specs], governor)
    settings = ServerSettings(api_key=os.environ.get("EDGESERVE_API_KEY", ""), isolation="thread", drain_seconds=5.0)
    models = {one.job: ModelSettings(job=one.job, model=one.name) for one in specs}
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        server = Server(app.build(Config(server=settings, models=models), pool), pool, settings.drain_seconds)
        server.on_ready = lambda: print(address(listener), flush=True)
        lifeline.end_with(sys.stdin.fileno())
        server.run([listener])
