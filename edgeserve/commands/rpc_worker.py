"""``edgeserve rpc-worker``: offer this machine's memory for models that another machine splits."""

from __future__ import annotations

from edgeserve.commands import Call
from edgeserve.errors import ConfigError, NotConfigured
from edgeserve.splits.node import is_private
from edgeserve.units import MB

WARNING = (
    "llama.cpp's authors call its RPC a proof of concept, fragile and insecure: never run it on an open network. "
    "Whoever reaches the port can use it, and read what passes; no key asks, nothing is encrypted."
)
LEAST_MB = 64


def rpc_worker(call: Call) -> int:
    """Offer memory until Ctrl-C or SIGTERM. Raises ConfigError, NotConfigured and EngineFailure."""
    from edgeserve import listening
    from edgeserve.hosts.offer import Offering
    from edgeserve.memory.budget import budget
    from edgeserve.named import find
    from edgeserve.processes.spawner import Spawner
    from edgeserve.system.probe import Probe

    host, port = call.args.host, call.args.port
    if not is_private(host):
        raise ConfigError(
            f"--host {host}: expected an IPv4 address of this machine in a private network, such as 192.168.0.12, or "
            f"127.0.0.1. {WARNING}"
        )
    if not port:
        raise ConfigError("--port 0: expected 1 to 65535, since the box that serves has to name the port")
    if find("edgeserve.engines.llama.rpc:plugin")() is None:
        raise NotConfigured(find("edgeserve.engines.llama.rpc:MISSING"))
    policy = call.config().memory
    usable = budget(Probe(override_mb=policy.override_memory_mb).read_quick(), policy).usable
    size = usable if call.args.memory_mb is None else min(usable, call.args.memory_mb * MB)
    if size < LEAST_MB * MB:
        raise ConfigError(f"{size // MB} MB of memory are free to offer; expected {LEAST_MB} at least")
    listening.listen(host, port, "--port N").close()  # a port in use shows at once
    offering = Offering(Spawner(), f"{host}:{port}", size, policy)
    child = offering.begin()
    print(f"offers {size // MB} MB of memory at {offering.endpoint} until Ctrl-C", flush=True)
    print(WARNING, flush=True)
    offering.keep(child)
    return 0
