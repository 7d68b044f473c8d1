"""The file of keys: for its owner alone, whole or not at all."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from edgeserve.errors import ConfigError
from edgeserve.keys import file
from edgeserve.keys.key import Key, digest_of

KEY = Key("phone", digest_of(b"sesame"), "use", 30, 2, "2026-05-01")
ROW = {
    "name": "phone", "digest": KEY.digest, "scope": "use", "per_minute": 30, "at_once": 2, "created": "2026-05-01"
}  # fmt: skip


def test_keys_come_back_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "own" / "keys.json"
    assert file.read(path) is None
    os.umask(os.umask(0))
    file.write(path, [KEY])
    assert file.read(path) == (KEY,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o077 == 0
    assert [one.name for one in path.parent.iterdir()] == ["keys.json"]
    assert b"sesame" not in path.read_bytes()


def test_a_folder_that_is_a_file_has_no_keys(tmp_path: Path) -> None:
    assert file.read(Path(os.devnull) / "keys.json") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys.json"
    file.write(path, [KEY])
    path.chmod(mode)
    with pytest.raises(ConfigError, match=f"others may write it .mode {mode:03o}.: chmod 600"):
        file.read(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the keys cannot be read: it is no plain file"):
        file.read(tmp_path)


def changed(**more: Any) -> str:
    return json.dumps({"version": 1, "keys": [ROW | more]})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Expecting value"),
        ("[]", "expected version 1"),
        ('{"version": 2, "keys": []}', "expected version 1"),
        ('{"version": 1, "keys": {}}', "expected version 1"),
        ('{"version": 1, "keys": [1]}', "expected keys of at_once, created"),
        ('{"version": 1, "keys": [{}]}', "expected keys of"),
        ("[" * 100_000, "this is no file of keys"),
        (changed(name="a b"), "'a b' is damaged"),
        (changed(name=1), "'1' is damaged"),
        (changed(digest="0"), "'phone' is damaged"),
        (changed(per_minute=True), "'phone' is damaged"),
        (changed(at_once=-1), "'phone' is damaged"),
        (changed(scope="root"), "no scope of use, admin"),
        (json.dumps({"version": 1, "keys": [ROW, ROW]}), "each with another name"),
    ],
)  # fmt: skip
def test_a_file_that_is_none(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=told):
        file.read(path)


def test_a_file_without_its_list(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text('{"version": 1}')
    with pytest.raises(ConfigError, match="this is no file of keys"):
        file.read(path)


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b" " * (file.LONGEST + 1))
    with pytest.raises(ConfigError, match="more than 1 MB"):
        file.read(path)


def test_a_change_sees_the_keys_before_it(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    for name in ("a", "b"):
        with file.changing(path) as keys:
            file.write(path, [*keys, Key(name, digest_of(name.encode()))])
    assert [one.name for one in file.read(path) or ()] == ["a", "b"]


def test_no_link_leads_a_change_to_another_file(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (tmp_path / ".keys.json.lock").symlink_to(other)
    with pytest.raises(OSError, match="symbolic link"), file.changing(tmp_path / "keys.json"):
        pass
    assert not other.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator hands files over")
def test_the_administrator_leaves_files_that_their_user_may_change(tmp_path: Path) -> None:
    os.chown(tmp_path, 12_345, 12_345)
    with file.changing(tmp_path / "keys.json"):
        file.write(tmp_path / "keys.json", [KEY])
    assert {one.name: one.stat().st_uid for one in tmp_path.iterdir()} == {
        "keys.json": 12_345, ".keys.json.lock": 12_345
    }  # fmt: skip
