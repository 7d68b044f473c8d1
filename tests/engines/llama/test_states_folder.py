"""The folder of states: one bound over all models, for every process, whatever lies there."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines.llama import states_folder
from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.state_files import owner_of, salt_in
from edgeserve.engines.llama.state_index import client_of
from edgeserve.engines.llama.states import StateFiles
from edgeserve.engines.llama.states_folder import (
    DISK_SHARE,
    KEPT_SECONDS,
    LONGEST_NAME,
    MOST,
    SHARED,
    WRITING_SECONDS,
    StatesFolder,
    states_path,
    sweep,
)
from edgeserve.engines.llama.writing import Allowance

NOW = time.time()
"""The clock of all folders here."""
OWNER = owner_of("")


def shared(root: Path, model: str, limit: int) -> StatesFolder:
    """A folder under a shared bound of ``limit`` bytes."""
    total = int(limit / DISK_SHARE) + 1
    return StatesFolder(root, model, None, free=lambda path: total - taken(root / SHARED), clock=lambda: NOW)


def taken(root: Path) -> int:
    """Bytes of all files; one that is renamed meanwhile counts once, and one that is removed not at all."""
    found: dict[int, int] = {}
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode):
                found[about.st_ino] = about.st_size
    return sum(found.values())


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def put(folder: StatesFolder, name: str, size: int = 100, age: float = 0.0, owner: str = OWNER) -> bool:
    stored = folder.store(f"{owner}-{name}.state", [bytes(size)])
    if stored:
        os.utime(folder.path / f"{owner}-{name}.state", (NOW - age, NOW - age))
    return stored


def test_the_least_recently_used_state_of_all_models_makes_room(tmp_path: Path) -> None:
    one, other = shared(tmp_path, "one", 250), shared(tmp_path, "other", 250)
    put(one, "a", age=30)
    put(other, "b", age=20)
    put(other, "c", age=10)
    assert names(tmp_path) == {f"{SHARED}/other/{OWNER}-b.state", f"{SHARED}/other/{OWNER}-c.state"}
    put(one, "d")
    assert names(tmp_path) == {f"{SHARED}/other/{OWNER}-c.state", f"{SHARED}/one/{OWNER}-d.state"}


def test_a_bound_of_its_own_is_nobody_elses(tmp_path: Path) -> None:
    one, other = StatesFolder(tmp_path, "one", 250), shared(tmp_path, "other", 100)
    for name in "abc":
        put(one, name, age=20)
    put(other, "d")
    put(other, "e")
    assert len(list(one.path.iterdir())) == 2
    assert names(tmp_path / SHARED) == {f"other/{OWNER}-e.state"}


def test_no_client_takes_the_share_of_another_in_any_model(tmp_path: Path) -> None:
    mine, floods = owner_of("mine"), owner_of("floods")
    one, other = shared(tmp_path, "one", 400), shared(tmp_path, "other", 400)
    put(one, "a", 200, age=1000, owner=mine)
    for number in range(20):
        put(other, str(number), 100, age=100 - number, owner=floods)
    assert f"{SHARED}/one/{mine}-a.state" in names(tmp_path)
    assert not put(other, "large", 300, owner=floods)


def test_a_client_with_many_salts_has_one_share(tmp_path: Path) -> None:
    """A ``prompt_cache_key`` for each request pushed the conversations of all others off the disk."""
    mine, folder = owner_of("mine/1"), shared(tmp_path, "one", 400)
    assert put(folder, "a", 200, age=1000, owner=mine)
    for number in range(20):
        put(folder, str(number), 50, age=100 - number, owner=owner_of(f"floods/{number}"))
    there = names(folder.path)
    assert f"{mine}-a.state" in there
    assert len(there) == 1 + 4


def test_salts_of_one_client_have_files_of_their_own() -> None:
    salts = ("", "mine", "mine/1", "mine/2", "other/1", "/1")
    owners = [owner_of(one) for one in salts]
    assert len(set(owners)) == len(salts)
    assert [client_of(salt_in(f"{one}-a-b.state")) for one in owners] == [owner_of(client_of(one)) for one in salts]


@pytest.mark.parametrize(
    ("free", "taken", "limit"),
    [(0, 0, 0), (1 << 30, 0, int(DISK_SHARE * (1 << 30))), (0, 1000, 50), (1 << 50, 0, MOST)],
)
def test_the_shared_bound_is_a_part_of_the_free_disk(tmp_path: Path, free: int, taken: int, limit: int) -> None:
    folder = StatesFolder(tmp_path, "one", None, free=lambda path: free)
    folder.path.mkdir(parents=True)
    (folder.path / "x-y.state").write_bytes(bytes(taken))
    assert folder.limit == limit


def test_the_disk_of_a_folder_that_is_not_there_yet_is_known(tmp_path: Path) -> None:
    asked: list[Path] = []
    folder = StatesFolder(tmp_path / "a" / "b", "one", None, free=lambda path: asked.append(path) or 1 << 20)  # type: ignore[func-returns-value]
    assert folder.limit == int(DISK_SHARE * (1 << 20))
    assert asked == [tmp_path]


def test_old_states_go_and_a_clock_that_was_set_back_keeps_them(tmp_path: Path) -> None:
    folder = shared(tmp_path, "one", 10_000)
    put(folder, "old", age=KEPT_SECONDS + 100)
    put(folder, "new", age=KEPT_SECONDS - 100)
    put(folder, "future", age=-1e6)
    folder.tidy()
    assert names(folder.path) == {f"{OWNER}-new.state", f"{OWNER}-future.state"}


@pytest.mark.parametrize("age", [WRITING_SECONDS + 100, -WRITING_SECONDS - 100])
def test_what_a_power_cut_left_goes_and_what_is_being_written_stays(tmp_path: Path, age: float) -> None:
    folder = shared(tmp_path, "one", 10_000)
    put(folder, "a")
    cut, writing = folder.path / "x.state.1.part", folder.path / "y.state.2.part"
    for path in (cut, writing):
        path.write_bytes(bytes(100))
    os.utime(cut, (NOW - age, NOW - age))
    os.utime(writing, (NOW, NOW))
    folder.tidy()
    assert names(folder.path) == {f"{OWNER}-a.state", writing.name}


def test_a_file_that_is_being_written_has_its_room_already(tmp_path: Path) -> None:
    one, other = shared(tmp_path, "one", 250), shared(tmp_path, "other", 250)
    put(other, "a")
    put(other, "b", age=10)
    os.close(states_folder._create(other.path / "x.state.1.part", 100))
    os.utime(other.path / "x.state.1.part", (NOW, NOW))
    put(one, "c", 100)
    assert {path.rpartition("/")[2] for path in names(tmp_path)} == {f"{OWNER}-c.state", "x.state.1.part"}


def keep(folder: StatesFolder, name: str, size: int = 100, owner: str = OWNER, age: float = 0.0) -> bool:
    """Store a state with a name."""
    stored = folder.store(f"{owner}-{name}.slot", [bytes(size)])
    if stored:
        os.utime(folder.path / f"{owner}-{name}.slot", (NOW - age, NOW - age))
    return stored


def test_states_with_names_push_each_other_out_the_least_recently_used_first(tmp_path: Path) -> None:
    folder = shared(tmp_path, "one", 1000)
    for number in range(9):
        assert keep(folder, str(number), age=100 - number)
    assert names(folder.path) == {f"{OWNER}-{number}.slot" for number in range(4, 9)}, "half of the bound"
    assert keep(folder, "4", age=1)
    assert len(names(folder.path)) == 5, "a name that is there already is replaced"
    assert not keep(folder, "large", 501)
    assert len(names(folder.path)) == 5, "nothing went for a state that never fits"


def test_the_number_of_states_with_names_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states_folder, "MOST_NAMED", 8)
    folder = shared(tmp_path, "one", 1 << 20)
    for number in range(8 + 3):
        assert keep(folder, str(number), 1, age=1000 - number)
    assert names(folder.path) == {f"{OWNER}-{number}.slot" for number in range(3, 8 + 3)}


def test_named_states_of_one_client_push_out_nobody_elses(tmp_path: Path) -> None:
    folder, mine, floods = shared(tmp_path, "one", 1000), owner_of("mine"), owner_of("floods")
    assert keep(folder, "a", 200, mine, age=1000)
    assert put(folder, "b", 100, age=1000, owner=mine)
    for number in range(20):
        assert keep(folder, str(number), 100, floods, age=100 - number)
    assert {f"{mine}-a.slot", f"{mine}-b.state"} <= names(folder.path)
    assert len(names(folder.path)) == 2 + 3
    assert not keep(folder, "large", 301, floods)


def test_named_states_of_one_client_end_nobody_elses_saving(tmp_path: Path) -> None:
    """The client with the most had only states that nothing evicts, so nobody else's state found room any more."""
    folder, names_most, mine, other = shared(tmp_path, "one", 1000), owner_of("names"), owner_of("mine"), owner_of("o")
    assert keep(folder, "named", 400, names_most)
    assert put(folder, "small", 20, owner=names_most)
    for number in range(3):
        assert put(folder, f"a{number}", 110, owner=other, age=100 - number)
        assert put(folder, f"b{number}", 80, owner=mine, age=100 - number)
    assert put(folder, "new", 60, owner=mine)
    others = {f"{other}-a{number}.state" for number in (1, 2)}
    own = {f"{mine}-{name}.state" for name in ("b0", "b1", "b2", "new")}
    assert names(folder.path) == {f"{names_most}-named.slot", *others, *own}


