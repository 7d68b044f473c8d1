"""POST /api/embed and its older form /api/embeddings: texts as vectors of length 1."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import adapters, cache_salt
from edgeserve.api.line import Call, answering
from edgeserve.api.ollama import names, ndjson
from edgeserve.api.ollama.options import Options
from edgeserve.api.ollama.request import Asked, read
from edgeserve.api.ollama.times import Times
from edgeserve.api.openai.embeddings import MAX_DIMENSIONS, MAX_INPUTS, Vectors, numbers
from edgeserve.api.schema import Object
from edgeserve.api.values import Flag, Integer, Text, Texts
from edgeserve.errors import ContextOverflow
from edgeserve.jobs import VECTORS
from edgeserve.messages import EmbedRequest
from edgeserve.residency.pool import Pool

TOO_LONG = "the input length exceeds the context length"
"""Ollama's words about an input that may not be cut."""


class OllamaEmbed(Asked):
    """The body of POST /api/embed."""

    input = Texts("a text, or several", MAX_INPUTS)
    truncate = Flag("cut an input that is too long; false: refuse it", default=True)
    dimensions = Integer("keep the first so many numbers of a vector, at length 1 again", 1, MAX_DIMENSIONS)
    options = Object("accepted; the server's settings hold", Options)


class OllamaEmbeddings(Asked):
    """The body of POST /api/embeddings."""

    prompt = Text("the text")
    options = Object("accepted; the server's settings hold", Options)


async def embed(request: Request) -> Response:
    times = Times()
    asked = await read(request, OllamaEmbed)
    texts = asked.input
    if not any(texts):
        return JSONResponse({"model": asked.model.strip(), "embeddings": []})

    async def parse(request: Request) -> Call:
        pool: Pool = request.app.state.pool
        model = names.choose(pool, asked.model, VECTORS)
        named = names.answered(pool, asked.model, model)
        vectors = VectorList(named, times, asked.dimensions)
        return _call(request, model, asked, texts, vectors, times, cut=asked.truncate)

    try:
        return await answering(parse, *VECTORS)(request)
    except ContextOverflow as error:
        raise ContextOverflow(f"{TOO_LONG}: {error.message}", param="input") from None


async def embeddings(request: Request) -> Response:
    times = Times()
    asked = await read(request, OllamaEmbeddings)
    if not asked.prompt:
        return JSONResponse({"embedding": []})

    async def parse(request: Request) -> Call:
        pool: Pool = request.app.state.pool
        model = names.choose(pool, asked.model, VECTORS)
        return _call(request, model, asked, (asked.prompt,), OneVector("", times), times, cut=True)

    return await answering(parse, *VECTORS)(request)


def _call(
    request: Request, model: str, asked: Asked, texts: tuple[str, ...], renderer: VectorList, times: Times, *, cut: bool
) -> Call:
    named = adapters.named(request.app.state.pool, model, asked.model)
    wanted = EmbedRequest(texts, named, cut=cut, salt=cache_salt.salt(request, ""))
    return Call(model, [wanted], renderer, asked.keep_alive, threaded=True, begun=times.begin)


class VectorList(Vectors):
    """The renderer of /api/embed."""

    START, BETWEEN = b'{"embeddings":[', b","

    def __init__(self, model: str, times: Times, dimensions: int | None = None) -> None:
        super().__init__(model, dimensions)
        self._times = times

    def _item(self, vector: bytes) -> bytes:
        self._times.event()
        written: list[Any] = list(numbers(vector, self._dimensions))
        return ndjson.ENCODER.encode(written).encode()

    def _rest(self) -> bytes:
        told = dict(self._times.durations())
        times = {name: told[name] for name in ("total_duration", "load_duration") if name in told}
        return ndjson.ENCODER.encode({"model": self._model, **times, "prompt_eval_count": self._tokens}).encode()


class OneVector(VectorList):
    """The renderer of /api/embeddings."""

    START = b'{"embedding":'

    def end(self) -> bytes:
        return b"}"
