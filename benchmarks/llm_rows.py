"""One row of the comparison with llama.cpp's server: pairs of one scene, alone or beside a busy process."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks import synthetic
from benchmarks.llm_scenes import CLIENTS, Scene, Scenes
from benchmarks.llm_tables import Results, comparison

ROWS = {**{str(count): f"{count} clients" for count in CLIENTS}, **{name: name for name in ("cold", "prefix", "long")}}
"""Scenes by the name of their row: clients at a time; a prompt that no cache knows, a known prefix, a long prompt
beside streams."""
PAIRS = 7
SPIN = "while True: pass"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--row", choices=(*ROWS, "all"), help="measure this row alone; clients, or the kind of prompt")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of a row (default: {PAIRS})")
    parser.add_argument("--busy", action="store_true", help="beside a process that keeps a core busy")
    parser.add_argument("--tune", action="store_true", help="let `edgeserve tune` choose the form of ours before")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="folder of synthetic models")
    parser.add_argument("--out", type=Path, metavar="FILE", help="add the figures to this file, a JSON line a row")


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


def measure(ports: Mapping[str, int], scenes: Mapping[str, Scene], pairs: int) -> Results:
    """So many pairs of each scene, after one to warm up. Who is asked first alternates.

    ``ports``: by side, ours first.
    """
    ours, theirs = ports
    results = Results((ours, theirs), {}, pairs)
    for name, scene in scenes.items():
        for turn in range(pairs + 1):
            for side in results.sides[:: 1 if turn % 2 else -1]:
                figures = scene(ports[side], turn)
                told = ", ".join(f"{what} {value:.1f}" for what, value in figures.items())
                print(f"pair {turn} of {pairs}, {name}, {side}: {told}", file=sys.stderr, flush=True)
                if turn:
                    results.add(side, figures)
    return results


def lines(results: Results, llm: str, *, busy: bool) -> Iterator[str]:
    """A JSON line for each figure."""
    for row in results.rows():
        yield json.dumps(
            {
                "model": Path(llm).stem,
                "busy": busy,
                "figure": row.figure.name,
                "ours": row.ours,
                "theirs": row.theirs,
                "ratio": row.ratio,
                "least": min(row.ratios),
                "most": max(row.ratios),
                "pairs": len(row.ratios),
            }
        )


def main(arguments: argparse.Namespace, ports: Mapping[str, int], endings: tuple[int, ...]) -> int:
    """Measure the rows that are asked for, and print them. Returns the exit code: 1 where a target is missed."""
    scenes = Scenes(endings).all()
    wanted = list(ROWS) if arguments.row == "all" else [arguments.row]
    with busy_process() if arguments.busy else contextlib.nullcontext():
        results = measure(ports, {ROWS[name]: scenes[ROWS[name]] for name in wanted}, arguments.pairs)
    print(f"{arguments.llm}, {'beside a busy process' if arguments.busy else 'alone'}, {arguments.pairs} pairs")
    print(comparison(results))
    if arguments.out:
        with arguments.out.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines(results, arguments.llm, busy=arguments.busy))
    return 1 if any(row.met is False for row in results.rows()) else 0
