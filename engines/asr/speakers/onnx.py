"""Who speaks when, on ONNX Runtime: Silero's detector, a GE2E speaker encoder, and clusters of its voices."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeserve.engine import Cancel, Footprint, ModelSpec
from edgeserve.engines.asr.model import VAD_BYTES
from edgeserve.engines.asr.speakers.clusters import unit
from edgeserve.engines.asr.speakers.encoder import SpeakerEncoder
from edgeserve.engines.asr.speakers.rests import VOICE, Known
from edgeserve.engines.asr.speakers.turns import SHORTEST, Heard, turns
from edgeserve.engines.asr.stretches import START, Place, Source
from edgeserve.engines.asr.whisper.features import FRAMES_PER_SECOND
from edgeserve.engines.onnx.ladder import OnnxLadder
from edgeserve.errors import EngineFailure, InvalidRequest
from edgeserve.messages import Audio, DiarizeRequest, Rest, SpeakerEvent
from edgeserve.system import heap

FLOAT = 4
COPIED = 1.2
"""Private bytes for each byte of weights: the runtime reorders the recurrent matrices into copies."""
REQUEST_BYTES = 32 << 20
"""A run of the encoder, the spectra of one stretch, and voices with their similarities; 28 MB measured."""


def footprint_of(weights: int) -> Footprint:
    return Footprint(0, int(COPIED * weights) + VAD_BYTES, REQUEST_BYTES)


class DiarizerFiles:
    """The model before it is open. Nothing is mapped: the weights are 6 MB."""

    packages: Sequence[str] = ()

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.mapped: tuple[Path, ...] = ()

    def open(self) -> SpeakerEncoder:
        return SpeakerEncoder(self._file("model"), self._file("vad"), self.spec.threads)

    def close(self) -> None:
        """No file stays open."""

    def estimate(self) -> Footprint:
        return footprint_of(sum(self._file(role).stat().st_size for role in ("model", "data")))

    def prefetch_files(self) -> Iterable[Path]:
        return self.spec.files.values()

    def folders(self) -> Iterable[Path]:
        """The graph names the file of its weights, which lies beside it."""
        return ()

    def _file(self, role: str) -> Path:
        """Raises EngineFailure for a model without it."""
        if role not in self.spec.files:
            raise EngineFailure(f"{self.spec.name} has no file {role!r}; `edgeserve pull {self.spec.name}` again")
        return self.spec.files[role]


class OnnxDiarizer(OnnxLadder[SpeakerEncoder]):
    """Tells speakers apart, on the rungs of ``OnnxLadder``."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, DiarizerFiles(spec))

    def diarize(self, request: DiarizeRequest, cancel: Cancel) -> Iterator[SpeakerEvent | Rest | None]:
        """As ``Diarizer.diarize``. Raises InvalidRequest for a reference without speech."""
        encoder = self._opened()
        try:
            yield from _diarize(encoder, request, cancel)
        finally:
            heap.trim()


def _diarize(encoder: SpeakerEncoder, request: DiarizeRequest, cancel: Cancel) -> Iterator[SpeakerEvent | Rest | None]:
    if request.rest is None:
        known = Known(START, (yield from _references(encoder, request.references, cancel)), [])
    else:
        known = Known.at_rest(request.rest)
    place = known.place
    for one in encoder.hear(Source(request.audio, cancel, place.at), place):
        if isinstance(one, Place):
            if (rest := known.rest(one)) is not None:
                yield rest
            continue
        if one is not None:
            known.heard.append(one)
        yield None
    if cancel.is_set():
        return
    for turn in turns(known.heard, known.references):
        if cancel.is_set():
            return
        if turn is None:
            yield None
        else:
            yield SpeakerEvent(turn.start / FRAMES_PER_SECOND, turn.end / FRAMES_PER_SECOND, turn.speaker)


def _references(encoder: SpeakerEncoder, recordings: Sequence[Audio], cancel: Cancel) -> Generator[None, None, Any]:
    """The voices of the known speakers: float32 [r, VOICE]. They are heard at once, so no answer rests meanwhile."""
    import numpy

    means = numpy.empty((len(recordings), VOICE), numpy.float32)
    for number, audio in enumerate(recordings):
        voices = []
        for one in encoder.hear(Source(audio, cancel)):
            if isinstance(one, Heard):
                voices.append(one.voices)
            yield None
        if not cancel.is_set():
            means[number] = _mean(voices, number)
    return means


def _mean(voices: Sequence[Any], number: int) -> Any:
    """The mean voice of a known speaker, of length 1. Raises InvalidRequest for a reference without speech."""
    import numpy

    if not voices:
        text = f"recording {number} holds no {SHORTEST / FRAMES_PER_SECOND} s of speech; send 2 to 10 s of one speaker"
        raise InvalidRequest(text, param="references")
    return unit(numpy.concatenate(voices).mean(axis=0))
