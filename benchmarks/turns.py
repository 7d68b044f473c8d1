"""Models that do not fit together take turns: who waits how long, and what a switch from one to the other takes.

    python -m benchmarks.turns [--seconds 120] [--limit 1536] [--large FILE] [--small FILE]

Two language models of about 1.1 and 0.6 GB, Whisper and a voice run in a memory control group that is too small for
them. The language models have random weights. Where no group can be made, EDGESERVE_OVERRIDE_MEMORY_MB simulates the
size. Eight clients ask again and again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from benchmarks import turns_report
from benchmarks.control_group import MB, NotPermittedHere, group
from benchmarks.device import companions, linked, toml
from benchmarks.process import ServerProcess, serving
from benchmarks.synthetic import SHAPES, build

CLIENTS: Mapping[str, int] = {"large": 3, "small": 2, "asr": 2, "tts": 1}
"""Clients by model."""
PAUSE = (0.5, 4.0)
"""Seconds between an answer and the next request of one client, at random."""
TOKENS = 24
SENTENCE = "The train to the city leaves every morning at seven."
TEXT_KEYS = {"context": 1024, "prefix_cache_mb": 16}
QUESTIONS = "Tell me about the number {0} and the river that is called {0}."


@dataclass(slots=True)
class Asked:
    """One request; seconds on the wall clock. ``first``: its first byte."""

    model: str
    sent: float
    first: float = 0.0
    end: float = 0.0
    status: int = 0
    body: bytes = b""


@dataclass(slots=True)
class Clients:
    """All clients of one server. ``sound``: a WAV to transcribe."""

    url: str
    sound: bytes
    dice: random.Random
    asked: list[Asked] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def stay(self, seconds: float) -> None:
        until = time.time() + seconds
        async with self.client() as client:
            await asyncio.gather(
                *(self._again(client, model, until) for model, count in CLIENTS.items() for _ in range(count))
            )

    async def alone(self) -> Mapping[str, float]:
        """Seconds to the first byte of each model while it is hot and nobody else asks."""
        found = {}
        async with self.client() as client:
            for model in CLIENTS:
                for _ in range(3):
                    one = await self.ask(client, model)
                    if one.status != 200:
                        raise RuntimeError(f"{model} alone answered {one.status}: {one.body[:500]!r}")
                    found[model] = min(found.get(model, 60.0), one.first - one.sent)
        return found

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=600, trust_env=False)

    async def _again(self, client: httpx.AsyncClient, model: str, until: float) -> None:
        await asyncio.sleep(self.dice.uniform(0, 2))
        while time.time() < until:
            self.asked.append(await self.ask(client, model))
            await asyncio.sleep(self.dice.uniform(*PAUSE))

    async def ask(self, client: httpx.AsyncClient, model: str) -> Asked:
        path, more = self._request(model)
        one, parts = Asked(model, time.time()), bytearray()
        async with client.stream("POST", path, **more) as answer:
            one.status = answer.status_code
            async for part in answer.aiter_bytes():
                one.first = one.first or time.time()
                parts += part
        one.end, one.body = time.time(), bytes(parts)
        return one

    def _request(self, model: str) -> tuple[str, Mapping[str, Any]]:
        if model == "asr":
            return "/v1/audio/transcriptions", {"data": {"model": "asr"}, "files": {"file": ("a.wav", self.sound)}}
        if model == "tts":
            return "/v1/audio/speech", {"json": {"model": "tts", "input": SENTENCE, "response_format": "pcm"}}
        messages = [{"role": "user", "content": QUESTIONS.format(next(self.numbers))}]
        body = {"model": model, "messages": messages, "max_tokens": TOKENS, "stream": True}
        return "/v1/chat/completions", {"json": body}


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--limit", type=int, default=1536, help="MB of the control group")
    parser.add_argument("--large", type=Path, help="a language model of about 1.1 GB; default: one is made")
    parser.add_argument("--small", type=Path, help="a language model of about 0.6 GB; default: one is made")
    parser.add_argument("--trial", action="store_true", help="show the log instead of writing a page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {
            "large": options.large or build(folder / "large.gguf", SHAPES["llama-1b"], "Q8_0"),
            "small": options.small or build(folder / "small.gguf", SHAPES["llama-1b"], "Q4_0"),
        }
        run = measure(folder, files, options)
    return turns_report.write(run, trial=options.trial)


def measure(folder: Path, files: Mapping[str, Path], options: argparse.Namespace) -> turns_report.Run:
    load = os.getloadavg()[0]
    root, _ = linked(folder / "device", ("whisper-tiny.en", "hibari", *companions(["asr"])))
    log, config = folder / "log.json", folder / "models.toml"
    config.write_text("\n".join(_tables(files)), encoding="utf-8")
    environ = {"EDGESERVE_MODELS_DIR": str(root), "EDGESERVE_LOG_FORMAT": "json", "EDGESERVE_LOG_LEVEL": "info"}
    reads = {model: turns_report.page_in(path) for model, path in files.items()}
    with contextlib.ExitStack() as stack:
        launcher: Sequence[str] = ()
        try:
            inside = stack.enter_context(group("edgeserve-turns"))
            inside.limit(options.limit * MB)
            launcher, where = inside.launcher, f"a memory control group of {options.limit} MB"
        except NotPermittedHere as error:
            print(f"no control group: {error}")
            environ["EDGESERVE_OVERRIDE_MEMORY_MB"] = str(options.limit)
            where = f"a simulated machine of {options.limit} MB"
        launcher = (*launcher, "sh", "-c", 'exec "$@" 2>"$0"', str(log))
        server = stack.enter_context(serving(config, environ=environ, launcher=launcher))
        server.wait_healthy()
        clients, alone, began = _use(server, options.seconds)
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    return turns_report.Run(where, options.seconds, clients.asked, alone, lines, began, reads, load)


def _tables(files: Mapping[str, Path]) -> Iterator[str]:
    for model, path in files.items():
        yield toml(f"models.{model}", {"job": "llm", "model": str(path), **TEXT_KEYS})
    yield toml("asr", {"model": "whisper-tiny.en"})
    yield toml("tts", {"model": "hibari"})


def _use(server: ServerProcess, seconds: float) -> tuple[Clients, Mapping[str, float], float]:
    answer = httpx.post(f"{server.url}/v1/tts/synthesize", json={"text": SENTENCE}, timeout=120)
    clients = Clients(server.url, answer.raise_for_status().content, random.Random(1))
    alone = asyncio.run(clients.alone())
    began = time.time()
    asyncio.run(clients.stay(seconds))
    return clients, alone, began


if __name__ == "__main__":
    raise SystemExit(main())
