"""A system that starts no fresh interpreter."""

from __future__ import annotations

import errno

import pytest

from edgeserve.errors import Busy
from edgeserve.processes import interpreter
from edgeserve.processes.forker import Forker
from edgeserve.processes.spawner import Spawner


@pytest.mark.parametrize("make", [Spawner, Forker])
def test_a_refused_process_is_busy_and_leaves_no_descriptor(
    make: type[Spawner | Forker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(module: str, descriptors: list[int]) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(interpreter, "begin", refuse)
    with pytest.raises(Busy, match="no process for llm: Cannot allocate memory"):
        make().launch("m:f", {}, "llm")
