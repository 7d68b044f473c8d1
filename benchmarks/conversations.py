"""Seconds to the first token of a long conversation that goes on after an unload and after a restart.

Its saved state is compared with reading it again. What saving costs the unload is measured as well.

    python -m benchmarks.conversations [--rounds 3] [--model smollm2-135m-instruct] [--model BIG.gguf]

Each round asks in pairs: the same question with the client's own ``prompt_cache_key``, and with another one, for which
no state is known. ``python -m benchmarks.synthetic`` builds a model of real size.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.ask import Client
from benchmarks.device import linked, toml
from benchmarks.llm_scenes import words
from benchmarks.process import MB, ServerProcess, processor_of_all, serving
from benchmarks.streams import Answer, Stream

TOKENS, CONTEXT = 1500, 2048
HOSTS = ("thread", "process")
ANSWER = 8
"""Tokens of each answer."""


@dataclass(slots=True)
class Figures:
    """A value a round, of one model in one host: ``again`` with the prompt read again, ``known`` from the state."""

    known: dict[str, list[float]] = field(default_factory=dict)
    again: dict[str, list[float]] = field(default_factory=dict)
    spent: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of processor time by what is compared: "known", "again", "saving", "no saving"."""
    unload: dict[str, list[float]] = field(default_factory=dict)
    cached: list[int] = field(default_factory=list)
    prompt: list[int] = field(default_factory=list)
    size: list[float] = field(default_factory=list)
    """MB of the state on disk."""


def conversation(dice: random.Random) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Note {dice.randrange(10**9)}. {words(dice, TOKENS - 60)}"}]


def say(server: ServerProcess, messages: Sequence[Mapping[str, str]], client: str) -> Answer:
    body: dict[str, Any] = {"messages": messages, "max_tokens": ANSWER, "temperature": 0, "prompt_cache_key": client}
    return asyncio.run(Stream(server.port, body).run())


def measured(server: ServerProcess, figures: Figures, when: str, talk: list[dict[str, str]], stranger: str) -> None:
    """The next turn of the conversation, known and unknown. The engine is cold before each."""
    for client, into, spent in (("mine", figures.known, "known"), (stranger, figures.again, "again")):
        before = processor_of_all(server.pid)
        answer = say(server, talk, client)
        figures.spent.setdefault(spent, []).append(processor_of_all(server.pid) - before)
        into.setdefault(when, []).append(answer.first)
        if client == "mine":
            figures.cached.append(answer.cached)
            figures.prompt.append(answer.prompt)
            unload(server)


def unload(server: ServerProcess) -> float:
    """Seconds until the engine is closed."""
    started = time.perf_counter()
    Client(server.port).post("/memory/evict/llm")
    return time.perf_counter() - started


def go_round(start: Any, figures: Figures, dice: random.Random, states: Path) -> None:
    talk = conversation(dice)
    follow = [*talk, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Go on."}]
    with start() as server:
        say(server, [{"role": "user", "content": "Hello"}], "mine")
        figures.unload.setdefault("no saving", []).append(unload(server))
        before = sizes(states)
        say(server, talk, "mine")
        figures.unload.setdefault("saving", []).append(unload(server))
        figures.size.append((sizes(states) - before) / MB)
        measured(server, figures, "unload", follow, "one")
    with start() as server:
        longer = [*follow, {"role": "assistant", "content": "No."}, follow[-1]]
        measured(server, figures, "restart", longer, "another")


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.state"))


def run(model: str, host: str, rounds: int) -> Figures:
    figures, dice = Figures(), random.Random(7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root, _ = linked(folder / "device", [model])
        path, states = folder / "models.toml", folder / "states"
        path.write_text(toml("llm", {"model": model, "context": CONTEXT, "isolation": host}), encoding="utf-8")
        environ = {"EDGESERVE_MODELS_DIR": str(root), "EDGESERVE_STATES_DIR": str(states)}

        @contextmanager
        def start() -> Iterator[ServerProcess]:
            with serving(path, "--log-level", "warning", environ=environ) as server:
                server.wait_healthy()
                yield server

        for number in range(rounds):
            print(f"{Path(model).stem}, {host}: round {number + 1} of {rounds}", flush=True)
            go_round(start, figures, dice, states)
    return figures


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def row(model: str, host: str, figures: Figures) -> list[str]:
    cells = [f"{Path(model).stem}, {host}"]
    for when in ("unload", "restart"):
        known, again = middle(figures.known[when]), middle(figures.again[when])
        cells += [f"{known:.2f}", f"{again:.2f}", f"{again / known:.0f}×"]
    cells += [f"{middle(figures.spent['known']):.1f}", f"{middle(figures.spent['again']):.1f}"]
    cells += [f"{1000 * middle(figures.unload[name]):.0f}" for name in ("saving", "no saving")]
    return [*cells, f"{middle(figures.size):.0f}", f"{middle(figures.cached):.0f} of {middle(figures.prompt):.0f}"]


HEADER = [
    "model, host",
    *("after an unload, s", "read again", "", "after a restart, s", "read again", ""),
    *("processor time, s", "read again", "unload, ms", "nothing to save", "state, MB", "tokens known"),
]


def draw(results: Mapping[tuple[str, str], Figures]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(3 * len(results), 3.2), squeeze=False)
    for axis, ((model, host), one) in zip(axes[0], results.items(), strict=True):
        for offset, label, values in ((-0.2, "saved state", one.known), (0.2, "read again", one.again)):
            heights = [middle(values[when]) for when in ("unload", "restart")]
            bars = axis.bar([offset, 1 + offset], heights, width=0.38, label=label)
            axis.bar_label(bars, fmt="%.1f")
        axis.set_xticks([0, 1], ["after an unload", "after a restart"])
        axis.set_title(f"{Path(model).stem}\n{host}", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("seconds to the first token")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="lower center", ncols=2, frameon=False)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(report.picture("conversations"), dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", action="append", metavar="NAME OR PATH")
    arguments = parser.parse_args()
    models = arguments.model or ["smollm2-135m-instruct"]
    load = os.getloadavg()[0]
    results = {(model, host): run(model, host, arguments.rounds) for model in models for host in HOSTS}
    body = report.table(HEADER, [row(model, host, one) for (model, host), one in results.items()])
    draw(results)
    rounds = f"{arguments.rounds} round" + "s" * (arguments.rounds > 1)
    text = (
        f"A conversation of about {TOKENS} tokens goes on after its engine was closed, and after the server was "
        "started again. The next answer's first token, its way up from cold included, with the state that the server "
        "saved by itself, and with the prompt read again. Both in the same round, for the same question. Median of "
        f"{rounds}; defaults but `context = {CONTEXT}`. Processor time: of the whole answer, which other work on the "
        f"machine changes little; load average at the start: {load:.1f}. Unload: `POST /memory/evict/llm` after the "
        "conversation, and after a prompt too short to be saved.\n\n"
        f"{body}\n\n![conversations](conversations.png)"
    )
    print(report.write("conversations", "Conversations that go on", text))
    print(body)
    slower = [
        name for name, one in results.items() if any(middle(one.known[w]) >= middle(one.again[w]) for w in one.known)
    ]
    print(f"MISSED: {slower}" if slower else "a saved state was faster everywhere")
    return 1 if slower else 0


if __name__ == "__main__":
    raise SystemExit(main())
