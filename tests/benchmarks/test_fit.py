"""The comparison of expected figures with measured ones: entries from files."""

from __future__ import annotations

from pathlib import Path

from benchmarks import fit
from support import tiny_gguf

from edgeserve.fit import memory, speed


def test_an_entry_comes_from_the_header_of_a_file(tmp_path: Path) -> None:
    path = tiny_gguf.write_model(tmp_path / "tiny.gguf", "llama")
    entry = fit.entry_of(path)
    assert entry.size_bytes == path.stat().st_size
    assert (entry.shape["layers"], entry.shape["width"]) == (tiny_gguf.LAYERS, tiny_gguf.WIDTH)
    assert entry.parameters > tiny_gguf.VOCABULARY * tiny_gguf.WIDTH
    assert memory.by_entry(entry).origin == "catalogue"
    assert speed.prompts(entry, speed.Rates(1.0, 1.0)), "its table is smaller than all of it"
