"""Native vision: the model describes a picture, or reads its text."""

from __future__ import annotations

from starlette.requests import Request

from edgeserve.api import adapters, cache_salt, models
from edgeserve.api.line import Call
from edgeserve.api.native.text import TextBody
from edgeserve.api.pictures.reader import Reader
from edgeserve.api.question import Prompt
from edgeserve.api.schema import File, Form
from edgeserve.api.uploads import read_upload
from edgeserve.api.values import Text
from edgeserve.jobs import PICTURES
from edgeserve.messages import ChatRequest, Message, TextPart

DESCRIBE = "Describe this image."
READ = "Write down all text in this image, exactly as it stands, and nothing else."


class Image(Form, Prompt):
    """The form of POST /v1/vision/analyze and ocr."""

    image = File("PNG, JPEG, GIF, BMP or WebP", ("image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp"))
    prompt = Text("what to do with the image")


async def analyze(request: Request) -> Call:
    return await _ask(request, DESCRIBE)


async def ocr(request: Request) -> Call:
    return await _ask(request, READ)


async def _ask(request: Request, default: str) -> Call:
    asked = await read_upload(request, Image)
    picture = await Reader.of(request).read(asked.image)
    message = Message("user", (picture, TextPart(asked.prompt or default)))
    pool = request.app.state.pool
    model = models.choose(pool, asked.model, PICTURES)
    salt = cache_salt.salt(request, asked.prompt_cache_key)
    wanted = ChatRequest((message,), salt=salt, adapters=adapters.named(pool, model, asked.model))
    return Call(model, [wanted], TextBody(), asked.keep_alive)
