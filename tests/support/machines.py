"""A made-up machine, on which nothing is missing."""

from __future__ import annotations

from edgeserve.doctor.machine import Machine, Runtime

GB = 1 << 30

LLAMA = Runtime("llama-cpp-python", "0.3.36", "CPU only")
ORT = Runtime("onnxruntime", "1.31.1", "CPUExecutionProvider")
NO_MLX = Runtime("mlx", None, "not installed")

BOX = Machine(
    system="Debian GNU/Linux 12, kernel 6.6",
    architecture="aarch64",
    processor="Raspberry Pi 5",
    features=("asimd", "asimddp"),
    cores=4,
    memory_total=8 * GB,
    memory_available=5 * GB,
    memory_limit=None,
    memory_budget=6 * GB,
    memory_candidates={"total_minus_reserve": 6 * GB, "fraction_of_total": 7 * GB},
    memory_stall=0.0,
    dedicated=False,
    wired_collector=None,
    disk_path="/models",
    disk_free=20 * GB,
    python="3.11.2 (/usr/bin/python3)",
    package_manager="apt-get",
    c_compiler="/usr/bin/cc",
    cxx_compiler="/usr/bin/c++",
    cmake=None,
    accelerators=(),
    runtimes=(LLAMA, ORT, NO_MLX),
    confinement={"landlock": "off: this kernel has no Landlock", "seccomp": "on"},
)
