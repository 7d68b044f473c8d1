"""Who speaks when in a recording: the known speakers of a request, and the speakers that the engine finds."""

from __future__ import annotations

import bisect
import itertools
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from starlette.requests import Request

from edgeserve.api.data_url import decoded
from edgeserve.api.presence import leashed, watching
from edgeserve.api.sound.recording import CHECKS, sound_files
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError, InvalidRequest, NotConfigured
from edgeserve.jobs import INFO
from edgeserve.media.leash import Leash
from edgeserve.messages import Audio, DiarizeRequest, Pcm, SegmentEvent, SpeakerEvent, Word
from edgeserve.residency.pool import Pool

MOST_KNOWN = 4
"""Known speakers of one request, as at OpenAI."""
REFERENCE_SECONDS = 10.0
NAMES, REFERENCES = "known_speaker_names", "known_speaker_references"


@dataclass(frozen=True, slots=True)
class Known:
    """Known speakers: their names, and a recording of each."""

    names: tuple[str, ...] = ()
    audio: tuple[Audio, ...] = ()


class Speakers:
    """The speakers of a recording by time. ``turns`` are in order and disjoint."""

    def __init__(self, turns: Sequence[SpeakerEvent], names: Sequence[str]) -> None:
        self._turns, self._names = turns, names
        self._starts, self._ends = [one.start for one in turns], [one.end for one in turns]

    def at(self, start: float, end: float) -> str:
        """The speaker with the longest part of a time, else the nearest one. The first one where nobody was heard."""
        # The turns that overlap, with a neighbour at each side: a long recording has thousands.
        first, last = bisect.bisect_right(self._ends, start), bisect.bisect_left(self._starts, end)
        near = self._turns[max(0, first - 1) : max(first, last) + 1]
        best = min(near, key=lambda one: (-_overlap(one, start, end), _distance(one, start, end)), default=None)
        return self._name(best.speaker if best else len(self._names))

    def split(self, segment: SegmentEvent) -> list[tuple[str, SegmentEvent]]:
        """The segment in parts of one speaker each, cut between words. Without times of words it is one part."""
        parts: list[tuple[str, list[Word]]] = []
        for word in segment.words:
            speaker = self.at(word.start, word.end)
            if not parts or parts[-1][0] != speaker:
                parts.append((speaker, []))
            parts[-1][1].append(word)
        if len(parts) < 2:
            return [(self.at(segment.start, segment.end), segment)]
        return [(speaker, _part(segment, words)) for speaker, words in parts]

    def _name(self, number: int) -> str:
        """A known name; else a letter, A for the first: after Z follow AA, BB and so on. No letter is a known name."""
        if number < len(self._names):
            return self._names[number]
        free = (one for one in _letters() if one not in self._names)
        return next(itertools.islice(free, number - len(self._names), None))


def _letters() -> Iterator[str]:
    for times in itertools.count(1):
        yield from (one * times for one in string.ascii_uppercase)


def _overlap(one: SpeakerEvent, start: float, end: float) -> float:
    return max(0.0, min(one.end, end) - max(one.start, start))


def _distance(one: SpeakerEvent, start: float, end: float) -> float:
    return max(one.start - end, start - one.end, 0.0)


def _part(segment: SegmentEvent, words: Sequence[Word]) -> SegmentEvent:
    text = "".join(word.text for word in words)
    return replace(segment, start=words[0].start, end=words[-1].end, text=text, words=tuple(words), tokens=())


def require(pool: Pool) -> None:
    """Raises NotConfigured without a model for speakers, with the commands that add one."""
    if pool.directory.of(("speaker",)):
        return
    one = INFO["speaker"]
    text = "this device has no model that tells speakers apart"
    raise NotConfigured(f"{text}: `edgeserve pull {one.example}`, and add to models.toml:\n{one.how_to_add}")


async def read_known(request: Request, names: Sequence[str], references: Iterable[str]) -> Known:
    """The known speakers of a form. Raises InvalidRequest and its kinds, which name the field; and Busy."""
    addresses = tuple(references)
    if len(names) != len(addresses):
        text = f"{REFERENCES} has {len(addresses)} recordings for {len(names)} names; send one recording for each name"
        raise InvalidRequest(text, param=REFERENCES)
    if len(set(names)) < len(names) or not all(map(str.strip, names)):
        raise InvalidRequest(f"{NAMES}: each name is different, and not empty", param=NAMES)
    return Known(tuple(names), tuple([await _recording(request, *one) for one in enumerate(addresses)]))


async def _recording(request: Request, number: int, address: str) -> Audio:
    param, files = f"{REFERENCES}[{number}]", sound_files(request)

    def read(leash: Leash) -> Audio:
        # As samples, since a request that crosses to a worker has one decoder beside it, for the recording.
        return Pcm(files.samples(decoded(address, param), REFERENCE_SECONDS, param, leash))

    return await leashed(request.receive, CHECKS, read)


async def find(request: Request, audio: Audio, known: Known, keep_alive: float | None) -> Speakers:
    """The speakers of a recording, by the device's model for it. Its lease ends before this returns.

    Raises what a lease and its answer raise.
    """
    pool: Pool = request.app.state.pool
    turns: list[SpeakerEvent] = []
    model = pool.directory.of(("speaker",))[0].id
    async with await pool.lease(model, keep_alive) as lease, watching(request.receive, lease.release):
        try:
            async for event in lease.run(DiarizeRequest(audio, known.audio)):
                if isinstance(event, SpeakerEvent):
                    turns.append(event)
        except EdgeserveError as error:
            error.param = REFERENCES if error.param == "references" else error.param
            raise
    return Speakers(turns, known.names)
