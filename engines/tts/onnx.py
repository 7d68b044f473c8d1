"""Text to speech on ONNX Runtime: one engine, a family of voices each with its own network."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import ConfigError, EngineFailure, InvalidRequest
from edgeserve.messages import AudioEvent, SpeakRequest
from edgeserve.system import pages
from engines import model_files
from engines.onnx import prepare as onnx_prepare
from engines.onnx import session
from engines.tts import hibari, kokoro, phonemes, piper

log = logging.getLogger("edgeserve.tts")

SPEEDS = (0.25, 4.0)
PACES = (0.5, 2.0)
"""Speeds that the networks were trained for; beyond them the nearest is used."""
LONGEST = 96_000
"""Bytes of sound from which on an event holds no more: two seconds at 24 kHz."""
GRAPH_SHARE = 1.04
"""Measured: mapped weights for each byte of a graph, at most."""


class Family(Protocol):
    """What a family of voices knows: its names, how text is cut, and how one piece is said.

    ``mapped``: files whose pages can be dropped. ``session_bytes``, ``phonemizer_bytes``: private, of one open graph
    and of what reads the text. ``rows``: its graphs are prepared to give rows. ``max_phonemes``: of a piece, and so
    what ``per_request`` bytes are enough for, beside ``kept``: what may stay for the next
    piece while the engine is hot.
    """

    sample_rate: int
    max_phonemes: int
    rows: bool
    session_bytes: int
    kept: int
    per_request: int
    phonemizer_bytes: int
    mapped: list[Path]

    def __init__(self, spec: ModelSpec, folder: Path) -> None:
        """``folder`` keeps what is prepared. Raises EngineFailure."""
        ...

    @staticmethod
    def voices(spec: ModelSpec) -> list[str]: ...

    @staticmethod
    def parts(voice: str) -> Collection[str]:
        """The voices that a voice is blended of; mostly itself. Raises InvalidRequest."""
        ...

    @staticmethod
    def load(spec: ModelSpec) -> None:
        """Import what its phonemizer and network run on. Raises EngineFailure for what is missing."""
        ...

    @classmethod
    def accents(cls, spec: ModelSpec) -> set[bool]:
        """Of hibari's phonemizer (True: British), whose tables are prepared for it; none where another reads."""
        ...

    @staticmethod
    def graphs(spec: ModelSpec) -> list[Path]:
        """Those of the model's files that are networks."""
        ...

    def pieces(self, text: str, voice: str, limit: int) -> Iterator[str]:
        """Strings of at most ``limit`` phonemes, each of one sentence, in order. An empty one stands for a part of the
        text, of bounded length, that says nothing: the caller looks at a cancel behind each."""
        ...

    def say(self, piece: str, voice: str, speed: float) -> Iterator[Any]:
        """float32 samples in [-1, 1], shape (n,), as they are made; an array holds until the next is asked for.

        Called on another thread while what the piece before gave is iterated over.
        """
        ...


FAMILIES: dict[str, type[Family]] = {"hibari": hibari.Hibari, "kokoro": kokoro.Kokoro, "piper": piper.Piper}


def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
    """What is done once for a machine, after a pull: graphs and the phonemizer's tables. ``tell`` hears how many of how
    many are done. Where it cannot be, the log says why; opening the engine will say so too."""
    try:
        family = _family(spec)
        accents = family.accents(spec)
        total = len(family.graphs(spec)) + len(phonemes.table_names(accents))
        for done, _ in enumerate(_prepared(spec, family, accents)):
            tell(done + 1, total)
    except EngineFailure as error:
        log.warning("%s is not prepared: %s", spec.name, error.message)


def _prepared(spec: ModelSpec, family: type[Family], accents: Collection[bool]) -> Iterator[object]:
    family.load(spec)  # first, for it brings the runtime
    for path in family.graphs(spec):
        yield onnx_prepare.prepared(path, device=spec.device, rows=family.rows)
    yield from phonemes.tables(_folder(spec), accents)


