"""``edgeserve qr``: the address of the server, and its key, as a picture that telephones read."""

from __future__ import annotations

import io
import socket
import sys
from urllib.parse import quote

from edgeserve.api.auth import is_loopback
from edgeserve.commands import Call
from edgeserve.config import Config
from edgeserve.errors import NotConfigured
from edgeserve.system.addresses import own_addresses

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def qr(call: Call) -> int:
    """Print the code of the server at the address of the settings, or at ``--url``."""
    config = call.config()
    url = call.args.url or here(config)
    print(code(url, "" if call.args.no_key else config.server.api_key))
    return 0


def here(config: Config, port: int | None = None) -> str:
    """The address at which other machines reach the server of these settings. ``port``: the bound one."""
    server = config.server
    host = server.host
    if host in EVERYWHERE:
        found = own_addresses()
        host = found[0] if found else socket.gethostname()
    scheme = "https" if server.encrypted else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or server.port}"


def code(url: str, key: str) -> str:
    """The picture and the address as text. Raises NotConfigured where segno is not installed.

    The key stands behind "#": no browser sends that part anywhere, and no log has it.
    """
    try:
        import segno
    except ImportError:
        raise NotConfigured(f"{url}: a QR code needs the package segno: pip install segno") from None
    told = f"{url}/#key={quote(key, safe='')}" if key else f"{url}/"
    drawn = io.StringIO()
    segno.make(told, error="m", micro=False).terminal(out=drawn, compact=True)
    lines = [drawn.getvalue().rstrip("\n"), url]
    if key:
        lines.append("The code holds the key: show it to those alone who may use the server.")
    if is_loopback(url.partition("://")[2].rpartition(":")[0].strip("[]")):
        lines.append("No telephone reaches this address: start the server with --host 0.0.0.0 and a key.")
    return "\n".join(lines)


def show(config: Config, address: str) -> None:
    """Print the code of a server that has just begun to listen; a missing package is a line, and stops nothing."""
    try:
        print(code(here(config, int(address.rpartition(":")[2])), config.server.api_key), flush=True)
    except NotConfigured as error:
        print(f"[WARNING] {error}", file=sys.stderr, flush=True)
