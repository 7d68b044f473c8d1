"""Multipart forms: one file under its field and the rest as text, or a JSON body with files beside it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.requests import Request

from edgeserve.api.fields import Fields, read_json, read_object
from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest

MAX_FIELDS = 64
MULTIPART = "multipart/form-data"
CHARSETS = (b"utf-8", b"utf8", b"us-ascii")
"""Any other codec of Python's would do: punycode takes minutes for a megabyte, unicode_escape makes half characters."""
PAYLOAD = "payload"
"""The part that holds the JSON."""


@dataclass(frozen=True, slots=True)
class Form:
    """``fields`` holds the text fields; a name that ends in [] collects a list under the name without it."""

    file: bytes
    fields: Fields


@contextlib.asynccontextmanager
async def _parsed(request: Request, max_files: int = MAX_FIELDS, max_part_size: int = 1 << 20) -> AsyncIterator[Any]:
    if not is_form(request):
        raise InvalidRequest(f"the body must be {MULTIPART}")
    charset = parse_options_header(request.headers["content-type"])[1].get(b"charset", b"utf-8")
    if charset.lower() not in CHARSETS:
        raise InvalidRequest(f"a form's text must be UTF-8 (RFC 7578), not {charset.decode('latin-1')[:40]!r}")
    async with request.form(max_files=max_files, max_fields=MAX_FIELDS, max_part_size=max_part_size) as form:
        yield form


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith(MULTIPART)


async def read_body(request: Request) -> tuple[Fields, Mapping[str, bytes]]:
    """A JSON body; or a form with that JSON under ``payload``, and its files by name. Raises InvalidRequest."""
    if not is_form(request):
        return await read_json(request), {}
    limits: Limits = request.app.state.limits
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
    return read_object(parts.pop(PAYLOAD)), parts


async def read_upload(request: Request, name: str) -> Form:
    """The form with its file under ``name``. Raises InvalidRequest naming the field."""
    async with _parsed(request) as form:
        upload = _the_file(form, name)
        values: dict[str, Any] = {}
        lists: dict[str, list[Any]] = {}
        for key, value in form.multi_items():
            if key == name or isinstance(value, UploadFile):
                continue
            if key.endswith("[]"):
                lists.setdefault(key.removesuffix("[]"), []).append(value)
            else:
                values[key] = value
        return Form(await upload.read(), Fields(values | lists, written=True))


def _the_file(form: Any, name: str) -> UploadFile:
    """The only one of the form."""
    files = [(key, value) for key, value in form.multi_items() if isinstance(value, UploadFile)]
    if all(key != name for key, _ in files):
        raise InvalidRequest(f"{name} is required: a file in a multipart form", param=name)
    for key, _ in files:
        if key != name:
            raise InvalidRequest(f"{key!r} is a file that is not asked for; send one, as {name}", param=key)
    if len(files) > 1:
        raise InvalidRequest(f"{name} holds {len(files)} files; send one at a time", param=name)
    return files[0][1]
