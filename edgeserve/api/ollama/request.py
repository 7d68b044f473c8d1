"""The body of a request in Ollama's dialect: read without regard to its media type."""

from __future__ import annotations

from typing import TypeVar

from starlette.requests import Request

from edgeserve.api.fields import NAME_CHARS
from edgeserve.api.json_body import JSON_HINT, check_media, read_bytes, read_noted
from edgeserve.api.limits import limits_of
from edgeserve.api.question import Question
from edgeserve.api.schema import Record
from edgeserve.api.values import Text
from edgeserve.errors import InvalidRequest

R = TypeVar("R", bound=Record)


class Asked(Question):
    """A request to a model."""


class Named(Record):
    """A request about one model, by ``model`` or by the older ``name``."""

    ANY_OF = ("model", "name")
    model = Text("a name of the model, with or without its tag; required without name", limit=NAME_CHARS)
    name = Text("the older name of model", limit=NAME_CHARS)

    @property
    def wanted(self) -> str:
        return (self.model.strip() or self.name.strip()) if self.model else self.name.strip()


async def read(request: Request, record: type[R]) -> R:
    """The body as this record. Raises as ``json_body.read_json`` does."""
    check_media(request)
    limits = limits_of(request)
    data = await read_bytes(request, limits.max_json_bytes, JSON_HINT)
    if not data.strip():
        raise InvalidRequest("missing request body")
    return await read_noted(request, data, record)
