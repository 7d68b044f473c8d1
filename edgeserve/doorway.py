"""The way in, made from the settings: the certificate of the port, and the attendants of the server."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from edgeserve.announcement import WEB, Announcement
from edgeserve.attendants import Announcing, Attendant, IdleExit, Renewal, Systemd
from edgeserve.config import Config
from edgeserve.dataclass import dataclass
from edgeserve.models.store import Store
from edgeserve.own_files import certificate_paths, tls_folder
from edgeserve.system.notify import Notifier

if TYPE_CHECKING:
    from edgeserve.tls.certificate import Certificate
    from edgeserve.tls.self_signed import SelfSigned


@dataclass(frozen=True, slots=True)
class Doorway:
    """``certificate`` None: the port speaks no TLS."""

    certificate: Certificate | None
    attendants: tuple[Attendant, ...]

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"


def make_doorway(config: Config, store: Store, listener: socket.socket, environ: Mapping[str, str]) -> Doorway:
    """The doorway of a bound socket. Raises ConfigError for a certificate that cannot be used or made."""
    own, certificate = None, None
    if config.server.encrypted:
        from edgeserve.tls.certificate import Certificate

        own = _self_signed(config, store, listener.getsockname()[0])
        certificate = Certificate(*((own.ensure(),) if own else certificate_paths(config)))
    return Doorway(certificate, tuple(_attendants(config, listener, environ, certificate, own)))


def _self_signed(config: Config, store: Store, bound: str) -> SelfSigned | None:
    """The certificate that the server makes; None where it makes none. ``bound``: the address it listens on."""
    if config.server.tls != "self-signed":
        return None
    from edgeserve.tls.self_signed import SelfSigned, own_names

    bound = bound.partition("%")[0]  # an address of one link names it behind this sign
    here = [bound] if bound not in ("0.0.0.0", "::") else []  # noqa: S104 - compared, not bound
    return SelfSigned(tls_folder(store), own_names([*config.server.allowed_hosts, *here]))


def _attendants(
    config: Config,
    listener: socket.socket,
    environ: Mapping[str, str],
    certificate: Certificate | None,
    own: SelfSigned | None,
) -> Iterator[Attendant]:
    if notifier := Notifier(environ):
        yield Systemd(notifier)
    if config.server.idle_exit:
        yield IdleExit(config.server.idle_exit)
    if certificate is not None:
        yield Renewal(certificate, own)
    host, port = listener.getsockname()[:2]
    yield Announcing(Announcement(host, port, WEB["https" if certificate else "http"]))
