"""The imports of a chat worker: the child ends with the number of modules that have run and should not have."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

RARE = (
    *("concurrent.futures", "copy", "hashlib", "inspect", "ipaddress", "ntpath", "selectors", "statistics"),
    *("sysconfig", "traceback", "typing_extensions"),
)
HOT = tuple(
    f"edgeserve.engines.llama.{name}" for name in ("answer", "batch", "context", "drafts", "sampler", "template")
)
"""Modules that a worker needs once it is hot."""
WORKER = ("edgeserve.hosts.worker_entry", "edgeserve.engines.llama.chat")


def main() -> None:
    for name in WORKER:
        importlib.import_module(name)
    ran = [name for name in RARE + HOT if (module := sys.modules.get(name)) and not _waits(module)]
    print("imported without need:", *ran, file=sys.stderr)
    sys.exit(len(ran))


def _waits(module: ModuleType) -> bool:
    return getattr(module.__dict__.get("__getattr__"), "__module__", "") == "edgeserve.system.deferred"
