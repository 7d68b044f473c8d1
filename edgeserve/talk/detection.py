"""Frames of speech in a sound: by a detector in another process, or by loudness.

Loudness also decides when to ask: the detector of a quiet room is asked nothing, so that its model may leave the
memory. A sound that stirs wakes it, and it hears some frames before that sound too. Where no verdict comes in time,
loudness decides. No clock: time is counted in frames.
"""

from __future__ import annotations

import math

from edgeserve.live.speech import ABOVE_FLOOR, SpeechGate, levels
from edgeserve.messages import INPUT_SAMPLE_RATE, DetectRequest, SpeechChances

FRAME = 512
"""Samples that Silero judges at once."""
FRAME_SECONDS = FRAME / INPUT_SAMPLE_RATE
FRAME_BYTES = FRAME * 4
STIRS = 2.0
"""Times (6 dB) by which a sound must be louder than the noise to be worth asking about."""
LEAD_FRAMES = 10
"""Frames before such a sound that the detector hears, too: the first consonant, and something to settle on."""
HOLD_FRAMES = 32
"""Frames without such a sound after which the detector is asked no more: one second."""
PATIENCE_FRAMES = 63
"""Frames that wait for a verdict: two seconds, in which a cold model has opened."""
DROP = 0.15
"""Speech ends where its probability falls so far below the threshold, as in Silero's own ``VADIterator``."""
MOST_STATE = 16 << 10
"""Bytes of a detector's state. Silero's has 1280."""
VERDICTS, LOUDNESS = (3, 4), (4, 8)
"""Frames of speech, and of how many frames in a row, that begin a turn. A piano gives two in a row to the detector."""


def margin(threshold: float) -> float:
    """Times by which speech is louder than the noise where loudness decides: 5 dB at 0, 10 at 0.5, 14 at 1."""
    return math.pow(ABOVE_FLOOR, 0.5 + threshold)


class Detection:
    """One sound. ``asks``: a detector is there. ``threshold``: probability of speech, 0 to 1."""

    def __init__(self, threshold: float, *, asks: bool) -> None:
        self._threshold = threshold
        self._asks = asks
        self._loud, self._stirs = SpeechGate(margin(threshold)), SpeechGate(STIRS)
        self._held = b""
        self._waiting, self._flags = bytearray(), bytearray()
        """Frames without a verdict, and whether each is loud."""
        self._quiet = HOLD_FRAMES
        self._asked: DetectRequest | None = None
        self._state = b""
        self._within = False
        self.starts = LOUDNESS
        """VERDICTS or LOUDNESS: by which the latest flags were found."""

    @property
    def seconds(self) -> float:
        """Length of the sound without a verdict."""
        return len(self._flags) * FRAME_SECONDS

    @property
    def awake(self) -> bool:
        """Whether the detector has something to judge."""
        return self._asks and self._quiet < HOLD_FRAMES and bool(self._flags)

    def feed(self, data: bytes, *, speaking: bool) -> bytes:
        """Take in float32 samples at 16 kHz. Returns a flag for each frame that is certain now.

        ``speaking``: a turn is under way, which only verdicts end.
        """
        data = self._held + data
        whole = len(data) // FRAME_BYTES * FRAME_BYTES
        self._held = data[whole:]
        found = list(levels(memoryview(data[:whole]).cast("f"), FRAME))
        self._waiting += data[:whole]
        self._flags += self._loud.flags(iter(found))
        for stirs in self._stirs.flags(iter(found)):
            self._quiet = 0 if stirs else min(self._quiet + 1, HOLD_FRAMES)
        if speaking:
            self._quiet = 0
        if not self._asks or (self.awake and len(self._flags) > PATIENCE_FRAMES):
            return self.give_up()
        return b"" if self.awake else self._rest()

    def question(self) -> DetectRequest | None:
        """The frames without a verdict; None while there are none, or while a question is open."""
        if self._asked is not None or not self.awake:
            return None
        self._asked = DetectRequest(bytes(self._waiting), self._state)
        return self._asked

    def answer(self, question: DetectRequest, found: SpeechChances | None) -> bytes:
        """Take the verdict on ``question``, or None where none could be had. Returns the flags of its frames."""
        if question is not self._asked:
            return b""  # it came too late
        self._asked = None
        count = len(question.samples) // FRAME_BYTES
        if found is None or len(found.chances) != count or len(found.state) > MOST_STATE:
            return b""
        self._state, self.starts = found.state, VERDICTS
        self._drop(count)
        return bytes(self._is_speech(chance) for chance in found.chances)

    def skip(self) -> int:
        """Give up the frames without a verdict; returns their number."""
        return len(self.give_up())

    def give_up(self) -> bytes:
        """Let loudness decide on the frames without a verdict. Returns their flags."""
        flags, self.starts = bytes(self._flags), LOUDNESS
        self._forget()
        self._drop(len(flags))
        return flags

    def _rest(self) -> bytes:
        """Let the detector sleep. The frames that it would hear first are kept."""
        self._forget()
        count = max(0, len(self._flags) - LEAD_FRAMES)
        self._drop(count)
        return bytes(count)

    def _forget(self) -> None:
        self._asked, self._state, self._within = None, b"", False

    def _drop(self, count: int) -> None:
        del self._waiting[: count * FRAME_BYTES]
        del self._flags[:count]

    def _is_speech(self, chance: float) -> bool:
        self._within = chance >= self._threshold - (DROP if self._within else 0.0)
        return self._within
