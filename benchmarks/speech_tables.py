"""The speech benchmark as tables, a picture and a page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jiwer
from benchmarks import report
from benchmarks.process import Memory
from benchmarks.speech_sides import DIRECT, ENGINE, HTTP, PEER8, Took

SPEED, SAID, FIRST = 1.2, 0.95, 1.2
"""Targets, as ratios to the peers.

- the speed of transcription to theirs at int8, at least
- the speed of speech to theirs, at least
- the time to the first sound to that of their first sentence, at most
"""
PLAIN = jiwer.Compose(
    [
        jiwer.ToLowerCase(),
        jiwer.SubstituteRegexes({r"[^a-z' ]+": " "}),
        jiwer.RemoveMultipleSpaces(),
        jiwer.Strip(),
        jiwer.ReduceToListOfListOfWords(),
    ]
)


BOUNDS = (
    "Where the time of speech goes: of 10 s of sound, two sentences, the network takes some 35 ms on both cores, "
    "signal processing 13 on one, reading 4, HTTP 3. The second sentence's network runs beside the first one's "
    "signal processing. Each side is asked after a pause, which slows all of it, since caches are cold then. "
    "Memory that was given back costs a page fault for every 4 KB, 3.5 µs each on this virtual machine; therefore "
    "the voice keeps that of one sentence, up to 13 MB, while it is hot."
)


def word_error(said: Sequence[str], heard: Sequence[str]) -> float:
    """Edits for each word said, case and punctuation aside."""
    found = jiwer.process_words([*said], [*heard], reference_transform=PLAIN, hypothesis_transform=PLAIN)
    return float(found.wer)


@dataclass(slots=True)
class Runs:
    """Seconds of each side for each text, once a round, and its peak of memory for the longest text, alone."""

    texts: Mapping[str, str]
    lengths: Mapping[str, float]
    """Seconds of sound."""
    took: dict[str, dict[str, list[Took]]] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)

    def add(self, side: str, text: str, one: Took) -> None:
        self.took.setdefault(side, {}).setdefault(text, []).append(one)

    def median(self, side: str, text: str, what: str) -> float:
        return statistics.median(getattr(one, what) for one in self.took[side][text])

    def ratio(self, side: str, peer: str, text: str, what: str = "seconds", of: str = "seconds") -> float:
        """``of`` of the peer divided by ``what`` of the side in the same round, the median."""
        pairs = zip(self.took[side][text], self.took[peer][text], strict=True)
        return statistics.median(getattr(theirs, of) / getattr(ours, what) for ours, theirs in pairs)

    def error(self, side: str) -> float:
        """Word error of the last round, over all texts."""
        return word_error([*self.texts.values()], [self.took[side][text][-1].found for text in self.texts])


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    value: float
    limit: float
    more: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.more else self.value <= self.limit


def targets(heard: Runs, said: Runs) -> list[Target]:
    found = []
    for side in (ENGINE, HTTP):
        for text in heard.texts:
            ratio = heard.ratio(side, PEER8, text)
            found.append(Target(f"{side}: speed, {text}, against {PEER8}", ratio, SPEED, more=True))
        found.append(Target(f"{side}: words wrong, %", 100 * heard.error(side), 100 * heard.error(PEER8)))
        found.append(Target(f"{side}: memory at most, MB", heard.memory[side].pss, heard.memory[PEER8].pss))
    for text in said.texts:
        found.append(Target(f"speech over HTTP: speed, {text}", said.ratio(HTTP, DIRECT, text), SAID, more=True))
        first = 1 / said.ratio(HTTP, DIRECT, text, "first", "first")
        found.append(Target(f"speech over HTTP: first sound, {text}, their first sentence = 1", first, FIRST))
    return found


def hearing(runs: Runs) -> str:
    header = ["", *(f"{text}, {length:.0f} s" for text, length in runs.lengths.items())]
    header += ["processor, s", "words wrong", "memory, MB", "of it private"]
    rows = []
    for side in runs.took:
        cells = []
        for text, length in runs.lengths.items():
            speed = f"{length / runs.median(side, text, 'seconds'):.1f}×"
            cells.append(speed if side == PEER8 else f"{speed} ({runs.ratio(side, PEER8, text):.2f})")
        processor = sum(runs.median(side, text, "processor") for text in runs.texts)
        memory = runs.memory[side]
        cells += [f"{processor:.2f}", f"{100 * runs.error(side):.2f}%", f"{memory.pss:.0f}", f"{memory.anonymous:.0f}"]
        rows.append([side, *cells])
    return report.table(header, rows)


def speaking(runs: Runs) -> str:
    names = [f"{text}, {length:.0f} s of sound" for text, length in runs.lengths.items()]
    header = ["", *(cell for name in names for cell in (f"{name}: s", "first, ms"))]
    header += ["processor, s", "memory, MB", "of it private"]
    rows = []
    for side in runs.took:
        cells = []
        for text in runs.texts:
            ratio = "" if side == DIRECT else f" ({runs.ratio(side, DIRECT, text):.2f})"
            cells += [f"{runs.median(side, text, 'seconds'):.3f}{ratio}"]
            cells += [f"{1000 * runs.median(side, text, 'first'):.0f}"]
        processor = sum(runs.median(side, text, "processor") for text in runs.texts)
        memory = runs.memory[side]
        rows.append([side, *cells, f"{processor:.2f}", f"{memory.pss:.0f}", f"{memory.anonymous:.0f}"])
    return report.table(header, rows)


def judged(found: Sequence[Target]) -> str:
    rows = (
        [one.what, f"{one.value:.2f}", f"{'≥' if one.more else '≤'} {one.limit:.2f}", "yes" if one.met else "no"]
        for one in found
    )
    return report.table(["target", "measured", "limit", "met"], rows)


def write(heard: Runs, said: Runs, threads: int, rounds: int) -> Path:
    body = [
        "Whisper tiny.en, one checkpoint: faster-whisper runs it as it is, ours was converted from it. Speech of the "
        f"starter voice, texts known. {threads} threads each, greedy, the same higher temperatures where the text "
        f"repeats itself, no search for speech beforehand. All sides run beside each other and are asked in turns, "
        f"{rounds} rounds after one to warm up, each in the other order. `{HTTP}` is the server over HTTP, upload and "
        f"answer included; `{ENGINE}` its engine in a process of its own, int8 where the processor adds exactly; times "
        "realtime, in brackets the speed as a multiple of faster-whisper's at int8 in the same round, medians. "
        "`processor`: of one pass over all texts. Memory: proportional set size at most while the longest text is "
        "worked on, each side running alone, its runtime and weights included.",
        hearing(heard),
        f"Speech, the starter voice, {threads} threads: `{DIRECT}` is the voice library called directly, one "
        "sentence after the other. In brackets: the speed as a multiple of its own. `First`: to the first sound; for "
        "the library that is its first sentence.",
        speaking(said),
        judged(targets(heard, said)),
        BOUNDS,
        "![the comparison](speech_peers.png)",
    ]
    return report.write("speech_peers", "Speech, against faster-whisper and the voice library", "\n\n".join(body))


def draw(heard: Runs, said: Runs) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (speed, memory, first) = pyplot.subplots(1, 3, figsize=(15, 3.6), width_ratios=(3, 2, 2))
    sides, width = list(heard.took), 0.8 / len(heard.took)
    for number, side in enumerate(sides):
        rates = [length / heard.median(side, text, "seconds") for text, length in heard.lengths.items()]
        bars = speed.bar([place + width * number for place in range(len(rates))], rates, width=0.9 * width, label=side)
        speed.bar_label(bars, fmt="%.0f", fontsize=7)
    places = [place + width * (len(sides) - 1) / 2 for place in range(len(heard.lengths))]
    speed.set_xticks(places, [f"{text}, {length:.0f} s" for text, length in heard.lengths.items()])
    speed.set_title("transcription, times realtime")
    speed.legend(frameon=False, fontsize=7)
    private = [heard.memory[side].anonymous for side in sides]
    memory.barh(sides, private, label="private")
    memory.barh(sides, [heard.memory[side].file for side in sides], left=private, label="files, droppable")
    memory.invert_yaxis()
    memory.set_title("its memory at most, MB")
    memory.legend(frameon=False, fontsize=7)
    for number, side in enumerate(said.took):
        times = [1000 * said.median(side, text, "first") for text in said.texts]
        bars = first.bar([place + 0.27 * number for place in range(len(times))], times, width=0.25, label=side)
        first.bar_label(bars, fmt="%.0f", fontsize=7)
    first.set_xticks([place + 0.27 for place in range(len(said.texts))], list(said.texts))
    first.set_title("speech, first sound, ms")
    first.legend(frameon=False, fontsize=7)
    for axis in (speed, first):
        axis.set_ylim(top=1.3 * axis.get_ylim()[1])  # room for the names
    for axis in (speed, memory, first):
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    figure.tight_layout()
    figure.savefig(report.picture("speech_peers"), dpi=120)
