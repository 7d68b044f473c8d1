from __future__ import annotations

import logging
from pathlib import Path

import pytest

from edgeserve.device import DeviceMemory
from edgeserve.engines.llama import probe
from edgeserve.engines.llama.options import LlamaOptions

MB = 1 << 20
LOG = """\
load_tensors:          CPU model buffer size =     0.00 MiB
llama_context:        CPU  output buffer size =     0.25 MiB
llama_kv_cache:        CPU KV buffer size =     0.00 MiB
llama_kv_cache: size =   45.00 MiB (  2048 cells,  30 layers,  1/1 seqs), K (f16):   22.50 MiB, V (f16):   22.50 MiB
llama_kv_cache: size =   15.00 MiB (   768 cells,  15 layers,  1/1 seqs), K (f16):   7.50 MiB, V (f16):   7.50 MiB
sched_reserve:        CPU compute buffer size =     7.75 MiB""".splitlines()
"""Recorded from llama-cpp-python 0.3.36; the second cache is that of a sliding window."""


def test_buffers_of_a_processor() -> None:
    assert probe.buffers(LOG, offloads=False) == (68 * MB, 0)


def test_buffers_of_an_accelerator() -> None:
    lines = [line.replace("CPU compute", "CUDA0 compute") for line in LOG]
    lines.append("sched_reserve:  CUDA_Host compute buffer size =     2.00 MiB")
    host, device = probe.buffers(lines, offloads=True)
    assert host == int(2.25 * MB)
    assert device == int(67.75 * MB)


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ((), (2, 68 + 500)),
        ((DeviceMemory("cuda", 8000, 5000),), (2, 68 + 500)),
        ((DeviceMemory("metal", 8000, 5000, unified=True),), (2 + 68, 0)),
    ],
)
def test_the_memory_of_a_mac_s_gpu_is_the_host_s(devices: tuple[DeviceMemory, ...], expected: tuple[int, int]) -> None:
    """Its weights are booked as mapped, not once more."""
    assert probe.placed(2, 68, 500, devices) == expected


def test_a_file_that_cannot_be_laid_out_is_told_and_estimated_otherwise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    with caplog.at_level(logging.INFO, "edgeserve.llama"):
        assert probe.measure(path, "cpu", LlamaOptions()) is None
    assert "broken.gguf cannot be laid out beforehand" in caplog.text
