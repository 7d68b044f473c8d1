"""Requests to speech engines and the events of their answers. Import them from ``messages``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from edgeserve.dataclass import dataclass
from edgeserve.sound import Audio


@dataclass(frozen=True, slots=True)
class Rest:
    """The answer may end here: the request with this as its ``rest`` has the same answer from here on.

    An engine emits it behind a part that was told, where more follows. Readers never see it.

    - ``at``: parts of the text that were said, or samples of the sound that need not be heard again
    - ``said``: something was said
    - ``state``: what else the engine has to know there, in a form of its own
    """

    at: int
    said: bool = False
    state: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class TranscribeRequest:
    """Speech to write down. ``language`` is an ISO 639-1 code or None. ``translate`` asks for English text.

    - ``words_required``: a model that gives no times of words refuses ``word_timestamps``; else it leaves them out
    - ``rest``: the place from which to go on; None: from the beginning
    """

    audio: Audio = field(repr=False)
    language: str | None = None
    prompt: str | None = None
    temperature: float = 0.0
    word_timestamps: bool = False
    translate: bool = False
    words_required: bool = True
    rest: Rest | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """One word; times in seconds from the start of the audio."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class SegmentEvent:
    """One stretch of speech; times in seconds from the start of the audio. ``text`` keeps its leading space.

    Figures that a runtime cannot give stay at their defaults.
    """

    start: float
    end: float
    text: str
    tokens: tuple[int, ...] = ()
    temperature: float = 0.0
    avg_logprob: float = 0.0
    compression_ratio: float = 0.0
    no_speech_prob: float = 0.0
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class TranscriptEnd:
    """The last event of a transcription: the recognised language, and the length of the audio in seconds."""

    language: str
    duration: float


TranscribeEvent = SegmentEvent | TranscriptEnd


@dataclass(frozen=True, slots=True)
class DetectRequest:
    """Sound to detect speech in: float32 mono at 16 kHz, whole frames of 512 samples.

    ``state``: as in the answer to the frames before; empty at the start of a sound.
    """

    samples: bytes = field(repr=False)
    state: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class SpeechChances:
    """The probability of speech in each frame of a ``DetectRequest``, and the detector's state behind the last."""

    chances: tuple[float, ...]
    state: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DiarizeRequest:
    """Speech whose speakers to separate. ``references``: a recording of each known speaker alone.

    ``rest``: as in ``TranscribeRequest``.
    """

    audio: Audio = field(repr=False)
    references: tuple[Audio, ...] = field(default=(), repr=False)
    rest: Rest | None = None


@dataclass(frozen=True, slots=True)
class SpeakerEvent:
    """One stretch of one speaker; times in seconds from the start of the audio.

    ``speaker``: number of a reference; from their count on, an unknown speaker, numbered in the order of appearance.
    """

    start: float
    end: float
    speaker: int


@dataclass(frozen=True, slots=True)
class SpeakRequest:
    """Text to say. ``voice`` None is the model's default. ``speed`` 1.0 is the voice's natural pace (0.25 to 4.0).

    ``rest``: as in ``TranscribeRequest``.
    """

    text: str
    voice: str | None = None
    speed: float = 1.0
    rest: Rest | None = None


@dataclass(frozen=True, slots=True)
class AudioEvent:
    """A piece of speech: int16 little-endian mono samples at ``sample_rate`` Hz."""

    pcm: bytes = field(repr=False)
    sample_rate: int

    def parts(self, seconds: float) -> Iterator[AudioEvent]:
        """The event in pieces of at most so many seconds."""
        step = 2 * int(seconds * self.sample_rate)
        for start in range(0, len(self.pcm), step):
            yield AudioEvent(self.pcm[start : start + step], self.sample_rate)
