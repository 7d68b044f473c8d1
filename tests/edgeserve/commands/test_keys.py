"""``edgeserve key``: tokens go to stdout once, and nowhere else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from support.commands import run, told

from edgeserve.keys import file
from edgeserve.keys.key import Key, digest_of


@pytest.fixture
def path(settings: Path) -> Path:
    return settings / "keys.json"


def key(path: Path, *words: str) -> int:
    return run("key", *words, environ={"EDGESERVE_KEYS_FILE": str(path)})


def test_a_key_is_made_listed_and_revoked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert key(path, "add", "phone", "--per-minute", "30", "--at-once", "2") == 0
    made = capsys.readouterr()
    token = made.out.strip()
    assert token.startswith("es_")
    assert token not in made.err
    (kept,) = file.read(path) or ()
    assert kept == Key("phone", digest_of(token.encode()), "use", 30, 2, kept.created)
    assert token.encode() not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    assert key(path, "add", "owner", "--scope", "admin") == 0
    capsys.readouterr()
    assert key(path, "list") == 0
    heads, phone, owner = (line.split() for line in capsys.readouterr().out.splitlines())
    assert heads == ["NAME", "SCOPE", "A", "MINUTE", "AT", "ONCE", "CREATED"]
    assert phone == ["phone", "use", "30", "2", kept.created]
    assert owner[:4] == ["owner", "admin", "-", "-"]

    assert key(path, "revoke", "phone") == 0
    assert [one.name for one in file.read(path) or ()] == ["owner"]


def test_the_keys_lie_beside_the_models(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"EDGESERVE_MODELS_DIR": str(settings / "models")}
    assert run("key", "list", environ=environ) == 0
    assert capsys.readouterr().out == f"There are no named keys: {settings / 'keys.json'} is not there.\n"
    assert run("key", "add", "phone", environ=environ) == 0
    assert (settings / "keys.json").is_file()


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        (("add", "a b"), "'a b' is no name of a key", 1),
        (("add", "api_key"), "is no name of a key", 1),
        (("add", "there"), "there is a key 'there'", 1),
        (("revoke", "gone"), "there is no key 'gone'; keys: there", 1),
    ],
)
def test_mistakes(
    path: Path, words: tuple[str, ...], message: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write(path, [Key("there", digest_of(b"x"))])
    assert key(path, *words) == code
    (line,) = told(capsys)
    assert message in line
    assert len(file.read(path) or ()) == 1


def test_a_file_that_is_full(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write(path, [Key(f"k{number}", digest_of(b"x")) for number in range(file.MOST_KEYS)])
    assert key(path, "add", "one-more") == 1
    assert "256 keys, the most" in told(capsys)[0]


def test_nothing_to_revoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert key(tmp_path / "nowhere" / "keys.json", "revoke", "phone") == 1
    assert "there are no named keys" in told(capsys)[0]
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("limit", ["0", "-1", "x", "10001"])
def test_a_limit_that_is_none(path: Path, limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        key(path, "add", "phone", "--per-minute", limit)
    assert ended.value.code == 2
    assert f"from 1 to 10000, not {limit}" in capsys.readouterr().err
