"""Linux: memory of the process, memory of the machine, and its stalls, parsed from /proc."""

from __future__ import annotations

import re
from pathlib import Path

from edgeserve.system.readings import ProcessMemory, Stall
from edgeserve.units import KB


def parse_table(text: str) -> dict[str, int]:
    """Lines of ``name:  value kB`` (smaps_rollup, status, meminfo) in bytes; other lines are passed over."""
    return {name: int(value) * KB for name, value in re.findall(r"^(\S+):\s+(\d+) kB$", text, re.MULTILINE)}


def parse_smaps_rollup(text: str) -> ProcessMemory:
    """Kernels before 5.4 have no Pss_Anon: ``Anonymous`` stands in, which counts shared pages in full."""
    rows = parse_table(text)
    total, anon = rows["Pss"], rows.get("Pss_Anon", rows.get("Anonymous", 0))
    return ProcessMemory(anon=anon, file=rows.get("Pss_File", max(0, total - anon)), total=total)


def parse_status(text: str) -> ProcessMemory:
    """The kernel's own counters, which count pages shared with other processes in full."""
    rows = parse_table(text)
    return ProcessMemory(anon=rows["RssAnon"], file=rows["RssFile"], total=rows["VmRSS"])


def parse_meminfo(text: str) -> tuple[int, int]:
    """Total and available bytes."""
    rows = parse_table(text)
    return rows["MemTotal"], rows["MemAvailable"]


def parse_stall(text: str) -> Stall:
    """``/proc/pressure/memory`` or a group's ``memory.pressure``."""
    shares = dict(re.findall(r"^(some|full) avg10=([\d.]+)", text, re.MULTILINE))
    return Stall(some=float(shares.get("some", 0)), full=float(shares.get("full", 0)))


def read_stall(path: Path) -> Stall | None:
    """None on a kernel without PSI: the file is missing, or reading it fails."""
    try:
        return parse_stall(path.read_text(encoding="ascii"))
    except OSError:
        return None
