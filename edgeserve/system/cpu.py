"""The processor: its name, and the features that runtimes choose their kernels by."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from pathlib import Path

from edgeserve.system import command, cores, sysctl

CPUINFO = Path("/proc/cpuinfo")
BOARD = Path("/proc/device-tree/model")
BRAND = "machdep.cpu.brand_string"


def name(cpuinfo: Path = CPUINFO) -> str:
    """Name of the processor, or of the board on ARM, where cpuinfo numbers its processors; "unknown" without either."""
    if not cpuinfo.is_file():
        return sysctl.value(BRAND) or platform.processor() or "unknown"
    model = re.search(r"^model name\s*:(.*)$", _text(cpuinfo), re.MULTILINE)
    board = _text(BOARD).strip("\0 \n") if BOARD.is_file() else ""
    return (model[1].strip() if model else board) or platform.processor() or "unknown"


def features(cpuinfo: Path = CPUINFO) -> tuple[str, ...]:
    """Features that all cores have, sorted: ``flags`` of x86, ``Features`` of ARM. Empty where cpuinfo names none."""
    text = _text(cpuinfo) if cpuinfo.is_file() else ""
    cores = [set(line.split()) for line in re.findall(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)]
    return tuple(sorted(set.intersection(*cores))) if cores else ()


def identity() -> str:
    """Text that differs between processors whose features differ. Raises OSError or subprocess.SubprocessError."""
    if sys.platform == "darwin":
        return command.run(sysctl.command(BRAND, "hw.optional"))
    return " ".join(features())


def kind() -> str:
    """Cores, and the features that kernels are chosen by: figures of one kind do not hold for another."""
    digest = hashlib.sha256(" ".join(features()).encode()).hexdigest()[:16]
    return f"{cores.usable()} cores, {digest}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
