"""ollama-herd, a balancer of other makers, before nodes of ours: its router, and its agent beside each node."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
from benchmarks.process import free_port

PATIENCE = 120.0
"""Seconds until the router knows all nodes."""
PROGRAM = """\
import functools
from fleet_manager.common import discovery, system_metrics
for one in discovery, system_metrics:
    one.get_local_ip = lambda: "127.0.0.1"
discovery.AsyncZeroconf = functools.partial(discovery.AsyncZeroconf, interfaces=["127.0.0.1"])
from fleet_manager.cli.{name} import main
main()
"""
"""Its command line, that stays on this machine: by itself it takes the address in the local network."""
SETTINGS = {
    "FLEET_TELEMETRY": "false",
    "FLEET_NODE_TELEMETRY": "false",
    "FLEET_FLEET_INTELLIGENCE": "false",
    "FLEET_DISABLE_MODEL_PRELOADER": "true",
    "FLEET_AUTO_PULL": "false",
    "FLEET_NODE_HEARTBEAT_INTERVAL": "0.2",
}


def installed() -> bool:
    return shutil.which("herd") is not None


@contextlib.contextmanager
def herd(folder: Path, urls: Sequence[str]) -> Iterator[str]:
    """The address of a router that knows these nodes. Raises RuntimeError where it does not start."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        said = stack.enter_context((folder / "herd.log").open("w"))
        commands = [["server_cli", "--host", "127.0.0.1", "--port", str(port)]]
        commands += [
            ["node_cli", "--node-id", f"box{number}", "--ollama-host", url, "--router-url", address]
            for number, url in enumerate(urls)
        ]
        for name, *arguments in commands:
            python = Path(shutil.which("herd") or "herd").parent / "python"
            process = subprocess.Popen(
                [python, "-c", PROGRAM.format(name=name), *arguments],
                env={"HOME": str(folder), "PATH": "/usr/bin:/bin", **SETTINGS},
                stdout=said,
                stderr=said,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        _wait(address, len(urls), folder / "herd.log")
        yield address


def _wait(address: str, count: int, log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(httpx.TransportError):
            found = httpx.get(f"{address}/fleet/status", timeout=10, trust_env=False).json()["fleet"]
            if found["nodes_online"] == count:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the router does not know {count} nodes: {log.read_text()[-1000:]}")
