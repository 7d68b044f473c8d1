"""Long-form transcription with Whisper: passages of 30 s, several of them decoded together.

Long silences are taken out before windows are read, so that the model spends no window on silence and hears no words in
it. Times are those of the file. Features are computed window by window, so that memory does not grow with the length.

A model with one place reads the whole audio as one passage. Each window begins where the text of the one before ends,
and that text is its prompt. A model with several places cuts long audio at silences, since a step of the decoder takes
little longer for several windows than for one. Each of these passages begins without a prompt of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeVar

from edgeserve.dataclass import dataclass
from edgeserve.engine import Cancel
from edgeserve.engines.asr.rests import Begin, rest
from edgeserve.engines.asr.segments import Rules, frames
from edgeserve.engines.asr.stretches import Source, Split
from edgeserve.engines.asr.whisper import features, languages
from edgeserve.engines.asr.whisper.cuts import Passage, passages
from edgeserve.engines.asr.whisper.decode import CANCELLED, Batch, Decoded
from edgeserve.engines.asr.whisper.graphs import Audio, Graphs, detect_language
from edgeserve.engines.asr.whisper.joined import Joined
from edgeserve.engines.asr.whisper.parts import placed, widened
from edgeserve.engines.asr.whisper.passage import EDGE_FRAMES, Attempt, Model, Reading, Wanted, read
from edgeserve.engines.asr.whisper.vocabulary import Vocabulary
from edgeserve.engines.onnx.crowd import Crowd
from edgeserve.errors import Cancelled, InvalidRequest
from edgeserve.messages import (
    INPUT_SAMPLE_RATE,
    Rest,
    SegmentEvent,
    TranscribeEvent,
    TranscribeRequest,
    TranscriptEnd,
)

R = TypeVar("R")
Told = Generator[SegmentEvent | Rest | None, None, R]
"""Segments, rests, and None where other requests may have their turn; then a result."""

SPEECH = Rules(silence=frames(2.0), pad=frames(0.4), longest=frames(30.0))
"""Silences shorter than 2 s stay: they help the model to separate sentences."""


class Whisper:
    """An open model. ``split`` leaves out long silences. ``places``: windows that are decoded together, at most."""

    def __init__(
        self, graphs: Graphs, vocabulary: Vocabulary, bands: int, split: Split, places: int, crowd: Crowd
    ) -> None:
        self.crowd = crowd
        self._model = Model(graphs, vocabulary, bands)
        self._split = split
        self._places = places

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest | None]:
        """Segments window by window, None between steps of the decoder and in a long silence, then the end.

        Raises InvalidRequest for a language that the model lacks, and for a translation by an English-only model.
        """
        try:
            yield from self._transcribe(request, cancel)
        except Cancelled:
            return
        finally:
            self._model.graphs.end()

    def _transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest | None]:
        vocabulary = self._model.vocabulary
        begin = Begin.of(request)
        code = languages.checked(begin.known.get("language", request.language), vocabulary.languages)
        language = languages.Language(code, lambda audio: detect_language(self._model.graphs, audio, vocabulary))
        if request.translate and not vocabulary.languages:
            raise InvalidRequest(languages.ENGLISH_ONLY, param="model")
        prompt = begin.known.get("carried", vocabulary.encode(request.prompt) if request.prompt else [])
        source = Source(request.audio, cancel, begin.place.at)
        stretches = Joined(self._split(source, begin.place), begin.known.get("joined"))
        batch = Batch(self._model.graphs, vocabulary, self._places, cancel)
        wanted = Wanted(language, prompt, request.temperature, request.translate, request.word_timestamps)
        words = request.word_timestamps
        for one in _Desk(self._model, stretches, wanted, batch, self._places, begin).read(cancel):
            yield placed(one, stretches, with_words=words) if isinstance(one, SegmentEvent) else one
        yield TranscriptEnd(language.code or "en", source.seconds)


@dataclass(slots=True)
class _Seat:
    """A place of the batch. Its number changes when a place before it is removed."""

    batch: Batch
    number: int

    def listen(self, mel: Any) -> None:
        self.batch.listen(self.number, mel)

    def audio(self) -> Audio:
        return self.batch.audio(self.number)


class _Desk:
    """The passages of one request: as many as there are places at once, their segments in order."""

    def __init__(
        self, model: Model, stretches: Joined, wanted: Wanted, batch: Batch, places: int, begin: Begin
    ) -> None:
        self._model, self._stretches, self._wanted, self._batch = model, stretches, wanted, batch
        self._places, self._begun = places, begin
        at = begin.known.get("at", 0)
        self._waiting = passages(stretches, at) if places > 1 else iter([Passage(0, None, at)])
        self._rounds = places > 1 and bool(begin.known)
        """Passages begin together, and the answer may rest where all of them have ended."""
        self._seated: list[tuple[_Seat, Reading]] = []
        self._order: deque[Reading] = deque()
        """Passages whose segments were not all taken, in the order of the audio."""
        self._until: float = begin.known.get("until", 0.0)
        """End of the last segment taken."""

    def read(self, cancel: Cancel) -> Told[None]:
        """Segments with times of the joined stretches, None between steps and in a long silence. Raises Cancelled.

        ``Rest`` behind a window where the model has one place, else behind a passage. Passages under way are then lost.
        So an answer that has rested before begins none until all have ended.

        A doubtful text is tried at six temperatures: windows of 30 s may take a thousand steps.
        """
        try:
            yield from self._fill()
            while self._order:
                yield from self._ready()
                yield from self._step()
                if not self._rounds:
                    yield from self._fill()
                elif not self._seated:
                    yield from self._ready()
                    yield from self._fill()
        finally:
            self._batch.end()  # its texts and the passages know each other: arrays would wait for a collection
            for one in self._order:
                one.work.close()
        if cancel.is_set():  # a cancelled source ends early, and so do the passages
            raise Cancelled(CANCELLED)

    def _step(self) -> Told[None]:
        """Decode a token of each passage, and let those go on whose texts have ended."""
        if not self._seated:
            return
        ended = self._batch.step()
        yield None
        for place, decoded in ended:
            yield from self._go_on(place, decoded)

    def _go_on(self, place: int, decoded: Decoded) -> Told[None]:
        """Give a text to its passage. Segments that are ready go first: the next window takes its time."""
        _, reading = self._seated[place]
        attempt = yield from self._next_attempt(reading, decoded)
        if attempt is None:
            yield from self._free(place)
        else:
            yield from self._begin(place, attempt)

    def _begin(self, place: int, attempt: Attempt) -> Told[None]:
        self._batch.begin(place, *attempt)
        yield None

    def _next_attempt(self, reading: Reading, decoded: Decoded | None = None) -> Told[Attempt | None]:
        """The next attempt of a passage; None at its end."""
        attempt = reading.go_on(decoded)
        while attempt is None and not reading.done:
            if not (yield from self._ready()):
                yield None
            if self._places == 1 and reading.ready:
                yield from self._rest(reading.at, reading.carried)
            attempt = reading.go_on(None)
        return attempt

    def _rest(self, at: int, carried: Sequence[int]) -> Iterator[Rest]:
        """A rest in front of a frame, before which all segments were taken, unless the last one is too near.

        ``carried``: tokens of the text before that prompt the next window.
        """
        self._forget(at)
        place, joined = self._stretches.left()
        if self._begun.is_far(place.at):
            code, until = self._wanted.language.code, self._until
            yield rest(place, joined=joined, at=at, carried=[*carried], language=code, until=until)

    def _forget(self, at: int) -> None:
        """Forget the audio that no window from frame ``at`` on needs."""
        low = (at - EDGE_FRAMES) * features.HOP
        self._stretches.forget(low, min(low, round(self._until * INPUT_SAMPLE_RATE)))

    def _next_passage(self) -> Told[Passage | None]:
        """The next passage; None at the end of the audio."""
        for passage in self._waiting:
            if passage is not None:
                return passage
            yield None
        return None

    def _fill(self) -> Told[None]:
        """Give places to passages while there are both."""
        while len(self._seated) < self._places and (passage := (yield from self._next_passage())) is not None:
            if self._rounds and not self._order:
                yield from self._rest(passage.start, self._wanted.prompt)
            yield from self._seat(passage, len(self._seated))

    def _seat(self, passage: Passage, place: int) -> Told[bool]:
        """Give a place to a passage. False for one without a window, which takes none."""
        seat = _Seat(self._batch, place)
        reading = read(self._model, self._stretches, passage, self._wanted, seat)
        self._order.append(reading)
        attempt = yield from self._next_attempt(reading)
        if attempt is not None:
            self._seated[place : place + 1] = [(seat, reading)]
            yield from self._begin(place, attempt)
        return attempt is not None

    def _free(self, place: int) -> Told[None]:
        """Give the place of an ended passage to the next one; without one, the last place moves there."""
        while not self._rounds and (passage := (yield from self._next_passage())) is not None:
            if (yield from self._seat(passage, place)):
                return
        self._batch.remove(place)
        seat, reading = self._seated.pop()
        if place < len(self._seated):
            seat.number = place
            self._seated[place] = seat, reading

    def _ready(self) -> Told[bool]:
        """The segments of windows before which all are taken. False where there are none."""
        told = False
        while self._order:
            first = self._order[0]
            while first.found:
                segments, told = first.found.popleft(), True
                for segment in widened(segments, self._stretches, self._until):
                    self._until = segment.end
                    yield segment
                if not segments:
                    yield None
            if not first.done:
                self._forget(first.at)
                break
            self._order.popleft()
            if first.end is not None and self._order and not self._rounds:
                yield from self._rest(first.end, self._wanted.prompt)
        return told
