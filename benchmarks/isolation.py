"""The process host against the thread host: tokens a second, first tokens, sound, the life of a worker, memory.

    python -m benchmarks.isolation [--pairs 8] [--real MODEL] [--llm MODEL] …

Two servers that differ in ``isolation`` alone run side by side and are asked in turns. The figures are those of a
small model and of one of real size, whose random weights are made here (benchmarks/synthetic.py) unless ``--real``
names a model. About ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from benchmarks import (
    fake_server,
    isolation_memory,
    isolation_tables,
    isolation_worker,
    llm_peers,
    report,
    synthetic,
)
from benchmarks.device import Device, Models, add_arguments, chosen, prepare
from benchmarks.isolation_pairs import SIDES, Pairs
from benchmarks.isolation_speed import (
    CLIENTS,
    FAKE_TOKENS,
    PACE,
    PACED_TOKENS,
    Chat,
    Fakes,
    Files,
    minute_of_sound,
)
from benchmarks.isolation_tables import Results
from benchmarks.process import ServerProcess, serving
from benchmarks.scenario import SENTENCE, record_speech
from benchmarks.targets import STILL, asking

from edgeserve.jobs import Job
from edgeserve.models.folder import default_root
from edgeserve.models.store import Store

Found = TypeVar("Found")
Given = ParamSpec("Given")

SMALL, REAL = "small", "real size"
TOKENS: Mapping[str, int] = {SMALL: 32, REAL: 16}
"""Tokens of an answer, so short that both sides of a pair meet the same load."""
CONTEXT = 4096
FEW = 3
"""Pairs of what takes seconds."""
DEATHS: Mapping[str, int] = {SMALL: 3, REAL: 1}
"""Servers whose workers are killed."""


@contextlib.contextmanager
def both(device: Device, name: str, jobs: tuple[Job, ...], keys: str = "") -> Iterator[dict[str, ServerProcess]]:
    """A server for each side. They stay hot once they are."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for side in SIDES:
            config = device.config(f"{name} {side}", jobs, keys, server={"isolation": side}, residency=STILL)
            server = stack.enter_context(serving(config, "--log-level", "error", environ=device.environ))
            server.wait_healthy()
            servers[side] = server
        yield servers


def chat(device: Device, size: str, pairs: int, endings: tuple[int, ...]) -> Pairs:
    found = Pairs()
    with both(device, f"chat {size}", ("llm",), f"context = {CONTEXT}\n") as servers:
        one = Chat(servers, TOKENS[size], endings)
        for clients in CLIENTS:
            found.measure(functools.partial(one.rate, clients), pairs if size == SMALL else max(FEW, pairs // 2))
        found.measure(one.first, pairs)
        found.measure(one.text, FEW)
        found.measure(one.cold, FEW)
    return found


def files(device: Device) -> Pairs:
    found = Pairs()
    with both(device, "files", ("vision", "asr", "tts")) as servers:
        one = Files(servers, device.picture, minute_of_sound(servers[SIDES[0]]))
        for scene in (one.see, one.transcribe, one.speak):
            found.measure(scene, FEW)
    return found


def fakes(pairs: int) -> Pairs:
    found = Pairs()
    with contextlib.ExitStack() as stack:
        fast, paced = (
            {side: stack.enter_context(fake_server.serving(max(FAKE_TOKENS), delay, side)) for side in SIDES}
            for delay in (0.0, PACE)
        )
        one = Fakes(fast, paced)
        for streams in FAKE_TOKENS:
            found.measure(functools.partial(one.rate, streams), pairs)
        for streams in PACED_TOKENS:
            found.measure(functools.partial(one.cost, streams), pairs)
        found.measure(one.first, pairs)
        found.measure(one.text, pairs)
    return found


def measure(folder: Path, models: Models, real: str, pairs: int, kept: Path) -> Results:
    """All parts, each as soon as it is measured kept in the file ``kept``. A part that lies there is not measured."""
    before = os.getloadavg()[0]
    device = prepare(folder, models)
    sizes = {SMALL: device, REAL: _real(device, folder, real)}
    endings = {size: _endings(one) for size, one in sizes.items()}
    (recording,) = record_speech(device, SENTENCE)
    parts = Parts(kept)
    return Results(
        lives={
            side: parts.of(f"memory, {side}", isolation_memory.live, device, side, asking(device, recording))
            for side in SIDES
        },
        fakes=parts.of("fakes", fakes, pairs),
        chats={size: parts.of(f"chat, {size}", chat, one, size, pairs, endings[size]) for size, one in sizes.items()},
        steps={size: parts.of(f"steps, {size}", isolation_worker.steps, one, pairs) for size, one in sizes.items()},
        deaths={
            size: parts.of(f"deaths, {size}", isolation_worker.deaths, one, DEATHS[size], endings[size])
            for size, one in sizes.items()
        },
        files=parts.of("files", files, device),
        models={size: f"`{_named(one.models.llm)}`, context {CONTEXT}" for size, one in sizes.items()},
        loads=parts.of("loads", lambda: (before, os.getloadavg()[0])),
        cores=os.cpu_count() or 1,
    )


class Parts:
    """Parts of the results by name, in a file, so that a run that was broken off can go on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._parts: dict[str, Any] = pickle.loads(path.read_bytes()) if path.is_file() else {}

    def of(self, name: str, measure: Callable[Given, Found], *given: Given.args, **named: Given.kwargs) -> Found:
        """The part of this name, measured unless it is kept. Tells on stderr how far the run is."""
        if name not in self._parts:
            self._parts[name] = measure(*given, **named)
            self._path.write_bytes(pickle.dumps(self._parts))
            print(f"measured: {name}; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        found: Found = self._parts[name]
        return found


def _real(device: Device, folder: Path, real: str) -> Device:
    """The device with a language model of real size."""
    if not real:
        path = folder / "llama-1b-q4_k_s.gguf"
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
            child.submit(synthetic.build, path, synthetic.SHAPES["llama-1b"], "Q4_K_S").result()
        real = str(path)
    return replace(device, models=replace(device.models, llm=real))


def _endings(device: Device) -> tuple[int, ...]:
    stored = Store(default_root(os.environ)).pull(device.models.llm)
    return llm_peers.endings(stored.files["model"])


def _named(model: str) -> str:
    return Path(model).stem


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pairs", type=int, default=8, help="of each figure; a quarter to a half of what takes long")
    parser.add_argument("--real", default="", metavar="MODEL", help="default: made here, 1.1 B weights of Q4_K_S")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keeps what is measured, and is not measured again")
    add_arguments(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = arguments.kept or Path(folder) / "kept"
        results = measure(Path(folder), chosen(arguments), arguments.real, arguments.pairs, kept)
    isolation_tables.draw(results)
    page = isolation_tables.document(results)
    print(report.write(isolation_tables.NAME, "Engines in processes of their own", page))
    print(page)
    missed = isolation_tables.missed(results)
    print("TARGETS MISSED:\n  " + "\n  ".join(missed) if missed else "targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
