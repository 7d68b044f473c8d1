"""Our transcription against faster-whisper, our speech against the voice library: speed, words wrong, memory.

    python -m benchmarks.speech_peers [--rounds 5] [--threads 2] [--texts short minute long]

Same weights, same threads. All sides are alive and answer in turns, so that other load meets all of them. Memory is
measured afterwards, each side alone.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil
from benchmarks import speech_sides, speech_tables
from benchmarks.process import Memory
from benchmarks.sampling import Sampler
from benchmarks.speech_sides import Open, Side, Took
from benchmarks.speech_tables import Runs
from benchmarks.speech_texts import TEXTS

SAMPLED, SETTLED = 0.05, 0.05
"""Seconds between two looks at the memory of a side, and between two at what processor time it took."""

Ask = Callable[[Side, str], Took]


def alternate(sides: Mapping[str, Open], runs: Runs, ask: Ask, rounds: int) -> None:
    """The first round warms up; who is asked first alternates."""
    with contextlib.ExitStack() as stack:
        opened = {name: stack.enter_context(one()) for name, one in sides.items()}
        order = list(opened)
        for turn in range(rounds + 1):
            for text in runs.texts:
                for name in order[:: 1 if turn % 2 else -1]:
                    settle(opened.values())
                    took = ask(opened[name], text)
                    print(
                        f"round {turn} of {rounds}, {text}, {name}: {took.seconds:.3f} s", file=sys.stderr, flush=True
                    )
                    if turn:
                        runs.add(name, text, took)
    runs.took = {name: runs.took[name] for name in sides}


def settle(sides: Iterable[Side]) -> None:
    """Return when no side computes any more: OpenMP's threads spin on for a while after their work, and would slow the
    next side."""
    processes = [psutil.Process(one.pid) for one in sides]
    before, now = [-1.0], [0.0]
    while now != before:
        time.sleep(SETTLED)
        before, now = now, [sum(one.cpu_times()[:2]) for one in processes]


def peaks(sides: Mapping[str, Open], longest: str, ask: Ask) -> dict[str, Memory]:
    """Each side alone, started anew."""
    found = {}
    for name, one in sides.items():
        with one() as side, Sampler(side.pid, interval=SAMPLED) as sampler, sampler.span("work"):
            ask(side, longest)
        found[name] = sampler.record.peak("work")
        print(f"memory, {name}: {found[name].pss:.0f} MB", file=sys.stderr, flush=True)
    return found


def hear(place: speech_sides.Workplace, folder: Path, texts: dict[str, str], rounds: int) -> Runs:
    clips = speech_sides.recorded(folder, texts)
    runs = Runs(texts, {name: speech_sides.length_of(path) for name, path in clips.items()})

    def ask(side: Side, text: str) -> Took:
        return side.hear(clips[text])

    sides = {name: one for name, one in place.hearing().items() if name != speech_sides.BATCHED}
    alternate(sides, runs, ask, rounds)
    runs.memory = peaks(sides, list(texts)[-1], ask)
    return runs


def speak(place: speech_sides.Workplace, heard: Runs, rounds: int) -> Runs:
    runs = Runs(heard.texts, heard.lengths)

    def ask(side: Side, text: str) -> Took:
        return side.say(runs.texts[text])

    alternate(place.speaking(), runs, ask, rounds)
    runs.memory = peaks(place.speaking(), list(runs.texts)[-1], ask)
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--texts", nargs="+", choices=TEXTS, default=list(TEXTS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Without our detector of speech: faster-whisper has none here either.
        place = speech_sides.workplace(folder, arguments.threads)
        heard = hear(place, folder, {name: TEXTS[name] for name in arguments.texts}, arguments.rounds)
        said = speak(place, heard, arguments.rounds)
    speech_tables.draw(heard, said)
    print(speech_tables.write(heard, said, arguments.threads, arguments.rounds))
    found = speech_tables.targets(heard, said)
    print(speech_tables.hearing(heard), speech_tables.speaking(said), speech_tables.judged(found), sep="\n\n")
    missed = [one.what for one in found if not one.met]
    print(f"TARGETS MISSED: {', '.join(missed)}" if missed else "targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
