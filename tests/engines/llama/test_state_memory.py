"""Memory for states: a look at what is available before a copy is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.state_memory import allocate, prepare
from edgeserve.engines.llama.states import StateFiles
from edgeserve.engines.llama.states_folder import StatesFolder
from edgeserve.system import headroom
from edgeserve.units import MB


def test_a_copy_that_would_fill_the_memory_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that promises more memory than it has lets any copy begin, and ends a process later."""
    assert len(allocate(20 * MB)) == 20 * MB
    monkeypatch.setattr(headroom, "available", lambda: 60 * MB)
    with pytest.raises(MemoryError, match="a quarter of the 60 MB"):
        allocate(20 * MB)
    assert len(allocate(MB)) == MB


def test_memory_is_prepared_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(prepare(20 * MB)) == 20 * MB  # type: ignore[arg-type]
    monkeypatch.setattr(headroom, "available", lambda: 60 * MB)
    assert prepare(20 * MB) is None


def test_a_state_on_disk_waits_there_until_memory_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = StateFiles(StatesFolder(tmp_path, "llm", 1 << 30), bytes(32), worth=0)
    state = SavedState((1, 2, 3), bytearray(20 * MB))
    assert files.write(state)
    files.keep("mine", state)
    found, length = files.longest((1, 2, 3))
    assert found is not None
    assert length == 3
    with monkeypatch.context() as patch:
        patch.setattr(headroom, "available", lambda: 60 * MB)
        assert files.read(found) is None
        with pytest.raises(MemoryError, match="a quarter of the 60 MB"):
            files.kept("mine", "")
    assert "removed" not in caplog.text
    assert files.read(found) == state.data
    assert files.kept("mine", "")[0].data == state.data
