"""A certificate that the server signs itself, for a local network. The program openssl makes it.

Browsers warn of it once, and then give a page its microphone, as they do for no plain page of another machine.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from edgeserve.errors import ConfigError
from edgeserve.system.addresses import own_addresses

log = logging.getLogger("edgeserve.tls")

FILE = "self-signed.pem"
DAYS, RENEWED_DAYS = 365, 30
"""Days of a certificate, and those before its end from which the server makes another one. Apple takes at most 825."""
DAY = 86_400.0
SECONDS = 60.0
"""Longest time of openssl."""
LOOPBACK = ("127.0.0.1", "::1")

REQUEST = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = {name}
[extensions]
subjectAltName = {names}
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
"""
"""Settings of openssl. The certificate is its own authority, so that a telephone can be set to trust it."""


class SelfSigned:
    """The certificate in ``folder``, for these names and addresses of hosts.

    ``clock``: seconds since 1970.
    """

    def __init__(self, folder: Path, names: Iterable[str], clock: Callable[[], float] = time.time) -> None:
        self.path = folder / FILE
        self._names = tuple(dict.fromkeys(names))
        self._clock = clock

    def ensure(self) -> Path:
        """The certificate's file, made anew where it is missing, ends soon, or lacks a name. Raises ConfigError."""
        found = _decoded(self.path)
        if found is None or not set(self._names) <= _names_of(found):
            self._make()
        else:
            self.renew()
        return self.path

    def renew(self) -> None:
        """Make the certificate anew if it ends soon. Raises ConfigError."""
        found = _decoded(self.path)
        if found is None or ssl.cert_time_to_seconds(found["notAfter"]) - self._clock() < RENEWED_DAYS * DAY:
            self._make()

    def _make(self) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.path.parent) as place:  # readable by its owner alone
                made = Path(place) / FILE
                descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(b"".join(_signed(Path(place), self._names)))
                made.replace(self.path)
        except OSError as error:
            raise ConfigError(f"{self.path}: the certificate cannot be written: {error.strerror}") from None
        log.info("made the certificate %s for %s", self.path, ", ".join(self._names))


def own_names(further: Iterable[str] = ()) -> list[str]:
    """Names and addresses of this machine in a local network, and ``further`` ones; each once."""
    name = socket.gethostname().partition(".")[0].lower()
    usual = [f"{name}.local", name, "localhost"] if name.isascii() and name and name != "localhost" else ["localhost"]
    return list(dict.fromkeys([*usual, *further, *own_addresses(), *LOOPBACK]))


def _signed(place: Path, names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """A new key and its certificate. Raises ConfigError and OSError."""
    settings, key, cert = (place / name for name in ("openssl.cnf", "key.pem", "cert.pem"))
    written = ", ".join(f"{'IP' if _is_address(one) else 'DNS'}:{one}" for one in names)
    settings.write_text(REQUEST.format(name=names[0][:64], names=written), encoding="ascii")
    command = ["openssl", "req", "-x509", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
               "-nodes", "-sha256", "-days", str(DAYS), "-config", str(settings), "-keyout", str(key),
               "-out", str(cert)]  # fmt: skip
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        reason = "is not installed" if isinstance(error, FileNotFoundError) else f"took more than {SECONDS:g} s"
        raise ConfigError(
            f"a certificate cannot be made: the program openssl {reason}; install it, or name a certificate with "
            "--tls-cert"
        ) from None
    if ended.returncode:
        raise ConfigError(f"a certificate cannot be made: openssl says {ended.stderr.strip()[-400:]}")
    return key.read_bytes(), cert.read_bytes()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _decoded(path: Path) -> dict[str, Any] | None:
    """The certificate's fields, as ``ssl.SSLSocket.getpeercert`` has them; None where there is none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except (OSError, ssl.SSLError):  # not there, or damaged: another one takes its place
        return None
    found = context.get_ca_certs()
    return dict(found[0]) if found else None


def _names_of(decoded: dict[str, Any]) -> set[str]:
    """Names and addresses, as they are written usually."""
    each = decoded.get("subjectAltName", ())
    return {str(ipaddress.ip_address(name)) if kind == "IP Address" else name for kind, name in each}
