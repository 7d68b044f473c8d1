"""States in files: under the cap, least recently used out, found by the longest prefix, and trusted only when whole."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.examples import examples

from edgeserve.engines.llama import states
from edgeserve.engines.llama.cache import PrefixCache, SavedState
from edgeserve.engines.llama.fingerprint import PIECE, PIECES
from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.state_files import owner_of
from edgeserve.engines.llama.state_index import shared
from edgeserve.engines.llama.states import HEAD, StateFiles, states_key
from edgeserve.engines.llama.states_folder import StatesFolder
from edgeserve.errors import NotFound

KEY = bytes(range(32))
START = int(time.time()) - 10_000
"""A time long ago, at which no file is too old yet."""
TOKENS = some.lists(some.integers(0, 2), min_size=1, max_size=6).map(tuple)


def state(tokens: tuple[int, ...], size: int = 10) -> SavedState:
    return SavedState(tokens, bytearray(bytes(tokens) * size)[:size])


def files(folder: Path, limit: int = 1 << 20, key: bytes = KEY, *, whole: bool = False, worth: int = 0) -> StateFiles:
    return StateFiles(StatesFolder(folder.parent, folder.name, limit), key, whole=whole, worth=worth)


def taken(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_written_state_is_found_after_a_restart(tmp_path: Path) -> None:
    first, saved = files(tmp_path / "states"), state((1, 2, 3), 1000)
    assert first.write(saved)
    again = files(tmp_path / "states")
    found, length = again.longest([1, 2, 9])
    assert found is not None
    assert length == 2
    assert again.read(found) == saved.data
    assert again.size == taken(tmp_path / "states") == HEAD.size + 12 + 1000


def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files(tmp_path / "states").write(state((1,)))
    finally:
        os.umask(before)
    [path] = (tmp_path / "states").iterdir()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_others_may_read_is_closed_by_the_first_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert files(tmp_path).write(state((1,)))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_the_folder_is_made_by_the_first_write(tmp_path: Path) -> None:
    assert files(tmp_path / "states").longest([1]) == (None, 0)
    assert not (tmp_path / "states").exists()


def damage(path: Path, at: int, to: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(to)] = to
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: damage(path, 0, b"x"),
        lambda path: damage(path, 40, b"xxx"),
        lambda path: damage(path, 76, b"\xff\xff\xff\xff"),
        lambda path: damage(path, HEAD.size, b"\x07"),
    ],
    ids=["empty", "short", "long", "magic", "salt", "count", "tokens"],
)
def test_an_incomplete_file_is_removed(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    files(tmp_path).write(state((1, 2, 3)))
    [path] = tmp_path.iterdir()
    harm(path)
    assert files(tmp_path).longest([1, 2, 3]) == (None, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_another_model_is_not_found_and_stays_for_its_server(tmp_path: Path) -> None:
    files(tmp_path).write(state((1, 2, 3)))
    other = files(tmp_path, key=bytes(32))
    assert other.longest([1, 2, 3]) == (None, 0)
    assert other.write(state((1, 2, 3)))
    assert files(tmp_path).longest([1, 2, 3])[1] == 3
    assert len(list(tmp_path.iterdir())) == 2


def test_a_tiny_prompt_is_not_stored(tmp_path: Path) -> None:
    one = files(tmp_path / "states", worth=3)
    assert not one.write(state((1, 2)))
    assert not (tmp_path / "states").exists()
    assert one.write(state((1, 2, 3)))


def test_a_state_damaged_behind_its_header_is_found_out_when_it_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files(tmp_path).write(state((1, 2, 3)))
    [path] = tmp_path.iterdir()
    damage(path, path.stat().st_size - 1, b"\xff")
    again = files(tmp_path)
    cache = PrefixCache(100, disk=again)
    found, _ = cache.best([1, 2, 3])
    assert found is not None
    assert cache.fetch(found) is None
    assert "the checksum is wrong" in caplog.text
    assert (cache.best([1, 2, 3]), again.size, list(tmp_path.iterdir())) == ((None, 0), 0, [])


def test_a_file_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    one = files(tmp_path)
    one.write(state((1, 2, 3)))
    [path] = tmp_path.iterdir()
    path.unlink()
    found, _ = one.longest([1])
    assert found is not None
    assert one.read(found) is None
    assert len(one) == 0


def test_other_files_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    files(tmp_path, limit=0).longest([1])
    assert (tmp_path / "notes.txt").exists()


def test_a_disk_that_refuses_costs_the_states_alone_and_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a read-only home does."""
    (tmp_path / "states").write_text("a file, not a folder")
    one = files(tmp_path / "states")
    assert not one.write(state((1,)))
    assert not one.write(state((2,)))
    assert caplog.text.count("cannot be kept on disk") == 1
    (tmp_path / "states").unlink()
    assert one.write(state((2,)))


