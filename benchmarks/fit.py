"""Expected speed and memory of models, as ``edgeserve recommend`` gives them, against their measurement on one thread.

    python -m benchmarks.fit MODEL.gguf [MODEL.gguf ...]

The starter's chat model is the one that is timed, as on a new device. Make larger models with
``python -m benchmarks.synthetic``. Processor time on one thread is the time of a quiet machine, so that a busy one
gives the same figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.gguf import read_shape
from edgeserve.fit import calibration, memory, speed, trial
from edgeserve.jobs import INFO, STARTER
from edgeserve.messages import ChatRequest, FinishEvent
from edgeserve.models import catalog
from edgeserve.models.entry import Entry
from edgeserve.models.folder import default_root
from edgeserve.models.sources.source import UrlSource
from edgeserve.models.store import Store
from edgeserve.named import make_engine
from edgeserve.system import bandwidth
from edgeserve.terminal import human_size

WORDS = ("the", "of", "and", "a", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with")
PROMPT_WORDS = 256
HEADS = ("model", "answer, tokens/s", "expected", "prompt, tokens/s", "expected", "memory", "expected")


def entry_of(path: Path) -> Entry:
    """A catalogue entry for a file, from its header."""
    import gguf

    size, shape = path.stat().st_size, read_shape(path)
    tensors = gguf.GGUFReader(str(path)).tensors
    untied = any(tensor.name == "output.weight" for tensor in tensors)
    numbers = {**dataclasses.asdict(shape), "untied": int(untied)}
    parameters = sum(int(tensor.n_elements) for tensor in tensors)
    source = UrlSource(path.absolute().as_uri())
    return Entry(path.stem, "llm", "", "", size, (source,), sizes={"model": size}, parameters=parameters, shape=numbers)


def prompt_speed(engine: Any) -> float:
    """Tokens of a prompt a second of processor time."""
    dice = random.Random(1)
    best = 0.0
    for _ in range(2):
        request = ChatRequest(prompt=" ".join(dice.choices(WORDS, k=PROMPT_WORDS)), max_tokens=1)
        begun = time.process_time()
        (finish,) = (one for one in engine.chat(request, threading.Event()) if isinstance(one, FinishEvent))
        best = max(best, (finish.prompt_tokens - finish.cached_tokens) / (time.process_time() - begun))
    return best


def measure(path: Path, rates: speed.Rates) -> tuple[str, ...]:
    """One row of the table."""
    entry = entry_of(path)
    spec = ModelSpec("llm", entry.name, INFO["llm"].engine, {"model": path}, threads=1)
    answers = 1 / trial.seconds_of_token(spec, time.process_time)
    engine: Any = make_engine(spec)
    engine.open()
    engine.heat()
    prompts, taken = prompt_speed(engine), engine.footprint()
    engine.close()
    expected = speed.expected(entry, rates)
    assert expected is not None
    bytes_expected = memory.by_entry(entry).footprint.total
    figures = (answers, expected.answer, prompts, expected.prompt or 0.0)
    return (entry.name, *(f"{one:.0f}" for one in figures), human_size(taken.total), human_size(bytes_expected))


def one_thread(store: Store) -> speed.Rates:
    """The figures of one core of this machine, by processor time."""
    name = STARTER["llm"]
    store.pull(name)
    stored = store.find(name)
    alone = trial.seconds_of_token(ModelSpec("llm", name, stored.engine, stored.files, threads=1), time.process_time)
    found = {
        "bandwidth": bandwidth.measure(1, clock=time.process_time),
        "operations": trial.operations(1),
        "token_seconds": alone,
        "token_seconds_alone": alone,
    }
    return calibration.rates_of(found, catalog.find(name), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("models", type=Path, nargs="*")
    arguments = parser.parse_args()
    os.environ.update(trial.ONE_THREAD)
    store = Store(default_root(os.environ))
    rates = one_thread(store)
    print(
        f"{rates.bandwidth / 1e9:.1f} GB/s, {rates.operations / 1e9:.0f} GFLOPS, {rates.weights / 1e9:.1f}e9 weights/s"
    )
    print(f"| {' | '.join(HEADS)} |\n|{'---|' * len(HEADS)}")
    for path in (store.find(STARTER["llm"]).files["model"], *arguments.models):
        print(f"| {' | '.join(measure(path, rates))} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