def test_a_named_state_takes_the_room_of_its_owners_others_where_no_other_is_free(tmp_path: Path) -> None:
    folder, mine, other = shared(tmp_path, "one", 1000), owner_of("mine"), owner_of("other")
    assert put(folder, "a", 300, owner=other)
    assert put(folder, "b", 200, owner=owner_of("third"))
    for number in range(4):
        assert keep(folder, str(number), 100, mine, age=10 - number)
    assert keep(folder, "last", 150, mine)
    assert names(folder.path) >= {f"{other}-a.state", f"{mine}-last.slot", f"{mine}-3.slot"}
    assert taken(tmp_path) <= 1000


def test_states_kept_by_name_are_never_evicted_but_counted(tmp_path: Path) -> None:
    folder = shared(tmp_path, "one", 250)
    folder.store(f"{OWNER}-mine.slot", [bytes(120)])
    os.utime(folder.path / f"{OWNER}-mine.slot", (1, 1))
    assert put(folder, "a", 100)
    assert put(folder, "b", 90)
    assert names(folder.path) == {f"{OWNER}-mine.slot", f"{OWNER}-b.state"}
    assert not put(folder, "c", 150)
    StatesFolder(tmp_path, "one", None, free=lambda path: 0).tidy()
    assert names(folder.path) == {f"{OWNER}-mine.slot"}