def test_a_disk_that_fills_up_costs_the_new_state_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = files(tmp_path)
    assert one.write(state((1, 2)))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert not one.write(state((1, 2, 3)))
    assert len(list(tmp_path.iterdir())) == 1
    found, length = one.longest([1, 2, 3])
    assert found is not None
    assert (length, one.read(found)) == (2, state((1, 2)).data)


def test_a_folder_that_others_may_write_to_is_not_read(tmp_path: Path) -> None:
    """They could hand llama.cpp anything."""
    files(tmp_path).write(state((1, 2)))
    tmp_path.chmod(0o770)
    assert files(tmp_path).longest((1, 2)) == (None, 0)
    assert len(list(tmp_path.iterdir())) == 1


def test_states_on_a_disk_that_can_only_be_read_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path).write(state((1, 2)))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("utime", "unlink", "replace", "ftruncate"):
        monkeypatch.setattr(os, name, refuse)
    one = files(tmp_path)
    found, _ = one.longest((1, 2))
    assert found is not None
    assert one.read(found) == state((1, 2)).data
    assert one.touch(found)
    assert not one.write(state((1, 2, 3)))
    assert one.longest((1, 2))[1] == 2


def test_a_state_that_another_process_has_removed_is_written_anew(tmp_path: Path) -> None:
    one = files(tmp_path)
    one.write(state((1, 2, 3)))
    [path] = tmp_path.iterdir()
    path.unlink()
    assert one.write(state((1, 2, 3)))
    assert path.exists()
    assert len(one) == 1


def test_the_order_of_use_outlasts_a_restart(tmp_path: Path) -> None:
    one = files(tmp_path)
    for at, tokens in enumerate([(1,), (2,), (3,)]):
        one.write(state(tokens))
        found, _ = one.longest(tokens)
        assert found is not None
        os.utime(found.path, (START + at, START + at))
    used, _ = one.longest([1])
    assert used is not None
    one.read(used)
    again = files(tmp_path, limit=2 * used.size)
    assert [again.longest([token])[1] for token in (1, 2, 3)] == [1, 0, 1]
    assert len(list(tmp_path.iterdir())) == 2


def test_the_key_tells_models_and_settings_apart(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"one")
    keys = {states_key(path, LlamaOptions()), states_key(path, LlamaOptions(temperature=1.0))}
    assert len(keys) == 1, "temperature is none of a state's business"
    keys |= {states_key(path, LlamaOptions(**one)) for one in ({"kv_type": "q8_0"}, {"window": "full"})}
    path.write_bytes(b"other")
    keys.add(states_key(path, LlamaOptions()))
    assert len(keys) == 4


@pytest.mark.parametrize("at", [0, 7, PIECES - 1])
def test_the_key_tells_models_of_one_name_size_and_time_apart(tmp_path: Path, at: int) -> None:
    path = tmp_path / "model.gguf"
    data = bytearray(PIECES * PIECE * 3)
    path.write_bytes(data)
    os.utime(path, (1, 1))
    one = states_key(path, LlamaOptions())
    data[at * PIECE * 3 + 5] = 1
    path.write_bytes(data)
    os.utime(path, (1, 1))
    assert states_key(path, LlamaOptions()) != one


def test_a_file_serves_its_own_salt_and_does_not_name_it(tmp_path: Path) -> None:
    files(tmp_path).write(SavedState((1, 2, 3), bytearray(b"one"), salt="secret"))
    files(tmp_path).write(SavedState((1, 2, 3), bytearray(b"two"), salt="other"))
    again = files(tmp_path)
    assert again.longest((1, 2, 3)) == (None, 0)
    for salt, data in (("secret", b"one"), ("other", b"two")):
        found, length = again.longest((1, 2, 3), salt)
        assert found is not None
        assert (length, again.read(found)) == (3, data)
    assert not any(b"secret" in path.read_bytes() or "secret" in path.name for path in tmp_path.iterdir())


def test_clients_of_one_scope_share_a_file_which_counts_for_the_one_that_wrote_it(tmp_path: Path) -> None:
    files(tmp_path).write(SavedState((1, 2, 3), bytearray(b"one"), salt="mine/"))
    again = files(tmp_path)
    for salt in ("mine/", "other/", ""):
        found, length = again.longest((1, 2, 3), salt)
        assert found is not None
        assert (length, again.read(found)) == (3, b"one")
    for salt in ("mine", "mine/1", "other/1"):
        assert again.longest((1, 2, 3), salt) == (None, 0)
    [path] = tmp_path.glob("*.state")
    assert path.name.startswith(f"{owner_of('mine/')}-")
    again.forget((1, 2, 3), "other/")
    assert again.longest((1, 2, 3), "mine/") == (None, 0)