def _family_name(spec: ModelSpec) -> str:
    return str(spec.options.get("family") or "hibari")


def _family(spec: ModelSpec) -> type[Family]:
    name = _family_name(spec)
    if name not in FAMILIES:
        raise EngineFailure(f"unknown voice family {name!r}; known: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _folder(spec: ModelSpec) -> Path:
    """For what is made once from other files, and mapped from then on; beside the model."""
    if not spec.files:
        raise EngineFailure(f"{spec.name} has no files; pull it again")
    return next(iter(spec.files.values())).parent / onnx_prepare.FOLDER


class OnnxTextToSpeech:
    """Options: ``family`` ("hibari", "kokoro", "piper"), ``voice`` (the default). Files: ``model``, and what the family
    names beside it.

    Warm, the sessions are open and no page of mapped weights and dictionaries is resident; what runs left on the heap
    is returned. What the import of the runtime takes is never returned, serves other engines too, and is not counted.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._voice: Family | None = None
        self._hot = False
        self._private = 0
        # Answers that have their turns one after the other may still read and compute ahead beside each other.
        self._reading, self._computing = threading.Lock(), threading.Lock()
        self._check_voice()

    @property
    def rung(self) -> Rung:
        if self._voice is None:
            return Rung.COLD
        return Rung.HOT if self._hot else Rung.WARM

    def estimate(self) -> Footprint:
        """Dictionaries and weights as they are mapped once prepared; sessions; one piece of speech.

        Where weights cannot be mapped they are private instead, about as many bytes.
        """
        family = _family(self.spec)
        graphs = family.graphs(self.spec)
        weights = sum(path.stat().st_size for path in graphs if path.is_file())
        return Footprint(
            mapped=phonemes.mapped_bytes(family.accents(self.spec)) + int(GRAPH_SHARE * weights),
            private=len(graphs) * family.session_bytes + family.phonemizer_bytes + family.kept,
            per_request=family.per_request,
        )

    def footprint(self) -> Footprint:
        if self._voice is None:
            return Footprint()
        kept = session.kept() if self._voice.kept else 0
        return Footprint(mapped=pages.resident_mapped(*self._voice.mapped), private=self._private + kept)

    def prefetch_files(self) -> Iterable[Path]:
        """What is read on the way up: graphs and dictionaries as prepared rather than as pulled."""
        files, family = self.spec.files.values(), FAMILIES.get(_family_name(self.spec))
        if family is None or not files:
            return files
        graphs = family.graphs(self.spec)
        made = [path for graph in graphs for path in onnx_prepare.files_at_hand(graph)]
        others = [path for path in files if path not in graphs]
        return [*made, *others, *phonemes.table_files(_folder(self.spec), family.accents(self.spec))]

    def _check_voice(self) -> None:
        """Raises ConfigError for a default voice that the model lacks. Reads at most a small file."""
        default, family = self.spec.options.get("voice"), FAMILIES.get(_family_name(self.spec))
        if not default or family is None:
            return
        try:
            voices, parts = family.voices(self.spec), set(family.parts(str(default)))
        except InvalidRequest as error:
            raise ConfigError(f"[tts] voice: {error.message}", param="voice") from None
        except EngineFailure:
            return  # a damaged file, which opening tells
        if voices and not parts <= set(voices):
            text = f"[tts] voice = {default!r}: {self.spec.name} has no such voice; voices: {', '.join(voices)}"
            raise ConfigError(text, param="voice")

    def open(self) -> None:
        if self._voice is not None:
            return
        family, folder = _family(self.spec), _folder(self.spec)
        model_files.require(self.spec.files.values())
        family.load(self.spec)
        session.release()
        before = pages.private_bytes()
        voice = family(self.spec, folder)
        _cool(voice)
        self._private = max(0, pages.private_bytes() - before)
        self._voice = voice

    def heat(self) -> None:
        self.open()
        if self._voice is not None and not self._hot:
            pages.populate_mapped(*self._voice.mapped)
            self._hot = True

    def park(self) -> None:
        if self._voice is not None and self._hot:
            self._hot = False
            _cool(self._voice)

    def close(self) -> None:
        self._hot = False
        if self._voice is not None:
            self._voice = None
            session.release()

    def voices(self) -> tuple[str, ...]:
        known = FAMILIES.get(_family_name(self.spec))
        names = known.voices(self.spec) if known else []
        if not names:
            return ()
        default = str(self.spec.options.get("voice") or names[0])
        return (default, *(name for name in names if name != default))

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | None]:
        """Slow speech is cut into shorter pieces, so that each takes no longer and no more memory than at speed 1.

        None stands for a part of the text that says nothing.
        """
        voice, family = self._checked(request)
        pace = min(max(request.speed, PACES[0]), PACES[1])
        spoken = False
        limit = int(family.max_phonemes * min(pace, 1.0))
        pieces = itertools.takewhile(lambda _: not cancel.is_set(), family.pieces(request.text, voice, limit))

        def read() -> str | None:
            with self._reading:
                return next(pieces, None)

        def say(piece: str) -> Iterator[Any]:
            with self._computing:
                return family.say(piece, voice, pace)

        said = _said(read, say, limit, cancel)
        with contextlib.closing(said):
            for pcm in _growing(itertools.takewhile(lambda _: not cancel.is_set(), said)):
                spoken = spoken or bool(pcm)
                yield AudioEvent(pcm, family.sample_rate) if pcm else None
        if not spoken and not cancel.is_set():
            raise InvalidRequest("the text holds nothing that can be spoken", param="text")

    def _checked(self, request: SpeakRequest) -> tuple[str, Family]:
        if self._voice is None or not self._hot:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        voice = request.voice or self.voices()[0]
        for name in self._voice.parts(voice):
            if name not in self._voice.voices(self.spec):
                raise InvalidRequest(f"unknown voice {name!r}; voices: {', '.join(self.voices())}", param="voice")
        if not SPEEDS[0] <= request.speed <= SPEEDS[1]:
            low, high = SPEEDS
            raise InvalidRequest(f"speed must lie between {low} and {high}, not {request.speed}", param="speed")
        return voice, self._voice


def _said(
    read: Callable[[], str | None], say: Callable[[str], Iterator[Any]], limit: int, cancel: Cancel
) -> Generator[Any | None, None, None]:
    """The samples of each piece that ``read`` gives, and None at its end; nothing but None for an empty piece.

    A thread reads one piece ahead, computes it beside the samples of this one, and ends with the last. It computes
    ahead only where both pieces together are no longer than one may be: two take no more memory than one.
    """
    with ThreadPoolExecutor(1, "edgeserve-tts") as thread:
        piece, samples = read(), None
        reading = thread.submit(read)
        while piece is not None and not cancel.is_set():
            samples = samples or (say(piece) if piece else iter(()))
            following = reading.result()
            coming = None
            if following and len(piece) + len(following) <= limit and not cancel.is_set():
                coming = thread.submit(say, following)
            reading = thread.submit(read)
            yield from samples
            yield None
            piece, samples = following, coming.result() if coming else None


def _growing(samples: Iterable[Any | None]) -> Iterator[bytes]:
    """The first samples alone, then always twice as much as before, and what is left at the end of a piece: sound
    begins soon, and the events stay few. Nothing but b"" for a piece without samples."""
    held, wanted, silent = bytearray(), 1, True
    for some in samples:
        if some is not None:
            held += _pcm16(some)
            silent = False
        elif silent:
            yield b""
        else:
            silent = True
        if held and (some is None or len(held) >= wanted):
            wanted = min(max(wanted, 2 * len(held)), LONGEST)
            yield bytes(held)
            held.clear()


def _cool(voice: Family) -> None:
    pages.drop_mapped(*voice.mapped)
    session.release()


def _pcm16(samples: Any) -> bytes:
    import numpy

    return bytes((numpy.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2").tobytes())
