"""The exact memory of a language model: llama.cpp lays it out without allocating, in a child process.

llama.cpp may abort the process on a broken file, and does on the layout of a mapped model. The child takes some 0.3 s.
It reads the sizes of the buffers from llama.cpp's log, and measures the vocabulary and the graph.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.device import Device, DeviceMemory
from edgeserve.engines.llama.options import LlamaOptions, context_size
from edgeserve.errors import EngineFailure
from edgeserve.system import pages
from edgeserve.units import MB

log = logging.getLogger("edgeserve.llama")

TIME_LIMIT = 30.0
"""Seconds. The estimate does without a layout that takes longer."""
_BUFFER = r"(\w+)\s+(?:compute|output) buffer size\s*=\s*([\d.]+) MiB"
_CACHE = r"(?:kv_cache|memory_recurrent)\w*:\s*size\s*=\s*([\d.]+) MiB"


@dataclass(frozen=True, slots=True)
class Layout:
    """Memory of a model, in bytes.

    model         private to the open model: its vocabulary
    context       private to one context: KV cache and buffers
    device        on an accelerator with memory of its own
    token         part of ``context`` for each token of the context
    device_token  part of ``device`` for each token of the context
    """

    model: int
    context: int
    device: int = 0
    token: int = 0
    device_token: int = 0


@functools.lru_cache(maxsize=8)
def measure(path: Path, device: Device, options: LlamaOptions) -> Layout | None:
    """The layout by a child process, cached. The first call blocks. When it fails: None, and a line in the log."""
    import subprocess  # takes memory that no worker needs

    given = json.dumps({"path": str(path), "device": device, "options": dataclasses.asdict(options)})
    try:
        command = [sys.executable, "-m", "edgeserve.engines.llama.probe", given]
        done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT, check=True, text=True)  # noqa: S603 - our own module
        return Layout(**json.loads(done.stdout))
    except (subprocess.SubprocessError, OSError, ValueError, TypeError) as error:
        said = str(getattr(error, "stderr", None) or "").strip().splitlines()
        log.info("%s cannot be laid out beforehand: %s%s", path, error, f" ({said[-1]})" if said else "")
        return None


def lay_out(path: Path, device: Device, options: LlamaOptions) -> Layout:
    """The layout, made in this process. Raises EngineFailure; llama.cpp may also abort the process."""
    from edgeserve.engines.llama.devices import devices
    from edgeserve.engines.llama.model import model_parameters
    from edgeserve.engines.llama.runtime import error_details, llama

    runtime = llama()
    parameters = model_parameters(device, options)
    parameters.no_alloc, parameters.load_mode = True, runtime.LLAMA_LOAD_MODE_NONE
    parameters.use_extra_bufts = False
    offloads = parameters.n_gpu_layers != 0
    before = pages.private_bytes()
    model = runtime.llama_model_load_from_file(str(path).encode(), parameters)
    if not model:
        raise EngineFailure(f"{path}: llama.cpp cannot load it{error_details()}")
    opened = pages.private_bytes()
    size = context_size(options, int(runtime.llama_model_n_ctx_train(model)))
    weights, known = path.stat().st_size if offloads else 0, devices()
    host, on_device = placed(*_context(model, options, size, offloads), weights, known)
    graph = max(0, pages.private_bytes() - opened)
    # Two sizes give the bytes of a token: buffers that a sliding window bounds do not grow with the context.
    half = placed(*_context(model, options, size // 2, offloads), weights, known)
    token, device_token = (
        (full - part) // (size - size // 2) for full, part in zip((host, on_device), half, strict=True)
    )
    return Layout(max(0, opened - before), graph + host, on_device, token, device_token)


def _context(model: Any, options: LlamaOptions, size: int, offloads: bool) -> tuple[int, int]:
    """Bytes of the buffers of a context of ``size`` tokens: in the host's memory, and on a device."""
    from edgeserve.engines.llama.context import context_parameters
    from edgeserve.engines.llama.runtime import error_details, llama, log_lines_to

    lines: list[str] = []
    with log_lines_to(lines.append):
        parameters = context_parameters(model, dataclasses.replace(options, context=size), None)
        if not llama().llama_init_from_model(model, parameters):
            raise EngineFailure(f"no context of {size} tokens can be laid out{error_details()}")
    return buffers(lines, offloads)


def placed(host: int, device: int, weights: int, devices: Sequence[DeviceMemory]) -> tuple[int, int]:
    """Bytes in the host's memory and in a device's own. Metal uses the host's memory and the mapped weights."""
    if any(one.name == "metal" for one in devices):
        return host + device, 0
    return host, device + weights


def buffers(lines: list[str], offloads: bool) -> tuple[int, int]:
    """Bytes of KV cache and buffers by the lines of llama.cpp's log: in the host's memory, and on a device."""
    host = device = 0.0
    for line in lines:
        if match := re.search(_BUFFER, line):
            on_host = match[1].startswith("CPU") or match[1].endswith("_Host")
            host, device = (host + float(match[2]), device) if on_host else (host, device + float(match[2]))
        elif match := re.search(_CACHE, line):
            host, device = (host, device + float(match[1])) if offloads else (host + float(match[1]), device)
    return int(host * MB), int(device * MB)


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    wanted["options"]["tensor_split"] = tuple(wanted["options"]["tensor_split"])
    layout = lay_out(Path(wanted["path"]), wanted["device"], LlamaOptions(**wanted["options"]))
    print(json.dumps(dataclasses.asdict(layout)))
