"""OpenAI's moderations, which this server does not have."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from edgeserve.errors import NotSupported


async def refuse(request: Request) -> Response:
    """Raises NotSupported. An answer that flags nothing would be a lie that clients act on."""
    text = f"{request.url.path} is not supported: this server moderates nothing, and has no model that could"
    raise NotSupported(f"{text}; leave moderation out, or ask a chat model in words of your own")
