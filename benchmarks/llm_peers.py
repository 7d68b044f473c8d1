"""Our server against llama.cpp's own, side by side: tokens a second, time to the first token, gaps, memory.

    python -m benchmarks.llm_peers [--rounds 5] [--llm MODEL]
    python -m benchmarks.llm_peers --row 1 --llm qwen3-0.6b:Q4_0 --cache FOLDER [--pairs 7] [--busy] [--tune]
    python -m benchmarks.llm_peers --page --kept FILE

The second form measures a row in a minute or two. Its pairs go into the file ``--kept``, and nothing that the file has
is measured again. The third form writes the page of that file. MODEL is a name or a file, or shape:format of a
synthetic model (benchmarks/synthetic.py), which is built once into the folder ``--cache``.

Both run all the time and answer in turns, so that other load meets both. The benchmark builds llama-server when it is
missing (benchmarks/llama_server.py). Where that fails, it says so and measures nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

from benchmarks import llama_server, llm_page, llm_rows, llm_tables
from benchmarks.device import Device, Models, linked
from benchmarks.llm_scenes import Scenes
from benchmarks.llm_tables import Results
from benchmarks.pairs import Pairs
from benchmarks.process import ServerProcess, serving
from benchmarks.sampling import Sampler

from edgeserve.fit import tuned

THREADS, CONTEXT = 2, 4096
IDLE_SECONDS = 95.0
"""Ours parks after 60 s without a request, and looks every 30 s."""
OURS, THEIRS = "edgeserve", "llama-server"
COPY = "copy.gguf"


@contextlib.contextmanager
def both(
    folder: Path, llm: str, *, tune: bool = False, cache: Path | None = None
) -> Iterator[dict[str, ServerProcess]]:
    """Start both servers, each on a file of its own: of a shared file each would seem to hold the half.

    Both files are copied just before. The way a file was written into the page cache is worth some percent of a
    token's time. ``tune``: ours has the form that was measured, now or before, as the records in ``cache`` tell.
    """
    model, (root, named) = folder / COPY, _own_copy(folder, llm)
    device = Device(folder, Models(llm=named), {"EDGESERVE_MODELS_DIR": str(root)}, b"")
    config = device.config("peers", ["llm"], keys=f"context = {CONTEXT}\nthreads = {THREADS}\n")
    if tune:
        _tune(config, device, named, cache, model)
    with (
        serving(config, "--log-level", "warning", environ=device.environ) as ours,
        llama_server.serving(model, THREADS, CONTEXT) as theirs,
    ):
        for server in (ours, theirs):
            server.wait_healthy()
        yield {OURS: ours, THEIRS: theirs}


def _tune(config: Path, device: Device, llm: str, cache: Path | None, model: Path) -> None:
    """Measure the forms of ours, or take the record of an earlier run from ``cache``, if it holds for ``model``."""
    record = tuned.path_of(Path(device.environ["EDGESERVE_MODELS_DIR"]), Path(llm).stem if "/" in llm else llm)
    kept = cache / tuned.FOLDER / record.name if cache is not None else None
    if kept is None or tuned.read(kept, model) is None:
        command = [sys.executable, "-m", "edgeserve", "tune", llm, "--config", str(config)]
        subprocess.run(command, env={**os.environ, **device.environ}, check=True, stdout=sys.stderr)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(record, kept)
    else:
        record.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, record)


def _own_copy(folder: Path, llm: str) -> tuple[Path, str]:
    """Copy the model for each server. Returns the folder of models of ours, and its name for the model."""
    if Path(llm).is_file():
        ours = folder / Path(llm).name
        for copy in (folder / COPY, ours):
            shutil.copyfile(llm, copy)
        return folder / "models", str(ours)
    root, stored = linked(folder, [llm])
    shutil.copyfile(stored[llm].files["model"], folder / COPY)
    kept = (root / stored[llm].name).resolve()
    (root / stored[llm].name).unlink()
    shutil.copytree(kept, root / stored[llm].name)
    return root, llm


def measure(servers: dict[str, ServerProcess], rounds: int, closing: tuple[int, ...]) -> Results:
    """The first round warms up; who is asked first alternates."""
    scenes = Scenes(closing)
    results = Results((OURS, THEIRS), scenes.prompts, rounds)
    with Sampler(*(servers[side].pid for side in results.sides), interval=0.5) as sampler:
        with sampler.span("fresh"):
            time.sleep(2 * sampler.interval)
        for server in servers.values():
            scenes.all()["4 clients"](server.port, 0)
        with sampler.span("hot"):
            time.sleep(2 * sampler.interval)
        with sampler.span("work"):
            for turn in range(rounds + 1):
                for name, scene in scenes.all().items():
                    for side in results.sides[:: 1 if turn % 2 else -1]:
                        figures = scene(servers[side].port, turn)
                        told = ", ".join(f"{what} {value:.1f}" for what, value in figures.items())
                        print(f"round {turn} of {rounds}, {name}, {side}: {told}", file=sys.stderr, flush=True)
                        if turn:
                            results.add(side, figures)
        print(f"waiting up to {IDLE_SECONDS:.0f} s for {OURS} to park its model", file=sys.stderr, flush=True)
        wait_parked(servers[OURS])
        with sampler.span("idle"):
            time.sleep(4 * sampler.interval)
    results.remember(sampler.record)
    return results


def wait_parked(server: ServerProcess) -> None:
    """Raises TimeoutError."""
    until = time.monotonic() + IDLE_SECONDS
    while cast(Any, server.get("/v1/health"))["rungs"]["llm"] != "warm":
        if time.monotonic() > until:
            raise TimeoutError(f"the model was not parked within {IDLE_SECONDS:.0f} s")
        time.sleep(0.5)


def endings(model: Path) -> tuple[int, ...]:
    """Tokens that end an answer. In a process of its own: the runtime's pages would be shared with the server's."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        return child.submit(_endings, model).result()


