"""A model over several machines as its own machine sees it: sizes from the header, and the vocabulary while warm.

``tests/edgeserve/cluster/test_split.py`` lets real workers hold the other layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.tiny_gguf import LAYERS, write_model

from edgeserve.engine import Adapter, ModelSpec, Rung
from edgeserve.engine_abilities import Access, Splitting
from edgeserve.engines.llama import rpc
from edgeserve.engines.llama.split import LlamaSplit
from edgeserve.errors import ConfigError, EngineFailure
from edgeserve.splits.plan import Room, split
from edgeserve.units import MB

NODES = ["10.0.0.2", "10.0.0.3:9000"]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "plugin", lambda: Path("libggml-rpc.so"))


def spec(folder: Path, options: Mapping[str, object] | None = None, **given: object) -> ModelSpec:
    path = write_model(folder / "tiny.gguf", "llama")
    return ModelSpec("llm", "tiny", "", {"model": path}, options={"nodes": NODES, **(options or {})}, **given)  # type: ignore[arg-type]


@pytest.mark.usefixtures("installed")
def test_every_byte_of_the_file_has_a_machine(tmp_path: Path) -> None:
    engine = LlamaSplit(spec(tmp_path))
    assert isinstance(engine, Splitting)
    sizes = engine.sizes(512)
    assert len(sizes.layers) == LAYERS
    size = engine.spec.size_bytes
    assert 0.9 * size < sum(sizes.layers) + sizes.first + sizes.last
    more = engine.sizes(1024)
    assert more.cache == 2 * sizes.cache
    assert sizes.layers == more.layers
    parts = split(sizes, [Room(name, 100 * MB) for name in ("this machine", *engine.nodes)])
    assert [part.layers for part in parts] == [2, 2, 2]


@pytest.mark.usefixtures("installed")
def test_a_context_of_automatic_size_gives_way(tmp_path: Path) -> None:
    assert LlamaSplit(spec(tmp_path)).contexts() == (2048,)  # the model was trained on no more
    assert LlamaSplit(spec(tmp_path, {"context": 300})).contexts() == (300,)


@pytest.mark.usefixtures("installed")
def test_warm_is_the_vocabulary_alone_and_asks_no_machine(tmp_path: Path) -> None:
    engine = LlamaSplit(spec(tmp_path))
    assert engine.nodes == ("10.0.0.2:50052", "10.0.0.3:9000")
    assert engine.access() == Access(ports=engine.access().ports)
    assert set(engine.access().ports) == {50052, 9000}
    engine.open()
    assert engine.rung is Rung.WARM
    assert engine.savings()["prefix_cache"] == 0
    engine.close()
    assert engine.rung is Rung.COLD


@pytest.mark.usefixtures("installed")
def test_parts_that_do_not_fit_the_machines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineFailure, match="3 parts for 1 machines"):
        LlamaSplit(spec(tmp_path)).place(["10.0.0.2:1"], [1, 2, 3], 512)


def test_llama_cpp_without_rpc_is_a_mistake_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "plugin", lambda: None)
    with pytest.raises(ConfigError, match=r"nodes: llama.cpp is installed without RPC.*EDGESERVE_RPC=1 make") as told:
        LlamaSplit(spec(tmp_path))
    assert told.value.param == "nodes"


@pytest.mark.usefixtures("installed")
def test_adapters_do_not_cross(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="takes no adapters"):
        LlamaSplit(spec(tmp_path, adapters=(Adapter("adapter0"),)))


@pytest.mark.skipif(rpc.plugin() is not None, reason="llama.cpp with RPC: make test-cluster uses it")
def test_a_call_of_the_backend_names_what_is_missing() -> None:
    with pytest.raises(EngineFailure, match="EDGESERVE_RPC=1 make serve"):
        rpc.devices(["127.0.0.1:1"])
