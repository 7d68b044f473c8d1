"""Rights of the worker of an engine: files, folders and devices that it needs to work, and nothing more."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from edgeserve.engine import Engine
from edgeserve.engine_abilities import Access, Declaring
from edgeserve.processes.rights import NULL, absolute, runtime_paths
from edgeserve.system.confinement import Confinement

NODES = ("nvmap", "nvgpu", "nvsciipc", "dri", "kfd")
FAMILIES = ("nvidia", "nvhost")
"""Device nodes of NVIDIA's GPUs, those on a Jetson included, and of the kernel's own drivers; and how others begin."""
DRIVERS = (
    "/proc/driver/nvidia", "/proc/devices", "/proc/modules", "/sys/bus", "/sys/class", "/sys/devices", "/sys/module",
    "/usr/local/cuda", "/opt/rocm", "/usr/share/nvidia", "/usr/share/vulkan", "/usr/share/glvnd", "/etc/nvidia",
    "/etc/vulkan", "/etc/OpenCL", "/etc/glvnd",
)  # fmt: skip
"""Files that libraries of GPUs read."""
OPEN_FILES, GPU_OPEN_FILES = 1024, 8192


def engine_confinement(engine: Engine, devices: Path = Path("/dev")) -> Confinement:
    """The rights of a worker that runs this engine, opened or not. ``devices``: the folder of device nodes.

    The engine reads the files of its spec, and has the rights that its ``access()`` declares.
    """
    own = engine.access() if isinstance(engine, Declaring) else Access()
    nodes = tuple(_nodes(devices)) if own.gpu else ()
    return Confinement(
        read=absolute((*engine.spec.files.values(), *own.read, *runtime_paths(), *(DRIVERS if nodes else ()))),
        write=absolute(own.write),
        tidy=absolute(own.tidy),
        devices=(NULL, *nodes),
        accelerator=bool(nodes),
        connect=own.ports,
        open_files=GPU_OPEN_FILES if nodes else OPEN_FILES,
    )


def _nodes(devices: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        names = sorted(os.listdir(devices))
        yield from (devices / name for name in names if name in NODES or name.startswith(FAMILIES))
