"""The choice of a node on 2 to 1,000 simulated boxes, against the rules of common balancers.

    python -m benchmarks.placement [--trial]

Each rule gets the same trace. The popularity of models is heavy-tailed (Zipf). Requests come in bursts, or with the
hours of a day. Boxes have 2 to 16 GB, serve all models of a catalogue, and load a model with its first request. Our
rule is the function of the product, ``edgeserve.cluster.place``. It sees reports of nodes that are up to a second old,
and its own choices since then.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks import report
from benchmarks.placement_boxes import CORES, Box, Choose, Model, Outcome, Request, Run
from benchmarks.streams import percentile

from edgeserve.cluster.ahead import Ahead
from edgeserve.cluster.place import Ask, place
from edgeserve.cluster.snapshot import Node, Snapshot

COUNTS = (2, 10, 100, 1000)
REQUESTS = {2: 3000, 10: 5000, 100: 6000, 1000: 8000}
BUDGETS = (1536, 3072, 6144, 12_288)
"""MB for engines on a box of 2, 4, 8 and 16 GB."""
MODELS = 12
ZIPF = 1.1
LOAD = 0.45
"""Share of all boxes' speed that the trace asks for on average."""
TALKS = 0.4
"""Share of requests that go on with a conversation."""
SHAPES = ("bursty", "diurnal")


def catalogue(dice: random.Random) -> list[Model]:
    """Models of 80 MB to 5 GB. The popular ones are of all sizes."""
    sizes = [int(min(5000, max(80, dice.lognormvariate(math.log(700), 1.0)))) for _ in range(MODELS)]
    return [
        Model(f"m{number}", size, 0.5 + size / 300, 4 if size > 400 else 1)
        for number, size in enumerate(dice.sample(sizes, MODELS))
    ]


def boxes(count: int, models: Sequence[Model], dice: random.Random) -> list[Box]:
    """The first box is of the largest kind, so that each model has a node that holds it."""
    budgets = [BUDGETS[-1], *dice.choices(BUDGETS, (3, 4, 3, 1), k=count - 1)]
    return [Box(f"n{number:04}", budget, models) for number, budget in enumerate(budgets)]


def trace(shape: str, count: int, models: Sequence[Model], dice: random.Random) -> Iterator[Request]:
    """Requests in the order of their arrival. ``count``: boxes."""
    weights = [1 / rank**ZIPF for rank in range(1, len(models) + 1)]
    mean = sum(one.seconds * weight for one, weight in zip(models, weights, strict=True)) / sum(weights)
    total = REQUESTS[count]
    rate = LOAD * count * CORES / mean
    day = total / rate
    now, until, burst, talks = 0.0, 0.0, False, [list[int]() for _ in models]
    numbers = itertools.count()
    for number in range(total):
        if shape == "bursty" and now >= until:
            burst = not burst
            until = now + dice.expovariate(1 / 4.0 if burst else 1 / 16.0)
        factor = (3.0 if burst else 0.5) if shape == "bursty" else 1.0 + 0.9 * math.sin(2 * math.pi * now / day)
        now += dice.expovariate(rate * factor)
        which = dice.choices(range(len(models)), weights)[0]
        model, open_talks = models[which], talks[which]
        if open_talks and dice.random() < TALKS:
            talk = dice.choice(open_talks[-50:])
        else:
            open_talks.append(talk := next(numbers))
        yield Request(number, now, model, model.seconds * dice.lognormvariate(-0.32, 0.8), talk)


class Ours:
    """The function of the product, on reports that are up to a second old and the requests since."""

    def __init__(self, there: Sequence[Box]) -> None:
        self._boxes = there
        self._ahead = Ahead()
        self._numbers = {one.name: at for at, one in enumerate(there)}
        self._homes: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self._seen: list[Node] = []
        self.tick()

    def tick(self) -> None:
        """The reports of all nodes."""
        for one in self._boxes:
            self._ahead.report(one.report())
        self._seen = [self._node(one.name) for one in self._boxes]

    def _node(self, name: str) -> Node:
        found = self._ahead.node(name)
        if found is None:
            raise RuntimeError(f"{name} has not reported")
        return found

    def choose(self, request: Request) -> int | None:
        ask = Ask(request.model.name, home=self._homes.get(request.talk, ""))
        order = place(Snapshot(tuple(self._seen)), ask)
        if not order:
            return None
        at = self._numbers[order[0]]
        if (model := self._seen[at].find(request.model.name, ())) is not None:
            self._ahead.sent(str(request.number), order[0], model)
            self._seen[at] = self._node(order[0])
        self._homes[request.talk] = order[0]
        self._places[request.number] = at
        return at

    def end(self, request: Request) -> None:
        self._ahead.ended(str(request.number))
        at = self._places.pop(request.number)
        self._seen[at] = self._node(self._boxes[at].name)


def round_robin(there: Sequence[Box], dice: random.Random) -> Choose:
    turns = itertools.cycle(range(len(there)))
    return lambda request: next(turns)


