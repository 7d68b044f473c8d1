"""The comparison of two chat servers as a table, a picture and a page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import llama_server, report
from benchmarks.llm_scenes import CLIENTS, Figures
from benchmarks.sampling import Record


@dataclass(frozen=True, slots=True)
class Figure:
    """``target`` for the median of ours divided by theirs; at least that where ``more`` is better, else at most."""

    name: str
    what: str
    target: float | None = None
    more: bool = False
    digits: int = 0


FIGURES = (
    *(Figure(f"rate {one}", f"tokens/s, clients: {one}", 1.0, more=True, digits=1) for one in CLIENTS),
    *(Figure(f"p99 {one}", f"p99 between two tokens, clients: {one}, ms", digits=1) for one in CLIENTS),
    Figure("first 1", "first token, short prompt, ms", 1.0),
    *(Figure(f"first {one}", f"first token, short prompts, clients: {one}, ms") for one in CLIENTS[1:]),
    Figure("read", "prompt tokens/s, prompt unknown", 1.0, more=True),
    Figure("cold", "first token, prompt unknown, ms", 1.0),
    Figure("prefix", "first token, prefix known, ms", 1.0),
    Figure("long first", "first token of a long prompt beside 3 streams, ms", 1.0),
    Figure("long gap", "longest gap of those streams meanwhile, ms"),
    Figure("long rate", "tokens/s of those streams meanwhile", more=True, digits=1),
    Figure("private", "private memory, MB"),
    Figure("fresh", "memory after start, MB", 0.6),
    Figure("hot", "memory after the first answers, MB", 0.6),
    Figure("peak", "memory at most, MB", 0.6),
    Figure("idle", "memory once idle for a minute, MB", 0.6),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Medians, and the median, least and most of the ratios of each round. ``met``: None where there is no target."""

    figure: Figure
    ours: float
    theirs: float
    ratios: tuple[float, ...]

    @property
    def what(self) -> str:
        return self.figure.what

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def met(self) -> bool | None:
        target = self.figure.target
        if target is None:
            return None
        return self.ratio >= target if self.figure.more else self.ratio <= target


@dataclass(slots=True)
class Results:
    """Figures of both ``sides``, ours first, one of each in every round. ``prompts``: tokens, by scene.

    ``judged``: the figures in the order of the table, with their targets.
    """

    sides: tuple[str, str]
    prompts: Mapping[str, int]
    rounds: int
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    judged: Sequence[Figure] = FIGURES

    def add(self, side: str, figures: Figures) -> None:
        for name, value in figures.items():
            self.figures.setdefault(name, {one: [] for one in self.sides})[side].append(value)

    def remember(self, record: Record) -> None:
        """Memory, of the marks "fresh", "hot", "work" and "idle", whose processes are in the order of the sides."""
        for number, side in enumerate(self.sides):
            for name, kept in (("fresh", "fresh"), ("hot", "hot"), ("work", "peak"), ("idle", "idle")):
                mark = record.mark(name)
                sizes = [one.processes[number].pss for one in record.between(mark.at, mark.until)]
                self.add(side, {kept: max(sizes) if kept == "peak" else sizes[-1]})

    def rows(self) -> list[Row]:
        return [self._row(one) for one in self.judged if one.name in self.figures]

    def _row(self, figure: Figure) -> Row:
        ours, theirs = (self.figures[figure.name][side] for side in self.sides)
        ratios = tuple(one / other for one, other in zip(ours, theirs, strict=True))
        return Row(figure, statistics.median(ours), statistics.median(theirs), ratios)


BOUNDS = (
    "What bounds it: both call the same `llama_decode`. Between two calls ours takes 0.35 ms for one client "
    "(sampling 0.11, as much as llama.cpp's own; text 0.05; handing it to the event loop 0.08; the next batch "
    "0.1), about 0.2 more for each further one, and the event loop 0.4 ms for each token on one of the two cores, "
    "where llama-server's thread for HTTP takes 0.25: with four clients some 2 ms of a step's 36, about what is "
    "missing there. Each time the event loop takes a core the other thread of the model waits. Beside other "
    "programs ours takes fewer threads (decision 27). "
    "Attention passes over all cells of the context up to the last one taken, whoever's they are: measured apart, "
    "a token takes 36% longer beside 2,300 cells of conversations at rest, a prompt 10%. So both servers keep "
    "only those in the context that are under way, as far as there is room for the states of the others; ours "
    "copies these once nothing was asked for 0.3 s. In `cold` the first of the two prompts rests beside the "
    "second. A long prompt beside running streams goes in pieces of at most 1.5 s, so that they flow on, and each "
    "of these calls carries the streams' tokens. After the first answers "
    "both hold the same weights and cache (f16, 4096 tokens: 187 MB); ours adds some 50 MB of Python and the "
    "copies of conversations at rest. This host is shared: the same 476 tokens took 1.5 to 2.4 s within a minute. "
    "Three runs of this state gave 0.95 to 1.00 for one client, 0.94 to 1.01 for four, 0.97 to 0.99 for eight, "
    "first tokens of 1.00 to 1.14 and 1.02 to 1.16 for unknown and long prompts."
)


