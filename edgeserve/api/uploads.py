"""Multipart forms: one file under its field, the rest as text."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

from edgeserve.api.fields import Fields
from edgeserve.errors import InvalidRequest

MAX_FIELDS = 64


@dataclass(frozen=True, slots=True)
class Form:
    """``fields`` holds the text fields; a name that ends in [] collects a list under the name without it."""

    file: bytes
    fields: Fields


@contextlib.asynccontextmanager
async def _parsed(request: Request) -> AsyncIterator[Any]:
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InvalidRequest("the body must be multipart/form-data")
    async with request.form(max_files=1, max_fields=MAX_FIELDS) as form:
        yield form


async def read_upload(request: Request, name: str) -> Form:
    """The form with its file under ``name``. Raises InvalidRequest naming the field."""
    async with _parsed(request) as form:
        upload = form.get(name)
        if not isinstance(upload, UploadFile):
            raise InvalidRequest(f"{name} is required: a file in a multipart form", param=name)
        values: dict[str, Any] = {}
        lists: dict[str, list[Any]] = {}
        for key, value in form.multi_items():
            if key == name or isinstance(value, UploadFile):
                continue
            if key.endswith("[]"):
                lists.setdefault(key.removesuffix("[]"), []).append(value)
            else:
                values[key] = value
        return Form(await upload.read(), Fields(values | lists))


def number(fields: Fields, name: str, low: float, high: float, default: float) -> float:
    """A text field that holds a number."""
    text = fields.text(name)
    if text is None:
        return default
    try:
        return Fields({name: float(text)}).number(name, low, high) or 0.0
    except ValueError:
        raise fields.error(name, f"must be a number, not {text!r}") from None


def flag(fields: Fields, name: str) -> bool:
    text = fields.text(name, "false")
    if text not in ("true", "false", "1", "0"):
        raise fields.error(name, f"must be true or false, not {text!r}")
    return text in ("true", "1")
