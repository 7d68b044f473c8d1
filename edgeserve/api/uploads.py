"""Multipart forms: one file beside fields of text, or a JSON body beside files."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, TypeVar

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from edgeserve.api import notes
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import JSON_HINT, read_json, read_noted
from edgeserve.api.limits import limits_of
from edgeserve.api.schema import Form, Record
from edgeserve.api.values import Texts
from edgeserve.errors import InvalidRequest, TooLarge
from edgeserve.units import MB

MAX_FIELDS = 64
MAX_FILES = 8
PIECE_BYTES = 16 << 10
MULTIPART = "multipart/form-data"
CHARSETS = (b"utf-8", b"utf8", b"us-ascii")
"""Encodings of a form's text. Others of Python's codecs take minutes for a megabyte, or make half characters."""
PAYLOAD = "payload"
"""The part that holds the JSON."""


F = TypeVar("F", bound=Form)
R = TypeVar("R", bound=Record)


class _Parser(MultiPartParser):
    """Keeps files in memory, where the limit of bodies counts them. A box may have no place to write to."""

    spool_max_size = sys.maxsize

    def __init__(self, request: Request, **sizes: Any) -> None:
        super().__init__(request.headers, self._whole(request), **sizes)
        self._ended = False

    def on_end(self) -> None:
        self._ended = True

    async def _whole(self, request: Request) -> AsyncGenerator[bytes, None]:
        async with contextlib.aclosing(_pieces(request)) as pieces:
            async for piece in pieces:
                yield piece
        if not self._ended:  # raised here, the parser closes the files that it has begun
            raise MultiPartException("it ends before its last boundary")


@contextlib.asynccontextmanager
async def _parsed(request: Request, max_files: int = MAX_FILES, max_part_size: int = 1 << 20) -> AsyncIterator[Any]:
    if not is_form(request):
        raise InvalidRequest(f"the body must be {MULTIPART}")
    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8")
    if charset.lower() not in CHARSETS:
        raise InvalidRequest(f"a form's text must be UTF-8 (RFC 7578), not {charset.decode('latin-1')[:40]!r}")
    sizes: Any = {"max_files": max_files, "max_fields": MAX_FIELDS, "max_part_size": max_part_size}
    parser = _Parser(request, **sizes)
    try:
        async with contextlib.aclosing(parser.stream):
            form = await parser.parse()
    except MultiPartException as error:
        raise InvalidRequest(f"the body cannot be read: {error.message}") from error
    try:
        yield form
    finally:
        await form.close()


async def _pieces(request: Request) -> AsyncGenerator[bytes, None]:
    """The body in pieces. Parsing one takes a millisecond or two, then other requests have their turn."""
    async with contextlib.aclosing(request.stream()) as stream:
        async for part in stream:
            for start in range(0, len(part), PIECE_BYTES):
                yield part[start : start + PIECE_BYTES]
                await asyncio.sleep(0)


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith(MULTIPART)


async def read_body(request: Request, record: type[R]) -> tuple[R, Mapping[str, bytes]]:
    """A JSON body; or a form with that JSON under ``payload``, and its files by name. Raises InvalidRequest."""
    if not is_form(request):
        return await read_json(request, record), {}
    limits = limits_of(request)
    parts: dict[str, Any] = {}
    async with _parsed(request, 1 + limits.max_images, limits.max_body_bytes) as form:
        for name, value in form.multi_items():
            if name in parts:
                raise InvalidRequest(f"the part {name!r} is there twice", param=name)
            if name != PAYLOAD and not isinstance(value, UploadFile):
                raise InvalidRequest(f"the part {name!r} is no file; other fields belong into {PAYLOAD}", param=name)
            parts[name] = await value.read() if isinstance(value, UploadFile) else value.encode()
    if PAYLOAD not in parts:
        raise InvalidRequest(f"{PAYLOAD} is required: the part that holds the request as JSON", param=PAYLOAD)
    payload = parts.pop(PAYLOAD)
    if len(payload) > limits.max_json_bytes:
        size, most = len(payload) / MB, limits.max_json_bytes / MB
        raise TooLarge(f"{PAYLOAD} has {size:.1f} MB; the limit is {most:.0f} MB: {JSON_HINT}", param=PAYLOAD)
    return await read_noted(request, payload, record), parts


async def read_upload(request: Request, record: type[F]) -> F:
    """The form. A field of texts collects its values into a list, and so does a name that ends in [].

    Raises InvalidRequest.
    """
    async with _parsed(request, max_part_size=record.PART_BYTES) as form:
        name = record.file_name()
        upload = _the_file(form, name)
        values: dict[str, Any] = {}
        lists: dict[str, list[Any]] = {}
        for key, value in form.multi_items():
            if isinstance(value, UploadFile):
                continue
            if key.endswith("[]") or isinstance(record.FIELDS.get(key), Texts):
                lists.setdefault(key.removesuffix("[]"), []).append(value)
            else:
                values[key] = value
        values |= lists | {name: await upload.read()}
    fields = Fields(values, written=True)
    try:
        return record(fields, limits_of(request))
    finally:
        notes.ignored(request, fields.ignored)


def _the_file(form: Any, name: str) -> UploadFile:
    """The form's only file. Raises InvalidRequest for none, a second, or one under another name."""
    files = [(key, value) for key, value in form.multi_items() if isinstance(value, UploadFile)]
    if all(key != name for key, _ in files):
        raise InvalidRequest(f"{name} is required: a file in a multipart form", param=name)
    for key, _ in files:
        if key != name:
            raise InvalidRequest(f"{key!r} is a file that is not asked for; send one, as {name}", param=key)
    if len(files) > 1:
        raise InvalidRequest(f"{name} holds {len(files)} files; send one at a time", param=name)
    return files[0][1]