def test_a_name_of_one_client_is_no_file_of_another(tmp_path: Path) -> None:
    """Without keys, clients of all networks wrote over each other's."""
    kept = files(tmp_path)
    for salt, data in (("mine/", b"one"), ("other/", b"two")):
        kept.keep("name", SavedState((1, 2, 3), bytearray(data), salt=salt))
    for salt, data in (("mine/", b"one"), ("other/", b"two")):
        assert kept.kept("name", salt)[0].data == data
    with pytest.raises(NotFound):
        kept.kept("name", "third/")


def test_a_state_that_memory_has_no_room_for_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was removed as if it were damaged."""
    kept = files(tmp_path)
    kept.write(state((1, 2, 3)))
    found, _ = kept.longest([1, 2, 3])
    assert found is not None

    def short(size: int) -> None:
        raise MemoryError

    with monkeypatch.context() as now:
        now.setattr(states.headroom, "check", short)
        assert kept.read(found) is None
    assert kept.read(found) == state((1, 2, 3)).data


def test_a_name_that_another_server_writes_meanwhile_is_one_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokens came from the file before, and their cells from the one that took its place."""
    mine, other = files(tmp_path), files(tmp_path)
    mine.keep("name", SavedState((1, 2, 3), bytearray(b"one")))
    checksum = states._checksum

    def meanwhile(salt: bytes, tokens: bytes) -> int:
        monkeypatch.setattr(states, "_checksum", checksum)
        other.keep("name", SavedState((4, 5, 6), bytearray(b"two")))
        return checksum(salt, tokens)

    monkeypatch.setattr(states, "_checksum", meanwhile)
    found = mine.kept("name", "")[0]
    assert (found.tokens, found.data) == ((1, 2, 3), b"one")
    assert mine.kept("name", "")[0].data == b"two"


@pytest.mark.slow
@given(some.lists(some.tuples(TOKENS, some.integers(1, 40)), max_size=20), some.booleans(), some.integers(0, 60))
def test_memory_spills_to_disk_and_nothing_is_lost_under_the_caps(
    puts: list[tuple[tuple[int, ...], int]], whole: bool, limit: int
) -> None:
    """With room on disk, the longest prefix of all that was ever put is found, wherever it lies."""
    with tempfile.TemporaryDirectory() as folder:
        cache = PrefixCache(limit, whole=whole, disk=files(Path(folder), whole=whole))
        for tokens, size in puts:
            assert cache.put(state(tokens, size))
            assert cache.size <= limit
        cache.shrink(0)
        for tokens, _ in puts:
            found, length = cache.best(tokens)
            assert found is not None
            assert length == len(tokens)
            assert cache.fetch(found) == state(tuple(found.tokens), len(cache.fetch(found) or b"")).data


class Files(RuleBasedStateMachine):
    """Against a list of what should be there."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.limit = 400
        self.here = files(self.folder, self.limit)
        self.expected: list[tuple[tuple[int, ...], int]] = []
        self.clock = 0

    def stamp(self) -> None:
        """The clock of file systems is coarse; uses here are closer together."""
        for path in self.folder.iterdir():
            if path.stat().st_mtime > START + 5_000:
                self.clock += 1
                os.utime(path, (START + self.clock, START + self.clock))

    @rule(tokens=TOKENS, size=some.integers(1, 450))
    def write(self, tokens: tuple[int, ...], size: int) -> None:
        known = [one for one in self.expected if one[0][: len(tokens)] == tokens]
        whole = HEAD.size + 4 * len(tokens) + size
        assert self.here.write(state(tokens, size)) is (bool(known) or whole <= self.limit)
        if known:
            self.use(known[0])
        elif whole <= self.limit:
            self.expected = [one for one in self.expected if tokens[: len(one[0])] != one[0]]
            while sum(size for _, size in self.expected) + whole > self.limit:
                self.expected.pop(0)
            self.expected.append((tokens, whole))
        self.stamp()

    def use(self, one: tuple[tuple[int, ...], int]) -> None:
        self.expected.remove(one)
        self.expected.append(one)

    @precondition(lambda self: self.expected)
    @rule(tokens=TOKENS)
    def read(self, tokens: tuple[int, ...]) -> None:
        found, length = self.here.longest(tokens)
        assert length == max(shared(one, tokens) for one, _ in self.expected)
        if found is not None:
            assert (
                self.here.read(found) == state(tuple(found.tokens), found.size - HEAD.size - 4 * len(found.tokens)).data
            )
            self.use((tuple(found.tokens), found.size))
        self.stamp()

    @rule()
    def restart(self) -> None:
        self.here = files(self.folder, self.limit)

    @invariant()
    def what_is_there_is_what_should_be(self) -> None:
        self.here.longest([9])
        assert [(tuple(one.tokens), one.size) for one in self.here._states] == self.expected
        assert self.here.size == taken(self.folder) <= self.limit

    def teardown(self) -> None:
        self.temporary.cleanup()


TestFiles = pytest.mark.slow(Files.TestCase)
TestFiles.settings = examples(60, stateful_step_count=25)
