"""One row of the comparison with llama.cpp's server: pairs of one scene, alone or beside a busy process."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks import synthetic
from benchmarks.llm_scenes import CLIENTS, Figures, Scene, Scenes
from benchmarks.pairs import Pair, Pairs
from benchmarks.process import ServerProcess

SCENES = {
    **{str(count): f"{count} clients" for count in CLIENTS},
    **{name: name for name in ("cold", "prefix", "long")},
}
"""Scenes by the name of their row: clients at a time; a prompt that no cache knows, a known prefix, a long prompt
beside streams."""
MEMORY = "memory"
"""Row of the private memory after answers of four clients: the first one, before other rows fill caches."""
ROWS = (MEMORY, *SCENES)
PAIRS = 7
MAPPED, TUNED = "weights mapped", "form as measured"
BUSY = ", beside a busy process"
LOAD = "load"
"""Figure beside each pair: the load of the machine, both servers included."""
SPIN = "while True: pass"
Side = Callable[[ServerProcess, int], Figures]
"""The figures of a server in a turn."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--row", nargs="+", choices=(*ROWS, "all"), help="measure these rows alone")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of a row (default: {PAIRS})")
    parser.add_argument("--busy", action="store_true", help="beside a process that keeps a core busy")
    parser.add_argument(
        "--tune", action="store_true", help="let `edgeserve tune` choose the form of ours before, once for each --cache"
    )
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="folder of synthetic models")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keep the pairs here, and measure only missing ones")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page of the pairs in --kept")


def model(given: str, cache: Path | None) -> str:
    """A name or file as given; the file of a synthetic model for shape:format. Raises ValueError."""
    shape, colon, quant = given.partition(":")
    if not colon or shape not in synthetic.SHAPES:
        return given
    if cache is None:
        raise ValueError(f"{given} is a synthetic model: name a folder to keep it in with --cache")
    return str(synthetic.cached(cache, shape, quant))


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    """A process that keeps one core busy."""
    with subprocess.Popen([sys.executable, "-c", SPIN]) as process:
        try:
            yield
        finally:
            process.kill()


def subject(llm: str, *, tuned: bool, busy: bool) -> str:
    """The model and the conditions of a run: the page has a table for each."""
    return f"{Path(llm).stem}, {TUNED if tuned else MAPPED}{BUSY if busy else ''}"


def missing(pairs: Pairs, subject: str, rows: Sequence[str], count: int) -> dict[str, list[int]]:
    """The rows with turns that are not kept, and these turns."""
    kept = {(one.case, one.turn) for one in pairs.all if one.subject == subject}
    found = {row: [turn for turn in range(1, count + 1) if (row, turn) not in kept] for row in rows}
    return {row: turns for row, turns in found.items() if turns}


def side(row: str, scenes: Mapping[str, Scene]) -> Side:
    """The measurement of a row."""
    scene = scenes[SCENES["4" if row == MEMORY else row]]

    def figures(server: ServerProcess, turn: int) -> Figures:
        found = scene(server.port, turn)
        return {"private": server.memory().anonymous} if row == MEMORY else found

    return figures


def measure(
    servers: Mapping[str, ServerProcess], subject: str, row: str, turns: Sequence[int], pairs: Pairs, ask: Side
) -> None:
    """Add a pair of each figure for each of these turns, after one to warm up. Who is asked first alternates.

    ``servers``: by side, ours first.
    """
    ours, theirs = servers
    for turn in (0, *turns):
        found = {}
        for name in list(servers)[:: 1 if turn % 2 else -1]:
            found[name] = ask(servers[name], turn)
            told = ", ".join(f"{what} {value:.1f}" for what, value in found[name].items())
            print(f"{subject}, turn {turn}, {row}, {name}: {told}", file=sys.stderr, flush=True)
        for figure in found[ours] if turn else ():
            load = {LOAD: os.getloadavg()[0]}
            pairs.add(Pair(subject, figure, row, turn, found[ours][figure], found[theirs][figure], load))


def run(
    arguments: argparse.Namespace,
    servers: Mapping[str, ServerProcess],
    subject: str,
    endings: tuple[int, ...],
    pairs: Pairs,
) -> None:
    """Measure what is asked for and not kept. Raises RuntimeError for an answer that is not whole."""
    scenes = Scenes(endings).all()
    rows = ROWS if "all" in arguments.row else arguments.row
    with busy_process() if arguments.busy else contextlib.nullcontext():
        for row, turns in missing(pairs, subject, rows, arguments.pairs).items():
            measure(servers, subject, row, turns, pairs, side(row, scenes))
