"""A model with adapters in a worker process, which may read their files and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gates import CountingGovernor, run
from support.tiny_gguf import write_model
from support.tiny_lora import write_adapter

from edgeserve.engine import Adapter, ModelSpec, Rung
from edgeserve.errors import EngineFailure
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.messages import ChatRequest, Sampling, TokenEvent
from edgeserve.named import make_engine
from edgeserve.processes.launcher import Launcher
from edgeserve.processes.spawner import Spawner
from edgeserve.residency.gate import Gate

pytestmark = [pytest.mark.models, pytest.mark.slow]


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    made = Spawner()
    yield made
    made.stop()


def spec_in(folder: Path, **broken: Any) -> ModelSpec:
    files = {"model": write_model(folder / "base.gguf", "llama")}
    (folder / "elsewhere").mkdir()
    files["adapter0"] = write_adapter(folder / "elsewhere" / "one.gguf", 7, **broken)
    adapters = (Adapter("adapter0", 1.0, "one"),)
    return ModelSpec("llm", "tiny", "edgeserve.engines.llama.chat:LlamaChat", files, threads=1, adapters=adapters)


def text(gate: Gate, used: tuple[tuple[str, float], ...]) -> str:
    greedy = Sampling(temperature=0.0)
    events, error = run(gate, ChatRequest(prompt=tuple(range(1, 40)), max_tokens=6, sampling=greedy, adapters=used))
    assert error is None
    return "".join(event.text for event in events if isinstance(event, TokenEvent))


def test_a_worker_answers_with_adapters_as_a_thread_does(tmp_path: Path, launcher: Launcher) -> None:
    governor, spec = CountingGovernor(), spec_in(tmp_path)
    pressure: Any = governor
    apart, here = ProcessHost(make_engine(spec), launcher, pressure), ThreadHost(make_engine(spec), pressure)
    gates = [Gate(host, pressure) for host in (apart, here)]
    try:
        for used in ((), (("adapter0", 1.0),), ()):
            assert len({text(gate, used) for gate in gates}) == 1
        assert text(gates[0], ()) != text(gates[0], (("adapter0", 1.0),))
    finally:
        for gate in gates:
            gate.stop()


def test_an_unfit_adapter_is_told_and_the_worker_lives(tmp_path: Path, launcher: Launcher) -> None:
    pressure: Any = CountingGovernor()
    gate = Gate(ProcessHost(make_engine(spec_in(tmp_path, architecture="qwen2")), launcher, pressure), pressure)
    try:
        _, error = run(gate, ChatRequest(prompt=(1, 2, 3)))
        assert isinstance(error, EngineFailure)
        assert "one.gguf: no LoRA adapter of base.gguf" in error.message
        assert gate.rung is Rung.COLD
    finally:
        gate.stop()
