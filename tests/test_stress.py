"""Everything at once: many clients, some of whom hang up, while engines are evicted, parked and loaded at random."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from benchmarks.load import Ask, chat, go_on, look, speak, transcribe
from benchmarks.mmproj import build_mmproj, picture
from support.gates import BATCHING_FAKES, engine_of
from support.memory import FakeProbe
from support.server import Running, fake_pool, serving, until
from support.speech import SENTENCES, spoken, wav
from support.stress import Witness, seeded, settle, storm

from edgeserve import named, specification
from edgeserve.config import Config, ResidencySettings
from edgeserve.engine import Rung
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import JOBS, Job
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.governor import Governor, make_governor
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.model_settings import ModelSettings
from edgeserve.models.store import Store
from edgeserve.residency.pool import Pool
from edgeserve.system.probe import Probe
from edgeserve.units import MB

pytestmark = pytest.mark.slow

RESTLESS = ResidencySettings(warm_after=0.001, idle_timeout=0.002, check_interval=0.005)
EAGER = MemoryPolicy(
    os_reserve_gb=0.0,
    available_margin_gb=0.0,
    max_percent=1.0,
    grace_seconds=0.0,
    pressure_interval=0.05,
    switch_interval=0.01,
    queue_seconds=5.0,
)
"""No grace: whoever is idle may go at once."""


def fake_asks() -> list[Ask]:
    """Three of each kind, no two with the same answer."""
    asks = []
    for number in range(3):
        words = " ".join(f"{number}-{word}" for word in range(5 + 20 * number))
        asks += [chat(words, 100, stream=number % 2 == 0)]
        asks += [look(f"picture {number}", picture("red", 8 + number), 100, stream=number % 2 == 1)]
        asks += [transcribe(f"{number} seconds", wav([0.25] * 16_000 * (1 + number)))]
        asks += [speak("one two. " * (number + 1), stream=number % 2 == 0)]
    return asks


@pytest.mark.parametrize(("total_mb", "queue_limit"), [(16_000, 8), (300, 3)], ids=["room for all", "room for two"])
def test_fake_engines_under_fire(total_mb: int, queue_limit: int) -> None:
    """Each fake takes 120 MB and 5 a request, of a machine that holds nothing else."""
    probe: Any = FakeProbe(total_mb * MB)
    pool = fake_pool(
        queue_limit=queue_limit, governor=Governor(Accounts(EAGER), probe), fakes=BATCHING_FAKES, delay=0.0005
    )
    probe.residents.extend(pool.gates.values())
    witnesses = [Witness(engine_of(gate)) for gate in pool.gates.values()]
    with serving(pool, residency=RESTLESS) as running:
        load = storm(running, fake_asks(), seeded(), clients=32, each=12, seconds=60)
        settle(running, load, witnesses)
        for job in JOBS:
            running.client.post("/memory/preload", json={"engines": [job]})
        assert sum(gate.rung is Rung.HOT for gate in pool.gates.values()) == (4 if total_mb > 480 else 2)
        assert pool.governor.accounts.booked().host == sum(gate.footprint().total for gate in pool.gates.values())
        close_all(running, witnesses)


def close_all(running: Running, witnesses: list[Witness]) -> None:
    for job in JOBS:
        # Refused while the idle monitor is still moving it.
        until(lambda job=job: running.client.post(f"/memory/evict/{job}").status_code == 200)
    assert running.pool.governor.accounts.booked().host == 0
    # A close that is under way shows its rung first, and returns the heap after it.
    until(lambda: [one.opened for one in witnesses] == [0, 0, 0, 0])


def starter_pool(store: Store, projector: Path, policy: MemoryPolicy) -> Pool:
    models: dict[Job, str] = {"llm": CHAT, "vision": CHAT, "asr": "whisper-tiny.en", "tts": "hibari"}
    engines = {job: ModelSettings(job=job, model=store.pull(name).name) for job, name in models.items()}
    engines["vision"] = dataclasses.replace(engines["vision"], mmproj=str(projector))
    governor = make_governor(policy)
    made = [named.make_engine(spec) for spec in specification.specs(Config(models=engines), store)]
    return Pool([ThreadHost(engine, governor) for engine in made], governor)


CHAT = "smollm2-135m-instruct"


def real_asks() -> list[Ask]:
    asks = [chat("What is the capital of Japan?", 12)]
    asks += [go_on("Seven bridges cross the wide old river in the north, and each has a story. ", 8, stream=True)]
    asks += [look("red", picture("red"), 12, stream=True), look("blue", picture("blue"), 12)]
    asks += [transcribe(text, wav(spoken(text))) for text in SENTENCES[:2]]
    asks += [speak("Good morning.", stream=True), speak("Good evening. How are you?")]
    return asks


@pytest.mark.models
@pytest.mark.parametrize("room_mb", [None, 330], ids=["room for all", "room for some"])
def test_the_starter_models_under_fire(store: Store, tmp_path: Path, room_mb: int | None) -> None:
    """With ``room_mb`` above what this process holds already, the four engines have to make way for each other."""
    projector = build_mmproj(store.pull(CHAT).files["model"], tmp_path / "mmproj.gguf")
    asks = real_asks()
    own = Probe().read_quick().process.own // MB
    # What the system cannot take back stays below CRITICAL, however much of it is this process's own.
    total = int((own + room_mb) * 100 / EAGER.critical_percent) if room_mb else 0
    policy = dataclasses.replace(EAGER, override_memory_mb=total, queue_seconds=20.0)
    pool = starter_pool(store, projector, policy)
    witnesses = [Witness(engine_of(gate)) for gate in pool.gates.values()]
    with serving(pool, residency=RESTLESS) as running:
        load = storm(running, asks, seeded(), clients=32, each=1, seconds=200)
        settle(running, load, witnesses)
        close_all(running, witnesses)
