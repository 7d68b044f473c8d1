"""The page of the comparison with llama.cpp's server at the size of real models, of rows that a file keeps."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import llama_server, report
from benchmarks.llm_bounds import BOUNDS
from benchmarks.llm_rows import BUSY, LOAD, MAPPED
from benchmarks.llm_tables import FIGURES, Figure, Results, comparison
from benchmarks.pairs import Pairs

SIDES = "edgeserve", "llama-server"
BUSY_RATE, MEAN_RATE, PRIVATE = 1.2, 1.05, 0.35
"""Targets: tokens/s beside a busy process; in the mean of all models on an idle machine; private memory of mapped
weights in four bits."""


def judged(subject: str) -> Sequence[Figure]:
    """The figures with the targets of these conditions."""

    def target(figure: Figure) -> float | None:
        if figure.name == "private":
            return PRIVATE if MAPPED in subject and BUSY not in subject and "q4_" in subject.lower() else None
        if BUSY in subject:
            return BUSY_RATE if figure.name.startswith("rate") else None
        return figure.target

    return tuple(dataclasses.replace(one, target=target(one)) for one in FIGURES)


def tables(pairs: Pairs) -> dict[str, Results]:
    """The results of each model and condition, in the order in which they were measured."""
    found: dict[str, Results] = {}
    for one in pairs.all:
        results = found.setdefault(one.subject, Results(SIDES, {}, 0, judged=judged(one.subject)))
        for side, value in zip(SIDES, (one.ours, one.other), strict=True):
            results.add(side, {one.kind: value})
    return found


def mean_rate(found: Mapping[str, Results]) -> float:
    """Mean of the ratios of tokens/s over all models and numbers of clients on an idle machine; NaN without any."""
    alone = [results for subject, results in found.items() if BUSY not in subject]
    ratios = [row.ratio for one in alone for row in one.rows() if row.figure.name.startswith("rate")]
    return statistics.fmean(ratios) if ratios else float("nan")


def write(pairs: Pairs) -> Path:
    found = tables(pairs)
    loads = [one.beside[LOAD] for one in pairs.all if LOAD in one.beside]
    mean = mean_rate(found)
    body = [
        "`python -m benchmarks.llm_peers --row ROW --llm MODEL --cache FOLDER --kept FILE`, with `--tune` and "
        f"`--busy`: `edgeserve serve` and `llama-server` (llama.cpp as in llama-cpp-python {llama_server.version()}) "
        "on the same file, over HTTP, each with 2 threads and a context of 4,096 tokens, otherwise as they are by "
        "default. They run side by side and answer in turns; the ratio is ours divided by theirs within a pair, its "
        "median over the pairs.",
        "The models have the shapes and formats of published ones, and random weights (`benchmarks/synthetic.py`). "
        "`form as measured`: `edgeserve tune` has measured the model before, as an idle server does by itself. "
        "`weights mapped`: it has not. A busy process keeps one core busy.",
        f"Load of the machine meanwhile, both servers and the client included: {min(loads):.1f} to {max(loads):.1f}.",
        f"Mean of the ratios of tokens/s, no other process: {mean:.2f} (target ≥ {MEAN_RATE:g}: "
        f"{'yes' if mean >= MEAN_RATE else 'no'}).",
        *(f"## {subject}\n\n{comparison(results)}" for subject, results in found.items()),
        "## What bounds it",
        *BOUNDS,
    ]
    return report.write("llm_rows", "Chat at the size of real models, against llama-server", "\n\n".join(body))


def main(pairs: Pairs) -> int:
    """Write the page. Returns the exit code: 1 where a target is missed."""
    print(write(pairs))
    found = tables(pairs)
    missed = [f"{subject}: {row.what}" for subject, one in found.items() for row in one.rows() if row.met is False]
    print(f"TARGETS MISSED: {', '.join(missed)}" if missed else "targets met")
    return 1 if missed else 0
