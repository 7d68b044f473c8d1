"""Silero VAD (snakers4/silero-vad, version 6): finds the stretches of an audio that hold speech."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgeserve.engines.asr.segments import FRAME, Rules, Segmenter, Span
from edgeserve.engines.asr.stretches import START, Place, Stretch, Tape
from edgeserve.engines.onnx import session as ort
from edgeserve.errors import InvalidRequest
from edgeserve.messages import DetectRequest, SpeechChances

CONTEXT, STATE = 64, 128
STATE_BYTES = 4 * (2 * STATE + CONTEXT)
BLOCK_FRAMES = 100
"""Frames computed in one call: three seconds."""
TURN_FRAMES = 400
"""Frames of a turn: 13 s of sound, which take as long as a step of a decoder, 30 ms."""


class Vad:
    """The open model, for any number of audios one after the other. Raises EngineFailure."""

    def __init__(self, path: Path) -> None:
        # A network this small gains nothing from a second thread.
        self._session = ort.session(path, threads=1)

    def detect(self, request: DetectRequest) -> SpeechChances:
        """As ``Detecting.detect``. Any thread."""
        import numpy

        try:
            samples = numpy.frombuffer(request.samples, "<f4").reshape(-1, FRAME)
            listener = Listener(self._session, request.state)
        except ValueError as error:
            raise InvalidRequest(f"no whole frames of {FRAME} samples, or no state of a detector: {error}") from error
        chances = listener.chances(samples.reshape(-1)) if len(samples) else []
        return SpeechChances(tuple(chances), listener.state())

    def stretches(self, arrays: Iterable[Any], rules: Rules, place: Place = START) -> Iterator[Stretch | None]:
        """Speech by ``rules``, each stretch as soon as its end is known. One stretch and one block are held at most.

        None each ``TURN_FRAMES``, and for an empty array: other requests may have their turn.
        """
        hearing = _Hearing(self._session, rules, place)
        for samples in arrays:
            if len(samples):
                yield from hearing.hear(samples)
            else:
                yield None
        yield from hearing.end()


class _Hearing:
    """An audio on its way through the detector, from a place on."""

    def __init__(self, session: Any, rules: Rules, place: Place) -> None:
        known = place.detector or {"heard": 0, "listener": "", "segmenter": None, "spans": []}
        self._listener = Listener(session, bytes.fromhex(known["listener"]))
        self._segmenter = Segmenter(rules, known["segmenter"])
        self._tape = Tape(place.at)
        self._heard: int = known["heard"]
        """Samples that were listened to."""
        self._spans = deque(Span(*one) for one in known["spans"])
        """Spans whose stretches were not given yet."""

    def hear(self, samples: Any) -> Iterator[Stretch | None]:
        self._tape.add(samples)
        yield from self._cut(self._tape.end)
        while self._tape.end - self._heard >= FRAME:
            count = min(BLOCK_FRAMES, (self._tape.end - self._heard) // FRAME)
            before = self._heard // FRAME
            self._listen(self._tape.read(self._heard, self._heard + count * FRAME))
            yield from self._cut(self._tape.end)
            if before // TURN_FRAMES < self._heard // FRAME // TURN_FRAMES:
                yield None

    def end(self) -> Iterator[Stretch]:
        import numpy

        if (left := self._tape.end - self._heard) > 0:
            self._listen(numpy.pad(self._tape.read(self._heard, self._tape.end), (0, FRAME - left)))
        self._spans += self._segmenter.end()
        yield from self._cut(self._heard)

    def _listen(self, samples: Any) -> None:
        self._spans += self._segmenter.feed(self._listener.chances(samples))
        self._heard += len(samples)

    def _cut(self, until: int) -> Iterator[Stretch]:
        """The stretches that are complete where no more samples come than those before ``until``."""
        while self._spans and self._spans[0].high * FRAME <= until:
            known = self._known()
            low, high, voiced = self._spans.popleft()
            yield Stretch(low * FRAME, self._tape.read(low * FRAME, high * FRAME).copy(), tuple(voiced), known)
        needed = self._spans[0].low if self._spans else self._segmenter.needed
        self._tape.forget(min(needed * FRAME, self._tape.end))  # what was listened to before may still have to come

    def _known(self) -> dict[str, Any]:
        """As ``Place.detector``, in front of the next stretch."""
        return {
            "heard": self._heard,
            "listener": self._listener.state().hex(),
            "segmenter": self._segmenter.state(),
            "spans": [*self._spans],
        }


class Listener:
    """One audio under way: the network's state, and the last samples, which are the context of the next frame."""

    def __init__(self, session: Any, state: bytes = b"") -> None:
        """``state``: of another one; empty at the start of an audio. Raises ValueError for one of another length."""
        import numpy

        self._session = session
        known = numpy.frombuffer(state or bytes(STATE_BYTES), "<f4")
        h, c, before = numpy.split(known, [STATE, 2 * STATE])
        self._h, self._c = h.reshape(1, 1, STATE), c.reshape(1, 1, STATE)
        self._before = before.reshape(CONTEXT)

    def state(self) -> bytes:
        """h, c and the context as float32 [2 * STATE + CONTEXT]."""
        return b"".join(one.astype("<f4").tobytes() for one in (self._h, self._c, self._before))

    def chances(self, samples: Any) -> list[float]:
        """The probability of speech in each frame. ``samples``: float32 [n * FRAME]."""
        import numpy

        heard = numpy.concatenate([self._before, samples])
        self._before = heard[-CONTEXT:].copy()
        rows = numpy.lib.stride_tricks.sliding_window_view(heard, CONTEXT + FRAME)[::FRAME]
        inputs = {"input": numpy.ascontiguousarray(rows), "h": self._h, "c": self._c}
        chances, self._h, self._c = ort.run(self._session, ["speech_probs", "hn", "cn"], inputs)
        return [float(one) for one in chances]