def least_connections(there: Sequence[Box], dice: random.Random) -> Choose:
    return lambda request: min(range(len(there)), key=lambda at: (there[at].connections, dice.random()))


def random_of_two(there: Sequence[Box], dice: random.Random) -> Choose:
    return lambda request: min(dice.sample(range(len(there)), 2), key=lambda at: there[at].connections)


RULES: Mapping[str, Callable[[Sequence[Box], random.Random], Choose]] = {
    "round robin": round_robin,
    "random of two": random_of_two,
    "least connections": least_connections,
}
OURS = "edgeserve"


@dataclass(frozen=True, slots=True)
class Row:
    """Figures of one rule on one cluster. Seconds of waiting until an answer begins."""

    shape: str
    count: int
    rule: str
    refused: float
    loads: float
    median: float
    p99: float


def measure(shape: str, count: int, rule: str, seed: int = 1) -> Row:
    """One run. The trace and the boxes depend on shape, count and seed alone."""
    dice = random.Random(f"{shape} {count} {seed}")
    models = catalogue(dice)
    there = boxes(count, models, dice)
    requests = trace(shape, count, models, dice)
    if rule == OURS:
        ours = Ours(there)
        outcome = Run(there, ours.choose, ours.tick, ours.end).play(requests)
    else:
        outcome = Run(there, RULES[rule](there, random.Random(seed))).play(requests)
    return _row(shape, count, rule, outcome)


def _row(shape: str, count: int, rule: str, outcome: Outcome) -> Row:
    total, waits = REQUESTS[count], outcome.waits or [0.0]
    refused, loads = 1000 * outcome.refused / total, 1000 * outcome.loads / total
    return Row(shape, count, rule, refused, loads, percentile(waits, 0.5), percentile(waits, 0.99))


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--trial", action="store_true", help="print the tables instead of writing a page")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, choices=COUNTS)
    options = parser.parse_args()
    rows = [measure(shape, count, rule) for shape in SHAPES for count in options.counts for rule in (*RULES, OURS)]
    text = [_table(rows, shape) for shape in SHAPES]
    print(*text, sep="\n\n")
    if not options.trial:
        _page(rows, text)
    worse = [one for one in rows if one.rule == OURS and not _is_best(one, rows)]
    print(*(f"not the best: {one}" for one in worse), sep="\n")
    return 1 if worse else 0


def _is_best(mine: Row, rows: Sequence[Row]) -> bool:
    """Whether no other rule on the same cluster refuses fewer requests."""
    others = [one for one in rows if (one.shape, one.count) == (mine.shape, mine.count) and one.rule != OURS]
    return all(mine.refused <= one.refused for one in others)


def _table(rows: Sequence[Row], shape: str) -> str:
    header = ("boxes", "rule", "refused of 1,000", "loads of 1,000", "median wait", "p99 wait")
    cells = [
        (
            f"{one.count:,}",
            one.rule,
            f"{one.refused:.1f}",
            f"{one.loads:.1f}",
            f"{one.median:.2f} s",
            f"{one.p99:.1f} s",
        )
        for one in rows
        if one.shape == shape
    ]
    return report.table(header, cells)


def _page(rows: Sequence[Row], tables: Sequence[str]) -> None:
    body = [
        "A simulation: it needs no model and no second box. Boxes have 1.5, 3, 6 or 12 GB for engines and answer "
        f"{CORES} requests at full speed. They serve {MODELS} models of 80 MB to 5 GB, which are asked for with the "
        f"frequency 1 / rank^{ZIPF}. The trace asks for {LOAD:.0%} of the boxes' speed on average, and {TALKS:.0%} of "
        "the requests go on with a conversation. All rules get the same requests. No client asks again after a "
        "refusal.",
        "A request is refused where its model is larger than the memory of the box, or where eight others wait.",
        "## Bursts",
        "A burst is six times as fast as the time between bursts.",
        tables[0],
        "## A day",
        "The whole trace is one day; at noon come nineteen times as many requests as at midnight.",
        tables[1],
        "![refusals, loads and waits by the number of boxes](placement.png)",
        "Our rule sees reports that are up to a second old. The other rules count connections without delay. Waits are "
        "those of answered requests: a rule that refuses more waits less.",
    ]
    _draw(rows)
    print(report.write("placement", "The choice of a node", "\n\n".join(body)))


def _draw(rows: Sequence[Row]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figures: Mapping[str, Callable[[Row], float]] = {
        "refused of 1,000": lambda one: one.refused,
        "loads of 1,000": lambda one: one.loads,
        "p99 wait in seconds": lambda one: one.p99,
    }
    figure, axes = pyplot.subplots(1, 3, figsize=(12, 3.7), layout="constrained")
    for axis, (label, value) in zip(axes, figures.items(), strict=True):
        for rule in (*RULES, OURS):
            mine = [one for one in rows if one.rule == rule and one.shape == "bursty"]
            axis.plot([one.count for one in mine], [value(one) for one in mine], marker="o", label=rule)
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_xlabel("boxes, bursts")
        axis.set_title(label, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9)
    figure.savefig(report.picture("placement"), dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    raise SystemExit(main())
