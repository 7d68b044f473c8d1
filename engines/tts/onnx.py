"""Text to speech on ONNX Runtime: one engine, and a family of voices for each kind of network."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.engine_abilities import Access
from edgeserve.engines import model_files
from edgeserve.engines.onnx import crowd, session
from edgeserve.engines.onnx import prepare as onnx_prepare
from edgeserve.engines.tts import phonemes
from edgeserve.engines.tts.family import Family
from edgeserve.engines.tts.hibari import Hibari
from edgeserve.engines.tts.kokoro import Kokoro
from edgeserve.engines.tts.piper import Piper
from edgeserve.engines.tts.stream import computed_ahead, growing, with_rests
from edgeserve.engines.tts.text import cut
from edgeserve.errors import ConfigError, EngineFailure, InvalidRequest
from edgeserve.messages import AudioEvent, Rest, SpeakRequest
from edgeserve.system import pages
from edgeserve.system.growth import Grown, Growth

log = logging.getLogger("edgeserve.tts")

SPEEDS = (0.25, 4.0)
PACES = (0.5, 2.0)
"""Speeds that the networks were trained for. Other speeds use the nearest of them."""
SILENCE_SECONDS = 0.2
"""Length of the speech of a text that is made of signs alone."""
GRAPH_SHARE = 1.04
"""Most bytes of mapped weights for each byte of a graph, measured."""

T = TypeVar("T")
FAMILIES: dict[str, type[Family]] = {"hibari": Hibari, "kokoro": Kokoro, "piper": Piper}


def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
    """Prepare graphs and the phonemizer's tables for this machine, once after a pull.

    ``tell`` gets the number done and the total. A failure is logged; opening the engine raises the same failure.
    """
    try:
        family = _family(spec)
        accents = family.accents(spec)
        total = len(family.graphs(spec)) + len(phonemes.table_names(accents))
        for done, _ in enumerate(_prepared(spec, family, accents)):
            tell(done + 1, total)
    except EngineFailure as error:
        log.warning("%s is not prepared: %s", spec.name, error.message)


def _prepared(spec: ModelSpec, family: type[Family], accents: Collection[bool]) -> Iterator[object]:
    family.load(spec)  # first: it imports the runtime
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
    """The folder for prepared files, beside the model. Raises EngineFailure for a model without files."""
    if not spec.files:
        raise EngineFailure(f"{spec.name} has no files; pull it again")
    return next(iter(spec.files.values())).parent / onnx_prepare.FOLDER


def footprint(family: type[Family], weights: int, graphs: int, accents: Collection[bool]) -> Footprint:
    """An estimate for a voice of ``family`` with so many graphs, of ``weights`` bytes together."""
    return Footprint(
        mapped=phonemes.mapped_bytes(accents) + int(GRAPH_SHARE * weights),
        private=graphs * family.session_bytes + family.phonemizer_bytes + family.kept,
        per_request=family.per_request,
    )


class OnnxTextToSpeech:
    """The residency ladder of a voice model on ONNX Runtime.

    Options are those of engines/tts/options.py. Files: ``model``, and those that the family names beside it.

    Warm, the sessions are open and no page of mapped weights and dictionaries is resident. The heap pages that runs
    left free are returned. The memory that importing the runtime takes is never returned, serves other engines too,
    and is not counted.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._voice: Family | None = None
        self._hot = False
        self._grown = Grown()
        # Requests take turns on the engine, but their threads may read and compute ahead at the same time.
        self._reading, self._computing = threading.Lock(), threading.Lock()
        self._check_voice()

    @property
    def rung(self) -> Rung:
        if self._voice is None:
            return Rung.COLD
        return Rung.HOT if self._hot else Rung.WARM

    def estimate(self) -> Footprint:
        """Mapped dictionaries and weights, open sessions, and one piece of speech.

        Weights that cannot be mapped take about as many bytes of private memory.
        """
        family = _family(self.spec)
        graphs = family.graphs(self.spec)
        weights = sum(path.stat().st_size for path in graphs if path.is_file())
        return footprint(family, weights, len(graphs), family.accents(self.spec))

    def footprint(self) -> Footprint:
        if self._voice is None:
            return Footprint()
        kept = session.kept() if self._voice.kept else 0
        private = self._grown.bytes + kept + crowd.extra_bytes(self._voice)
        return Footprint(pages.resident_mapped(*self._voice.mapped), private, exact=self._grown.exact)

    def prefetch_files(self) -> Iterable[Path]:
        """Files that opening the model reads: graphs and dictionaries as prepared rather than as pulled."""
        files, family = self.spec.files.values(), FAMILIES.get(_family_name(self.spec))
        if family is None or not files:
            return files
        graphs = family.graphs(self.spec)
        made = [path for graph in graphs for path in onnx_prepare.files_at_hand(graph)]
        others = [path for path in files if path not in graphs]
        return [*made, *others, *phonemes.table_files(_folder(self.spec), family.accents(self.spec))]

    def access(self) -> Access:
        """The folder of prepared files, which is written by ``prepare``."""
        return Access(read=(_folder(self.spec),) if self.spec.files else (), gpu=session.uses_gpu(self.spec.device))

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
            return  # for a damaged file, which ``open`` reports
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
        growth = Growth()
        voice = family(self.spec, folder)
        _cool(voice)
        self._grown = growth.end()
        self._voice = voice

    def heat(self) -> None:
        self.open()
        if self._voice is not None and not self._hot:
            pages.populate_mapped(*self._voice.mapped)
            self._hot = True

    def park(self) -> None:
        if self._voice is not None and self._hot:
            self._hot = False
            crowd.shrink(self._voice)
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

    def speak(self, request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | Rest | None]:
        """Events of growing length; None stands for a part of the text without sound.

        Slow speech is cut into shorter pieces, so that a piece takes no longer and no more memory than at speed 1.
        A text of signs alone, such as emoji, is a short silence: a reader of chats sends them like words. Raises
        InvalidRequest for an unknown voice, a speed out of range, and a text that this voice cannot say.
        """
        voice, family = self._checked(request)
        pace = min(max(request.speed, PACES[0]), PACES[1])
        spoken = request.rest is not None and request.rest.said
        limit = int(family.max_phonemes * min(pace, 1.0))
        pieces = _until_cancelled(_pieces(request, family, voice, limit), cancel)
        rests = deque[int | None]()

        def read() -> str | None:
            with self._reading:
                piece, rest = next(pieces, (None, None))
            rests.append(rest)
            return piece

        def say(piece: str, beside: bool) -> Iterator[Any]:
            with self._computing:
                return family.say(piece, voice, pace, beside)

        with contextlib.closing(computed_ahead(read, say, limit, cancel)) as samples:
            silent = True
            for pcm in growing(_until_cancelled(samples, cancel)):
                if pcm is not None:
                    spoken, silent = True, False
                    yield AudioEvent(pcm, family.sample_rate)
                    continue
                if silent:
                    yield None
                if (at := rests.popleft()) is not None:
                    yield Rest(at, spoken)
                silent = True
        if not spoken and not cancel.is_set():
            if not request.text.strip() or any(char.isalnum() for char in request.text):
                raise InvalidRequest("the text holds nothing that can be spoken", param="text")
            yield AudioEvent(bytes(2 * int(SILENCE_SECONDS * family.sample_rate)), family.sample_rate)

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


def _pieces(request: SpeakRequest, family: Family, voice: str, limit: int) -> Iterator[tuple[str, int | None]]:
    """As ``with_rests``, of what is left to say."""
    first = request.rest.at if request.rest else 0
    return with_rests(cut.passages(request.text), lambda passage: family.pieces(passage, voice, limit), first)


def _until_cancelled(items: Iterable[T], cancel: Cancel) -> Iterator[T]:
    return itertools.takewhile(lambda _: not cancel.is_set(), items)


def _cool(voice: Family) -> None:
    pages.drop_mapped(*voice.mapped)
    session.release()
