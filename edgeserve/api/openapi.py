"""The OpenAPI document of the routes, made of the records that the routes read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import edgeserve
from edgeserve.api.entry import Entry, Link
from edgeserve.api.failures import SHAPES
from edgeserve.api.limits import Limits
from edgeserve.api.schema import File, Form, Record

ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code", "param"],
            "properties": {
                "message": {"type": "string", "description": "what happened and what to do"},
                "type": {"type": "string", "description": "class of the error"},
                "code": {"type": "string", "description": "the server's own code"},
                "param": {"type": ["string", "null"], "description": "the field that is wrong"},
            },
        }
    },
}

ERRORS = {"": ERROR, **{shape.name: shape.schema for shape in SHAPES.values()}}
"""Shapes of errors by the name of their dialect; the usual one has none."""


def _failures(name: str) -> dict[str, Any]:
    """The answers of errors in the shape of a dialect."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}Error"}}}
    busy = {
        "description": "The server is full, short of memory or not ready; the error says which. "
        "With Retry-After, the same request may succeed after that time.",
        "headers": {"Retry-After": {"schema": {"type": "integer", "minimum": 1}, "description": "seconds"}},
        "content": content,
    }
    return {f"{name}Busy": busy, f"{name}Failure": {"description": "an error", "content": content}}


def document(entries: Iterable[Entry], limits: Limits) -> dict[str, Any]:
    """OpenAPI 3.1 of the routes, with the bounds that these limits set."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {f"{name}Error": shape for name, shape in ERRORS.items()}
    for one in entries:
        paths.setdefault(_plain(one.path), {})[one.method.lower()] = _operation(one, limits)
        if one.body is not None:
            schemas[one.body.__name__] = one.body.describe(limits)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "edgeserve",
            "version": edgeserve.__version__,
            "summary": "Chat, vision, transcription and speech with local models",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {name: one for dialect in ERRORS for name, one in _failures(dialect).items()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _plain(path: str) -> str:
    """The path without Starlette's converters."""
    return re.sub(r":\w+}", "}", path)


def _operation(one: Entry, limits: Limits) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "done", "content": {media: {} for media in one.media_types}}
    if one.links:
        success["links"] = {link.name: _link(link) for link in one.links}
    dialect = next((shape.name for beginning, shape in SHAPES.items() if one.path.startswith(beginning)), "")
    described: dict[str, Any] = {
        "operationId": _id(one.method, one.path),
        "summary": one.summary,
        "responses": {
            "200": success,
            "503": {"$ref": f"#/components/responses/{dialect}Busy"},
            "default": {"$ref": f"#/components/responses/{dialect}Failure"},
        },
    }
    if parameters := _parameters(one, limits):
        described["parameters"] = parameters
    if one.body is not None:
        described["requestBody"] = {"required": not one.optional, "content": _content(one.body, one.files)}
    return described


def _id(method: str, path: str) -> str:
    return f"{method.lower()}{re.sub(r'[^a-z0-9]+', '_', _plain(path))}".rstrip("_")


def _link(link: Link) -> dict[str, Any]:
    value = f"$response.body#{link.value}"
    return {"operationId": _id(link.method, link.path), "parameters": {f"{link.where}.{link.parameter}": value}}


def _parameters(one: Entry, limits: Limits) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", _plain(one.path))
    path = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    if one.query is None:
        return path
    fields = {name: field.describe(limits) for name, field in one.query.FIELDS.items()}
    needed = {name for name, field in one.query.FIELDS.items() if field.required}
    query = [
        {"name": name, "in": "query", "schema": described} | ({"required": True} if name in needed else {})
        for name, described in fields.items()
    ]
    headers = [{"name": header, "in": "header", "schema": fields[name]} for name, header in one.headers]
    return [*path, *query, *headers]


def _content(body: type[Record], files: bool) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{body.__name__}"}
    content: dict[str, Any] = {body.MEDIA: {"schema": reference}}
    encoding = {
        name: {"contentType": ", ".join(one.types)}
        for name, one in body.FIELDS.items()
        if isinstance(one, File) and one.types
    }
    if encoding:
        content[body.MEDIA]["encoding"] = encoding
    if files:
        file = {"type": "string", "format": "binary", "description": "attachment:NAME"}
        form = {"type": "object", "properties": {"payload": reference}, "required": ["payload"]}
        content[Form.MEDIA] = {"schema": form | {"additionalProperties": file}}
    return content
