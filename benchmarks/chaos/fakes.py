"""The form without models: a server program on fake engines in worker processes.

    python -m benchmarks.chaos.fakes FOLDER PORT

Every engine has a model file in FOLDER, which it maps as runtimes map weights.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.chaos import asks
from benchmarks.chaos.house import Form
from benchmarks.chaos.live import Sound

ENGINES = {
    "llm": "engines.fake.chat:FakePreparingChat",
    "vision": "engines.fake.chat:FakeBatchChat",
    "asr": "engines.fake.engine:FakeSpeechToText",
    "tts": "engines.fake.engine:FakeTextToSpeech",
    "embedding": "engines.fake.chat:FakeChat",
}
ABORT = "abort-now"
OPTIONS = {"delay": 0.002, "mapped_mb": 1, "private_mb": 4, "request_mb": 1, "context": 100_000, "abort_word": ABORT}
FILE_BYTES = 1 << 20
LIVE_SECONDS = 4
LIMIT = 90.0
"""A request may wait for a worker that hangs, and for another that is started anew."""
BRIEF = 1.0
"""Seconds without a sound file after which the fork server of decoders ends."""
RESTLESS = {"warm_after": 1.0, "idle_timeout": 2.0, "check_interval": 0.25}


def prepare(folder: Path) -> Form:
    """Write the models; returns the form."""
    from benchmarks.mmproj import picture

    from engines.fake.engine import MARK

    files = {}
    for job in ENGINES:
        files[job] = folder / f"{job}.model"
        files[job].write_bytes(MARK + bytes(FILE_BYTES) + MARK)
    pieces = [struct.pack("<f", 0.25) * 16_000] * LIVE_SECONDS
    command = (sys.executable, "-m", "benchmarks.chaos.fakes", str(folder))
    return Form(
        name="engines without models",
        command=command,
        models=None,
        jobs=tuple(ENGINES),
        files=files,
        sharing={},
        asks=asks.of_fakes(picture("red")),
        live=Sound(pieces, ("1",)),
        abort=ABORT,
        limit=LIMIT,
    )


def serve(folder: Path, port: int, options: Mapping[str, object] = OPTIONS) -> None:
    """In this process, until SIGTERM. ``options`` of every engine."""
    from edgeserve import app, logs, named
    from edgeserve.audio.apart import SHARED, SoundFilesApart
    from edgeserve.config import Config, EngineSettings, ResidencySettings, ServerSettings
    from edgeserve.engine import ModelSpec
    from edgeserve.media.children import Children
    from edgeserve.memory.governor import make_governor
    from edgeserve.memory.policy import MemoryPolicy
    from edgeserve.processes.launcher import make_launcher
    from edgeserve.processes.roster import Roster
    from edgeserve.residency.pool import Pool
    from edgeserve.residency.process_host import ProcessHost
    from edgeserve.server import Server, listen
    from edgeserve.system import heap

    heap.tune()
    logs.configure("info")
    policy = MemoryPolicy(grace_seconds=0.5, queue_seconds=5.0)
    roster = Roster()
    launcher = roster.add(make_launcher(("edgeserve.residency.guest", "engines.fake.chat")))
    governor = make_governor(policy, workers=roster.pids)
    specs = [
        ModelSpec(job, f"fake-{job}", engine, {"model": folder / f"{job}.model"}, options=options)  # type: ignore[arg-type]
        for job, engine in ENGINES.items()
    ]
    hosts = [ProcessHost(named.make_engine(spec), launcher, governor) for spec in specs]
    pool = Pool(hosts, governor, roster=roster)
    engines = {spec.job: EngineSettings(model=spec.name) for spec in specs}
    config = Config(server=ServerSettings(), residency=ResidencySettings(**RESTLESS), engines=engines)
    with (
        contextlib.closing(listen("127.0.0.1", port)) as listener,
        contextlib.closing(SoundFilesApart(Children(lambda: make_launcher(SHARED), idle_seconds=BRIEF))) as files,
    ):
        application = app.build(config, pool)
        application.state.sound_files = files  # whose fork server ends soon
        Server(application, pool, config.server.drain_seconds).run([listener])


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
