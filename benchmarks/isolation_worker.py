"""The life of a worker: its start, its steps up and down, and the time after it was killed."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.device import Device
from benchmarks.isolation_pairs import Figure, Figures, Pairs
from benchmarks.llm_scenes import body
from benchmarks.process import ServerProcess, family, serving
from benchmarks.streams import Stream
from benchmarks.targets import STILL

from edgeserve.engine import Engine
from edgeserve.hosts.link import Link
from edgeserve.hosts.remote import ENTRY, RemoteEngine
from edgeserve.processes.launcher import Launcher

WORKER = "edgeserve: llm"
"""The name that ps shows."""
LONG_ANSWER = 400
KILLS = 2
"""Deaths of one server's worker: after a third one within a minute it starts none for a second."""

STEPS: Mapping[str, Figure] = {
    "fork": Figure("launch until it may be opened, a fork (as for speech), ms", "alone", 60.0, digits=1),
    "fresh": Figure("launch until it may be opened, a fresh interpreter (as for chat), ms", "alone", 60.0, digits=1),
    "open": Figure("cold → warm, ms", "difference"),
    "heat": Figure("warm → hot, ms", "difference"),
    "park": Figure("hot → warm, ms", "difference"),
    "close": Figure("warm → cold, ms", "difference"),
}
DEATHS: Mapping[str, Figure] = {
    "error": Figure("SIGKILL until the client has its error, ms", "alone"),
    "next": Figure("first token of the request after it, ms", "alone"),
}


def steps(device: Device, rounds: int) -> Pairs:
    """Steps of the language model without HTTP. In a process of its own, which loads the runtime."""
    config = device.config("steps", ["llm"])
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
        return child.submit(_steps, config, dict(device.environ), rounds).result()


def _steps(path: Path, variables: dict[str, str], rounds: int) -> Pairs:
    from edgeserve import config, specification
    from edgeserve.models.folder import default_root
    from edgeserve.models.store import Store
    from edgeserve.named import make_engine
    from edgeserve.processes.launcher import make_launcher
    from edgeserve.processes.spawner import Spawner

    (spec,) = specification.specs(config.load(variables, path=path), Store(default_root(variables)))
    launchers: dict[str, Launcher] = {
        "fork": make_launcher(("edgeserve.hosts.worker_entry", spec.engine.partition(":")[0])),
        "fresh": Spawner(),
    }

    def scene(side: str, turn: int) -> Figures:
        if side == "thread":
            return _climb(make_engine(spec))
        remotes = {name: RemoteEngine(make_engine(spec), launcher) for name, launcher in launchers.items()}
        return {**{name: _ready(one) for name, one in remotes.items()}, **_climb(remotes["fresh"])}

    pairs = Pairs()
    try:
        pairs.measure(scene, rounds)
    finally:
        for launcher in launchers.values():
            launcher.stop()
    return pairs


def _ready(remote: RemoteEngine) -> float:
    """Milliseconds from the launch of a worker to its first frame."""
    remote.open()  # prepares the model, which is done once
    remote.close()
    began = time.perf_counter()
    link = Link(remote._launch(ENTRY), remote.spec.name, lambda code: None)
    link.wait()
    took = time.perf_counter() - began
    link.stop()
    return 1000 * took


def _climb(engine: Engine | RemoteEngine) -> Figures:
    named = {"open": engine.open, "heat": engine.heat, "park": engine.park, "close": engine.close}
    return {name: _milliseconds(step) for name, step in named.items()}


def _milliseconds(step: Callable[[], None]) -> float:
    began = time.perf_counter()
    step()
    return 1000 * (time.perf_counter() - began)


def deaths(device: Device, servers: int, endings: tuple[int, ...]) -> Pairs:
    """Kill the worker of so many servers, one after the other, in the middle of an answer."""
    pairs = Pairs()
    config = device.config("deaths", ["llm"], server={"isolation": "process"}, residency=STILL)
    for number in range(servers):
        with serving(config, "--log-level", "error", environ=device.environ) as server:
            server.wait_healthy()
            for turn in range(KILLS):
                pairs.add("process", asyncio.run(_death(server, random.Random(f"{number} {turn}"), endings)))
    return pairs


async def _death(server: ServerProcess, dice: random.Random, endings: tuple[int, ...]) -> Figures:
    """Raises RuntimeError when the answer survives its worker."""
    stream = Stream(server.port, body("Tell me a long story.", LONG_ANSWER, dice, endings))
    answer = asyncio.create_task(stream.run())
    await stream.flowing.wait()
    (worker,) = (one.pid for one in family(server.pid) if one.name() == WORKER)
    killed = time.perf_counter()
    os.kill(worker, signal.SIGKILL)
    try:
        await answer
    except RuntimeError:
        error = time.perf_counter() - killed
    else:
        raise RuntimeError("the answer came whole, although its worker was killed")
    following = await Stream(server.port, body("Tell me a story.", 2, dice, endings)).run()
    return {"error": 1000 * error, "next": 1000 * following.first}
