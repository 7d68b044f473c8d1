"""The machine: processor, memory, disk, compilers, runtimes. Readings only; ``findings.py`` judges them."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.memory.budget import budget, os_reserve
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.named import find
from edgeserve.system import bandwidth, command, confinement, cores, cpu, sysctl
from edgeserve.system.probe import Probe

RUNTIME_SECONDS = 30.0
"""Time for a runtime to report its version; a broken driver can hang at import."""

BANDWIDTH_ROUNDS = 10
"""A quarter of those of `edgeserve recommend`: a quick look, for a bound. A busy machine reads less."""

RPC = "edgeserve.engines.llama.rpc:plugin"
CPU_FEATURES = ("avx", "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "amx_int8", "asimd", "asimddp", "i8mm", "sve")
"""Features that the runtimes have faster code for, as Linux names them."""

NVIDIA = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
NVIDIA_SECONDS = 10.0
"""The driver may have to start first."""

PACKAGE_MANAGERS = ("apt-get", "dnf", "pacman", "zypper", "apk", "brew")

RUNTIMES: Mapping[str, tuple[str, str]] = {
    "llama-cpp-python": ("llama_cpp", "'GPU offload' if m.llama_supports_gpu_offload() else 'CPU only'"),
    "onnxruntime": ("onnxruntime", "', '.join(m.get_available_providers())"),
    "mlx": ("mlx.core", "'Metal' if m.metal.is_available() else 'CPU only'"),
}
"""Distribution → its module, and the expression that a child process evaluates on the module ``m``."""

PROBE = """
import importlib, importlib.metadata, importlib.util, json, sys
name, module, question = sys.argv[1:]
if importlib.util.find_spec(module.split(".")[0]) is None:
    sys.exit("not installed")
m = importlib.import_module(module)
print(json.dumps([importlib.metadata.version(name), eval(question)]))
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime. ``version`` is None when it is missing or broken; ``detail`` is its backend, or the error."""

    name: str
    version: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class Machine:
    """Readings of the box: the machine, or the control group that limits it. Sizes in bytes.

    Fields:
        memory_limit     smallest limit of a control group; None without one
        memory_budget    most memory that the policy gives to all engines: the smallest of ``memory_candidates``
        memory_stall     percent of the last ten seconds in which tasks waited for memory; None when unknown
        dedicated        the settings leave the system less memory than the default reserve
        wired_collector  macOS takes the GPU's memory back under pressure; None elsewhere
        confinement      by layer of a worker's confinement, whether the machine has it, or the reason why not
        bandwidth        bytes of memory that all cores together read in a second; 0: not measured
        splits           llama.cpp is installed with RPC, which splits a model over machines
    """

    system: str
    architecture: str
    processor: str
    features: tuple[str, ...]
    cores: int
    memory_total: int
    memory_available: int
    memory_limit: int | None
    memory_budget: int
    memory_candidates: Mapping[str, int]
    memory_stall: float | None
    dedicated: bool
    wired_collector: bool | None
    disk_path: str
    disk_free: int
    python: str
    package_manager: str | None
    c_compiler: str | None
    cxx_compiler: str | None
    cmake: str | None
    accelerators: tuple[str, ...]
    runtimes: tuple[Runtime, ...]
    confinement: Mapping[str, str]
    bandwidth: float = 0.0
    splits: bool = False


def read(models_dir: Path, policy: MemoryPolicy, environ: Mapping[str, str]) -> Machine:
    """Read everything. Takes about a second, mostly for the runtimes."""
    memory = Probe(override_mb=policy.override_memory_mb).read()
    # Memory that is available only now is judged apart.
    limits = budget(memory, policy, settled=False)
    there = next(path for path in (models_dir, *models_dir.absolute().parents) if path.exists())
    return Machine(
        system=system_name(),
        architecture=platform.machine(),
        processor=cpu.name(),
        features=known_features(cpu.features()),
        cores=cores.usable(),
        memory_total=memory.total,
        memory_available=memory.available,
        memory_limit=memory.group.limit if memory.group else None,
        memory_budget=limits.usable,
        memory_candidates=dict(limits.candidates),
        memory_stall=memory.stall.some if memory.stall else None,
        dedicated=os_reserve(memory.machine_total, policy) < os_reserve(memory.machine_total, MemoryPolicy()),
        wired_collector=read_wired_collector(),
        disk_path=str(models_dir),
        disk_free=shutil.disk_usage(there).free,
        python=f"{platform.python_version()} ({sys.executable})",
        package_manager=next(filter(shutil.which, PACKAGE_MANAGERS), None),
        c_compiler=first_command(environ.get("CC"), "cc", "gcc", "clang"),
        cxx_compiler=first_command(environ.get("CXX"), "c++", "g++", "clang++"),
        cmake=shutil.which("cmake"),
        accelerators=tuple(accelerators()),
        runtimes=tuple(ask_runtime(name) for name in RUNTIMES),
        confinement=confinement.available(),
        bandwidth=bandwidth.measure(cores.usable(), bandwidth.size_for(memory.available), BANDWIDTH_ROUNDS),
        splits=find(RPC)() is not None,
    )


def system_name() -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.system()
    return f"{name}, kernel {platform.release()}"


def known_features(features: Iterable[str]) -> tuple[str, ...]:
    """Features of the processor that the runtimes have faster code for."""
    has = set(features)
    return tuple(one for one in CPU_FEATURES if one in has)


def read_wired_collector(ask: Callable[[str], str] = sysctl.value) -> bool | None:
    """Whether macOS's wired collector is on, from ``sysctl``; None elsewhere."""
    return {"0": True, "1": False}.get(ask("iogpu.disable_wired_collector"))


def first_command(*names: str | None) -> str | None:
    """Path of the first command that exists."""
    return next((path for name in names if name and (path := shutil.which(name))), None)


def accelerators() -> list[str]:
    """GPUs that the system's own tools list."""
    found = []
    if told := command.output(NVIDIA, NVIDIA_SECONDS):
        found += [f"NVIDIA {line.strip()}".replace("NVIDIA NVIDIA", "NVIDIA") for line in told.splitlines()]
    elif Path("/etc/nv_tegra_release").is_file():
        found.append("NVIDIA Jetson (memory shared with the CPU)")
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.append("Apple GPU (memory shared with the CPU)")
    return found


def ask_runtime(name: str, run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> Runtime:
    """Import a runtime in a child process, which may hang or crash. It has RUNTIME_SECONDS."""
    question = [sys.executable, "-c", PROBE, name, *RUNTIMES[name]]
    try:
        ended = run(question, capture_output=True, text=True, timeout=RUNTIME_SECONDS)
    except subprocess.TimeoutExpired:
        return Runtime(name, None, f"did not answer within {RUNTIME_SECONDS:g} s")
    if ended.returncode < 0:
        return Runtime(name, None, f"crashed at import (signal {-ended.returncode})")
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
        return Runtime(name, None, last)
    try:
        version, detail = json.loads(ended.stdout.splitlines()[-1])
    except (IndexError, TypeError, ValueError):
        return Runtime(name, None, f"gave no answer that can be read: {ended.stdout[-80:]!r}")
    return Runtime(name, version, detail)
