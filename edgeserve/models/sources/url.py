"""One file at a URL, resumable: ``NAME.part`` keeps the bytes of an earlier pull.

The download resumes only when the server says that the file is the same (``If-Range`` with its ETag or date, RFC 9110
13.1.5). Otherwise it begins anew.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shutil
import ssl
import string
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from edgeserve.errors import DiskFull, SourceUnavailable, StoreError
from edgeserve.models.sources import beginning
from edgeserve.models.sources.framing import HTTPHandler, HTTPSHandler
from edgeserve.models.sources.source import CHUNK, KEPT_FREE, Report, UrlSource, file_name

TIMEOUT_SECONDS = 30.0


def fetch(source: UrlSource, into: Path, report: Report, size: int) -> dict[str, Path]:
    """Fetch the file; returns it by role. Raises SourceUnavailable, StoreError, DiskFull."""
    path = into / file_name(unquote(urlsplit(source.url).path).lstrip("/"))
    part, mark = path.with_name(path.name + ".part"), path.with_name(path.name + ".part.json")
    try:
        _download(source, part, mark, report)
    except urllib.error.HTTPError as error:
        error.close()  # a redirect is closed already
        raise SourceUnavailable(f"{source} answered {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise SourceUnavailable(f"{source} broke off ({error}); pull again to go on where it stopped") from error
    except ValueError as error:  # an invalid character in the URL, or in a redirect
        raise SourceUnavailable(f"{source} cannot be asked: {error}") from error
    part.rename(path)
    mark.unlink(missing_ok=True)
    return {source.role: path}


def _download(source: UrlSource, part: Path, mark: Path, report: Report) -> None:
    # The last byte is requested again: the range after a complete part is empty, an error (416).
    have = max(part.stat().st_size - 1, 0) if part.exists() else 0
    identity = _identity(mark) if have else None
    headers = {"User-Agent": "edgeserve", "Accept-Encoding": "identity"}
    if identity:
        headers |= {"Range": f"bytes={have}-", "If-Range": identity}
    with _opener().open(_request(source.url, headers), timeout=TIMEOUT_SECONDS) as answer:
        resumed = answer.status == 206 and "Range" in headers
        resumed = resumed and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if answer.status == 206 and not resumed:
            raise SourceUnavailable(f"{source} answered with another part of the file than the one asked for")
        done = have if resumed else 0
        length = int(answer.length or 0)  # the library reads an invalid Content-Length as 0
        total = done + length if length else 0
        if (free := shutil.disk_usage(part.parent).free) < length + KEPT_FREE:
            text = f"{source} needs {length >> 20} MB more, and leaves {KEPT_FREE >> 20} MB to others"
            raise DiskFull(f"{text}; {free >> 20} MB are free in {part.parent}")
        chunk = answer.read(beginning.LENGTH)
        if resumed:
            os.truncate(part, have)
        elif (chunk or not length) and (wrong := beginning.objection(part.stem, chunk)):
            kind = answer.headers.get("Content-Type") or "of no declared type"
            raise SourceUnavailable(f"{source} {wrong} (sent as {kind})")
        else:  # deleted before the mark is written: old bytes must never count as a new file's
            part.unlink(missing_ok=True)
        same = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
        mark.write_text(json.dumps(same), encoding="utf-8")
        with part.open("ab") as out:
            while chunk:
                out.write(chunk)
                done += len(chunk)
                report(done, total)
                chunk = answer.read1(CHUNK)  # what is there: a slow source must not delay the report
    if total and done != total:
        raise SourceUnavailable(
            f"{source} broke off after {done} of {total} bytes; pull again to go on where it stopped"
        )


def _request(address: str, headers: dict[str, str]) -> urllib.request.Request:
    """A GET of the address. Its name and password go into a header: the library takes them for a part of the host."""
    parts = urlsplit(quote(address, safe=string.punctuation))
    credentials, _, host = parts.netloc.rpartition("@")
    url = parts._replace(netloc=host).geturl()
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the opener takes http and https only
    if credentials:
        name, _, word = credentials.partition(":")
        basic = base64.b64encode(f"{unquote(name)}:{unquote(word)}".encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {basic}")
    return request


def _identity(mark: Path) -> str | None:
    """The ETag or date of the part's file; None when the server sent none, or the note is damaged."""
    try:
        identity = json.loads(mark.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return identity if isinstance(identity, str) and identity.isascii() and identity.isprintable() else None


def _opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    handlers: list[Any] = [urllib.request.ProxyHandler(), HTTPHandler(), HTTPSHandler()]
    handlers += [_Redirects(), urllib.request.HTTPErrorProcessor(), urllib.request.HTTPDefaultErrorHandler()]
    handlers += [urllib.request.UnknownHandler()]
    for handler in handlers:
        opener.add_handler(handler)
    return opener


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_redirections = 5

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise StoreError("the address redirects from https to an unencrypted one; that is refused")
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        fp.close()  # the library reads its body into memory, which may never end
        return request
