"""The address that the server listens on, and who may reach it there."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket

from edgeserve.api.auth import is_loopback
from edgeserve.config import Config
from edgeserve.errors import ConfigError

log = logging.getLogger("edgeserve.server")


FREE = {"--port": ", or 0 for a free one"}
"""Words about port 0, by the flags that take it."""


def check_open(bound: str, *, locked: bool, insecure: bool) -> None:
    """Raises ConfigError when other machines could use the server without a key, unless ``insecure`` allows it.

    ``locked``: whether the server demands a key.
    """
    if locked or is_loopback(bound):
        return
    if not insecure:
        raise ConfigError(
            f"listening on {bound} without a key would let whoever reaches this machine use it: set EDGESERVE_API_KEY "
            f"(or api_key under [server] in models.toml), make a key with `edgeserve key add`, or say with --insecure "
            f"that it is wanted"
        )
    log.warning("listening on %s without a key: whoever reaches this machine can use it", bound)


def check(config: Config, *, locked: bool, insecure: bool) -> None:
    """Raises ConfigError for an address that cannot be bound now, and for one that needs a key."""
    with contextlib.closing(listen(config.server.host, config.server.port)) as listener:
        if not insecure:
            check_open(listener.getsockname()[0], locked=locked, insecure=False)


def listen(host: str, port: int, flag: str = "--port") -> socket.socket:
    """A bound socket; port 0 takes a free one. ``flag`` chooses the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that name TCP. Without it each small write waits 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        host.encode()  # bind would raise TypeError for a surrogate
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:  # UnicodeError: the host is no valid name
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else "this is no name of a host"
        is_host = isinstance(error, (UnicodeError, socket.gaierror)) or error.errno == errno.EADDRNOTAVAIL
        other = "an address of this machine with --host" if is_host else f"another with {flag}{FREE.get(flag, '')}"
        raise ConfigError(f"cannot listen on {host} port {port}: {reason}; choose {other}") from None
    return listener


def address(listener: socket.socket, scheme: str = "http") -> str:
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
