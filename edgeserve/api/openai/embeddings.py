"""OpenAI's embeddings."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Sequence

from starlette.requests import Request

from edgeserve.api import keep_alive, models
from edgeserve.api.fields import NAME_CHARS, Fields, read_json
from edgeserve.api.line import Call
from edgeserve.api.openai.prompts import read_prompts
from edgeserve.errors import EdgeserveError, InvalidRequest
from edgeserve.jobs import INFO, Job
from edgeserve.messages import EmbeddingEvent, EmbedRequest, Event

MAX_INPUTS = 2048
"""OpenAI's own limit."""
MAX_DIMENSIONS = 1 << 16
FORMATS = ("float", "base64")
JOBS: tuple[Job, ...] = ("embedding", *INFO["embedding"].stand_ins)
"""That can, the best first."""
FIELDS = {"model", "input", "encoding_format", "dimensions", "user", keep_alive.FIELD}


async def embeddings(request: Request) -> Call:
    fields = await read_json(request)
    fields.only(FIELDS)
    pool = request.app.state.pool
    wanted = EmbedRequest(read_prompts(fields, "input", MAX_INPUTS))
    job = models.choose(pool, fields.text("model", limit=NAME_CHARS), JOBS)
    return Call(job, [wanted], EmbeddingList(models.name(pool, job), fields), keep_alive.read(fields), threaded=True)


class EmbeddingList:
    """``dimensions``: the first so many of a vector, made one of length 1 again, as OpenAI does.

    Each vector is written as it comes: 2,048 of them at once let nobody else run for a second, on whatever thread.
    """

    stream = False
    media_type = "application/json"

    def __init__(self, model: str, fields: Fields) -> None:
        self._model = model
        self._format = fields.text("encoding_format", FORMATS[0], limit=NAME_CHARS)
        if self._format not in FORMATS:
            raise fields.error("encoding_format", f"must be one of {', '.join(FORMATS)}, not {self._format!r}")
        self._dimensions = fields.integer("dimensions", 1, MAX_DIMENSIONS)
        self._data: list[bytes] = []
        self._tokens = 0

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, EmbeddingEvent):
            vector = self._written(event.vector)
            item = {"object": "embedding", "index": len(self._data), "embedding": vector}
            self._data.append(json.dumps(item).encode())
            self._tokens += event.tokens
        return b""

    def end(self) -> bytes:
        usage = {"prompt_tokens": self._tokens, "total_tokens": self._tokens}
        rest = json.dumps({"model": self._model, "usage": usage}).encode()
        return b'{"object": "list", "data": [%b], %b' % (b", ".join(self._data), rest[1:])

    def fail(self, error: EdgeserveError) -> bytes:
        return b""

    def _written(self, vector: bytes) -> str | list[float]:
        numbers: Sequence[float] = struct.unpack(f"<{len(vector) // 4}f", vector)
        if self._dimensions is not None:
            if self._dimensions > len(numbers):
                text = (
                    f"dimensions is {self._dimensions}; vectors of this model have {len(numbers)}: ask for at most that"
                )
                raise InvalidRequest(text, param="dimensions")
            numbers = numbers[: self._dimensions]
            length = math.hypot(*numbers) or 1.0
            numbers = [one / length for one in numbers]
        if self._format == "base64":
            return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
        return [float(f"{one:.9g}") for one in numbers]  # all digits that a float32 has
