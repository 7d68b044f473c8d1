"""The form without models: a server program on fake engines in worker processes.

    python -m benchmarks.chaos.fakes FOLDER HANG PORT

Every engine has a model file in FOLDER, which it maps as runtimes map weights. HANG: seconds without a sign of life
after which a worker is killed.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.chaos import asks
from benchmarks.chaos.house import Form
from benchmarks.chaos.live import Sound

from edgeserve.hosts import link, watch

ENGINES = {
    "llm": "edgeserve.engines.fake.chat:FakePreparingChat",
    "vision": "edgeserve.engines.fake.chat:FakeBatchChat",
    "asr": "edgeserve.engines.fake.engine:FakeSpeechToText",
    "tts": "edgeserve.engines.fake.engine:FakeTextToSpeech",
    "embedding": "edgeserve.engines.fake.chat:FakeChat",
    "rerank": "edgeserve.engines.fake.rerank:FakeRerank",
}
ABORT = "abort-now"
OPTIONS = {"delay": 0.002, "mapped_mb": 1, "private_mb": 4, "request_mb": 1, "context": 100_000, "abort_word": ABORT}
FILE_BYTES = 1 << 20
LIVE_SECONDS = 4
LIMIT = 90.0
"""A request may wait for a worker that hangs, and for another that is started anew."""
RESTLESS = {"warm_after": 1.0, "idle_timeout": 2.0, "check_interval": 0.25}


def prepare(folder: Path, hang: float = watch.HANG) -> Form:
    """Write the models; returns the form."""
    from benchmarks.mmproj import picture

    from edgeserve.engines.fake.engine import MARK

    files = {}
    for job in ENGINES:
        files[job] = folder / f"{job}.model"
        files[job].write_bytes(MARK + bytes(FILE_BYTES) + MARK)
    pieces = [struct.pack("<f", 0.25) * 16_000] * LIVE_SECONDS
    command = (sys.executable, "-m", "benchmarks.chaos.clock", "benchmarks.chaos.fakes", str(folder), str(hang))
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
    """In this process, until SIGTERM: the server as it is built for any models. ``options`` of every engine."""
    from edgeserve import server
    from edgeserve.config import Config, ResidencySettings, ServerSettings
    from edgeserve.errors import ModelMissing
    from edgeserve.memory.policy import MemoryPolicy
    from edgeserve.model_settings import ModelSettings
    from edgeserve.models.store import Store
    from edgeserve.models.stored import StoredModel

    class Fakes(Store):
        def find(self, name: str) -> StoredModel:
            if name not in ENGINES:
                raise ModelMissing(f"{name} is not on this device")
            path = folder / f"{name}.model"
            files = {"model": path, "mmproj": path} if name == "vision" else {"model": path}
            return StoredModel(f"fake-{name}", name, ENGINES[name], files, FILE_BYTES, options=options)  # type: ignore[arg-type]

        def needed(self, name: str) -> tuple[()]:
            return ()

    engines = {job: ModelSettings(job=job, model=job) for job in ENGINES}
    config = Config(
        server=ServerSettings(port=port, isolation="process"),
        residency=ResidencySettings(**RESTLESS),
        memory=MemoryPolicy(grace_seconds=0.5, queue_seconds=5.0),
        models=engines,  # type: ignore[arg-type]
    )
    raise SystemExit(server.serve(config, Fakes(folder)))


if __name__ == "__main__":
    link.HANG = float(sys.argv[2])
    serve(Path(sys.argv[1]), int(sys.argv[3]))
