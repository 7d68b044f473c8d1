"""The certificate that the server shows. New connections get the files as they are now."""

from __future__ import annotations

import logging
import ssl
import stat
from pathlib import Path

from edgeserve.errors import ConfigError
from edgeserve.system.stamps import Stamp, stamp_with_rights

log = logging.getLogger("edgeserve.tls")

GROUP = "prime256v1"
"""The one group for the exchange of keys, which every client knows (RFC 8446, 9.1).

Of OpenSSL's own list a client chooses. One of ffdhe8192 costs 105 ms of the event loop for 1.3 KB, and no answer need
follow; this one costs 0.2 ms. Python 3.14 and older set one group or all.
"""

MOST_SESSIONS = 1000
"""Sessions that a context may keep. Each of a TLS 1.2 client without tickets is 1.1 KB, and OpenSSL keeps 20,480."""

OTHERS_READ = stat.S_IRGRP | stat.S_IROTH


class Certificate:
    """A certificate with its chain, and its key: PEM files. ``key`` None: the key is in the file of the certificate.

    Raises ConfigError for files that cannot be used.
    """

    def __init__(self, cert: Path, key: Path | None = None) -> None:
        self.path = cert
        self._key = key
        self._files = (cert, *((key,) if key else ()))
        self._stamps = self._stamps_now()
        self.context = make_context(cert, key)
        """The context of new connections."""

    def look(self) -> None:
        """Read the files again if they have changed, or if the context keeps many sessions.

        A mistake is logged, and the certificate stays as it was.

        Certificate and key may be replaced one after the other: they do not fit until both are there.
        """
        now = self._stamps_now()
        if now != self._stamps:
            self._stamps = now
            self._renew()
        elif self.context.session_stats()["number"] > MOST_SESSIONS:
            self._renew()  # Python cannot switch the sessions off; they go with the context

    def _renew(self) -> None:
        try:
            self.context = make_context(self.path, self._key)
        except ConfigError as error:
            log.warning("the certificate stays as it was: %s", error.message)
        else:
            log.info("the certificate %s was read again", self.path)

    def _stamps_now(self) -> tuple[Stamp, ...]:
        return tuple(map(stamp_with_rights, self._files))


def make_context(cert: Path, key: Path | None) -> ssl.SSLContext:
    """A context of TLS 1.2 and later. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION  # the former costs the server, not the client
    context.set_ecdh_curve(GROUP)
    context.set_alpn_protocols(["http/1.1"])
    named = f"tls_cert = {str(cert)!r}" + (f", tls_key = {str(key)!r}" if key else "")
    for path in filter(None, (cert, key)):
        _check(path)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).lower().replace("_", " ")
        raise ConfigError(f"{named}: expected a certificate and its key as PEM files: {reason}") from None
    except OSError as error:  # the file went after the look at it
        raise ConfigError(f"{named}: the certificate or its key cannot be read: {error.strerror}") from None
    return context


def _check(path: Path) -> None:
    """Raises ConfigError for a file that cannot be opened; ``load_cert_chain`` does not say which one."""
    try:
        with path.open("rb") as file:
            text = file.read(1 << 20)
            mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(f"{path}: the certificate or its key cannot be read: {error.strerror}") from None
    if mode & OTHERS_READ and b"PRIVATE KEY-----" in text:
        log.warning("%s holds a private key, and others may read it (mode %03o): chmod 600 %s", path, mode, path)


def _no_password() -> str:
    raise ConfigError("tls_key is encrypted, and a server cannot ask for its password: store it without one")
