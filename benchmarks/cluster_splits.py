"""One model over several boxes against the same model on one: text, speed, and the loss of a box."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from benchmarks import report
from benchmarks.cluster_lender import Lender, lenders
from benchmarks.device import linked, toml
from benchmarks.process import ServerProcess, serving

from edgeserve.engines.llama import rpc

CHAT = "/v1/chat/completions"
MODEL = "smollm2-135m-instruct"
TOKENS = 96
PAIRS = 10
LOSSES = 3
PATIENCE = 60.0
"""Seconds that a server may leave its process alone after several deaths."""
LENT_MB = 90
SERVING_MB = 200
"""Memory of the machine of the box that serves, as the server is told: its engines may take some 100 MB of it."""
QUESTION = "Name three rivers of Europe, and say where each begins and where it ends."


@dataclass(frozen=True, slots=True)
class Told:
    """One answer: its text, tokens and status, the error at its end, and seconds to its first token and to its end."""

    text: str
    tokens: int
    status: int
    error: str
    first: float
    whole: float

    @property
    def rate(self) -> float:
        """Tokens a second after the first."""
        return (self.tokens - 1) / (self.whole - self.first)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same request on one box and on three. ``same``: whether both gave the same text."""

    one: Told
    three: Told

    @property
    def same(self) -> bool:
        return self.one.text == self.three.text and bool(self.one.text)


@dataclass(frozen=True, slots=True)
class Loss:
    """``ended``: seconds from the loss of a box to the error. ``named``: whether the error names the box.
    ``again``: whether the next answer is right once the box is back. ``late``: seconds of that answer, with the load.
    """

    ended: float
    named: bool
    again: bool
    late: float


@dataclass(frozen=True, slots=True)
class Splits:
    """``refusal``: what a box says that is asked for the whole model. ``parts``: as in GET /memory/stats."""

    refusal: str
    parts: Sequence[Mapping[str, Any]]
    loads: tuple[float, float]
    pairs: Sequence[Pair]
    killed: Sequence[Loss]
    hung: Sequence[Loss]

    @property
    def right(self) -> bool:
        lost = [*self.killed, *self.hung]
        return all(one.same for one in self.pairs) and all(one.named and one.again for one in lost)


