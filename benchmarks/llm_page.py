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
    "Both sides call the same `llama_decode`. `perf record` of both servers while they answer in turns, 499 samples a "
    "second, two cores, other programs on the other cores, one recording of 5 to 16 rounds of each scene. Seconds of "
    "processor time a round, ours / llama-server's:",
    report.table(
        ["", "smollm2, 1 client", "8 clients", "prompts unknown", "prefix known", "qwen3 Q4_0, 1 client", "4 clients"],
        [
            [
                "products, attention (libggml-cpu)",
                "1.82 / 1.79",
                "7.47 / 7.41",
                "4.88 / 4.83",
                "5.40 / 5.52",
                "3.77 / 3.75",
                "4.98 / 5.15",
            ],
            [
                "threads that wait (libgomp)",
                "0.32 / 0.28",
                "0.48 / 0.48",
                "0.06 / 0.06",
                "0.08 / 0.11",
                "0.37 / 0.33",
                "0.25 / 0.25",
            ],
            [
                "sampling, libllama",
                "0.04 / 0.05",
                "0.11 / 0.14",
                "0.01 / 0.02",
                "0.10 / 0.11",
                "0.07 / 0.08",
                "0.11 / 0.12",
            ],
            ["Python", "0.09 / 0", "0.18 / 0", "0.03 / 0", "0.04 / 0", "0.09 / 0", "0.10 / 0"],
            ["kernel", "0.07 / 0.08", "0.12 / 0.16", "0.07 / 0.03", "0.08 / 0.03", "0.08 / 0.07", "0.14 / 0.09"],
            ["idle", "0.10 / 0.12", "0.15 / 0.21", "0.05 / 0.06", "0.01 / 0.09", "0.02 / 0.09", "0.03 / 0.15"],
            [
                "seconds a round",
                "1.23 / 1.17",
                "4.31 / 4.25",
                "2.58 / 2.53",
                "2.89 / 2.96",
                "2.22 / 2.17",
                "2.83 / 2.91",
            ],
        ],
    ),
    "So the products of llama.cpp are 74% to 95% of the time of both cores, and the same on both sides. No server "
    "around the same call can gain them. Ours can lose its Python line: 4% of the time with one client of smollm2, "
    "2% with qwen3. 1.05 of llama-server's tokens/s with one client would take 0.22 s a round from ours with smollm2, "
    "of 0.26 s for Python, kernel and idle time together. With qwen3 it would take 0.30 s, of 0.19.",
    "**One client.** Python takes 0.7 ms a token of smollm2. By `py-spy` 83% of it is the event loop that sends the "
    "token; the largest single part, JSON, is a tenth. Between two calls of llama.cpp 0.8 to 1.0 ms pass. Sending "
    "while the next token is computed gains nothing on two cores ([decision 27](../decisions/0027-threads.md)).",
    "**Prompts.** With smollm2 95% of both cores' time are products. The known prefix of qwen3 was 1.08 of "
    "llama-server's time (4 rounds). A conversation of 104 MB stayed in the context beside it, since it is larger than "
    "`prefix_cache_mb`. Now it is written while nobody asks, and leaves the context: 1.05 (5 rounds). Such a "
    "conversation makes a prompt of 476 tokens 190 ms longer and each token 10 ms "
    "([decision 5](../decisions/0005-conversations-at-rest.md)). Calls of 512 tokens are no faster than calls of 256: "
    "0.997 in the median of 7 pairs.",
    "**A known prefix, inside and outside of the server's own time.** Both servers tell how long the prompt took "
    "(`timings.prompt_ms`), from its turn to the first token. Six pairs, 18 questions to each, medians, ours and "
    "llama-server. Smollm2: 76.8 and 76.4 ms, and 5.7 and 4.4 ms around them. Qwen3 in Q4_0: 149.9 and 144.8 ms, and "
    "5.4 and 4.7 ms around them. So connection, template, tokens, queue and the way of the first text through HTTP "
    "cost 0.7 to 1.3 ms more than in llama-server. The rest of the difference with qwen3, 5 ms, is spent from the "
    "turn to the first token, in reading 18 tokens behind 920 known ones.",
    "**A long prompt beside streams.** llama-server reads it in one call, and its streams stand still meanwhile. Ours "
    "go on, with a token each after 256 tokens of the prompt. Qwen3, before the conversation at rest was written "
    "ahead: 3.50 s, 1.31 of llama-server's time (4 rounds). A trace of one round: 0.24 s saved the 104 MB of the "
    "conversation that had the slot, then four calls took 3.51 s, while a thread wrote the state in 0.50 s. The first "
    "huge pages for a state cost this virtual machine 271 ms for 106 MB, and 13 ms when they are used again. Written "
    "while nobody asks: 3.37 s (3.07 to 3.61, 6 rounds) instead of 3.90 (3.58 to 4.06), measured in turns with the "
    "code before; beside llama-server 1.28 of its time (1.09 to 1.48, 5 rounds, other programs on the other "
    "cores). What is left is mostly the price of the streams: 1,024 tokens beside three streams took 1.08 (1.00 to "
    "1.14, 4 pairs) of the time alone, and calls of 256 tokens compute with the cells of the streams four times.",
    "**Eight clients** share four slots, so conversations leave slots while others write. Saving one of 216 tokens "
    "takes 4 to 65 ms, but 261 to 324 ms without flash attention (four readings each), and all answers wait. In the "
    "recording of qwen3 with flash attention eight clients had 86.8 tokens/s, and 82.4 there (4 rounds).",
    "**Qwen3 in Q8_0**, recorded alike, four rounds of each scene. One client: products 4.71 s a round of ours and "
    "4.72 of llama-server, threads that wait 0.36 and 0.34, Python 0.09 and 0; 43.8 and 44.4 tokens/s. Unknown "
    "prompts: products 8.43 and 8.10 s, kernel 0.42 and 0.06. The kernel's time is that of fresh pages and of "
    "conversations that are written to the disk after their answers. Both together are the 6% by which ours took "
    "longer.",
    "**Q4_K_M.** `edgeserve tune` chose the mapped weights: 330 prompt tokens/s and 35 tokens/s alone, where reordered "
    "ones have 201 and 41. 900 prompt tokens and 300 answered ones so take 11.4 s instead of 12.4. llama-server "
    "always reorders.",
    "**Private memory.** With the weights mapped, it is the KV cache. llama.cpp fills the cache with zeros for the "
    "whole context, used or not, and llama-server has the same one: 4,096 tokens of 112 KB are 470 of 583 MB for "
    "qwen3-0.6b, and of 832 MB there. So 0.35 of llama-server's memory is less than the cache alone. Without the "
    "cache the ratio is 0.31, and 0.21 for llama-3.2-1b, whose tokens take 32 KB. "
    '`kv_type = "q8_0"` halves the cache. It is not the default, because it changes the words.',
    "**Beside a busy process** both share two cores with it. Ours leaves it one and computes with one thread, so that "
    "no thread waits for another that has lost its core ([decision 27](../decisions/0027-threads.md)). Llama in "
    "Q4_K_M with eight clients, a warm-up and one pair in `perf record`, 499 samples a second of both cores: the "
    "products took 39 s of ours and 39 s of llama-server, for the same answers. Threads that wait (libgomp) took 0.4 "
    "s of ours and 87 s of llama-server. So one core bounds ours: 24.4 to 25.1 tokens/s in all seven pairs. "
    "llama-server had 10.7 to 29.1. Its two threads have up to 1.33 cores of the two where the kernel deals them out "
    "evenly, and it depends on the kernel how much of that they wait. Where they hardly wait, one core cannot have "
    "1.2 of their tokens/s.",
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
