"""The certificate that the server signs itself."""

from __future__ import annotations

import logging
import shutil
import ssl
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from support.gates import Clock
from support.tls import needs_openssl

from edgeserve.errors import ConfigError
from edgeserve.tls import self_signed
from edgeserve.tls.self_signed import DAY, DAYS, SelfSigned, own_names

NAMES = ("box.local", "box", "192.0.2.7", "2001:db8::7", "127.0.0.1")


def fields(path: Path) -> dict[str, Any]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(path)
    (found,) = context.get_ca_certs()
    return found


@needs_openssl
def test_it_names_the_machine_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = SelfSigned(tmp_path / "tls", NAMES).ensure()
    names = [name.lower() for _, name in fields(path)["subjectAltName"]]
    assert names == ["box.local", "box", "192.0.2.7", "2001:db8:0:0:0:0:0:7", "127.0.0.1"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    left = ssl.cert_time_to_seconds(fields(path)["notAfter"]) - time.time()
    assert (DAYS - 1) * DAY < left <= DAYS * DAY


@needs_openssl
def test_it_stays_until_a_name_is_lacking_or_its_end_is_near(tmp_path: Path) -> None:
    path = SelfSigned(tmp_path, NAMES).ensure()
    text = path.read_bytes()
    SelfSigned(tmp_path, NAMES[:2]).ensure()
    assert path.read_bytes() == text
    clock = Clock(time.time() + (DAYS - 31) * DAY)
    old = SelfSigned(tmp_path, NAMES, clock)
    old.ensure()
    old.renew()
    assert path.read_bytes() == text
    clock.now += 2 * DAY
    old.renew()
    assert path.read_bytes() != text
    text = path.read_bytes()
    SelfSigned(tmp_path, [*NAMES, "other.lan"]).ensure()
    assert path.read_bytes() != text


@needs_openssl
def test_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    one = SelfSigned(tmp_path, NAMES)
    one.path.write_text("damaged")
    one.ensure()
    assert fields(one.path)


def test_without_openssl_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("openssl") is None
    with pytest.raises(
        ConfigError, match="openssl is not installed; install it, or name a certificate with --tls-cert"
    ):
        SelfSigned(tmp_path / "tls", NAMES).ensure()
    assert list((tmp_path / "tls").iterdir()) == []


@needs_openssl
def test_a_name_that_openssl_refuses(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a certificate cannot be made: openssl says"):
        SelfSigned(tmp_path, ["box.local", "a,b"]).ensure()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="the certificate cannot be written: Not a directory"):
        SelfSigned(tmp_path / "file" / "tls", NAMES).ensure()


@pytest.mark.parametrize(
    ("host", "names"),
    [("Box.lan", ["box.local", "box", "localhost"]), ("localhost", ["localhost"]), ("", ["localhost"])],
)
def test_names_of_this_machine(monkeypatch: pytest.MonkeyPatch, host: str, names: list[str]) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: host)
    monkeypatch.setattr(self_signed, "own_addresses", lambda: ["192.0.2.7"])
    assert own_names(["a.lan", "192.0.2.7"]) == [*names, "a.lan", "192.0.2.7", "127.0.0.1", "::1"]


@needs_openssl
def test_what_was_made_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        path = SelfSigned(tmp_path, ["localhost"]).ensure()
    assert f"made the certificate {path} for localhost" in caplog.text
    assert "PRIVATE" not in caplog.text