def test_files_of_others_and_links_are_left_alone(tmp_path: Path) -> None:
    folder = shared(tmp_path / "states", "one", 110)
    put(folder, "a")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x-y.state").write_bytes(bytes(500))
    (folder.pool / "link").symlink_to(outside)
    (folder.path / "z-z.state").symlink_to(outside / "x-y.state")
    (folder.path / "notes.txt").write_text("mine")
    put(folder, "b")
    assert (outside / "x-y.state").exists()
    assert (folder.path / "notes.txt").exists()
    assert (folder.path / f"{OWNER}-b.state").exists()


def test_only_the_owner_may_read_folders_and_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = shared(tmp_path / "states", "one", 1000)
        folder.pool.mkdir(parents=True)
        put(folder, "a")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder.pool, folder.path)} == {0o700}
    assert stat.S_IMODE((folder.path / f"{OWNER}-a.state").stat().st_mode) == 0o600


def test_a_folder_of_another_user_is_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = shared(tmp_path, "one", 1000)
    put(folder, "a")
    assert folder.trusted
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert not folder.trusted
    with pytest.raises(PermissionError, match="another user"):
        put(folder, "b")


def test_old_states_of_models_that_are_gone_are_swept(tmp_path: Path) -> None:
    for name, folder in (("own", StatesFolder(tmp_path, "own", 1000)), ("shared", shared(tmp_path, "gone", 1000))):
        put(folder, f"{name}-old", age=KEPT_SECONDS + 100)
        put(folder, f"{name}-new", age=KEPT_SECONDS - 100)
    sweep(tmp_path, (), clock=lambda: NOW)
    assert {one.rpartition("/")[2] for one in names(tmp_path)} == {
        f"{OWNER}-own-new.state",
        f"{OWNER}-shared-new.state",
    }


