"""Tokens a second that the serving path sustains by itself, over 1, 8 and 64 streams, and the processor time of each.

    python -m benchmarks.overhead [--runs 5]

The server runs on an engine that takes no time (engines/fake/chat.py). It only carries tokens from the engine's thread
to the sockets, each as an event of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import fake_server, report
from benchmarks.process import processor_of_all
from benchmarks.streams import Stream

TOKENS = {1: 4000, 8: 1000, 64: 200}
"""Streams at once, and tokens of each, as fast as they go."""
PACED = {1: 400, 8: 200, 64: 100}
"""The same, a token of each stream every ``PACE`` seconds: so the loop is woken for each, as by a real engine."""
PACE = 0.005
FLOOR = 10_000.0
"""Tokens a second that every number of streams must reach: far above what a small box computes."""
CEILING = 400.0
"""Microseconds of processor time that a token may take."""


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens a second; microseconds of processor time of the server for one token; seconds to the first, the median."""

    rate: float
    cost: float
    first: float


Results = Mapping[int, Sequence[Run]]
"""By streams at once."""


async def load(port: int, streams: int, tokens: int) -> tuple[float, float]:
    """Seconds that all answers took together, and the median to the first token."""
    message = {"role": "user", "content": " ".join(["token"] * tokens)}
    asks = [Stream(port, {"messages": [message]}) for _ in range(streams)]
    started = time.perf_counter()
    answers = await asyncio.gather(*(one.run() for one in asks))
    if wrong := [one.said for one in answers if one.said != tokens or len(one.times) != tokens]:
        raise RuntimeError(f"answers of {wrong} tokens instead of {tokens}")
    ended = max(one.times[-1] for one in answers)
    return ended - started, statistics.median(one.first for one in answers)


def measure(runs: int, sizes: Mapping[int, int], delay: float = 0.0) -> dict[int, list[Run]]:
    """``sizes``: streams at once, and tokens of each."""
    results: dict[int, list[Run]] = {streams: [] for streams in sizes}
    with fake_server.serving(max(sizes), delay) as server:
        for turn in range(runs + 1):  # the first warms up
            for streams, tokens in sizes.items():
                before = processor_of_all(server.pid)
                seconds, first = asyncio.run(load(server.port, streams, tokens))
                cost = (processor_of_all(server.pid) - before) / (streams * tokens)
                if turn:
                    results[streams].append(Run(streams * tokens / seconds, cost * 1e6, first))
    return results


def median(runs: Sequence[Run], name: str) -> float:
    return float(statistics.median(getattr(one, name) for one in runs))


def rows(fast: Results, paced: Results) -> list[list[str]]:
    return [
        [
            str(streams),
            f"{median(runs, 'rate'):,.0f}",
            f"{median(runs, 'rate') / streams:,.0f}",
            f"{1000 * median(runs, 'first'):.1f}",
            f"{median(runs, 'cost'):.0f}",
            f"{median(paced[streams], 'cost'):.0f}",
        ]
        for streams, runs in fast.items()
    ]


def draw(fast: Results, paced: Results) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2))
    names = [str(streams) for streams in fast]
    panels = (
        ("rate", fast, "tokens a second", FLOOR),
        ("cost", paced, "processor time of a token, paced, µs", CEILING),
    )
    for axis, (name, results, title, limit) in zip(axes, panels, strict=True):
        axis.bar(names, [median(runs, name) for runs in results.values()], width=0.5)
        axis.axhline(limit, color="tab:red", linestyle="--", label="limit")
        axis.set_title(title)
        axis.set_xlabel("streams")
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.picture("overhead"), dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    fast, paced = measure(runs, TOKENS), measure(runs, PACED, PACE)
    header = ["streams", "tokens/s", "each stream", "first token, ms", "µs a token", "µs a token, paced"]
    body = report.table(header, rows(fast, paced))
    draw(fast, paced)
    text = (
        "The server on an engine that takes no time (`engines/fake/chat.py`): what it costs to carry a token from the "
        "engine's thread through gate, lease and renderer to the socket, each as an event of its own "
        f"(`/v1/chat/completions`, streamed). Medians of {runs} runs; the client runs on the same machine. `µs a "
        "token` is processor time of the server; paced, the engine makes a token of each stream every "
        f"{1000 * PACE:.0f} ms, so that the event loop is woken as by a real one. Limits that no change may lose: "
        f"{FLOOR:,.0f} tokens/s and {CEILING:.0f} µs, paced, at any number of streams.\n\n{body}\n\n"
        "![overhead](overhead.png)"
    )
    print(report.write("overhead", "The cost of serving", text))
    print(body)
    slow = [streams for streams, one in fast.items() if median(one, "rate") < FLOOR]
    dear = [streams for streams, one in paced.items() if median(one, "cost") > CEILING]
    print(f"TARGET MISSED at {sorted({*slow, *dear})} streams" if slow or dear else "target met")
    return 1 if slow or dear else 0


if __name__ == "__main__":
    raise SystemExit(main())
