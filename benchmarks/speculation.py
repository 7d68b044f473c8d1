"""Chat with guessed tokens and without, and answers by JSON schemas beside llama-server.

    python -m benchmarks.speculation [--rounds 5] [--llm MODEL.gguf ...] [--no-peer]

Texts: the engine decodes answers that are written in benchmarks/speculation_tasks.py. Its sampler works as usual, and
then takes the written token. So any model repeats its prompt as a good one would, random weights included; they need
SmolLM2's vocabulary (benchmarks/synthetic.py). Schemas: over HTTP, each server answers in its own words.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import llama_server, speculation_tables
from benchmarks.device import toml
from benchmarks.process import serving
from benchmarks.speculation_tables import Pairs
from benchmarks.speculation_tasks import SCHEMAS, TASKS, Task
from benchmarks.streams import Stream

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.answer import Prompt, answer
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.sampler import Sampler
from edgeserve.messages import ChatRequest, FinishEvent
from edgeserve.models.folder import default_root
from edgeserve.models.store import Store

STARTER = "smollm2-135m-instruct"
THREADS, CONTEXT = 2, 2048
OURS, PLAIN, PEER = "edgeserve", "edgeserve, speculation off", "llama-server"


class Scripted(Sampler):
    """Samples as usual, and says the tokens of a text."""

    def __init__(self, *arguments: Any, script: Sequence[int]) -> None:
        super().__init__(*arguments)
        self._script = iter(script)

    def sample(self, context: Any, output: int) -> int:
        super().sample(context, output)
        return next(self._script, 0)  # a draft may reach beyond the most tokens of the answer


def engine_of(path: Path, speculation: str) -> LlamaChat:
    options = {"context": CONTEXT, "speculation": speculation, "prefix_cache_mb": 0}
    engine = LlamaChat(ModelSpec("llm", path.stem, "", {"model": path}, "cpu", THREADS, options))
    engine.open()
    engine.heat()
    return engine


def write(engine: LlamaChat, task: Task) -> float:
    """Tokens a second, from the first to the last token of the task's answer."""
    model, batch = engine._hot()
    script = model.tokenize(task.answer, add_special=False)
    request = ChatRequest(prompt=task.prompt, max_tokens=len(script))
    sampler = Scripted(request, engine.options, model.vocabulary, script=script)
    slot, _ = batch.take(model.tokenize(task.prompt, add_special=False))
    background = Background(lambda: batch.busy)
    began = 0.0
    try:
        prompt = Prompt(slot, len(slot.pending))
        for event in answer(batch, prompt, request, sampler, len(script), threading.Event(), background):
            if event is None:
                batch.step()
            elif not began:
                began = time.perf_counter()
            elif isinstance(event, FinishEvent) and event.completion_tokens != len(script):
                raise RuntimeError(f"{event.completion_tokens} tokens instead of {len(script)}")
        return (len(script) - 1) / (time.perf_counter() - began)
    finally:
        batch.give_back(slot)
        batch.swapper.empty(slot)
        sampler.free()


def texts(path: Path, rounds: int, pairs: Pairs) -> tuple[int, int]:
    """Add a pair for each task and round; the first round warms up. Returns the drafted and accepted tokens."""
    engines = {side: engine_of(path, "auto" if side == OURS else "off") for side in (OURS, PLAIN)}
    try:
        for turn in range(rounds + 1):
            for kind, tasks in TASKS.items():
                for task in tasks:
                    sides = list(engines)[:: 1 if turn % 2 else -1]
                    rates = {side: write(engines[side], task) for side in sides}
                    told = f"{path.stem}, round {turn} of {rounds}, {kind}: {rates[OURS]:.1f} and {rates[PLAIN]:.1f}"
                    print(f"{told} tokens/s", file=sys.stderr, flush=True)
                    if turn:
                        pairs.add(kind, rates[OURS], rates[PLAIN])
        slots = engines[OURS].slot_states()
        return sum(one.drafted for one in slots), sum(one.accepted for one in slots)
    finally:
        for engine in engines.values():
            engine.close()


@contextlib.contextmanager
def servers(path: Path, *, peer: bool) -> Iterator[dict[str, int]]:
    """The ports of the sides."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        ports = {}
        for side, speculation in ((OURS, "auto"), (PLAIN, "off")):
            keys = {"model": str(path), "context": CONTEXT, "threads": THREADS, "speculation": speculation}
            config = Path(folder) / f"{speculation}.toml"
            config.write_text(toml("llm", keys), encoding="utf-8")
            environ = {"EDGESERVE_MODELS_DIR": str(Path(folder) / speculation)}
            server = running.enter_context(serving(config, "--log-level", "warning", environ=environ))
            server.wait_healthy()
            ports[side] = server.port
        if peer:
            other = running.enter_context(llama_server.serving(path, THREADS, CONTEXT))
            other.wait_healthy()
            ports[PEER] = other.port
        yield ports


def ask(port: int, name: str, schema: Mapping[str, Any]) -> float:
    """Characters a second of an instance, from the request to its end."""
    text = f"Answer with a JSON object for {name}, by this schema: {json.dumps(schema)}"
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    body = {"messages": [{"role": "user", "content": text}], "response_format": shape, "temperature": 0}
    stream = Stream(port, {**body, "max_tokens": 400, "repeat_penalty": 1.0})
    found = asyncio.run(stream.run())
    return len(found.text) / (found.times[-1] - found.times[0])


def schemas(path: Path, rounds: int, pairs: Pairs, *, peer: bool) -> None:
    """Add a pair for each schema and round: ours beside ours without, and beside llama-server."""
    with servers(path, peer=peer) as ports:
        for turn in range(rounds + 1):
            for name, schema in SCHEMAS.items():
                sides = list(ports)[:: 1 if turn % 2 else -1]
                rates = {side: ask(ports[side], name, schema) for side in sides}
                told = ", ".join(f"{side} {rate:.0f}" for side, rate in rates.items())
                print(
                    f"{path.stem}, round {turn} of {rounds}, {name}: {told} characters/s", file=sys.stderr, flush=True
                )
                for side in sides if turn else ():
                    if side != OURS:
                        pairs.add(f"JSON schemas, beside {side}", rates[OURS], rates[side])


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--llm", type=Path, nargs="*", default=[], metavar="GGUF", help="beside the starter model")
    parser.add_argument("--no-peer", action="store_true", help="without llama-server")
    arguments = parser.parse_args()
    peer = not arguments.no_peer
    if peer:
        try:
            llama_server.binary()
        except llama_server.CannotBuild as error:
            print(f"without llama-server: {error}")
            peer = False
    starter = Store(default_root(os.environ)).pull(STARTER).files["model"]
    results = []
    for path in (starter, *arguments.llm):
        pairs = Pairs(path.stem)
        pairs.drafted, pairs.accepted = texts(path, arguments.rounds, pairs)
        schemas(path, arguments.rounds, pairs, peer=peer)
        results.append(pairs)
    speculation_tables.draw(results)
    print(speculation_tables.write(results, arguments.rounds, THREADS))
    print(speculation_tables.comparison(results))
    missed = [f"{one.model}: {row.kind}" for one in results for row in one.rows() if row.met is False]
    print(f"TARGETS MISSED: {', '.join(missed)}" if missed else "targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
