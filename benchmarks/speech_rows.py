"""Our transcription of a human voice beside faster-whisper's, and our speech beside the voice library's, row by row.

    python -m benchmarks.speech_rows --row minute [--busy] [--rounds 5] [--kept FILE] [--cache FOLDER]
    python -m benchmarks.speech_rows --page --kept FILE

A row takes a minute or two. Its pairs are kept in a file, and nothing that the file has is measured again. The second
form writes the page of that file. Without --row all rows are measured, alone and beside a busy process.

Ours is the server over HTTP, upload and answer included. The voice is that of benchmarks/speech_voices.py.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks import llm_rows, report, speech_sides, speech_voices
from benchmarks.device import companions
from benchmarks.pairs import Pair, Pairs, Row, comparison, verdict
from benchmarks.speech_peers import settle
from benchmarks.speech_sides import BATCHED, DIRECT, HTTP, PEER8, Open, Side, Took, Workplace
from benchmarks.speech_tables import word_error
from benchmarks.speech_texts import SHORT
from benchmarks.speech_voices import Recording

THREADS = 2
SAY = "say"
PEERS = {"reading": PEER8, "minute": PEER8, "ten-minutes": BATCHED, SAY: DIRECT}
"""The other side of each row."""
TARGETS = {PEER8: 1.5, BATCHED: 1.2, DIRECT: 1.2}
BUSY_TARGET = 1.0
BUSY = ", beside a busy process"
WRONG, WRONG_OTHER = "wrong", "wrong_other"
"""Figures beside a pair: words wrong of each side, as a share."""


BOUNDS = (
    "Clocks in the serving process and in the worker.",
    "**Short text**, 28 pairs: 40 ms, and 43 of the voice library, whose time has no HTTP in it. 1.2 takes 36 ms. One "
    "request of 37 ms, in ms: 2.6 from the client to the engine, 1.2 for the phonemes of the first sentence, 14 in its "
    "network on both cores, beside the phonemes of the second. 11 in the second network on one core, beside the "
    "samples of the first. 6 for the samples of the second on one core, 0.6 to the client. The rest are switches of "
    "threads. Three changes were tried, 40 rounds each, servers in turns. The second sentence read after the first "
    "network instead of beside it: 1.04 of the time. Both networks at once, a thread each: 1.15, and 1.32 to the first "
    "sound. The samples in two threads: 1.05. Both threads once came to share a core after a pause "
    "([decision 27](../decisions/0027-threads.md)).",
    "**Ten minutes**, clocks in the server, 3 requests of 5.3 to 5.7 s, 24 windows: 2.1 to 2.4 s in 799 steps of the "
    "decoder, 1.6 in the encoder, 0.64 in the detector of speech on one core, 0.16 in the choice of tokens, 0.11 in "
    "features, 0.16 from the client's first byte to the worker, 0.07 of waiting for samples. Some 0.3 are Python's. "
    "A step reads 55 MB of the audio's keys and values and 27 MB of weights. "
    "Until 2026-11-23 this page measured a server whose detector was missing, which no pull leaves out. Without the "
    "detector windows are cut at the quietest moment, and their rests take windows of their own: 44 instead of 24, 7.1 "
    "to 8.1 s. The ratio without it was 1.13 in five pairs of that day, and 1.20 to 1.25 in three of 2026-11-24; the "
    "table has the one with it. Two of 1,610 words were wrong without it, `unless` heard as `one less`.",
)
"""Profiles and measurements of 2026-11-23 and 2026-11-24."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One row: what both sides hear, or the text that both say."""

    name: str
    recording: Recording | None

    def ask(self, side: Side) -> Took:
        return side.say(SHORT) if self.recording is None else side.hear(self.recording.path)

    def rate(self, took: Took) -> float:
        """Seconds of sound a second."""
        return float(took.found if self.recording is None else self.recording.seconds) / took.seconds

    def wrong(self, took: Took) -> float:
        return 0.0 if self.recording is None else word_error([self.recording.words], [took.found])

    def sides(self, place: Workplace) -> Mapping[str, Open]:
        found = place.speaking() if self.recording is None else place.hearing()
        return {side: found[side] for side in (HTTP, PEERS[self.name])}


def kind_of(name: str, *, busy: bool) -> str:
    return f"{name}, against {PEERS[name]}{BUSY if busy else ''}"


