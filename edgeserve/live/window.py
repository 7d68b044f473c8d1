"""The window of a session: the sound that is still to be heard, at most 30 s."""

from __future__ import annotations

import math

from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.live.speech import FRAME, FRAME_SECONDS, SpeechGate, levels
from edgeserve.memory.traffic import Kept, Traffic
from edgeserve.messages import INPUT_SAMPLE_RATE

SAMPLE_BYTES = 4
FRAME_BYTES = FRAME * SAMPLE_BYTES
MAX_SECONDS = 30.0
"""Seconds that a model like Whisper hears at once."""
MAX_PUSH_SECONDS = 10.0
FORM = "the form is float32 little-endian, 16 kHz, mono"
FILES = (b"RIFF", b"OggS", b"fLaC")
MAX_PUSH_BYTES = int(MAX_PUSH_SECONDS * INPUT_SAMPLE_RATE) * SAMPLE_BYTES
LEAD_SECONDS = 0.51
"""Seconds kept before speech, since the first consonants may be below the gate."""
LEAD = round(LEAD_SECONDS / FRAME_SECONDS)
SPEECH_FRAMES = 4
"""Frames of speech that are worth hearing. Fewer are a click."""
LOUDEST = 16.0
"""Largest magnitude of a sample. Samples lie between -1 and 1, or a little beyond."""


def check(data: bytes) -> None:
    """Raises InvalidRequest, UnsupportedMedia or TooLarge for data that are no push of samples."""
    if len(data) > MAX_PUSH_BYTES:
        seconds = len(data) / SAMPLE_BYTES / INPUT_SAMPLE_RATE
        text = (
            f"a push holds at most {MAX_PUSH_SECONDS:g} s of sound; this one has {seconds:.1f} s: send smaller pieces"
        )
        raise TooLarge(text)
    if data[:4] in FILES:
        raise UnsupportedMedia(f"the sound begins with {data[:4]!r}: send raw samples, not a file; {FORM}")
    if len(data) % SAMPLE_BYTES:
        raise InvalidRequest(f"the sound has {len(data)} bytes, which are not whole samples of 4 bytes each; {FORM}")


def check_samples(data: bytes) -> None:
    """Raises InvalidRequest for samples that are no sound. 10 s of samples take 15 ms."""
    samples = memoryview(data).cast("f").tolist()
    # The sum shows NaN; the largest value may miss it.
    if samples and not (math.isfinite(sum(samples)) and min(samples) > -LOUDEST and max(samples) < LOUDEST):
        raise InvalidRequest(f"the samples do not lie between -1 and 1; {FORM} (not 16-bit integers)")


class Window:
    """Samples with a flag for each frame. Times are seconds from the session's start.

    The window keeps no silence before the first speech. ``traffic`` counts what it keeps.
    """

    def __init__(self, traffic: Traffic | None = None) -> None:
        self._gate, self._kept = SpeechGate(), Kept(traffic or Traffic())
        self._data = bytearray()
        self._flags = bytearray()
        self._dropped = 0

    @property
    def start(self) -> float:
        return self._dropped * FRAME_SECONDS

    @property
    def end(self) -> float:
        return self.start + len(self._data) / SAMPLE_BYTES / INPUT_SAMPLE_RATE

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def room(self) -> int:
        """Bytes that can be appended."""
        return int(MAX_SECONDS * INPUT_SAMPLE_RATE) * SAMPLE_BYTES - len(self._data)

    @property
    def has_speech(self) -> bool:
        return self._flags.count(1) >= SPEECH_FRAMES

    @property
    def speech_start(self) -> float:
        """The start of the first frame of speech. The window must have one."""
        return self.start + self._flags.index(1) * FRAME_SECONDS

    @property
    def speech_end(self) -> float:
        """The end of the last frame of speech."""
        return self.start + (self._flags.rfind(1) + 1) * FRAME_SECONDS

    @property
    def quiet(self) -> float:
        """Seconds without speech at the end."""
        return self.end - self.speech_end

    def samples(self) -> bytes:
        return bytes(self._data)

    def append(self, data: bytes) -> None:
        """Append samples that passed ``check``."""
        self._data += data
        fresh = bytes(self._data[len(self._flags) * FRAME_BYTES :])
        whole = memoryview(fresh[: len(fresh) // FRAME_BYTES * FRAME_BYTES]).cast("f")
        self._flags += self._gate.flags(levels(whole))
        if not self.has_speech:
            self.drop(self.end - LEAD_SECONDS)
        elif (first := self._flags.find(1)) > LEAD:
            self._drop_frames(first - LEAD)
        self._kept.count(len(self._data))

    def forget(self) -> None:
        """Count no sound any more: the window is used no longer."""
        self._kept.count(0)

    def drop(self, until: float) -> None:
        """Drop the sound before a time."""
        self._drop_frames(math.floor((until - self.start) / FRAME_SECONDS + 1e-6))

    def _drop_frames(self, count: int) -> None:
        count = max(0, min(count, len(self._flags)))
        del self._data[: count * FRAME_BYTES]
        del self._flags[:count]
        self._dropped += count
        self._kept.count(len(self._data))
