"""The work of a session as tasks: a draft, words one after the other, and one answer."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from edgeserve.api.realtime.engines import Engines
from edgeserve.api.realtime.keeping import Keeping
from edgeserve.api.realtime.outbox import Outbox
from edgeserve.api.realtime.refusal import words
from edgeserve.api.realtime.response import Response
from edgeserve.api.realtime.session import Session
from edgeserve.api.realtime.work import Answer, Detect, Draft, Overhear, Settle, Stop, Undraft, Warm, Work
from edgeserve.errors import Busy, EdgeserveError
from edgeserve.live.pace import Pace
from edgeserve.messages import FinishEvent
from edgeserve.talk.forms import Form, Incoming
from edgeserve.talk.overhearing import Overhearing
from edgeserve.talk.recorded import SECOND

log = logging.getLogger("edgeserve.realtime")

MAX_SETTLING = 8
"""Sounds of one session that wait for their words. The client waits, too."""
MAX_SETTLING_BYTES = 8 << 20
"""Bytes of these sounds: two minutes."""

MAX_WAITING_SECONDS = 1.0
"""Seconds of sound that wait for a detector that is asked. A client may send faster than it speaks."""


ASK_AGAIN, MOST_QUESTIONS = 0.25, 8
"""Seconds between two questions to a detector without a verdict, and their number: a cold model opens in two."""


class Tasks:
    """``keeping``: of the session. ``follow``: send the events that the session has now."""

    def __init__(
        self,
        session: Session,
        engines: Engines,
        keeping: Keeping,
        pace: Pace,
        follow: Callable[[], None],
        outbox: Outbox,
    ) -> None:
        self._session, self._engines, self._keeping = session, engines, keeping
        self._pace, self._follow, self._outbox = pace, follow, outbox
        self._draft: asyncio.Task[str] | None = None
        self._ahead: asyncio.Task[None] | None = None
        """Reads the prompt of the coming answer."""
        self._detecting: asyncio.Task[None] | None = None
        self._overheard = ""
        """Id of the item whose turn is overheard."""
        self._settling: dict[asyncio.Task[None], int] = {}
        """Tasks that find words, in the order of their items, with the bytes of their sounds as engines hear them."""
        self._answers: list[asyncio.Task[None]] = []
        """The answer under way, behind answers that were cancelled and have not let go of their engines."""
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def watch(self) -> None:
        """Wait until the work fails by no error of the engines, and raise that."""
        await self._failed

    async def end(self) -> None:
        """Cancel the work, and wait until it has let go of its engines."""
        self._stop_overhearing()
        found = (self._draft, self._ahead, self._detecting, *self._answers, *self._settling)
        tasks = [one for one in found if one is not None]
        for one in tasks:
            one.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def room(self) -> None:
        """Wait while too many sounds wait for their words, or too much sound for the detector."""
        if self._detecting is not None and self._session.buffer.waiting_seconds > MAX_WAITING_SECONDS:
            await asyncio.wait([self._detecting])
        while len(self._settling) > MAX_SETTLING or sum(self._settling.values()) > MAX_SETTLING_BYTES:
            await asyncio.wait(self._settling, return_when=asyncio.FIRST_COMPLETED)

    def begin(self, work: Work) -> None:
        match work:
            case Warm():
                self._engines.warm(self._session.config)
                self._read_ahead(work.words)
            case Detect():
                if self._detecting is None or self._detecting.done():
                    self._detecting = self._start(self._detected())
            case Draft():
                self._drop_draft()
                self._draft = self._start(self._drafted(work.sound), len(work.sound))
            case Overhear():
                self._overhear(work)
            case Undraft():
                self._drop_draft()
                self._read_ahead()
            case Settle():
                self._settle(work)
            case Answer():
                task = self._start(self._answered(work.response, tuple(self._answers)), self._keeping.coming)
                self._answers.append(task)
                task.add_done_callback(self._answers.remove)
            case Stop():
                if self._answers:
                    self._answers[-1].cancel()

    def _settle(self, work: Settle) -> None:
        """Find the words of an item. The sound of one that a client wrote is refused as any that comes."""
        try:
            if work.form is not None:
                self._keeping.keep(work.size)
        except Busy as error:
            self._session.not_transcribed(work.item, error)
            return
        self._stop_overhearing()
        draft, self._draft = self._draft, None
        if draft is not None and not work.drafted:
            draft.cancel()
        before = next(reversed(self._settling), None)
        task = self._start(self._settled(work, draft if work.drafted else None, before), work.size)
        self._settling[task] = work.size
        task.add_done_callback(self._forget)

    def _forget(self, settled: asyncio.Task[None]) -> None:
        del self._settling[settled]
        self._keeping.count()

    def _start(self, work: Coroutine[Any, Any, Any], size: int = 0) -> asyncio.Task[Any]:
        """``size``: bytes of what the work takes, which count until it has ended, however it does."""
        task = asyncio.create_task(work)
        self._keeping.work[task] = size
        task.add_done_callback(self._keeping.work.pop)
        task.add_done_callback(self._watch)
        return task

    def _watch(self, task: asyncio.Task[Any]) -> None:
        """Let an unforeseen failure end the connection."""
        if task.cancelled() or (error := task.exception()) is None or isinstance(error, EdgeserveError):
            return
        if not self._failed.done():
            self._failed.set_exception(error)

    def _drop_draft(self) -> None:
        if self._draft is not None:
            self._draft.cancel()
            self._draft = None

    def _read_ahead(self, words: str = "") -> None:
        self._drop_ahead()
        if self._session.speaking:
            items = list(self._session.conversation.items)
            self._ahead = self._start(self._engines.read_ahead(self._session.config, items, words))

    def _drop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()

    def _overhear(self, work: Overhear) -> None:
        if self._overheard != work.item_id or self._keeping.overhearing is None:
            self._stop_overhearing()
            session = self._engines.overhear(self._session.config)
            self._overheard = work.item_id
            self._keeping.overhearing = Overhearing(session, functools.partial(self._tell_words, work.item_id))
        self._keeping.overhearing.add(work.sound)

    def _tell_words(self, item_id: str, text: str) -> None:
        self._session.overheard(item_id, text)
        self._follow()

    def _stop_overhearing(self) -> None:
        if self._keeping.overhearing is not None:
            self._keeping.overhearing.close()
            self._keeping.overhearing = None

    async def _detected(self) -> None:
        """Ask the detector as long as sound waits for it. Where it gives no verdict in time, loudness decides.

        A client may send all its sound at once, and none after it.
        """
        asked = 0
        while (question := self._session.buffer.question()) is not None:
            found = await self._engines.detect(self._session.config, question)
            asked = asked % MOST_QUESTIONS + 1 if found is None else 0
            self._session.detected(question, found, last=asked == MOST_QUESTIONS)
            self._follow()
            if found is None:
                await asyncio.sleep(ASK_AGAIN)

    async def _drafted(self, sound: bytes) -> str:
        text = await self._engines.words(self._session.config, sound)
        if self._draft is asyncio.current_task():
            self._session.drafted(text)
            self._follow()
        return text

    async def _settled(self, work: Settle, draft: asyncio.Task[str] | None, before: asyncio.Task[None] | None) -> None:
        """Find the words of an item, in the order of the items."""
        try:
            text = await self._of_draft(draft)
            if text is None:
                sound = await self._heard(work.sound, work.form, before) if work.form else work.sound
                text = await self._engines.words(self._session.config, sound)
        except EdgeserveError as error:
            await _over(before)
            self._session.not_transcribed(work.item, error)
        else:
            await _over(before)
            seconds = work.form.seconds(len(work.sound)) if work.form else len(work.sound) / SECOND
            self._session.transcribed(work.item, text, seconds)
        finally:
            if draft is not None:
                draft.cancel()
        self._follow()

    async def _heard(self, sound: bytes, form: Form, before: asyncio.Task[None] | None) -> bytes:
        """A sound as engines hear it. One sound of the session at a time, since they grow to eight times their size."""
        await _over(before)
        made, pieces = bytearray(), Incoming(form).feed(sound)
        while True:
            async with self._pace.piece():
                if (piece := next(pieces, None)) is None:
                    return bytes(made)
                made += piece

    async def _of_draft(self, draft: asyncio.Task[str] | None) -> str | None:
        """The words of the draft; None where it has none, since an engine refused it."""
        if draft is None:
            return None
        await asyncio.wait([draft])
        return None if draft.cancelled() or draft.exception() is not None else draft.result()

    async def _answered(self, response: Response, before: tuple[asyncio.Task[None], ...]) -> None:
        """Make an answer, after the words of all items are known and those before have let go of their engines."""
        for task in before:
            await _over(task)
        status, reason, error = "completed", "", None
        try:
            for task in list(self._settling):
                await _over(task)
            self._drop_ahead()
            await _over(self._ahead)  # the answer reads on where it was
            items = self._session.conversation.items if response.prompt is None else response.prompt
            end: FinishEvent | None = await self._engines.answer(response, list(items), self._room)
            if end is not None:
                response.count(end)
                if end.reason == "length":
                    status, reason = "incomplete", "max_output_tokens"
        except EdgeserveError as failure:
            log.warning("an answer of a conversation failed: %s", failure.message)
            status, error = "failed", words(failure)
            if not response.over:
                self._session.fail(failure)
        response.end(status, reason, error)
        self._session.ended(response)
        self._follow()

    async def _room(self) -> None:
        self._follow()
        await self._outbox.room()


async def _over(task: asyncio.Task[None] | None) -> None:
    """Wait until a task has ended, however it did."""
    if task is not None:
        await asyncio.wait([task])