def targets() -> dict[str, float]:
    """Ratios of our speed to theirs, at least, by the kind of the pairs."""
    alone = {kind_of(name, busy=False): TARGETS[peer] for name, peer in PEERS.items()}
    return alone | {kind_of(name, busy=True): BUSY_TARGET for name in PEERS}


def measure(place: Workplace, scene: Scene, rounds: int, pairs: Pairs, *, busy: bool) -> None:
    """Add the rounds that are not kept, after one to warm up. Who is asked first alternates."""
    kind = kind_of(scene.name, busy=busy)
    missing = [turn for turn in range(1, rounds + 1) if not pairs.has(HTTP, kind, scene.name, turn)]
    if not missing:
        return
    with contextlib.ExitStack() as stack:
        sides = {name: stack.enter_context(one()) for name, one in scene.sides(place).items()}
        stack.enter_context(llm_rows.busy_process() if busy else contextlib.nullcontext())
        for turn in (0, *missing):
            took = {}
            for name in list(sides)[:: 1 if turn % 2 else -1]:
                settle(sides.values())
                took[name] = scene.ask(sides[name])
                told = f"{kind}, round {turn} of {rounds}, {name}: {took[name].seconds:.3f} s"
                print(told, file=sys.stderr, flush=True)
            ours, theirs = took[HTTP], took[PEERS[scene.name]]
            if turn:
                beside = {WRONG: scene.wrong(ours), WRONG_OTHER: scene.wrong(theirs)}
                pairs.add(Pair(HTTP, kind, scene.name, turn, scene.rate(ours), scene.rate(theirs), beside))


def words(pairs: Pairs, rows: list[Row]) -> str:
    """A table of the words wrong, in percent, of both sides."""
    found = []
    for row in rows:
        of = [one.beside for one in pairs.all if one.kind == row.kind]
        ours, theirs = (100 * sum(one[side] for one in of) / len(of) for side in (WRONG, WRONG_OTHER))
        if not row.kind.startswith(SAY):
            found.append([row.kind, f"{ours:.2f}", f"{theirs:.2f}", "yes" if ours <= theirs else "no"])
    return report.table(["words wrong, %", "edgeserve", "the peer", "no more"], found)


def write(pairs: Pairs, rows: list[Row]) -> Path:
    body = [
        f"`python -m benchmarks.speech_rows`, {THREADS} threads, `{HTTP}` over HTTP beside the peer in a process of "
        "its own, in seconds of sound a second. Both take turns, and the other one comes first in every second round. "
        "The ratio is the median of the ratios of the pairs. A busy process keeps one core busy.",
        "The voice is a human one: five passages of Sense and Sensibility, read for LibriVox, 25 s; longer recordings "
        "repeat them in other orders. Whisper tiny.en, one checkpoint, greedy. Each side is as it comes: ours has the "
        "detector of speech that every pull brings. `batched` is faster-whisper's batched pipeline with 8 windows at "
        "once and the same detector. faster-whisper without batches uses none; with its own, `reading` took it 0.98 "
        "and `minute` 1.06 of the time, medians of 7. `say`: the short text of [the page of texts](speech_peers.md).",
        comparison(rows, ("edgeserve", "the peer")),
        words(pairs, rows),
        "## What bounds it",
        *BOUNDS,
    ]
    return report.write("speech_rows", "A human voice, against faster-whisper", "\n\n".join(body))


def measure_all(arguments: argparse.Namespace, pairs: Pairs) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        heard = speech_voices.recordings(folder, arguments.cache or folder)
        place = speech_sides.workplace(folder, THREADS, companions(["asr"]))
        for row in arguments.row or PEERS:
            for busy in (arguments.busy,) if arguments.row else (False, True):
                measure(place, Scene(row, heard.get(row)), arguments.rounds, pairs, busy=busy)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--row", nargs="+", choices=PEERS, help="measure these rows alone, and write no page")
    parser.add_argument("--busy", action="store_true", help="beside a process that keeps a core busy")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep the package of the recordings here")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keep the pairs here, and measure only missing ones")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page of the pairs in --kept")
    arguments = parser.parse_args()
    pairs = Pairs(arguments.kept)
    if not arguments.page:
        measure_all(arguments, pairs)
    rows = pairs.rows(targets())
    if not arguments.row:
        print(write(pairs, rows))
    print(comparison(rows, ("edgeserve", "the peer")), words(pairs, rows), sep="\n\n")
    return verdict(rows)


if __name__ == "__main__":
    raise SystemExit(main())
