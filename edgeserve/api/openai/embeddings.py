"""OpenAI's embeddings."""

from __future__ import annotations

import base64
import json
import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from starlette.requests import Request

from edgeserve.api import adapters, cache_salt, models
from edgeserve.api.json_body import read_json
from edgeserve.api.line import Call
from edgeserve.api.openai.prompts import Prompts
from edgeserve.api.question import Question
from edgeserve.api.values import Enum, Ignored, Integer
from edgeserve.errors import EdgeserveError, InvalidRequest
from edgeserve.jobs import VECTORS
from edgeserve.messages import EmbeddingEvent, EmbedRequest, Event

MAX_INPUTS = 2048
"""OpenAI's own limit."""
MAX_DIMENSIONS = 1 << 16


class Embedding(Question):
    """The body of POST /v1/embeddings."""

    input = Prompts("a text, several, its tokens, or several lists of tokens", MAX_INPUTS)
    encoding_format = Enum("how vectors are written", ("float", "base64"), default="float")
    dimensions = Integer("keep the first so many numbers of a vector, at length 1 again", 1, MAX_DIMENSIONS)
    user = Ignored()
    input_type = Ignored("accepted; queries and documents are read alike")
    truncate = Ignored("accepted; a text that is too long is refused")
    options = Ignored()


async def embeddings(request: Request) -> Call:
    asked = await read_json(request, Embedding)
    pool = request.app.state.pool
    model = models.choose(pool, asked.model, VECTORS)
    renderer = EmbeddingList(models.name(pool, model, asked.model), asked.encoding_format, asked.dimensions)
    return Call(
        model,
        [EmbedRequest(asked.input, adapters.named(pool, model, asked.model), salt=cache_salt.salt(request, ""))],
        renderer,
        asked.keep_alive,
        threaded=True,
    )


class Vectors(ABC):
    """A renderer of vectors. With ``dimensions``, vectors are cut and brought to length 1 again, as OpenAI does.

    It writes each vector as it comes: writing 2,048 of them in one call would stop all other requests for a second. The
    text takes several times the bytes of the vectors, and counts as the bytes of the answer.
    """

    stream = False
    media_type = "application/json"

    START: ClassVar[bytes]
    """The text before the first vector."""
    BETWEEN: ClassVar[bytes] = b", "

    def __init__(self, model: str, dimensions: int | None = None) -> None:
        self._model = model
        self._dimensions = dimensions
        self._count = 0
        self._tokens = 0

    def feed(self, index: int, event: Event) -> bytes:
        if not isinstance(event, EmbeddingEvent):
            return b""
        before, item = self.BETWEEN if self._count else self.START, self._item(event.vector)
        self._count += 1
        self._tokens += event.tokens
        return before + item

    def end(self) -> bytes:
        return (b"" if self._count else self.START) + b"]" + self.BETWEEN + self._rest()[1:]

    def fail(self, error: EdgeserveError) -> bytes:
        return b""

    @abstractmethod
    def _item(self, vector: bytes) -> bytes:
        """The text of the next vector."""

    @abstractmethod
    def _rest(self) -> bytes:
        """The object whose members follow the vectors."""


class EmbeddingList(Vectors):
    """The renderer of OpenAI's embeddings."""

    START = b'{"object": "list", "data": ['

    def __init__(self, model: str, encoding_format: str = "float", dimensions: int | None = None) -> None:
        super().__init__(model, dimensions)
        self._format = encoding_format

    def _item(self, vector: bytes) -> bytes:
        item = {"object": "embedding", "index": self._count, "embedding": self._written(vector)}
        return json.dumps(item).encode()

    def _rest(self) -> bytes:
        usage = {"prompt_tokens": self._tokens, "total_tokens": self._tokens}
        return json.dumps({"model": self._model, "usage": usage}).encode()

    def _written(self, vector: bytes) -> str | list[float]:
        found = numbers(vector, self._dimensions)
        if self._format == "base64":
            return base64.b64encode(struct.pack(f"<{len(found)}f", *found)).decode()
        return found


def numbers(vector: bytes, dimensions: int | None) -> list[float]:
    """A vector's numbers with all digits of a float32; with ``dimensions`` the first ones, at length 1 again.

    Raises InvalidRequest for more dimensions than the vector has.
    """
    found: Sequence[float] = struct.unpack(f"<{len(vector) // 4}f", vector)
    if dimensions is not None:
        if dimensions > len(found):
            text = f"dimensions is {dimensions}; vectors of this model have {len(found)}: ask for at most that"
            raise InvalidRequest(text, param="dimensions")
        found = found[:dimensions]
        length = math.hypot(*found) or 1.0
        found = [one / length for one in found]
    return [float(f"{one:.9g}") for one in found]
