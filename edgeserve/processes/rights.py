"""Rights that every child of the server has, and those of a decoder, which has no more."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgeserve.system.confinement import Confinement

OURS = ("edgeserve", "edgeserve.engines")
"""In a clone the second is a link to a folder outside of the first."""
PACKAGES = ("site-packages", "dist-packages")

LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store", "/etc/ld.so.cache")
"""Shared libraries and the index of them. They hold no secrets."""
SYSTEM = (
    "/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/pressure", "/proc/version",
    "/proc/device-tree", "/proc/sys/vm/overcommit_memory", "/sys/devices/system", "/sys/fs/cgroup",
    "/sys/kernel/mm/transparent_hugepage", "/sys/bus/pci/devices", "/sys/class/drm",
    "/dev/urandom", "/dev/random", "/dev/zero", "/etc/localtime", "/usr/share/zoneinfo", "/usr/share/locale",
    "/etc/os-release",
)  # fmt: skip
"""Readings of the memory and the processor, random numbers, time zones. Of /proc, a process sees its own part.

ONNX Runtime lists the devices of the PCI bus when it is loaded, and complains where it cannot."""
BUSES = Path("/sys/devices")
"""The folder of the PCI buses, which the lists of devices point to."""
NULL = Path("/dev/null")


def decoder_confinement(address_bytes: int | None, cpu_seconds: int | None) -> Confinement:
    """The rights of a child that decodes one file, which it gets by descriptor or socket. It opens no file by name
    but Python's own modules and libraries. Limits: see ``Confinement``."""
    read = absolute(runtime_paths())
    return Confinement(read=read, devices=(NULL,), address_bytes=address_bytes, cpu_seconds=cpu_seconds)


def runtime_paths() -> Iterator[str | Path]:
    """Files that Python and its packages read: modules, shared libraries, readings of the system."""
    yield from SYSTEM
    with contextlib.suppress(OSError):  # no such folder here
        yield from (BUSES / name for name in os.listdir(BUSES) if name.startswith("pci"))
    yield from LIBRARIES
    yield Path(os.__file__).parent  # the rest of Python is on its search path; the module sysconfig would take 0.4 MB
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}:
        yield Path(prefix) / "lib"
    for name in OURS:
        if (found := importlib.util.find_spec(name)) and found.submodule_search_locations:
            yield from found.submodule_search_locations
    added = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    yield from _narrow([*sys.path, *added])


def _narrow(entries: Iterable[str]) -> Iterator[Path]:
    """Entries of a search path that hold only libraries. A checkout beside models.toml, the working directory and the
    home are no such entries."""
    home, here = Path(os.path.expanduser("~")), Path.cwd()  # a user without a home has the home "~"
    beside = {
        Path(found.origin).parents[1] for name in OURS if (found := importlib.util.find_spec(name)) and found.origin
    }
    for entry in filter(None, entries):
        path = Path(entry).absolute()
        wide = path == here or path in beside or home.is_relative_to(path)
        if path.name in PACKAGES or not wide:
            yield path


def absolute(names: Iterable[str | Path]) -> tuple[Path, ...]:
    """The paths, absolute, each once."""
    return tuple(dict.fromkeys(Path(name).absolute() for name in names))
