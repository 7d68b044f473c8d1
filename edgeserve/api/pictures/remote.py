"""Pictures at addresses, fetched from the public network where models.toml allows it.

A stranger may make a fetching server ask its own network (SSRF). So this module resolves a name, checks every address
that it finds, and connects to the very address that it checked. It does the same for each redirect.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING

from edgeserve.api.limits import Limits
from edgeserve.api.pictures.connection import Connection, Refused, connected
from edgeserve.api.pictures.special_addresses import Address, is_public
from edgeserve.errors import InvalidRequest
from edgeserve.figures.account import outgoing
from edgeserve.residency.aside import Aside

if TYPE_CHECKING:
    import ssl

    import h11
    import httpx

PORTS = {"http": 80, "https": 443}
REDIRECTS = 3
MOVED = (301, 302, 303, 307, 308)
"""Statuses of answers that name another address (RFC 9110, 15.4)."""
HEADERS = {"User-Agent": "edgeserve", "Accept": "image/*", "Accept-Encoding": "identity", "Connection": "close"}
LONGEST = 8 << 10
"""Characters of an address."""
LOOK_UPS = Aside("look-ups of names", threads=4)
"""Threads for look-ups. The owner of a name may delay a look-up for half a minute and more."""
CERTIFICATES = Aside("certificates", threads=1)
Resolve = Callable[[str, int], Awaitable[list[str]]]


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host from the system's resolver. Raises OSError and UnicodeError."""
    found = await LOOK_UPS.run(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


@functools.cache
def certificates() -> ssl.SSLContext:
    """The certificates of the system, read once: reading them takes tens of milliseconds."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


class Remote:
    """Fetches the pictures of one request, all within ``limits.remote_seconds``. ``hold`` counts their bytes.

    ``limits.remote_image_hosts`` lists names or addresses, with a port unless the port is the scheme's own. Where the
    list is not empty, the server asks no other host. A listed address may be private.
    """

    def __init__(
        self,
        limits: Limits,
        hold: Callable[[int], None],
        *,
        resolve: Resolve = resolve,
        public: Callable[[Address], bool] = is_public,
    ) -> None:
        self._limits, self._hold, self._resolve, self._public = limits, hold, resolve, public
        self._hosts = {host.lower() for host in limits.remote_image_hosts}
        self._deadline: float | None = None

    async def fetch(self, url: str, param: str) -> bytes:
        """The file at an address. Raises InvalidRequest, which names ``param``, and the errors of ``hold``."""
        if not self._limits.remote_images:
            text = "this server fetches no addresses: send a data: URL, or set remote_images = true in models.toml"
            raise InvalidRequest(f"{param}: {text}", param=param)
        if len(url) > LONGEST:
            raise InvalidRequest(f"{param}: an address has at most {LONGEST} characters", param=param)
        seconds = self._limits.remote_seconds
        trusted = await CERTIFICATES.run(certificates)
        import h11  # after httpx, which ``certificates`` imports on a thread: that takes some time
        import httpx

        self._deadline = self._deadline or asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._follow(trusted, self._checked(url))
        except TimeoutError:
            raise InvalidRequest(f"{param}: not fetched within {seconds:g} seconds", param=param) from None
        except (Refused, OSError, h11.RemoteProtocolError, httpx.HTTPError) as error:
            raise InvalidRequest(f"{param}: {error or type(error).__name__}", param=param) from error

    async def _follow(self, trusted: ssl.SSLContext, url: httpx.URL) -> bytes:
        for _ in range(1 + REDIRECTS):
            async with self._asked(trusted, url) as connection:
                head = await connection.head()
                if (place := _moved(head)) is None:
                    return await self._read(connection, head.status_code)
            following = self._checked(place, url)
            if (url.scheme, following.scheme) == ("https", "http"):
                raise Refused("redirects from https to an unencrypted address")
            url = following
        raise Refused(f"redirects more than {REDIRECTS} times")

    def _checked(self, text: str, base: httpx.URL | None = None) -> httpx.URL:
        import httpx

        try:
            url = base.join(text) if base else httpx.URL(text)
        except httpx.InvalidURL as error:
            raise Refused(f"no address: {error}") from None
        if url.scheme not in PORTS or not url.host:
            raise Refused(f"{url.scheme or 'no'} address; only http and https are fetched")
        if url.userinfo:
            raise Refused("an address with a name or password; none are sent")
        if self._hosts and url.netloc.decode() not in self._hosts:
            raise Refused(f"{url.netloc.decode()} is not among remote_image_hosts of models.toml")
        if not self._hosts and url.port is not None:
            raise Refused(f"port {url.port}; only 80 and 443 are asked, or those in remote_image_hosts of models.toml")
        return url

    @contextlib.asynccontextmanager
    async def _asked(self, trusted: ssl.SSLContext, url: httpx.URL) -> AsyncGenerator[Connection, None]:
        """A connection to the first address that takes it, on which the picture was asked for."""
        headers = {"Host": url.netloc.decode(), **HEADERS, **outgoing()}
        fields = [(name.encode(), value.encode()) for name, value in headers.items()]
        tls, name = trusted if url.scheme == "https" else None, url.raw_host.decode()
        failure: OSError | None = None
        async with contextlib.AsyncExitStack() as stack:
            for address in await self._addresses(url):
                link = connected(address, url.port or PORTS[url.scheme], url.raw_path, fields, tls=tls, name=name)
                try:
                    connection = await stack.enter_async_context(link)
                except OSError as error:
                    failure = error
                    continue
                yield connection
                return
            raise failure or Refused(f"{url.host} has no address")

    async def _addresses(self, url: httpx.URL) -> list[str]:
        try:
            found = await self._resolve(url.host, url.port or PORTS[url.scheme])
        except (OSError, UnicodeError):
            raise Refused(f"{url.host} cannot be found") from None
        if found == [url.host] and self._hosts:  # written out, and listed
            return found
        if not all(self._public(ipaddress.ip_address(one)) for one in found):
            text = "is not in the public network; list its address in remote_image_hosts of models.toml to allow it"
            raise Refused(f"{url.host} {text}")
        return found

    async def _read(self, connection: Connection, status: int) -> bytes:
        if status != 200:
            raise Refused(f"answered {status}")
        data = bytearray()
        async with contextlib.aclosing(connection.body()) as pieces:
            async for piece in pieces:
                self._hold(len(piece))
                data += piece
        return bytes(data)


def _moved(head: h11.Response) -> str | None:
    """The address that an answer redirects to; None for another answer."""
    place = dict(head.headers).get(b"location")
    return place.decode("latin-1") if place is not None and head.status_code in MOVED else None
