"""The base of the speech-to-text models on ONNX Runtime: one model on its files, before and while it is open."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from edgeserve.engine import Cancel, Footprint, ModelSpec
from edgeserve.engines.asr.segments import Rules
from edgeserve.engines.asr.stretches import Split
from edgeserve.engines.asr.vad import Vad
from edgeserve.engines.onnx.prepare import FOLDER
from edgeserve.errors import ConfigError
from edgeserve.messages import Rest, TranscribeEvent, TranscribeRequest

VAD_BYTES = 3 << 19
"""Private memory of the voice-activity detector's session, measured."""
PRIVATE_BYTES = 8 << 20
"""Private memory of the sessions beside the weights."""
REQUEST_BYTES = 32 << 20
"""Activations of one request beside those that grow with the model."""
COPIED = 1.3
"""Private bytes for each byte of weights inside a graph: the runtime copies them to the heap and reorders them."""


def footprint(own: int, mapped: int, detector: int) -> Footprint:
    """An estimate by bytes: of all files, of those that are mapped, and of the voice-activity detector."""
    private = int(COPIED * (own - mapped)) + detector + PRIVATE_BYTES
    return Footprint(mapped, private, per_request=REQUEST_BYTES + own // 4)


class Transcriber(Protocol):
    """An open model."""

    def transcribe(self, request: TranscribeRequest, cancel: Cancel) -> Iterator[TranscribeEvent | Rest | None]: ...


class OnnxModel(abc.ABC):
    """A model that need not be open; each family overrides what differs.

    ``mapped``: files that an open model's weights are mapped from. ``vad``: the open detector, where it has one.
    """

    packages: Sequence[str] = ()

    def __init__(self, spec: ModelSpec) -> None:
        """Raises ConfigError for an option that the family does not have."""
        self.spec = spec
        self.mapped: tuple[Path, ...] = ()
        self.vad: Vad | None = None

    @abc.abstractmethod
    def open(self) -> Transcriber:
        """Raises EngineFailure."""

    def close(self) -> None:
        """Forget the mapped files, and close the files that ``open`` left open."""
        self.mapped, self.vad = (), None

    def estimate(self) -> Footprint:
        """An estimate from the sizes of the files."""
        files = {role: path for role, path in self.spec.files.items() if role != "vad" and path.is_file()}
        own = sum(path.stat().st_size for path in files.values())
        mapped = sum(path.stat().st_size for role, path in files.items() if role.endswith("_data"))
        return footprint(own, mapped, self.detector_bytes())

    def languages(self) -> tuple[str, ...]:
        """Languages of the model; none where its files do not say."""
        return ()

    def prefetch_files(self) -> Iterable[Path]:
        """Files that opening the model reads."""
        return self.spec.files.values()

    def folders(self) -> Iterable[Path]:
        """Folders that opening the model reads: graphs as ``prepare`` left them beside the model's files."""
        return {path.parent / FOLDER for path in self.spec.files.values()}

    def graphs(self) -> Sequence[tuple[Path, Sequence[Path]]]:
        """The graphs that are prepared for this machine, each with the files of its weights. Raises EngineFailure."""
        return ()

    def split(self, rules: Rules, undetected: Split) -> Split:
        """Cut audio at silences by ``rules``, or by ``undetected`` where the model has no voice-activity detector.

        Raises ConfigError, and EngineFailure for a damaged detector.
        """
        path = self.detector()
        self.vad = vad = Vad(path) if path else None
        return (lambda arrays, place: vad.stretches(arrays, rules, place)) if vad else undetected

    def detector(self) -> Path | None:
        """The file of the voice-activity detector; None without one, or with ``vad = false``. Raises ConfigError."""
        wanted = self.spec.options.get("vad", True)
        if not isinstance(wanted, bool):
            raise ConfigError(f"[asr] vad = {wanted!r}: expected true or false")
        return self.spec.files.get("vad") if wanted else None

    def detector_bytes(self) -> int:
        return VAD_BYTES if self.detector() else 0
