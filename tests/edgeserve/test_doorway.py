"""The way in, as the settings describe it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.commands import run
from support.server import fake_pool, serving, trusting
from support.tls import made, needs_openssl

from edgeserve.attendants import Announcing, Attendant, IdleExit, Renewal, Systemd
from edgeserve.commands.remote import Server
from edgeserve.config import load
from edgeserve.doorway import Doorway, make_doorway
from edgeserve.errors import ConfigError, EdgeserveError
from edgeserve.listening import listen
from edgeserve.models.store import Store
from edgeserve.tls.certificate import Certificate


def doorway(tmp_path: Path, environ: dict[str, str] | None = None, **given: str) -> Doorway:
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        return make_doorway(load(given), Store(tmp_path / "models"), listener, environ or {})


def kinds(found: Doorway) -> list[type[Attendant]]:
    return [type(one) for one in found.attendants]


def test_a_plain_door_is_announced_and_no_more(tmp_path: Path) -> None:
    found = doorway(tmp_path)
    assert (found.certificate, found.scheme, kinds(found)) == (None, "http", [Announcing])


def test_systemd_and_the_end_of_an_idle_server(tmp_path: Path) -> None:
    found = doorway(tmp_path, {"NOTIFY_SOCKET": "/run/x"}, EDGESERVE_IDLE_EXIT="60")
    assert kinds(found) == [Systemd, IdleExit, Announcing]


@needs_openssl
def test_a_certificate_that_the_server_makes(tmp_path: Path) -> None:
    found = doorway(tmp_path, EDGESERVE_TLS="self-signed")
    assert found.certificate is not None
    assert found.certificate.path == tmp_path / "tls" / "self-signed.pem"
    assert (found.scheme, kinds(found)) == ("https", [Renewal, Announcing])


@needs_openssl
def test_a_certificate_for_an_address_of_one_link(tmp_path: Path) -> None:
    class Bound:
        def getsockname(self) -> tuple[str, int, int, int]:
            return "fe80::1%eth0", 8080, 0, 2

    settings = load({"EDGESERVE_TLS": "self-signed"})
    bound: Any = Bound()
    assert make_doorway(settings, Store(tmp_path / "models"), bound, {}).scheme == "https"
    names = subprocess.run(
        ["openssl", "x509", "-noout", "-ext", "subjectAltName", "-in", tmp_path / "tls" / "self-signed.pem"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "IP Address:FE80:0:0:0:0:0:0:1" in names


@needs_openssl
def test_a_certificate_that_the_settings_name(tmp_path: Path) -> None:
    path = made(tmp_path / "own")
    found = doorway(tmp_path, EDGESERVE_TLS_CERT=str(path))
    assert found.certificate is not None
    assert found.certificate.path == path
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        doorway(tmp_path, EDGESERVE_TLS_CERT=str(tmp_path / "gone"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"EDGESERVE_TLS_KEY": "/k"}, "needs tls_cert, the certificate of this key"),
        ({"EDGESERVE_TLS_CERT": "/c", "EDGESERVE_TLS": "self-signed"}, "and tls_cert: give one of them"),
        ({"EDGESERVE_TLS": "on"}, "expected one of off, self-signed"),
    ],
)
def test_settings_that_do_not_fit_together(given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(given)


@needs_openssl
def test_commands_trust_the_certificate_of_the_settings_and_no_other(tmp_path: Path) -> None:
    one, other = made(tmp_path / "one", "elsewhere.example"), made(tmp_path / "other")
    with serving(fake_pool(["llm"]), certificate=Certificate(one)) as running:
        url = running.url.rstrip("/")
        assert Server(url, trusted=str(one)).ask("GET", "/v1/health")["status"] == "ok"
        for wrong in (str(other), ""):
            with pytest.raises(EdgeserveError, match="nobody whom this machine trusts vouches for its certificate"):
                Server(url, trusted=wrong).ask("GET", "/v1/health")
        with pytest.raises(EdgeserveError, match="the certificate of the server cannot be read"):
            Server(url, trusted=str(tmp_path / "gone")).ask("GET", "/v1/health")


@contextlib.contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server as a process of its own. Variables would win over its settings."""
    command = [sys.executable, "-m", "edgeserve", "serve", "--config", str(folder / "models.toml"), *options]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("EDGESERVE_")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
    assert process.stdout
    try:
        found = re.search(r"serves on (\S+)", process.stdout.readline())
        assert found
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.slow
@needs_openssl
def test_the_command_serves_https_with_named_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDGESERVE_MODELS_DIR", raising=False)
    settings = tmp_path / "models.toml"
    settings.write_text(
        f'[server]\nport = 0\ntls = "self-signed"\nkeys_file = "{tmp_path}/k.json"\nmodels_dir = "{tmp_path}/models"\n'
    )
    assert run("key", "add", "phone", "--config", str(settings)) == 0
    token = capsys.readouterr().out.strip()
    with served(tmp_path) as url:
        assert url.startswith("https://127.0.0.1:")
        with httpx.Client(verify=trusting(tmp_path / "tls" / "self-signed.pem"), timeout=30) as client:
            assert client.get(f"{url}/v1/models").status_code == 401
            answer = client.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 200
        port = url.rpartition(":")[2]
        assert run("health", "--config", str(settings), "--port", port) == 0, "a command trusts the very certificate"
        there = ("health", "--config", str(settings), "--url")
        assert run(*there, url) == 0, "and so it does by the server's address on this machine"
        settings.write_text(f'[server]\nmodels_dir = "{tmp_path}/elsewhere/models"\n')
        assert run(*there, url) == 1
        assert "nobody whom this machine trusts vouches for its certificate (self" in capsys.readouterr().err