def _endings(path: Path) -> tuple[int, ...]:
    from edgeserve.engines.llama import model as llama_model
    from edgeserve.engines.llama.options import LlamaOptions
    from edgeserve.engines.llama.runtime import llama

    model = llama_model.acquire(path, "cpu", LlamaOptions())
    return tuple(token for token in range(llama().llama_vocab_n_tokens(model.vocabulary)) if model.ends(token))


def measure_rows(arguments: argparse.Namespace, llm: str) -> int:
    """The rows that are asked for. Returns the exit code: 1 where a target is missed."""
    pairs = Pairs(arguments.kept)
    subject = llm_rows.subject(llm, tuned=arguments.tune, busy=arguments.busy)
    with (
        tempfile.TemporaryDirectory() as folder,
        both(Path(folder), llm, tune=arguments.tune, cache=arguments.cache) as servers,
    ):
        llm_rows.run(arguments, servers, subject, endings(Path(folder) / COPY), pairs)
    results = llm_page.tables(pairs)[subject]
    print(f"{subject}:", llm_tables.comparison(results), sep="\n")
    return 1 if any(row.met is False for row in results.rows()) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--llm", default=Models().llm, metavar="MODEL", help=f"default: {Models().llm}")
    llm_rows.add_arguments(parser)
    arguments = parser.parse_args()
    if arguments.page:
        return llm_page.main(Pairs(arguments.kept))
    try:
        llama_server.binary()
    except llama_server.CannotBuild as error:
        print(f"not measured: {error}")
        return 0
    llm = llm_rows.model(arguments.llm, arguments.cache)
    if arguments.row:
        return measure_rows(arguments, llm)
    with (
        tempfile.TemporaryDirectory() as folder,
        both(Path(folder), llm, tune=arguments.tune, cache=arguments.cache) as servers,
    ):
        results = measure(servers, arguments.rounds, endings(Path(folder) / COPY))
    llm_tables.draw(results)
    print(llm_tables.write(results, arguments.llm, THREADS, CONTEXT))
    print(llm_tables.comparison(results))
    missed = [row.what for row in results.rows() if row.met is False]
    print(f"TARGETS MISSED: {', '.join(missed)}" if missed else "targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
