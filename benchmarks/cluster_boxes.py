"""Clusters of several nodes on this machine: behind Caddy, and on Ray's test cluster, each node with its own memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import cluster_node
from benchmarks.process import free_port

from edgeserve.cluster.caddyfile import caddyfile
from edgeserve.cluster.child import Child
from edgeserve.cluster.peers import Peer, read_peers

ROOT = Path(__file__).parent.parent
STORE = 80 << 20
"""Bytes of Ray's object store on each node; nothing of ours is put there."""


@contextlib.contextmanager
def nodes(count: int, delay: float = 0.0) -> Iterator[list[Child]]:
    """Servers on fake engines, each a process."""
    there: list[Child] = []
    try:
        for _ in range(count):
            there.append(Child(cluster_node.command(delay)))
        yield there
    finally:
        for one in there:
            one.stop()


@contextlib.contextmanager
def caddy(folder: Path, *urls: str) -> Iterator[str]:
    """A Caddy before these nodes; its address. Raises RuntimeError where it does not start."""
    from edgeserve.api.routes import ENTRIES

    owner = [one.path for one in ENTRIES if one.owner]
    listen = Peer("127.0.0.1", free_port())
    file, log = folder / "Caddyfile", folder / "caddy.log"
    file.write_text(caddyfile(read_peers(urls), listen, owner), encoding="utf-8")
    program = [shutil.which("caddy") or "caddy", "run", "--config", str(file), "--adapter", "caddyfile"]
    with log.open("w") as said:
        process = subprocess.Popen(program, stdout=said, stderr=said, env={"HOME": str(folder)})
    try:
        while not _listens(listen):
            if process.poll() is not None:
                raise RuntimeError(f"caddy ended: {log.read_text()[-1000:]}")
            time.sleep(0.02)
        yield listen.url
    finally:
        process.terminate()
        process.wait(30)


def _listens(peer: Peer) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((peer.host, peer.port), 1):
        return True
    return False


@dataclass
class RayBoxes:
    """The cluster, its address for clients, and Ray's handle of each node by its number; number 0 is the head."""

    cluster: Any
    url: str
    nodes: list[Any]

    def kill(self, number: int) -> None:
        """End a node as a power cut does."""
        self.cluster.remove_node(self.nodes[number], allow_graceful=False)


class NotHere(RuntimeError):
    """Ray cannot start on this machine, such as in a sandbox without the calls that it needs."""


@contextlib.contextmanager
def ray_boxes(memory: Sequence[int], delay: float = 0.0, leak_mb: int = 0, **plan: Any) -> Iterator[RayBoxes]:
    """Boxes with so many MB of memory each, and the application on all of them, or on as many as ``plan`` says
    (``ray_app.Plan``). ``leak_mb`` as in ``cluster_node``. Raises NotHere.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = str(ROOT)
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    from edgeserve.cluster.ray_app import APP, Plan, application

    wanted: dict[str, Any] = {"least": len(memory), "most": len(memory), "owner": ("/admin/",)}
    port = free_port()
    made = Plan("127.0.0.1", port, **wanted | plan, command=cluster_node.command(delay, leak_mb))
    cluster = Cluster()
    try:
        there = _started(cluster, memory)
        serve.start(proxy_location="Disabled")
        serve.run(application(made), name=APP, route_prefix=None)
        yield RayBoxes(cluster, f"http://127.0.0.1:{port}", there)
    finally:
        if ray.is_initialized():
            serve.shutdown()
        ray.shutdown()
        cluster.shutdown()


def _started(cluster: Any, memory: Sequence[int]) -> list[Any]:
    """Ray's own processes, and this one connected with them; the first node is the head."""
    import ray

    from edgeserve.cluster.ray_app import APP, HEAD

    try:
        there = [
            cluster.add_node(
                num_cpus=2,
                object_store_memory=STORE,
                include_dashboard=False,
                resources={HEAD: 1} if number == 0 else None,
                env_vars={"EDGESERVE_OVERRIDE_MEMORY_MB": str(size)},
            )
            for number, size in enumerate(memory)
        ]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR", namespace=APP)
    except Exception as error:  # Ray has no base of its own for what may be missing here
        raise NotHere(f"Ray cannot start here: {type(error).__name__}: {error}") from error
    return there
