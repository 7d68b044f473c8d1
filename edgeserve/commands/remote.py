"""The running server, as commands talk to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, quote, urlsplit

from edgeserve.clients import LOOPBACK, client_of
from edgeserve.commands import Call
from edgeserve.config import Config
from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError, EdgeserveError
from edgeserve.logs import escaped
from edgeserve.settings import ENV_PREFIX

if TYPE_CHECKING:
    import ssl

URL = f"{ENV_PREFIX}URL"
SECONDS = 60.0
"""Longest silence of the server; a stream repeats its state every 10 s."""
LOAD_SECONDS = 600.0
"""The same for a load, which may read gigabytes, and for a reload, which may wait for the end of answers."""
DONE = b"data: [DONE]"
"""The end of a stream in OpenAI's dialect."""
LONGEST_LINE = 1 << 20
"""Bytes of one line of a stream."""
ORDERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters but those between lines and columns."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server at ``url``, which has scheme, host and perhaps a path. ``key`` is sent with every request.

    ``trusted``: the file of the only certificate that the server may show, whatever its name; empty: one of an
    authority that this machine trusts. ``local``: the file of a further certificate to trust, by its names; or empty.
    """

    url: str
    key: str = field(default="", repr=False)
    trusted: str = ""
    local: str = ""

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float = SECONDS) -> Any:
        """The answer's JSON. Raises EdgeserveError, with the server's own words where it answers with an error."""
        with self.open(method, path, body, seconds=seconds) as answer:
            return read_answer(answer.read(), self.url)

    def events(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float = SECONDS
    ) -> Generator[Any, None, None]:
        """Events of a stream, each when it comes. Closing the iterator closes the stream."""
        with self.open(method, path, body, seconds=seconds) as answer:
            while line := answer.readline(LONGEST_LINE):
                if line.startswith(b"data: ") and line.strip() != DONE:
                    yield read_answer(line.removeprefix(b"data: "), self.url)

    @contextlib.contextmanager
    def open(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        *,
        media: str = "application/json",
        seconds: float = SECONDS,
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer as it comes. ``media``: the type of a body of bytes. Raises as ``ask``."""
        parts = urlsplit(self.url)
        with contextlib.closing(self._connection(parts, seconds)) as connection:
            headers = self.headers()
            data = None
            if body is not None:
                headers["Content-Type"] = media
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
            try:
                connection.request(method, parts.path.rstrip("/") + path, data, headers)
                answer = connection.getresponse()
                if answer.status >= 400:
                    raise _refusal(answer, self.url)
                yield answer
            except TimeoutError:
                raise EdgeserveError(f"{self.url} was silent for {seconds:g} s; is the server well?") from None
            except (OSError, http.client.HTTPException) as error:
                raise EdgeserveError(_unreachable(self.url, error)) from error

    def headers(self) -> dict[str, str]:
        """The key. Libraries write a header in Latin-1; the server compares the bytes of UTF-8."""
        return {"Authorization": f"Bearer {self.key.encode().decode('latin-1')}"} if self.key else {}

    def _connection(self, parts: SplitResult, seconds: float) -> http.client.HTTPConnection:
        """Raises EdgeserveError for a certificate to trust that cannot be read."""
        host = parts.hostname or ""
        if parts.scheme != "https":
            return http.client.HTTPConnection(host, parts.port, timeout=seconds)
        return http.client.HTTPSConnection(host, parts.port, timeout=seconds, context=self.context())

    def context(self) -> ssl.SSLContext:
        """The certificates that the server may show. Raises EdgeserveError for one that cannot be read."""
        import ssl  # for the few who ask such a server

        if not self.trusted:
            return self._local() if self.local else ssl.create_default_context()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the certificate itself is known
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(self.trusted)
        except OSError as error:
            raise EdgeserveError(f"{self.trusted}: the certificate of the server cannot be read: {error}") from None
        return context

    def _local(self) -> ssl.SSLContext:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_default_certs()
        with contextlib.suppress(OSError):  # not there, or of another account: authorities alone vouch for the server
            context.load_verify_locations(self.local)
        return context


