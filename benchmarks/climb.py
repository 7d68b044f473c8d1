"""The way from warm to hot: the first token of a parked language model beside that of a hot one.

    python -m benchmarks.climb [--llm MODEL ...] [--cache FOLDER] [--rounds 9] [--kept FILE]

MODEL is as in benchmarks/llm_peers.py. A model takes a minute. Its pairs are kept in a file, and nothing that the file
has is measured again; the page has all models of the file.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import llm_rows, report
from benchmarks.ask import Client
from benchmarks.device import Device, Models, linked
from benchmarks.pairs import Pair, Pairs
from benchmarks.process import serving
from benchmarks.scenario import PROMPT
from benchmarks.targets import STILL

TARGET = 100.0
"""Milliseconds of the way up for each GB of weights, at most."""
KIND, GIGABYTES, TOKENS = "first token", "gigabytes", 4

BOUNDS = (
    "**What bounds it.** The way up makes the pages of the weights resident, on a thread for each core. Meanwhile it "
    "makes the context, which llama.cpp fills with zeros: 2,048 tokens of 23 KB for SmolLM2, of 112 KB for Qwen3, of "
    "32 KB for Llama. Measured apart, in six ways up of each: 15 of 18 ms are the context of the first model, 41 of 46 "
    "that of Qwen3 in Q4_0, 55 of 59 that of Llama in Q4_K_M, whose weights take the other core and the memory's speed "
    "at the same time. In `perf record` of 25 ways up and down of Qwen3 the first symbol is the kernel's "
    "`clear_page_erms` with 21%. So small files miss the target by their context: Qwen3 has 235 MB of it beside 380 MB "
    "of weights in Q4_0, and beside 640 in Q8_0.",
    "What a way up took is known without a walk of its pages now. In turns with the code before, two runs of seven "
    "pairs each: from warm 28 and 27 ms above hot instead of 37 and 35 (SmolLM2), 76 and 73 instead of 97 and 98 "
    "(Llama in Q4_K_M). This host's speed varies: two hours before, the older code had 383, 133, 92, 49 and 56 ms a "
    "GB, in the order of the table.",
)
"""Measured on 2026-11-23, on two quiet cores."""


@dataclass(frozen=True, slots=True)
class Climb:
    """Median milliseconds to the first token of a model, hot and from warm. ``size``: its file in GB."""

    model: str
    size: float
    hot: float
    warm: float

    @property
    def each(self) -> float:
        """Milliseconds of the way up for each GB."""
        return (self.warm - self.hot) / self.size


def climbs(pairs: Pairs) -> list[Climb]:
    found: dict[str, list[Pair]] = {}
    for pair in pairs.all:
        found.setdefault(pair.subject, []).append(pair)
    return [
        Climb(
            model,
            of[0].beside[GIGABYTES],
            statistics.median(one.ours for one in of),
            statistics.median(one.other for one in of),
        )
        for model, of in found.items()
    ]


def measure(folder: Path, llm: str, rounds: int, pairs: Pairs) -> None:
    """Add the rounds that are not kept, after one to warm up: from warm, then hot, each with a prompt of its own."""
    if Path(llm).is_file():
        root, path = folder / "models", Path(llm)
    else:
        root, stored = linked(folder, [llm])
        path = stored[llm].files["model"]
    missing = [turn for turn in range(1, rounds + 1) if not pairs.has(path.stem, KIND, "", turn)]
    if not missing:
        return
    device = Device(folder, Models(llm=llm), {"EDGESERVE_MODELS_DIR": str(root)}, b"")
    config = device.config("climb", ["llm"], "context = 2048\n", residency=STILL)
    with serving(config, "--log-level", "warning", environ=device.environ) as server:
        server.wait_healthy()
        client, size = Client(server.port), path.stat().st_size / 1e9
        client.chat(PROMPT, TOKENS)
        for turn in (0, *missing):
            client.post("/admin/unload", {"model": "llm", "to": "warm"})
            warm, hot = (first_token(client, f"{2 * turn + one}. {PROMPT}") for one in range(2))
            told = f"{path.stem}, round {turn} of {rounds}: {hot:.0f} ms hot, {warm:.0f} from warm"
            print(told, file=sys.stderr, flush=True)
            if turn:
                pairs.add(Pair(path.stem, KIND, "", turn, hot, warm, {GIGABYTES: size}))


def first_token(client: Client, prompt: str) -> float:
    """Milliseconds to the first token of a raw prompt: the hot model shares no chat template with its last prompt."""
    body = {"model": "llm", "prompt": prompt, "max_tokens": TOKENS, "stream": True}
    return 1000 * client.post("/v1/completions", body).first


def table(found: Sequence[Climb]) -> str:
    header = ["", "file, GB", "hot, ms", "from warm, ms", "way up, ms a GB", "target", "met"]
    rows = (
        [
            one.model,
            f"{one.size:.2f}",
            f"{one.hot:.0f}",
            f"{one.warm:.0f}",
            f"{one.each:.0f}",
            f"≤ {TARGET:.0f}",
            "yes" if one.each <= TARGET else "no",
        ]
        for one in found
    )
    return report.table(header, rows)


def write(found: Sequence[Climb]) -> Path:
    body = [
        "`python -m benchmarks.climb`: time to the first token over HTTP, the same short raw prompt each time behind a "
        "number of its own, so that a hot model has no part of it. Before each first one `POST /admin/unload` brings "
        "the model to warm: weights mapped but not resident, no context. The page cache keeps the file. Medians.",
        table(found),
        *BOUNDS,
    ]
    return report.write("climb", "From warm to hot", "\n\n".join(body))


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--llm", nargs="*", default=[Models().llm], metavar="MODEL", help=f"default: {Models().llm}")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="folder of synthetic models")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="keep the pairs here, and measure only missing ones")
    arguments = parser.parse_args()
    pairs = Pairs(arguments.kept)
    for llm in arguments.llm:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), llm_rows.model(llm, arguments.cache), arguments.rounds, pairs)
    found = climbs(pairs)
    print(write(found))
    print(table(found))
    missed = [one.model for one in found if one.each > TARGET]
    print(f"TARGETS MISSED: {', '.join(missed)}" if missed else "targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