def test_models_that_keep_no_conversations_lose_those_that_are_there(tmp_path: Path) -> None:
    for folder in (StatesFolder(tmp_path, "a", 1000), shared(tmp_path, "a", 1000), shared(tmp_path, "b", 1000)):
        put(folder, "x")
        folder.store(f"{OWNER}-kept.slot", [b"x"])
    (tmp_path / "a" / "notes.txt").write_text("mine")
    sweep(tmp_path, {"a"}, clock=lambda: NOW)
    assert {one for one in names(tmp_path) if one.endswith(".state")} == {f"{SHARED}/b/{OWNER}-x.state"}
    assert len([one for one in names(tmp_path) if one.endswith(".slot")]) == 3
    assert (tmp_path / "a" / "notes.txt").exists()
    sweep(tmp_path / "missing", {"a"})


def test_a_lock_that_somebody_keeps_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was taken over could hold it for ever."""
    monkeypatch.setattr(states_folder, "LOCK_SECONDS", 0.0)
    folder = shared(tmp_path, "one", 1000)
    put(folder, "a")
    holder = os.open(folder.pool, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        assert put(folder, "b")
    finally:
        os.close(holder)
    assert len(names(folder.path)) == 2


def test_too_much_writing_is_refused_until_later(tmp_path: Path) -> None:
    now = 0.0
    allowance = Allowance(150, clock=lambda: now)
    folder = StatesFolder(tmp_path, "one", None, free=lambda path: 1 << 30, allowance=allowance)
    assert put(folder, "a")
    assert not put(folder, "b")
    now = 1e6
    assert put(folder, "b")
    assert StatesFolder(tmp_path, "one", 1 << 30).limits_writes is False


def test_a_client_that_writes_very_much_leaves_others_their_part(tmp_path: Path) -> None:
    allowance = Allowance(1000, clock=lambda: 0.0)
    folder = StatesFolder(tmp_path, "one", None, free=lambda path: 1 << 30, allowance=allowance)
    floods = [put(folder, str(number), owner=owner_of(f"floods/{number}")) for number in range(20)]
    assert sum(floods) == 7
    assert put(folder, "a", 200, owner=owner_of("mine/1"))


@pytest.mark.parametrize("refused", ["larger than the bound", "another client's share", "no file can be made"])
def test_a_state_that_is_not_written_costs_its_client_nothing(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client had no right to write any more, and neither had the others."""
    mine, bound = owner_of("mine"), 1000
    allowance = Allowance(3 * bound, clock=lambda: 0.0)
    total = int(bound / DISK_SHARE) + 1
    free = lambda path: total - taken(tmp_path / SHARED)  # noqa: E731
    folder = StatesFolder(tmp_path, "one", None, free=free, clock=lambda: NOW, allowance=allowance)
    assert put(folder, "theirs", 500, owner=owner_of("theirs"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if refused == "no file can be made":
            patch.setattr(os, "ftruncate", full)
        for _ in range(10):
            with contextlib.suppress(OSError):
                assert not put(folder, "large", 1100 if refused == "larger than the bound" else 600, owner=mine)
    assert names(folder.path) == {f"{owner_of('theirs')}-theirs.state"}
    assert put(folder, "a", 400, owner=mine)
    assert allowance.spares(500)


@given(some.text(min_size=1, max_size=300), some.booleans())
def test_any_name_of_a_model_is_a_folder_of_its_own(model: str, is_shared: bool) -> None:
    root = Path("/root/states")
    model = model.encode("utf-8", "replace").decode()
    pool, path = states_path(root, model, shared=is_shared)
    assert path.parent == (root / SHARED if is_shared else root)
    assert pool == (path.parent if is_shared else path)
    assert path.name not in ("", ".", "..", SHARED)
    assert len(os.fsencode(path.name)) <= LONGEST_NAME


@given(some.sets(some.text(min_size=1, max_size=150), min_size=2, max_size=5))
def test_two_models_have_two_folders(models: set[str]) -> None:
    told = {one.encode("utf-8", "replace").decode() for one in models}
    assert len({states_path(Path("r"), one, shared=True)[1] for one in told}) == len(told)


KEYS = (bytes(32), bytes(range(32)))


@pytest.mark.slow
@given(
    some.lists(
        some.tuples(
            some.integers(0, 3),
            some.sampled_from(["write", "read", "restart"]),
            some.lists(some.integers(0, 2), min_size=1, max_size=4).map(tuple),
            some.integers(1, 150),
        ),
        max_size=30,
    )
)
@examples(60)
def test_four_servers_on_two_models_keep_the_bound_and_read_only_what_they_wrote(
    steps: list[tuple[int, str, tuple[int, ...], int]],
) -> None:
    """Servers 0 and 1 write the same states, as do 2 and 3; all share a bound that has room for a few."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)

        def make(server: int) -> StateFiles:
            return StateFiles(shared(root, f"model {server // 2}", 600), KEYS[server // 2], worth=0)

        servers = [make(number) for number in range(4)]
        for server, action, tokens, size in steps:
            one = servers[server]
            data = bytes([server // 2, *tokens]) * size
            if action == "write":
                one.write(SavedState(tokens, data))
            elif action == "restart":
                servers[server] = make(server)
            else:
                found, length = one.longest(tokens)
                read = one.read(found) if found else None
                if found and read is not None:
                    assert tuple(found.tokens)[:length] == tokens[:length]
                    whole = bytes([server // 2, *found.tokens])
                    assert read == whole * (len(read) // len(whole))
            assert taken(root) <= 600


@pytest.mark.slow
def test_processes_that_write_at_once_keep_the_bound(tmp_path: Path) -> None:
    code = """
import fcntl, os, sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_states_folder import SHARED, taken
from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.states import StateFiles
from edgeserve.engines.llama.states_folder import StatesFolder
root, model, most = Path(sys.argv[1]), sys.argv[2], 0
files = StateFiles(StatesFolder(root, model, None, free=lambda path: 20 * 1000 * 100), bytes(32), worth=0)
for number in range(150):
    files.write(SavedState((number,), bytes(9000)))
    pool = os.open(root / SHARED, os.O_RDONLY)
    fcntl.flock(pool, fcntl.LOCK_EX)  # nobody makes or removes files while they are counted
    most = max(most, taken(root))
    os.close(pool)
    found, _ = files.longest((number,))
    if found is not None:
        data = files.read(found)
        assert data is None or data == bytes(9000)
print(most)
"""
    ours = [str(Path(__file__).parent), str(Path(__file__).parents[2])]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), name, *ours],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "a", "b")
    ]
    told = [one.communicate(timeout=60)[0] for one in started]
    assert [one.returncode for one in started] == [0, 0, 0]
    limit = int(DISK_SHARE * (20 * 1000 * 100 + 100_000 * 1.1))
    assert [one for one in map(int, told) if not 0 < one <= limit] == []
