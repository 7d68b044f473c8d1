"""Silero VAD (snakers4/silero-vad, version 6): finds the stretches of an audio that hold speech."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgeserve.engines.asr.segments import FRAME, Rules, Segmenter, Span
from edgeserve.engines.asr.stretches import Stretch, Tape
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
        """As ``Detecting.detect``. Any thread. A state is h, c and the context as float32 [2 * STATE + CONTEXT]."""
        import numpy

        try:
            samples = numpy.frombuffer(request.samples, "<f4").reshape(-1, FRAME)
            state = numpy.frombuffer(request.state or bytes(STATE_BYTES), "<f4")
            h, c, before = numpy.split(state, [STATE, 2 * STATE])
            listener = Listener(self._session, h.reshape(1, 1, STATE), c.reshape(1, 1, STATE), before)
        except ValueError as error:
            raise InvalidRequest(f"no whole frames of {FRAME} samples, or no state of a detector: {error}") from error
        chances = listener.chances(samples.reshape(-1)) if len(samples) else []
        return SpeechChances(tuple(chances), listener.state())

    def stretches(self, arrays: Iterable[Any], rules: Rules) -> Iterator[Stretch | None]:
        """Speech by ``rules``, each stretch as soon as its end is known. One stretch and one block are held at most.

        None each ``TURN_FRAMES``, and for an empty array: other requests may have their turn.
        """
        import numpy

        listener, segmenter, tape = Listener(self._session), Segmenter(rules), Tape()
        heard, turn = 0, TURN_FRAMES * FRAME
        for samples in arrays:
            if not len(samples):
                yield None
                continue
            tape.add(samples)
            while tape.end - heard >= FRAME:
                count = min(BLOCK_FRAMES, (tape.end - heard) // FRAME)
                chances = listener.chances(tape.read(heard, heard + count * FRAME))
                heard += count * FRAME
                yield from _cut(tape, segmenter.feed(chances))
                tape.forget(segmenter.needed * FRAME)
                if heard >= turn:
                    turn += TURN_FRAMES * FRAME
                    yield None
        if rest := tape.end - heard:
            last = numpy.pad(tape.read(heard, tape.end), (0, FRAME - rest))
            yield from _cut(tape, segmenter.feed(listener.chances(last)))
        yield from _cut(tape, segmenter.end())


def _cut(tape: Tape, spans: Iterable[Span]) -> Iterator[Stretch]:
    for low, high, voiced in spans:
        yield Stretch(low * FRAME, tape.read(low * FRAME, high * FRAME).copy(), tuple(voiced))


class Listener:
    """One audio under way: the network's state, and the last samples, which are the context of the next frame."""

    def __init__(self, session: Any, h: Any = None, c: Any = None, before: Any = None) -> None:
        """``h``, ``c``: float32 [1, 1, STATE]; ``before``: float32 [CONTEXT]. Left out: the start of an audio."""
        import numpy

        self._session = session
        start: Any = numpy.zeros((1, 1, STATE), numpy.float32)
        self._h, self._c = (start, start) if h is None else (h, c)
        self._before = numpy.zeros(CONTEXT, numpy.float32) if before is None else before

    def state(self) -> bytes:
        """h, c and the context, float32."""
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
