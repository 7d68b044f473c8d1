"""The certificate that the server shows, and the files that are none."""

from __future__ import annotations

import contextlib
import logging
import ssl
from pathlib import Path

import pytest
from support.cases import each
from support.server import trusting
from support.tls import made, needs_openssl

from edgeserve.errors import ConfigError
from edgeserve.tls import certificate
from edgeserve.tls.certificate import Certificate

pytestmark = needs_openssl


def parts(pem: Path) -> tuple[Path, Path]:
    """The certificate and its key in files of their own."""
    text = pem.read_text()
    at = text.index("-----BEGIN CERTIFICATE")
    cert, key = pem.with_name(f"{pem.stem}.crt"), pem.with_name(f"{pem.stem}.key")
    cert.write_text(text[at:])
    key.write_text(text[:at])
    key.chmod(0o600)
    return cert, key


def hello_of(group: int, share: bytes) -> bytes:
    """A ClientHello of TLS 1.3 whose only group is the given one (RFC 8446, 4.1.2)."""

    def sized(data: bytes, width: int = 2) -> bytes:
        return len(data).to_bytes(width, "big") + data

    named = group.to_bytes(2, "big")
    extensions = {
        10: sized(named),
        13: sized(b"\x04\x03\x08\x04"),  # signatures: ECDSA with P-256, RSA-PSS
        43: sized(b"\x03\x04", 1),
        51: sized(named + sized(share)),
    }
    told = b"".join(kind.to_bytes(2, "big") + sized(data) for kind, data in extensions.items())
    body = b"\x03\x03" + bytes(32) + sized(b"", 1) + sized(b"\x13\x01") + b"\x01\x00" + sized(told)
    return b"\x16\x03\x01" + sized(b"\x01" + sized(body, 3))


@each("group, size", [(0x0100, 256), (0x0102, 512), (0x0104, 1024), (0x001E, 56)])  # ffdhe of three sizes, x448
def test_no_client_chooses_a_group_that_costs_the_server_more(tmp_path: Path, group: int, size: int) -> None:
    """One handshake of ffdhe8192 takes 105 ms of the event loop, and its client need not even read the answer."""
    came, told = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = Certificate(made(tmp_path)).context.wrap_bio(came, told, server_side=True)
    came.write(hello_of(group, bytes([2] * size)))
    with pytest.raises(ssl.SSLError, match="NO_SUITABLE"):
        server.do_handshake()
    assert told.read(1) == b"\x15", "an alert"


@each("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_every_usual_client_has_the_group(tmp_path: Path, version: ssl.TLSVersion) -> None:
    pem = made(tmp_path)
    ends = [ssl.MemoryBIO(), ssl.MemoryBIO()]
    server = Certificate(pem).context.wrap_bio(*ends, server_side=True)
    context = trusting(pem)
    context.minimum_version = context.maximum_version = version
    client = context.wrap_bio(*reversed(ends), server_hostname="localhost")
    for one in (client, server) * 3:
        with contextlib.suppress(ssl.SSLWantReadError):
            one.do_handshake()
    assert client.version() == server.version() == version.name.replace("_", ".")


def test_sessions_of_old_clients_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "MOST_SESSIONS", 2)
    pem = made(tmp_path)
    shown, client = Certificate(pem), trusting(pem)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.options |= ssl.OP_NO_TICKET
    counts = []
    for _ in range(5):
        ends = [ssl.MemoryBIO(), ssl.MemoryBIO()]
        both = shown.context.wrap_bio(*ends, server_side=True), client.wrap_bio(*reversed(ends))
        for one in both[::-1] * 3:
            with contextlib.suppress(ssl.SSLWantReadError):
                one.do_handshake()
        for one in both * 2:  # OpenSSL forgets the session of a connection that ends in another way
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
                one.unwrap()
        shown.look()
        counts.append(shown.context.session_stats()["number"])
    assert counts == [1, 2, 0, 1, 2]


def test_one_file_or_two(tmp_path: Path) -> None:
    pem = made(tmp_path)
    assert Certificate(pem).context.minimum_version == ssl.TLSVersion.TLSv1_2
    Certificate(*parts(pem))


def test_a_file_that_changed_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pem, other = made(tmp_path / "a"), made(tmp_path / "b")
    one = Certificate(pem)
    before = one.context
    one.look()
    assert one.context is before
    other.replace(pem)
    with caplog.at_level(logging.INFO):
        one.look()
    assert one.context is not before
    assert "was read again" in caplog.text


def test_a_certificate_whose_key_comes_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (cert, key), (new_cert, new_key) = parts(made(tmp_path / "a")), parts(made(tmp_path / "b"))
    one = Certificate(cert, key)
    before = one.context
    new_cert.replace(cert)
    one.look()
    one.look()
    assert one.context is before
    assert caplog.text.count("the certificate stays as it was") == 1
    assert "key values mismatch" in caplog.text
    new_key.replace(key)
    one.look()
    assert one.context is not before


def test_files_that_are_none(tmp_path: Path) -> None:
    cert, key = parts(made(tmp_path))
    with pytest.raises(ConfigError, match=r"gone\.pem: the certificate or its key cannot be read: No such file"):
        Certificate(tmp_path / "gone.pem")
    with pytest.raises(ConfigError, match=r"gone\.key: the certificate or its key cannot be read"):
        Certificate(cert, tmp_path / "gone.key")
    with pytest.raises(ConfigError, match=r"tls_cert = .*expected a certificate and its key as PEM files"):
        Certificate(cert)
    cert.write_text("no certificate")
    with pytest.raises(ConfigError, match="expected a certificate and its key"):
        Certificate(cert, key)


def test_an_encrypted_key_asks_nobody_for_its_password(tmp_path: Path) -> None:
    import subprocess

    cert, key = parts(made(tmp_path))
    locked = tmp_path / "locked.key"
    command = ["openssl", "ec", "-in", str(key), "-aes256", "-passout", "pass:sesame", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigError, match="tls_key is encrypted"):
        Certificate(cert, locked)


def test_a_key_that_others_read_is_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = parts(made(tmp_path))
    Certificate(cert, key)
    assert "others may read" not in caplog.text, "everybody may read the certificate"
    key.chmod(0o640)
    Certificate(cert, key)
    assert f"{key} holds a private key, and others may read it (mode 640): chmod 600" in caplog.text


def test_a_file_that_goes_while_it_is_read_is_a_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pem, other = made(tmp_path / "a"), made(tmp_path / "b")
    one = Certificate(pem)
    before = one.context
    other.replace(pem)
    monkeypatch.setattr(certificate, "_check", Path.unlink)  # a renewal that removes it between two steps
    one.look()
    assert one.context is before
    assert "the certificate or its key cannot be read: No such file" in caplog.text
