"""Routes that make, copy and publish models in Ollama. This server takes models from its catalogue and from files."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from edgeserve.errors import NotFound, NotSupported

WORDS = {
    "copy": "copying a model is not supported by this server: give a model further names with aliases in models.toml",
    "create": "creating a model is not supported by this server: describe it in a table [models.NAME] of models.toml",
    "push": "pushing a model is not supported by this server: it publishes nothing",
    "blobs": "blobs are not supported by this server: it takes models from /api/pull and from files on its disk",
}


async def refuse(request: Request) -> Response:
    """Raises NotSupported, without a look at the body."""
    raise NotSupported(WORDS[request.scope["path"].split("/")[2]])


async def find_blob(request: Request) -> Response:
    """Raises NotFound: no blob is here."""
    raise NotFound(WORDS["blobs"])
