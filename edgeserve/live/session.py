"""One live transcription: sound goes in, certain words come out.

A push takes sound in. A task of the session listens as long as there is something to hear. Pushes wait only for room in
the window.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator

from edgeserve.dataclass import dataclass
from edgeserve.errors import Busy, NotFound, TooLarge
from edgeserve.live.agreement import Agreement
from edgeserve.live.ear import Ear, Options
from edgeserve.live.pace import LoopTime, Pace
from edgeserve.live.window import (
    LEAD_SECONDS,
    MAX_PUSH_BYTES,
    MAX_PUSH_SECONDS,
    MAX_SECONDS,
    SAMPLE_BYTES,
    Window,
    check,
    check_samples,
)
from edgeserve.memory.traffic import Traffic
from edgeserve.messages import INPUT_SAMPLE_RATE, Pcm, TranscribeRequest

STEP_SECONDS, LONGEST_STEP_SECONDS = 1.0, 5.0
"""Seconds of new speech that make another hypothesis worthwhile: the least, and the most on a slow engine."""
SHARE = 2.0
"""A step by the time of one hypothesis for every speaker. Half of the time is left for last hypotheses."""
BREATH_SECONDS = 0.15
"""Seconds without speech after which the utterance may be over. A step is then twice as long where others speak too."""
LULL_SECONDS = 0.4
"""Seconds without speech after which the session hears the rest, so that the end of the utterance need not wait."""
PAUSE_SECONDS = 0.8
"""Seconds without speech that end an utterance and make all its words final. Must not exceed a step."""
SENTENCE_SECONDS, ANYWHERE_SECONDS, LONGEST_SECONDS = 8.0, 15.0, MAX_SECONDS - MAX_PUSH_SECONDS
"""Seconds of a window beyond which it is cut behind a confirmed sentence, behind a confirmed word, and anywhere."""
PIECE_BYTES = INPUT_SAMPLE_RATE // 10 * SAMPLE_BYTES
"""Bytes of a push between two turns of other tasks: 0.4 ms of work."""
PROMPT_CHARS = 200
PATIENCE_SECONDS = 10.0
"""Seconds for which a push waits for room. An unread WebSocket answers no pings and is cut after 20 s."""


@dataclass(frozen=True, slots=True)
class Step:
    """The news of a session.

    - ``text``: words that became certain since the last step
    - ``is_final``: whether an utterance or the session has ended here
    - ``transcript``: all certain words
    - ``partial``: words that follow the transcript and may change
    """

    text: str
    is_final: bool
    transcript: str
    partial: str


def _pieces(data: bytes) -> Iterator[bytes]:
    return (data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES))


class Session:
    """One session. One event loop uses the object, and calls ``on_news`` there when ``step`` may have news.

    ``speakers`` counts the sessions that share the ear's time now. ``loop_time``: shared by all sessions at work on
    their sound. ``traffic`` counts the sound that is kept.
    """

    def __init__(
        self,
        name: str,
        ear: Ear,
        options: Options,
        max_seconds: float,
        speakers: Callable[[], int] = lambda: 1,
        loop_time: LoopTime | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self.name = name
        self.options = options
        self.on_news: Callable[[], None] = lambda: None
        self.users = 0
        self.last_used = 0.0
        self.closed = False
        self._ear = ear
        self._max_seconds = max_seconds
        self._speakers = speakers
        self._flushing = False
        self._window = Window(traffic)
        self._words = Agreement()
        self._heard = self._quiet = 0.0
        self._asked = self._state()
        self._told = self._settled = 0
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._pace = Pace(loop_time or LoopTime())
        self._hearing, self._checking, self._taking = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()

    @property
    def duration(self) -> float:
        """Seconds of sound that the session took in."""
        return self._window.end

    @property
    def size(self) -> int:
        """Bytes of sound that the session keeps."""
        return round(self._window.seconds * INPUT_SAMPLE_RATE) * SAMPLE_BYTES

    @property
    def speaks(self) -> bool:
        """Whether an utterance is under way or not yet final."""
        return self._window.has_speech

    async def push(self, data: bytes, patience: float = PATIENCE_SECONDS) -> None:
        """Take in at most 10 s of samples. Waits up to ``patience`` seconds where more than 20 s are still to be heard.

        Raises InvalidRequest, UnsupportedMedia and TooLarge for the data, and Busy where there is no room in time.
        Raises the error of listening, too. The data has not been taken in then.
        """
        check(data)
        async with self._checking:
            for piece in _pieces(data):
                async with self._pace.piece():
                    check_samples(piece)
        if self.duration + len(data) / MAX_PUSH_BYTES * MAX_PUSH_SECONDS > self._max_seconds:
            text = f"the session is {self.duration:.0f} s long; the limit is {self._max_seconds:.0f} s"
            raise TooLarge(f"{text}: flush it and start another, or raise max_audio_seconds in models.toml")
        self._raise_failure()
        async with self._taking:
            while len(data) > self._window.room:
                done, _ = await asyncio.wait([self._listening()], timeout=patience)
                self._raise_failure()
                if not done:
                    text = f"{self._window.seconds:.0f} s of sound wait to be heard, and the engine is behind; this was"
                    raise Busy(f"{text} not taken in: send it again, slower, or fewer sessions at once", retry_after=2)
            await self._take(data)
        if self._is_due():
            self._listening()

    async def _take(self, data: bytes) -> None:
        """Append the sound in pieces of a few milliseconds' work. Raises NotFound if the session ends meanwhile."""
        for piece in _pieces(data):
            async with self._pace.piece():
                self._window.append(piece)
            if self.closed:
                raise NotFound("the session has ended")

    def step(self) -> Step:
        """The news since the last step. Raises the error of listening, once."""
        self._raise_failure()
        transcript, partial = self._words.text, self._words.partial
        step = Step(transcript[self._told :], self._ended and not partial, transcript, partial)
        self._told, self._ended = len(transcript), False
        return step

    async def flush(self) -> Step:
        """Hear the rest and make it final. Raises the error of listening; the caller may flush again then."""
        self._flushing = True
        try:
            while self._task is not None:
                await asyncio.wait([self._task])
                self._raise_failure()
            if self._window.has_speech:
                await self._hear()
        finally:
            self._flushing = False
        return dataclasses.replace(self.step(), is_final=True)

    def close(self) -> None:
        """Stop listening, and forget the sound."""
        self.closed = True
        if self._task is not None:
            self._task.cancel()
        self._window.forget()
        self._window = Window()
        self.on_news()

    def _listening(self) -> asyncio.Task[None]:
        """The task that listens. Starts the task if none runs."""
        if self.closed:
            raise NotFound("the session has ended")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen())
            self._task.add_done_callback(lambda task: self.on_news())
        return self._task

    def _raise_failure(self) -> None:
        if self._task is not None and self._task.done():
            task, self._task = self._task, None
            if not task.cancelled() and (error := task.exception()):
                raise error
        if self.closed:
            raise NotFound("the session has ended")

    async def _listen(self) -> None:
        while self._is_due():
            try:
                await self._hear()
            except Busy:
                if self._window.room < MAX_PUSH_BYTES:
                    raise
                return  # the next push tries again
            self.on_news()

    def _is_due(self) -> bool:
        """Whether there is sound to hear, or an utterance to end."""
        window = self._window
        if not window.has_speech:
            return False
        if self._is_last() or window.quiet >= PAUSE_SECONDS or window.seconds > LONGEST_SECONDS:
            return True
        fresh = window.end - max(self._heard, window.speech_start)
        step = STEP_SECONDS if self._heard <= window.speech_start else self._step_seconds()
        may_be_the_end = window.quiet >= BREATH_SECONDS and self._speakers() > 1
        return fresh >= step * (2 if may_be_the_end else 1)

    def _is_last(self) -> bool:
        """Whether the next hypothesis is most likely the last of an utterance."""
        ends = self._flushing or self._window.quiet >= LULL_SECONDS
        return ends and self._heard < self._window.speech_end

    def _step_seconds(self) -> float:
        return min(max(STEP_SECONDS, SHARE * self._speakers() * self._ear.cost(self.options)), LONGEST_STEP_SECONDS)

    async def _hear(self) -> None:
        async with self._hearing:
            if self._heard < self._window.speech_end:
                words = await self._ear.hear(self._question, self.options, self._is_last)
                if words is None:
                    return
                self._heard, self._quiet, flushing = self._asked
                start = self._window.start
                moved = [dataclasses.replace(one, start=one.start + start, end=one.end + start) for one in words]
                self._words.hear(moved, start)
            else:
                self._heard, self._quiet, flushing = self._state()
            if flushing or self._quiet >= PAUSE_SECONDS:
                self._settle(0.0 if flushing else LEAD_SECONDS)
            else:
                self._trim()

    def _question(self) -> TranscribeRequest | None:
        """The window now, with the words before it as the prompt; None where a hypothesis is no longer due."""
        if not self._is_due():
            return None
        self._asked = self._state()
        prompt = f"{self.options.prompt or ''}{self._words.left_text[-PROMPT_CHARS:]}".strip()
        return TranscribeRequest(
            Pcm(self._window.samples()), self.options.language, prompt or None, word_timestamps=True
        )

    def _state(self) -> tuple[float, float, bool]:
        """The end of the sound, the seconds without speech before it, and whether a flush is under way."""
        return self._window.end, self._window.quiet, self._flushing

    def _settle(self, lead: float = 0.0) -> None:
        """Make all heard words final and drop their sound, except ``lead`` seconds."""
        self._words.settle()
        self._window.drop(self._heard - lead)
        said = len(self._words.text)
        self._ended = self._ended or said > self._settled
        self._settled = said

    def _trim(self) -> None:
        for limit, sentence in ((SENTENCE_SECONDS, True), (ANYWHERE_SECONDS, False)):
            if self._window.seconds > limit and (at := self._words.cut(sentence=sentence)) is not None:
                self._window.drop(at)
                self._words.leave(at)
        if self._window.seconds > LONGEST_SECONDS:
            self._settle()
