"""Chat with guessed tokens and without, and answers by JSON schemas beside llama-server.

    python -m benchmarks.speculation [--rounds 5] [--llm MODEL] [--no-peer]
    python -m benchmarks.speculation --row rewriting --llm qwen3-0.6b:Q4_0 --cache FOLDER --kept FILE
    python -m benchmarks.speculation --page --kept FILE

The second form measures one row in a minute or two, keeps its pairs in a file, and measures nothing again that the
file has. The third one writes the page of that file. MODEL is as in benchmarks/llm_peers.py.

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

from benchmarks import llama_server, llm_rows, speculation_tables
from benchmarks.device import toml
from benchmarks.pairs import Pair, Pairs, comparison, verdict
from benchmarks.process import serving
from benchmarks.speculation_tables import ACCEPTED, DRAFTED, TARGETS
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
BY_SCHEMA = "schemas"
ROWS = {**{kind.replace(" ", "-"): kind for kind in TASKS}, BY_SCHEMA: BY_SCHEMA}
"""Rows by their names on the command line."""


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


def texts(path: Path, kinds: Sequence[str], rounds: int, pairs: Pairs) -> None:
    """Add a pair for each task of these kinds and each round; the first round warms up."""
    wanted = [(kind, str(number)) for kind in kinds for number in range(len(TASKS[kind]))]
    if not (turns := _missing(pairs, path, wanted, rounds)):
        return
    engines = {side: engine_of(path, "auto" if side == OURS else "off") for side in (OURS, PLAIN)}
    try:
        for turn, kind, case in turns:
            before = _drafts(engines[OURS])
            sides = list(engines)[:: 1 if turn % 2 else -1]
            rates = {side: write(engines[side], TASKS[kind][int(case)]) for side in sides}
            _say(path, turn, rounds, kind, f"{rates[OURS]:.1f} and {rates[PLAIN]:.1f} tokens/s")
            if turn:
                drafted, accepted = (now - then for now, then in zip(_drafts(engines[OURS]), before, strict=True))
                beside = {DRAFTED: drafted, ACCEPTED: accepted}
                pairs.add(Pair(path.stem, kind, case, turn, rates[OURS], rates[PLAIN], beside))
    finally:
        for engine in engines.values():
            engine.close()


def _missing(pairs: Pairs, path: Path, wanted: Sequence[tuple[str, str]], rounds: int) -> list[tuple[int, str, str]]:
    """Round, kind and case of the pairs that are not kept, and of one to warm up for each of them."""
    missing = [
        (turn, kind, case)
        for turn in range(1, rounds + 1)
        for kind, case in wanted
        if not pairs.has(path.stem, kind, case, turn)
    ]
    return [*dict.fromkeys((0, kind, case) for _, kind, case in missing), *missing]


def _drafts(engine: LlamaChat) -> tuple[int, int]:
    """Tokens that the engine has drafted and accepted so far."""
    slots = engine.slot_states()
    return sum(one.drafted for one in slots), sum(one.accepted for one in slots)


def _say(path: Path, turn: int, rounds: int, what: str, found: str) -> None:
    print(f"{path.stem}, round {turn} of {rounds}, {what}: {found}", file=sys.stderr, flush=True)


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
    """Characters a second of an instance, without the blanks between its parts.

    llama-server writes up to 22 blanks there, which a model of random weights takes gladly: twice the characters.
    """
    text = f"Answer with a JSON object for {name}, by this schema: {json.dumps(schema)}"
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    body = {"messages": [{"role": "user", "content": text}], "response_format": shape, "temperature": 0}
    stream = Stream(port, {**body, "max_tokens": 400, "repeat_penalty": 1.0})
    found = asyncio.run(stream.run())
    try:
        instance = json.dumps(json.loads(found.text), ensure_ascii=False, separators=(",", ":"))
    except json.JSONDecodeError as error:
        raise RuntimeError(f"port {port}, {name}: no instance, cut at 400 tokens? {found.text!r}") from error
    return len(instance) / (found.times[-1] - found.sent)


def schemas(path: Path, rounds: int, pairs: Pairs, *, peer: bool) -> None:
    """Add a pair for each schema and round: ours beside ours without, and beside llama-server."""
    others = (PLAIN, PEER) if peer else (PLAIN,)
    kinds = {side: f"JSON schemas, beside {side}" for side in others}
    if not (turns := _missing(pairs, path, [(kinds[others[-1]], name) for name in SCHEMAS], rounds)):
        return
    with servers(path, peer=peer) as ports:
        for turn, _, name in turns:
            sides = list(ports)[:: 1 if turn % 2 else -1]
            rates = {side: ask(ports[side], name, SCHEMAS[name]) for side in sides}
            told = ", ".join(f"{side} {rate:.0f}" for side, rate in rates.items())
            _say(path, turn, rounds, name, f"{told} characters/s")
            for side in others if turn else ():
                pairs.add(Pair(path.stem, kinds[side], name, turn, rates[OURS], rates[side]))


def with_peer() -> bool:
    """Whether llama-server is there, or could be built."""
    try:
        llama_server.binary()
    except llama_server.CannotBuild as error:
        print(f"without llama-server: {error}")
        return False
    return True


def measure(arguments: argparse.Namespace, pairs: Pairs) -> None:
    """Measure the rows that are asked for, on each model."""
    rows = [ROWS[name] for name in arguments.row or ROWS]
    peer = BY_SCHEMA in rows and not arguments.no_peer and with_peer()
    for name in arguments.llm:
        given = llm_rows.model(name, arguments.cache)
        path = Path(given) if Path(given).is_file() else Store(default_root(os.environ)).pull(given).files["model"]
        texts(path, [row for row in rows if row != BY_SCHEMA], arguments.rounds, pairs)
        if BY_SCHEMA in rows:
            schemas(path, arguments.rounds, pairs, peer=peer)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--llm", nargs="+", default=[STARTER], metavar="MODEL", help=f"default: {STARTER}")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="folder of synthetic models")
    parser.add_argument("--no-peer", action="store_true", help="without llama-server")
    parser.add_argument("--row", nargs="+", choices=ROWS, help="measure these rows alone, and write no page")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keep the pairs here, and measure only missing ones")
    parser.add_argument("--page", action="store_true", help="measure nothing; write the page of the pairs in --kept")
    arguments = parser.parse_args()
    pairs = Pairs(arguments.kept)
    if not arguments.page:
        measure(arguments, pairs)
    if not arguments.row:
        speculation_tables.draw(pairs)
        print(speculation_tables.write(pairs, THREADS))
    rows = pairs.rows(TARGETS)
    print(comparison(rows))
    return verdict(rows)


if __name__ == "__main__":
    raise SystemExit(main())
