"""Answers of HTTP whose framing is bounded.

The library reads interim answers, the heads of chunks and trailers for as long as they come. A pull reports bytes of
its file, and ends at a report: a source that sent such lines alone kept its thread busy for ever.
"""

from __future__ import annotations

import http.client
import io
import urllib.request
from typing import Any

FREE, SHARE = 64 << 10, 16
"""Most bytes of lines beside a file: so many, and one more for so many bytes of the file."""


class Framed(io.BufferedReader):
    """The bytes of an answer. ``readline`` reads what frames the file: it raises HTTPException beyond the bound."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self._lines = self._file = 0

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self._lines += len(line)
        if self._lines > FREE + self._file // SHARE:
            raise http.client.HTTPException(f"{self._lines} bytes of lines came beside {self._file} bytes of the file")
        return line

    def read(self, size: int | None = -1, /) -> bytes:
        return self._counted(super().read(size))

    def read1(self, size: int = -1, /) -> bytes:
        return self._counted(super().read1(size))

    def _counted(self, data: bytes) -> bytes:
        self._file += len(data)
        return data


class _Answer(http.client.HTTPResponse):
    def begin(self) -> None:
        self.fp = Framed(self.fp.detach())
        super().begin()


class _Connection(http.client.HTTPConnection):
    response_class = _Answer


class _Encrypted(http.client.HTTPSConnection):
    response_class = _Answer


class HTTPHandler(urllib.request.HTTPHandler):
    """Opens addresses of http."""

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Connection, req)


class HTTPSHandler(urllib.request.HTTPSHandler):
    """Opens addresses of https, with the system's certificates."""

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Encrypted, req)
