"""The benchmark of guessed tokens on a real model: the written answer is the one that comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchmarks import speculation
from benchmarks.pairs import Pair, Pairs
from benchmarks.speculation_tables import ACCEPTED

from edgeserve.models.folder import default_root
from edgeserve.models.store import Store


def test_rows_that_are_kept_are_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def engine_of(path: Path, speculation: str) -> None:
        raise AssertionError("nothing is missing")

    monkeypatch.setattr(speculation, "engine_of", engine_of)
    pairs = Pairs()
    for case in "012":
        pairs.add(Pair("model", "free text", case, 1, 1.0, 1.0))
    speculation.texts(Path("model.gguf"), ["free text"], 1, pairs)
    assert len(pairs.all) == 3


@pytest.mark.models
def test_a_row_decodes_the_written_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    task = speculation.Task("one two three four five six\n", "one two three four five six\n" * 3)
    monkeypatch.setattr(speculation, "TASKS", {"rewriting": [task]})
    path, pairs = Store(default_root(os.environ)).pull(speculation.STARTER).files["model"], Pairs()
    speculation.texts(path, ["rewriting"], 1, pairs)
    (pair,) = pairs.all
    assert (pair.subject, pair.kind, pair.turn) == (path.stem, "rewriting", 1)
    assert pair.beside[ACCEPTED] >= 0  # none where the measured times say that drafts do not pay
    assert min(pair.ours, pair.other) > 0