def comparison(results: Results) -> str:
    header = ["", *results.sides, "ratio", "least to most", "target", "met"]
    return report.table(header, [_cells(one) for one in results.rows()])


def _cells(row: Row) -> list[str]:
    figure, digits = row.figure, row.figure.digits
    target = "" if figure.target is None else f"{'≥' if figure.more else '≤'} {figure.target:g}"
    spread = f"{min(row.ratios):.2f} to {max(row.ratios):.2f}" if len(row.ratios) > 1 else ""
    met = {None: "", True: "yes", False: "no"}[row.met]
    return [figure.what, f"{row.ours:.{digits}f}", f"{row.theirs:.{digits}f}", f"{row.ratio:.2f}", spread, target, met]


def write(results: Results, llm: str, threads: int, context: int) -> Path:
    prompts = ", ".join(f"{name} {count}" for name, count in results.prompts.items())
    body = [
        f"`edgeserve serve` and `llama-server` (llama.cpp as in llama-cpp-python {llama_server.version()}, built from "
        "that package's source distribution with the options its wheel is built with) on the same model file, "
        f"{llm}, over HTTP. Both run with {threads} threads and a context of {context} tokens, and otherwise as "
        "they are by default: 4 slots over one unified cache each (of 8 clients, 4 wait), `--cache-ram` 8192 MB there "
        f"and `prefix_cache_mb` 64 here: `--threads {threads} --ctx-size {context}`; `[llm] threads = {threads}, "
        f"context = {context}`.",
        f"They run side by side and are asked the same in turns: {results.rounds} rounds after one to warm up, in each "
        "of which the other comes first. The ratio is ours divided by theirs within a round, its median over the "
        "rounds. Both sample alike (temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, no penalties), and the end of "
        f"an answer is ruled out, so that both write as many tokens. Tokens of the prompts: {prompts}.",
        comparison(results),
        "The first token counts from the request, connecting included. `prefix known`: questions about a text that an "
        "earlier request brought in. Memory is the proportional set size from outside, each server mapping a file of "
        "its own; one figure each. `At most` includes what their caches of past prompts grew to during the run.",
        BOUNDS,
        "![the comparison](llm_peers.png)",
    ]
    return report.write("llm_peers", "Chat, against llama-server", "\n\n".join(body))


def draw(results: Results) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = {one.figure.name: one for one in results.rows()}
    panels = {
        "tokens/s": {f"{one} clients": f"rate {one}" for one in CLIENTS},
        "p99 between two tokens, ms": {f"{one} clients": f"p99 {one}" for one in CLIENTS},
        "first token, ms": {"unknown": "cold", "prefix known": "prefix", "beside streams": "long first"},
        "memory, MB": {"started": "fresh", "answering": "hot", "at most": "peak", "idle": "idle"},
    }
    figure, axes = pyplot.subplots(1, len(panels), figsize=(15, 3.4))
    for axis, (title, bars) in zip(axes, panels.items(), strict=True):
        for number, side in enumerate(results.sides):
            heights = [(rows[name].ours, rows[name].theirs)[number] for name in bars.values()]
            drawn = axis.bar([place + 0.38 * number for place in range(len(bars))], heights, width=0.36, label=side)
            axis.bar_label(drawn, fmt="%.0f", fontsize=8)
        axis.set_xticks([place + 0.19 for place in range(len(bars))], list(bars))
        axis.tick_params(axis="x", labelsize=8)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, loc="upper left")
    axes[0].set_ylim(top=1.25 * axes[0].get_ylim()[1])
    figure.tight_layout()
    figure.savefig(report.picture("llm_peers"), dpi=120)
