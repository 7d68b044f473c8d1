"""Pictures, sounds and files of one request, on their way into its messages."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.content import Pending
from edgeserve.api.data_url import decoded
from edgeserve.api.documents import reader
from edgeserve.api.documents.reader import Documents, is_pdf, plain_text
from edgeserve.api.limits import limits_of
from edgeserve.api.pictures.request import ATTACHMENT, Pictures
from edgeserve.api.presence import leashed, watching
from edgeserve.api.sound.recording import checked_audio
from edgeserve.media.leash import Leash
from edgeserve.messages import ImagePart, SegmentEvent, TextPart, TranscribeRequest
from edgeserve.residency.pool import Pool

PICTURE_MARKS = (b"\x89PNG", b"\xff\xd8", b"GIF8", b"BM", b"RIFF")
"""First bytes of pictures among files."""


class Attachments:
    """Reads the parts. ``attached`` holds the body's files by name."""

    def __init__(self, request: Request, attached: Mapping[str, bytes] | None = None) -> None:
        self._request = request
        self._limits = limits_of(request)
        self._pictures = Pictures(request, attached)

    async def read(self, one: Pending) -> TextPart | ImagePart:
        """The part of a message. Raises InvalidRequest and its kinds, which name the part; and NotConfigured."""
        if one.kind == "picture":
            return await self._pictures.read(one.address, one.param)
        if one.address.startswith(ATTACHMENT):
            data = self._pictures.part(one.address.removeprefix(ATTACHMENT), one.param)
        else:
            data = await leashed(self._request.receive, reader.CHECKS, lambda leash: decoded(one.address, one.param))
        return TextPart(await self._heard(data, one.param)) if one.kind == "sound" else await self._file(data, one)

    def check_used(self) -> None:
        """Raises InvalidRequest for a file of the body that no part names."""
        self._pictures.check_used()

    async def _heard(self, data: bytes, param: str) -> str:
        """The words of a recording, by the transcription model."""
        audio = await checked_audio(self._request, data, param)
        pool: Pool = self._request.app.state.pool
        model = models.choose(pool, "", ("asr",))
        words: list[str] = []
        async with await pool.lease(model) as lease, watching(self._request.receive, lease.release):
            async for event in lease.run(TranscribeRequest(audio)):
                if isinstance(event, SegmentEvent):
                    words.append(event.text)
        return "".join(words).strip()

    async def _file(self, data: bytes, one: Pending) -> TextPart | ImagePart:
        if data.startswith(PICTURE_MARKS):
            return await self._pictures.read_file(data, one.param)
        documents: Documents = self._request.app.state.documents

        def text(leash: Leash) -> str:
            if is_pdf(data):
                return documents.text(data, self._limits, one.param, leash)
            return plain_text(data, self._limits, one.param)

        read = await leashed(self._request.receive, reader.CHECKS, text)
        return TextPart(f"{one.name}:\n{read}\n" if one.name else read)
