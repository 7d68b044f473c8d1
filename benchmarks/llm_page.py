"""The page of the comparison with llama.cpp's server at the size of real models, of rows that a file keeps."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import llama_server, report
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


BOUNDS: Sequence[str] = (
    "Both sides call the same `llama_decode`. `perf record` of edgeserve with qwen3-0.6b in Q4_0, reordered weights, "
    "two cores, one recording of 12 s of each row, other programs on the other cores:",
    report.table(
        ["share of the processor's time", "prompts of 476 tokens", "1 client", "4 clients"],
        [
            ["llama.cpp's products and attention (libggml-cpu)", "88%", "79%", "88%"],
            ["of it, the output matrix (Q6_K, never reordered)", "1%", "24%", "30%"],
            ["threads that wait for each other (libgomp)", "4%", "14%", "5%"],
            ["kernel", "5%", "3%", "3%"],
            ["Python", "0.5%", "1.8%", "1.1%"],
            ["sampling (libllama)", "0.1%", "0.7%", "0.9%"],
        ],
    ),
    "So all that a server can do better than another on this model are the last four lines: with one client some tenth "
    "of a token's time, where the second thread waits while the first one samples, and less with more clients.",
    "**One client.** Between two calls of llama.cpp 0.8 to 1.0 ms pass (medians of smollm2 and qwen3-0.6b, beside "
    "calls of 7.2 and 15.8 ms): 0.1 to 0.2 ms for sampling, and 0.5 to 0.6 ms in which the event loop sends the "
    "token. Sending while the next token is computed gains nothing on two cores "
    "([decision 27](../decisions/0027-threads.md)).",
    "**Prompts.** A first prompt takes what `llama_decode` takes: 1.29 to 1.58 s over HTTP; 1.23 to 1.35 s measured "
    "apart. A prompt that follows without a pause waits for the copy of the conversation before it: 54 MB for 476 "
    "tokens of this model take 40 to 150 ms here. Left in the context, that conversation would make the prompt 190 ms "
    "longer and each token 10 ms ([decision 5](../decisions/0005-conversations-at-rest.md)). Calls of 512 tokens are "
    "no faster than calls of 256: 0.997 in the median of 7 pairs.",
    "**A long prompt beside streams.** llama-server reads it in one call, and its streams stand still meanwhile. Ours "
    "go on, with a token each after 256 tokens of the prompt. Without flash attention each token computes with the "
    "cells of all other conversations: Qwen3 took 4.9 to 6.1 s for 926 tokens "
    "([decision 45](../decisions/0045-tuning-while-idle.md)). With it, 3.6 to 4.1 s, 1.41 (1.28 to 1.51, 3 pairs) of "
    "llama-server's time. In a recording of 3.80 s, the four calls took 3.21 s. 0.54 s went by before them, 0.22 s of "
    "it for saving the conversation that had the slot. The rest was not recorded apart: states without room in "
    "`prefix_cache_mb` are written to disk there. The streams' own tokens cost little: 1,024 tokens beside three "
    "streams took 1.08 (1.00 to 1.14, 4 pairs) of the time alone.",
    "**Eight clients** share four slots, so conversations leave slots while others write. Saving one of 216 tokens "
    "takes 4 to 65 ms, but 261 to 324 ms without flash attention (four readings each), and all answers "
    "wait. So Qwen3 without flash attention had 0.83 of llama-server's tokens/s. With it the one undisturbed pair had "
    "0.97.",
    "**Q4_K_M.** `edgeserve tune` chose the mapped weights: 330 prompt tokens/s and 35 tokens/s alone, where reordered "
    "ones have 201 and 41. 900 prompt tokens and 300 answered ones so take 11.4 s instead of 12.4. llama-server "
    "always reorders.",
    "**Private memory.** With the weights mapped, it is the KV cache. llama.cpp fills the cache with zeros for the "
    "whole context, used or not, and llama-server has the same one: 4,096 tokens of 112 KB are 470 of 583 MB for "
    "qwen3-0.6b, and of 832 MB there. So 0.35 of llama-server's memory is less than the cache alone. Without the "
    "cache the ratio is 0.31, and 0.21 for llama-3.2-1b, whose tokens take 32 KB.",
    "**Beside a busy process** both share two cores with it. Ours leaves it one and computes with one thread, so that "
    "no thread waits for another that has lost its core ([decision 27](../decisions/0027-threads.md)).",
)
"""Profiles and measurements of 2026-11-23."""


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
