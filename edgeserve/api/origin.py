"""Rules for a server without a key: the names it answers to and the pages it obeys.

A browser lets any page send requests to any address. Any domain may point at this machine (DNS rebinding). The browser
gives both truthfully in ``Host``, ``Origin`` and ``Sec-Fetch-Site``. Other clients send only ``Host``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from starlette.types import Scope

from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError

NAME = r"[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?"
HOST = re.compile(rf"(?:(?P<name>{NAME})\.?|\[(?P<address>[0-9a-f:.]+)\])(?::(?P<port>[0-9]{{1,5}}))?")
ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>.*)", re.DOTALL)
PORTS = {"http": 80, "https": 443}
SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing here. No foreign page may read their answers."""
OF_OWN_PAGES = ("same-origin", "none")
"""``Sec-Fetch-Site`` of this server's own pages, and of a typed address."""
LONGEST = 255
"""Characters of a name (RFC 1035)."""


@dataclass(frozen=True, slots=True)
class Site:
    """A host from a header: small letters, no final dot, addresses in their canonical form."""

    name: str
    port: int | None = None

    @property
    def is_address(self) -> bool:
        """Whether the name is an IP address, so that no DNS server decides where it leads."""
        return _address(self.name) is not None


@dataclass(frozen=True, slots=True)
class Page:
    """The origin of a page. Its site has the scheme's port where the origin has none."""

    scheme: str
    site: Site

    def is_of(self, here: Site) -> bool:
        """Whether the page comes from this server, which the request names ``here``."""
        return self.scheme in PORTS and self.site == Site(here.name, here.port or PORTS[self.scheme])


def read_host(text: str) -> Site | None:
    """The host with its optional port; None for any other text, such as one with a user's name."""
    found = HOST.fullmatch(text.lower()) if len(text) <= LONGEST + 8 else None
    if found is None or int(found["port"] or 1) not in range(1, 1 << 16):
        return None
    name, port = found["name"] or found["address"], found["port"] and int(found["port"])
    address = _address(name)
    if found["address"] is not None and not isinstance(address, ipaddress.IPv6Address):
        return None
    return Site(str(address or name), port or None)


def read_origin(text: str) -> Page | None:
    """The page; None for ``null``, and for a text that continues behind the host."""
    found = ORIGIN.fullmatch(text)
    if found is None or (site := read_host(found["host"])) is None:
        return None
    return Page(found["scheme"], Site(site.name, site.port or PORTS.get(found["scheme"])))


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


class Rules:
    """Names of this machine beside the usual ones (``hosts``), and origins with a program's rights (``pages``).

    Raises ConfigError for a wrong one; its ``param`` is the key in models.toml.
    """

    def __init__(self, hosts: Iterable[str] = (), pages: Iterable[str] = ()) -> None:
        self._hosts = {"localhost", *(_host(one) for one in hosts)}
        self.pages = frozenset(_page(one) for one in pages)

    def knows(self, host: Site) -> bool:
        """Whether only this machine or its owner can have chosen the name."""
        return host.is_address or host.name in self._hosts or host.name.endswith(".local")

    def lists(self, origin: str) -> bool:
        return read_origin(origin) in self.pages

    def refusal(self, scope: Scope) -> str | None:
        """The reason to refuse a request or a WebSocket; None where it may pass."""
        hosts, origins = values(scope, b"host"), values(scope, b"origin")
        here = read_host(hosts[0]) if len(hosts) == 1 else None
        if here is None or not self.knows(here):
            return (
                f"this server does not go by the name {', '.join(hosts)[:200]!r}: use its address, add the name to "
                "allowed_hosts under [server] in models.toml, or set api_key"
            )
        if scope["type"] == "http" and scope["method"] in SAFE:
            return None
        if len(origins) == 1 and self.lists(origins[0]):
            return None
        sites = values(scope, b"sec-fetch-site")
        if all(_is_own(one, here) for one in origins) and all(one in OF_OWN_PAGES for one in sites):
            return None
        page = f"a page of {origins[0][:200]!r}" if origins else "a page of another site"
        return (
            f"{page} may not use this server without a key: add its origin to cors_origins under [server] in "
            "models.toml, and restart the server"
        )


def _is_own(origin: str, here: Site) -> bool:
    page = read_origin(origin)
    return page is not None and page.is_of(here)


def _host(text: str) -> str:
    site = read_host(text)
    if site is None or site.port is not None:
        expected = 'the name of a host without a port, such as "box.lan"'
        raise ConfigError(f"[server] allowed_hosts = {text!r}: expected {expected}", param="allowed_hosts")
    return site.name


def _page(text: str) -> Page:
    page = read_origin(text.lower())
    if page is None:
        expected = 'scheme and host of a page without a path, such as "https://app.example.org"'
        raise ConfigError(f"[server] cors_origins = {text!r}: expected {expected}", param="cors_origins")
    return page


def values(scope: Scope, name: bytes) -> list[str]:
    """All values of a header. Two readers may take different ones of several values."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]
