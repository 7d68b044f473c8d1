"""Lists of the models that running servers use."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.store import other_server, pulled

from edgeserve.errors import InUse, ModelMissing
from edgeserve.models.served import PREFIX, ServedList, servers_of


def lists(root: Path) -> list[Path]:
    return list(root.glob(f"{PREFIX}*"))


def test_a_model_that_another_process_serves_stays(tmp_path: Path) -> None:
    store, name = pulled(tmp_path, "mine"), "mine"
    with other_server(tmp_path, name) as other:
        assert [one.partition("@")[0] for one in servers_of(tmp_path, name)] == [str(other.pid)]
        assert servers_of(tmp_path, "old") == []
        with pytest.raises(InUse, match=rf"{name} is in use by the server {other.pid}@"):
            store.remove(name)
        assert store.find(name).name == name
    assert lists(tmp_path) == []
    store.remove(name)
    with pytest.raises(ModelMissing):
        store.find(name)


def test_a_server_that_was_killed_serves_nothing(tmp_path: Path) -> None:
    with other_server(tmp_path, "hibari") as other:
        other.kill()
        other.wait()
        assert len(lists(tmp_path)) == 1
        assert servers_of(tmp_path, "hibari") == []
        assert lists(tmp_path) == []


def test_the_next_server_removes_the_lists_of_killed_ones(tmp_path: Path) -> None:
    with other_server(tmp_path, "hibari") as other:
        other.kill()
        other.wait()
        own = ServedList(tmp_path)
        own.keep(["mine"])
        assert [path.read_text() for path in lists(tmp_path)] == ["mine\n"]
        own.end()


def test_the_own_list_is_in_nobodys_way_here(tmp_path: Path) -> None:
    own = ServedList(tmp_path)
    own.keep(["hibari"])
    assert len(lists(tmp_path)) == 1
    assert servers_of(tmp_path, "hibari") == []
    own.end()
    own.end()
    assert lists(tmp_path) == []


def test_a_list_that_stays_as_it_was_is_not_written(tmp_path: Path) -> None:
    own = ServedList(tmp_path)
    own.keep(["b", "a"])
    (path,) = lists(tmp_path)
    before = path.stat().st_mtime_ns
    own.keep(["a", "b", "a"])
    assert (path.read_text(), path.stat().st_mtime_ns) == ("a\nb\n", before)
    own.keep(["c"])
    assert path.read_text() == "c\n"
    own.end()


def test_a_store_that_is_not_there_has_no_servers(tmp_path: Path) -> None:
    assert servers_of(tmp_path / "nowhere", "hibari") == []
    with pytest.raises(FileNotFoundError):
        ServedList(tmp_path / "nowhere").keep(["hibari"])
