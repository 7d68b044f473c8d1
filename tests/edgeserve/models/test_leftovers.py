"""Leftovers of interrupted pulls and removals."""

from __future__ import annotations

import fcntl

import pytest
from support.http_files import Files
from support.store import GGUF, left

from edgeserve.errors import ModelMissing, SourceUnavailable, StoreError
from edgeserve.models.store import Store


def broken_off(models: Store, files: Files) -> None:
    files.data["/one.gguf"], files.cut_after = GGUF * 100, 2000
    with pytest.raises(SourceUnavailable):
        models.pull(f"{files.url}/one.gguf")


def test_leftovers_of_a_pull_are_listed_resumed_and_removed(models: Store, files: Files) -> None:
    broken_off(models, files)
    (one,) = models.leftovers()
    assert (one.name, one.of, one.busy) == ("one", "pull", False)
    assert one.size_bytes >= 1024
    models.remove("one")
    assert models.leftovers() == ()
    assert left(models) == []
    with pytest.raises(ModelMissing):
        models.remove("one")
    broken_off(models, files)
    models.pull(f"{files.url}/one.gguf")
    assert models.leftovers() == ()


def test_a_model_is_removed_with_its_leftovers(models: Store, files: Files) -> None:
    models.pull(f"{files.url}/one.gguf")
    for name in (".partial-one", ".removed-one"):
        (models.root / name).mkdir()
        (models.root / name / "x.part").write_bytes(b"x")
    assert [(one.name, one.of) for one in models.leftovers()] == [("one", "pull"), ("one", "removal")]
    models.remove("one")
    assert left(models) == []


def test_a_pull_under_way_is_neither_a_leftover_nor_removed(models: Store, files: Files) -> None:
    broken_off(models, files)
    with (models.root / ".lock-one").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (one,) = models.leftovers()
        assert one.busy
        with pytest.raises(StoreError, match="another pull or removal of"):
            models.remove("one")
    (one,) = models.leftovers()
    assert not one.busy