def named_server(call: Call) -> Server | None:
    """The server of ``--url``, else of EDGESERVE_URL; None where neither is given. Raises ConfigError.

    Its key is EDGESERVE_API_KEY: the key of the settings goes to the address of the settings alone. On this machine it
    may show the certificate that a server here made.
    """
    url = call.args.url or call.environ.get(URL)
    if not url:
        return None
    parts = urlsplit(_checked(url))
    host = parts.hostname or ""
    here = parts.scheme == "https" and (host == "localhost" or client_of(host) == LOOPBACK)
    local = _self_signed(call, call.config()) if here else ""
    return Server(url, call.environ.get(f"{ENV_PREFIX}API_KEY", ""), local=local)


def server(call: Call) -> Server:
    """The server that a command means: the named one, else the one at the address of the settings.

    Raises ConfigError.
    """
    given = getattr(call.args, "port", None)
    if given is None or call.args.url:  # a flag wins over a variable
        named = named_server(call)
        if named is not None:
            return named
    config = call.config()
    settings = config.server
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.host, settings.host)  # noqa: S104 - not bound
    scheme = "https" if settings.encrypted else "http"
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"
    return Server(url, settings.api_key, trusted(call, config))


def trusted(call: Call, config: Config) -> str:
    """The file of the certificate that the settings name, or that the server makes; empty where it speaks no TLS."""
    if not config.server.encrypted:
        return ""
    if not config.server.tls_cert:
        return _self_signed(call, config)
    from edgeserve.own_files import certificate_paths

    return str(certificate_paths(config)[0])


def _self_signed(call: Call, config: Config) -> str:
    from edgeserve.own_files import tls_folder
    from edgeserve.tls.self_signed import FILE

    return str(tls_folder(call.store(config)) / FILE)


def at(path: str, name: str) -> str:
    """A path that ends with a name of the user."""
    return f"{path}/{quote(name, safe='/')}"


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"--url or {URL} = {url[:200]!r}: expected an address such as http://127.0.0.1:8080")
    return url


def _shown(value: Any) -> Any:
    """The value with escaped control characters, which would give orders to the terminal that prints them."""
    if isinstance(value, str):
        return ORDERS.sub(lambda found: f"\\u{ord(found[0]):04x}", value)
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return {_shown(name): _shown(one) for name, one in value.items()} if isinstance(value, dict) else value


def _unreachable(url: str, error: Exception) -> str:
    reason = escaped(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    if getattr(error, "verify_code", 0):  # ssl.SSLCertVerificationError, whose module only some servers need
        words = escaped(getattr(error, "verify_message", "") or reason)
        return (
            f"{url}: nobody whom this machine trusts vouches for its certificate ({words}): copy the part CERTIFICATE "
            "of the server's file, and name the copy in SSL_CERT_FILE"
        )
    return (
        f"no edgeserve answers at {url} ({reason}): start one with `edgeserve serve`, or name its address with --url "
        f"or {URL}"
    )


def _refusal(answer: http.client.HTTPResponse, url: str) -> EdgeserveError:
    found = read_answer(answer.read(LONGEST_LINE), url)
    error = found.get("error") if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return EdgeserveError(f"{url}: no key or a wrong one; set {ENV_PREFIX}API_KEY to the key of the server")
    return EdgeserveError(str(message) if message else f"{url} answered {answer.status} {escaped(answer.reason)}")


def read_answer(data: str | bytes | bytearray, url: str) -> Any:
    """The JSON of an answer, whose texts a terminal may show. Raises EdgeserveError."""
    try:
        return _shown(json.loads(data))
    except (ValueError, RecursionError):
        raise EdgeserveError(f"{url} answered with no JSON; is it an edgeserve?") from None
