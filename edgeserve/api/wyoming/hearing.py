"""Speech to text: one utterance, decoded while its sound comes in."""

from __future__ import annotations

from edgeserve.api import models
from edgeserve.api.sound import languages
from edgeserve.api.wyoming.events import Event
from edgeserve.api.wyoming.fields import SoundForm, Transcribe
from edgeserve.api.wyoming.services import Send, Services
from edgeserve.api.wyoming.sound import Incoming
from edgeserve.clients import Client
from edgeserve.errors import InvalidRequest
from edgeserve.live.ear import Options
from edgeserve.live.pace import Pace
from edgeserve.live.session import Step

PATIENCE_SECONDS = 600.0
"""Time for which sound waits for an engine that is behind. Its connection reads no more meanwhile."""


def options(services: Services, model: str, asked: Transcribe) -> Options:
    """The options of an utterance. ``model``: a name; empty: the default.

    Raises NotConfigured, ModelNotFound and InvalidRequest.
    """
    pool = services.pool
    chosen = models.choose(pool, model, ("asr",))
    pool.rung(chosen)  # raises where nothing is configured
    pool.prefetches.expect_model(chosen)
    return Options(languages.choose(pool.languages(chosen), asked.language), asked.prompt or None, None, chosen)


class Hearing:
    """One utterance. Words leave as they become certain; the whole transcript ends them."""

    def __init__(self, services: Services, send: Send, client: Client, wanted: Options, form: SoundForm) -> None:
        """Raises InvalidRequest for a form that is not understood, and Busy where too many people speak."""
        self._incoming, self._pace = Incoming(form), Pace(services.sessions.loop_time)
        self._sessions = services.sessions
        self._send, self._client = send, client
        self._language = wanted.language
        self._session = services.sessions.start(wanted, client)
        self._begun = False

    async def push(self, form: SoundForm, data: bytes) -> None:
        """Take sound in. Raises InvalidRequest where its form has changed, and the errors of ``Session.push``."""
        if (form.rate, form.width, form.channels) != self._incoming.form:
            raise InvalidRequest("the form of the sound has changed within an utterance; send audio-stop before")
        with self._sessions.using(self._session.name, self._client) as session:
            pieces = self._incoming.feed(data)
            while True:
                async with self._pace.piece():
                    if (piece := next(pieces, None)) is None:
                        break
                await session.push(piece, PATIENCE_SECONDS)
            await self._tell(session.step())

    async def end(self) -> None:
        """Hear the rest and send the transcript. Raises the errors of the engine."""
        with self._sessions.using(self._session.name, self._client) as session:
            await session.push(self._incoming.end(), PATIENCE_SECONDS)
            last = await session.flush()
        self.close()
        await self._tell(last)
        await self._begin()
        await self._send(Event("transcript", {"text": last.transcript.strip(), **self._spoken}))
        await self._send(Event("transcript-stop"))

    def close(self) -> None:
        """Forget the sound. Idempotent."""
        self._sessions.end(self._session)

    @property
    def _spoken(self) -> dict[str, str]:
        return {"language": self._language} if self._language else {}

    async def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            await self._send(Event("transcript-start", self._spoken))

    async def _tell(self, step: Step) -> None:
        if step.text:
            await self._begin()
            await self._send(Event("transcript-chunk", {"text": step.text}))
