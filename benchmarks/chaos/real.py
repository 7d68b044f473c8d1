"""The form with models: the server's own command, on copies of the models that may be cut and replaced."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import device, live, load, under_limit
from benchmarks.chaos import asks
from benchmarks.chaos.house import DISK, STATES, Form
from benchmarks.chaos.live import Sound
from benchmarks.load import Ask
from benchmarks.process import serving

LIMIT = 180.0
SENTENCES = under_limit.SENTENCES
LONG = "Please bring me two cups of coffee and a glass of water. " * 8
HEARD = ("quick", "brown", "lazy")
"""Words of the first sentence that a live transcription must name."""
RESTLESS = {"warm_after": 4.0, "idle_timeout": 10.0, "check_interval": 0.5}
MEMORY = {"grace_seconds": 1.0, "queue_seconds": 10.0}
PIECE = 64_000
"""Bytes of a second of samples."""


def prepare(folder: Path, models: device.Models, rerank: str = "") -> Form:
    """Copy the models, let the server say what is to be heard, and write models.toml.

    ``rerank``: the name of a model that is pulled; "" for none.
    """
    place = device.prepare(folder, models)
    if rerank:
        device.linked(folder / "device", [rerank])
    under_limit.own_files(place)
    with serving(place.config("voice", ("tts",)), "--log-level", "warning", environ=place.environ) as server:
        server.wait_healthy()
        recorded = {text: live.recorded(server, text) for text in (*SENTENCES, LONG)}
        samples = live.spoken(server, SENTENCES[0]).astype("<f4").tobytes()
    files = _files(place, {"rerank": rerank} if rerank else {})
    sound = Sound([samples[at : at + PIECE] for at in range(0, len(samples), PIECE)], HEARD)
    tables: Mapping[str, Mapping[str, object]] = {
        "server": {"isolation": "process", "log_level": "info"},
        "residency": RESTLESS,
        "memory": MEMORY,
        **({"rerank": {"model": rerank}} if rerank else {}),
    }
    config = place.config("chaos", **tables)
    states = f'[llm]\nprefix_cache_disk_mb = 4\nprefix_cache_dir = "{folder / DISK / STATES}"\n'
    config.write_text(config.read_text().replace("[llm]\n", states))
    command = (sys.executable, "-m", "benchmarks.chaos.clock", "edgeserve", "serve", "--config", str(config), "--port")
    return Form(
        name=", ".join(Path(one).name for one in (*place.models.names().values(), rerank) if one),
        command=command,
        models=Path(place.environ["EDGESERVE_MODELS_DIR"]),
        jobs=tuple(files),
        files=files,
        sharing={"llm": ("llm", "vision")},
        asks=_asks(recorded, place.picture) | (_ranks() if rerank else {}),
        live=sound,
        abort="",
        limit=LIMIT,
        config=config,
    )


def _files(place: device.Device, more: Mapping[str, str]) -> dict[str, Path]:
    """The largest file of each model: the one that its runtime maps."""
    root = Path(place.environ["EDGESERVE_MODELS_DIR"])
    names = {**place.models.names(), **more}
    found = {
        job: max((path for path in (root / name).rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
        for job, name in names.items()
        if job != "vision"
    }
    return {**found, "vision": Path(place.models.mmproj)} if place.models.mmproj else found


def _ranks() -> dict[str, Sequence[Ask]]:
    documents = ["The kettle is on the table.", "Tokyo is the capital of Japan.", "A train leaves at seven."]
    return {"rerank": [asks.rank("What is the capital of Japan?", documents)]}


def _asks(recorded: Mapping[str, bytes], picture: bytes) -> dict[str, Sequence[Ask]]:
    """Answers that are beyond doubt: those made beside others are rounded otherwise than those made alone."""
    question, told = "What is the capital of Japan?", under_limit.SPELLED
    return {
        "native chat": [asks.native(question, 8)],
        "native stream": [asks.native(question, 8, stream=True)],
        "chat": [load.chat(question, 8)],
        "chat stream": [load.chat(question, 8, stream=True)],
        "completions": [load.go_on(told, 32), load.go_on(told, 32, stream=True)],
        "embeddings": [asks.embed(["A heron stands in the water.", "A train leaves at seven."])],
        "vision": [load.look("red", picture, 8)],
        "vision stream": [load.look("red", picture, 8, stream=True)],
        "transcription": [
            load.transcribe("short", recorded[SENTENCES[0]]),
            asks.hear("streamed", recorded[SENTENCES[1]], stream=True),
        ],
        "long sound": [asks.hear("long", recorded[LONG], stream=False), load.transcribe("long", recorded[LONG])],
        "speech wav": [asks.say(SENTENCES[0], "wav")],
        "speech mp3": [asks.say(SENTENCES[1], "mp3"), load.speak(SENTENCES[0], stream=True)],
        "speech pcm": [asks.say(LONG, "pcm")],
    }
