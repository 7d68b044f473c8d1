"""The keys in force, as their file changes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.gates import Clock

from edgeserve.errors import ConfigError
from edgeserve.keys import file
from edgeserve.keys.key import Key, digest_of
from edgeserve.keys.ring import Keyring

PHONE = Key("phone", digest_of(b"sesame"), per_minute=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_without_keys_none_is_required() -> None:
    ring = Keyring()
    ring.look()
    assert not ring.required
    assert ring.find([b"", b"sesame"]) is None


def test_the_key_of_the_settings_manages_the_server() -> None:
    ring = Keyring("sesame")
    found = ring.find([b"wrong", b"sesame"])
    assert ring.required
    assert found is not None
    assert (found.name, found.scope) == ("api_key", "admin")
    assert ring.find([b"sesam", b"sesame ", b""]) is None
    assert "sesame" not in repr(ring.__dict__)


def test_the_only_key_is_one_until_another_comes(path: Path) -> None:
    file.write(path, [PHONE])
    ring = Keyring("", path)
    assert ring.sole
    file.write(path, [PHONE, Key("tablet", digest_of(b"simsim"))])
    ring.look()
    assert not ring.sole
    assert not Keyring().sole


def test_few_tokens_of_a_request_are_looked_at() -> None:
    assert Keyring("sesame").find([*[b"wrong"] * 4, b"sesame"]) is None


def test_a_file_that_comes_locks_the_server_and_stays_locked(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ring = Keyring("", path)
    assert not ring.required
    file.write(path, [PHONE])
    ring.look()
    assert ring.required
    assert ring.find([b"sesame"]) == PHONE
    file.write(path, [])
    ring.look()
    assert ring.required
    assert ring.find([b"sesame"]) is None
    path.unlink()
    with caplog.at_level(logging.INFO):
        ring.look()
    assert ring.required, "who removes the file opens no server"
    assert "0 keys" in caplog.text


def test_a_revoked_key_is_no_key_and_the_others_keep_their_pace(path: Path) -> None:
    clock = Clock()
    file.write(path, [PHONE, Key("desk", digest_of(b"other"))])
    ring = Keyring("own", path, clock)
    with ring.pace(PHONE).request():
        file.write(path, [PHONE])
        ring.look()
        assert ring.pace(PHONE).running == 1
    assert ring.find([b"other"]) is None
    assert ring.find([b"own"]) is not None


def test_a_damaged_file_changes_nothing_and_is_told_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write(path, [PHONE])
    ring = Keyring("", path)
    path.write_text("{")
    ring.look()
    ring.look()
    assert ring.find([b"sesame"]) == PHONE
    assert caplog.text.count("the keys stay as they were") == 1
    file.write(path, [PHONE])
    ring.look()
    assert ring.find([b"sesame"]) == PHONE


def test_a_damaged_file_at_the_start_is_an_error(path: Path) -> None:
    path.write_text("{")
    with pytest.raises(ConfigError, match="this is no file of keys"):
        Keyring("", path)


def test_a_file_whose_rights_are_mended_is_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write(path, [PHONE])
    ring = Keyring("", path)
    file.write(path, [])  # the key is revoked
    path.chmod(0o666)
    ring.look()
    assert "chmod 600" in caplog.text
    assert ring.find([b"sesame"]) == PHONE
    path.chmod(0o600)
    ring.look()
    assert ring.find([b"sesame"]) is None, "the remedy that the log names must help"


@pytest.mark.parametrize("content", ["{", "", "[]", '{"version": 2, "keys": []}', "\0" * 2_000_000])
def test_a_first_file_that_comes_damaged_closes_the_server(
    path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    ring = Keyring("", path)
    path.write_text(content)
    ring.look()
    ring.look()
    assert ring.required
    assert ring.find([b"sesame"]) is None
    assert "cannot be read" in ring.problem
    assert caplog.text.count("answers nobody") == 1
    file.write(path, [PHONE])
    ring.look()
    assert (ring.find([b"sesame"]), ring.problem) == (PHONE, "")


def test_a_first_file_that_others_may_write_closes_the_server(path: Path) -> None:
    ring = Keyring("", path)
    file.write(path, [])
    path.chmod(0o666)
    ring.look()
    assert ring.required
    path.chmod(0o600)
    ring.look()
    assert (ring.required, ring.problem) == (True, "")


def test_a_first_file_that_nobody_may_look_at_closes_the_server(path: Path) -> None:
    ring = Keyring("", path)
    path.symlink_to(path)  # a circle: the system names no file, and does not say that there is none
    ring.look()
    assert ring.required
    assert ring.problem


def test_listeners_hear_of_each_change_until_they_leave(path: Path) -> None:
    heard: list[bool] = []
    ring = Keyring("", path)
    with ring.listening(lambda: heard.append(ring.required)):
        ring.look()
        assert heard == []
        file.write(path, [PHONE])
        ring.look()
        path.write_text("{")
        ring.look()
        assert heard == [True], "the keys stay as they were"
    file.write(path, [])
    ring.look()
    assert heard == [True]