def installed() -> bool:
    """Whether llama.cpp has RPC here."""
    return rpc.plugin() is not None


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """This process and all that it starts, each with one thread: threads of three boxes would wait for each other.

    One thread also sums in one order. With several, llama.cpp shares the attention of a token among them as soon as the
    context holds 512 tokens (``ggml_compute_forward_flash_attn_ext_f16`` in ggml-cpu/ops.cpp).
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def splits(folder: Path) -> Splits:
    root, _ = linked(folder, [MODEL])
    with contextlib.ExitStack() as stack:
        stack.enter_context(one_core())
        boxes = stack.enter_context(lenders(LENT_MB, LENT_MB))
        small = {"EDGESERVE_OVERRIDE_MEMORY_MB": str(SERVING_MB)}
        one = stack.enter_context(_server(folder, root, "one"))
        three = stack.enter_context(_server(folder, root, "three", small, [box.node for box in boxes]))
        with _server(folder, root, "alone", small) as alone:
            refusal = _ask(alone, 1).error
        loads = _ask(one, 1).whole, _ask(three, 1).whole
        parts = httpx.get(f"{three.url}/memory/stats", timeout=30).json()["nodes"]
        pairs = [_pair(one, three, number) for number in range(PAIRS)]
        expected = pairs[0].one.text
        killed = [_loss(three, boxes[0], boxes[0].crash, lambda: None, expected) for _ in range(LOSSES)]
        goes_on = lambda: boxes[1].hang(signal.SIGCONT)  # noqa: E731 - named beside the one that stops
        hung = [_loss(three, boxes[1], boxes[1].hang, goes_on, expected) for _ in range(LOSSES)]
        return Splits(refusal, parts, loads, pairs, killed, hung)


@contextlib.contextmanager
def _server(
    folder: Path, root: Path, name: str, environ: Mapping[str, str] | None = None, nodes: Sequence[str] = ()
) -> Iterator[ServerProcess]:
    """A server of the model, split over these nodes. What it learns of memory stays in a store of its own."""
    store = folder / name / "models"
    store.mkdir(parents=True)
    for model in root.iterdir():
        (store / model.name).symlink_to(model, target_is_directory=True)
    # Reordered weights and guessed tokens take other ways to a sum, and so may end in another token.
    keys: dict[str, object] = {"model": MODEL, "context": 512, "repack": "off", "speculation": "off"}
    config = folder / f"{name}.toml"
    config.write_text(toml("models.split", keys | ({"nodes": list(nodes)} if nodes else {})), encoding="utf-8")
    with serving(config, environ={"EDGESERVE_MODELS_DIR": str(store), **(environ or {})}) as server:
        server.wait_healthy()
        yield server


def _pair(one: ServerProcess, three: ServerProcess, number: int) -> Pair:
    if number % 2:
        second = _ask(three)
        return Pair(_ask(one), second)
    first = _ask(one)
    return Pair(first, _ask(three))


def _ask(server: ServerProcess, tokens: int = TOKENS, event: Callable[[], None] | None = None) -> Told:
    """One greedy answer, streamed. ``event`` is called after its eighth piece.

    A cache key of its own lets each request compute its whole prompt in one call. A prompt whose beginning is cached
    is computed in other shapes, which round otherwise.
    """
    body = {
        "model": "split",
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "prompt_cache_key": uuid.uuid4().hex,
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    said, count, error, first, began = list[str](), 0, "", 0.0, time.perf_counter()
    with httpx.stream("POST", server.url + CHAT, json=body, timeout=120, trust_env=False) as answer:
        if answer.status_code != 200:
            error = str(json.loads(answer.read())["error"]["message"])
        for line in answer.iter_lines() if not error else ():
            found = json.loads(line[6:]) if line.startswith("data: {") else {}
            error = error or found.get("error", {}).get("message", "")
            count = (found.get("usage") or {}).get("completion_tokens", count)
            if word := _word(found):
                first = first or time.perf_counter() - began
                said.append(word)
                if event is not None and len(said) == 8:
                    event()
    return Told("".join(said), count, answer.status_code, error, first, time.perf_counter() - began)


def _word(event: Mapping[str, Any]) -> str:
    choices = event.get("choices") or [{}]
    return str(choices[0].get("delta", {}).get("content") or "")


def _loss(server: ServerProcess, box: Lender, lose: Callable[[], None], back: Callable[[], None], text: str) -> Loss:
    lost_at = [0.0]

    def event() -> None:
        lost_at[0] = time.perf_counter()
        lose()

    told = _ask(server, event=event)
    ended = time.perf_counter() - lost_at[0]
    back()
    while not box.answers:
        time.sleep(0.05)
    until, later = time.monotonic() + PATIENCE, _ask(server)
    while later.status == 503 and time.monotonic() < until:  # a process that has ended several times is not hurried
        time.sleep(0.5)
        later = _ask(server)
    return Loss(ended, box.node in told.error, later.text == text, later.whole)


def table(found: Splits) -> str:
    """The tables of the page."""
    rows = [
        (
            place,
            f"{load:.1f} s",
            f"{1000 * statistics.median(one.first for one in told):.0f} ms",
            f"{statistics.median(one.rate for one in told):.1f}",
        )
        for place, load, told in (
            ("one large box", found.loads[0], [one.one for one in found.pairs]),
            ("three small boxes", found.loads[1], [one.three for one in found.pairs]),
        )
    ]
    losses = [(name, *_row(lost)) for name, lost in (("killed", found.killed), ("stopped", found.hung))]
    return "\n\n".join(
        [
            report.table(("model on", "first answer, cold", "first token", "tokens a second"), rows),
            f"{sum(one.same for one in found.pairs)} of {len(found.pairs)} answers are the same text, greedily.",
            report.table(("a box is", "answer ends after", "error names the box", "next answer is right"), losses),
        ]
    )


def _row(lost: Sequence[Loss]) -> tuple[str, str, str]:
    ends = [one.ended for one in lost]
    count = len(lost)
    return (
        f"{min(ends):.1f} to {max(ends):.1f} s",
        f"{sum(one.named for one in lost)} of {count}",
        f"{sum(one.again for one in lost)} of {count}",
    )


def words(found: Splits) -> str:
    """The boxes and their parts, for the page."""
    held = ", ".join(f"{one['layers']} layers in {one['memory_mb']:.0f} MB" for one in found.parts)
    return (
        f"{MODEL} with a context of 512 tokens, over the box that serves and two boxes that lend {LENT_MB} MB each: "
        f"they hold {held}. No box has room for the whole model. The one that serves says to that: “{found.refusal}” "
        "All boxes are one core of this machine: no network slows the split. Each request has a cache key of its own "
        "and so computes its whole prompt, since a cached beginning changes the shape of a call, and its rounding. "
        f"{PAIRS} answers of {TOKENS} tokens in pairs; medians. Each loss {LOSSES} times: a box is killed or stopped "
        "(SIGSTOP) within an answer, and comes back. "
        "Speeds on a busy machine are rough: one process gets less of a core than three."
    )
