"""The measurement of a model in several forms, in a process of its own: ``python -m edgeserve.fit.form_trial '{...}'``.

Each form is a set of settings. The process prints a JSON line for each form as soon as it is measured, and may be
killed at any time. It ends with its standard input.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.errors import ContextOverflow
from edgeserve.fit.tuned import IDLE, Form, Settings
from edgeserve.messages import ChatRequest, FinishEvent, Sampling, TokenEvent
from edgeserve.named import make_engine
from edgeserve.system import cores, lifeline
from edgeserve.system.load import Neighbours

PROMPT, ANSWER = 140, 33
"""Numbers in the prompt, about four tokens each, so that it is longer than any call; and tokens of the answer."""
OTHER = 280
"""Numbers in another conversation, which stays in the context meanwhile."""
BATCHES = 512, 128
"""Tokens of a call to try beside the default."""
FIXED: Settings = MappingProxyType({"context": 2048, "parallel": 2, "speculation": "off", "prefix_cache_mb": 0})
"""Options of every form: no more memory than the trial needs, and one token in each call. Without a prefix cache the
other conversation stays in the context."""
MOST_THREADS = 8
"""Threads of an engine by default, at most."""
PAIRS = 3
"""Pairs of two forms, measured in turns: other programs disturb both alike."""
WINDOW = 8
"""Tokens after one another whose fastest run counts."""
SESSION_PROMPT, SESSION_ANSWER = 900, 300
"""Tokens that a way up is followed by: three questions of a conversation. The faster form of a session is better."""
WORTH = 0.97
"""A change of the settings must take less than this share of the time: a smaller gain is within the noise."""

Clock = Callable[[], float]
Measure = Callable[[Settings], Form]


def session(form: Form) -> float:
    """Seconds of a typical session: the way up, prompts and answers."""
    return form.climb + SESSION_PROMPT / form.prompt + SESSION_ANSWER / form.tokens


def changes(threads: int, usable: int) -> Iterator[Settings]:
    """Changes to try, one after the other, each on top of the best form so far. ``threads``: those of the default."""
    yield {"repack": "on"}
    yield {"flash_attention": "off"}
    yield from ({"batch": size} for size in BATCHES)
    if usable > threads:
        yield {"threads_batch": usable}
    if threads > 2:
        yield {"threads": threads - 1}


def search(measure: Measure, threads: int, usable: int) -> Iterator[tuple[Form, bool]]:
    """Every form, with whether it is the best so far. The default comes first."""
    best = measure({})
    yield best, True
    for change in changes(threads, usable):
        form, better = compare(measure, best.settings, {**best.settings, **change})
        yield form, better
        best = form if better else best


def compare(measure: Measure, old: Settings, new: Settings) -> tuple[Form, bool]:
    """The form of the new settings, and whether it is better: in each of ``PAIRS`` pairs, and in the median by WORTH.

    The first pair that it loses is the last. The settings that come first alternate.
    """
    forms: list[Form] = []
    ratios: list[float] = []
    while len(ratios) < PAIRS and (not ratios or ratios[-1] < 1):
        pair = {name: measure(one) for name, one in (("old", old), ("new", new))[:: 1 if len(ratios) % 2 else -1]}
        forms.append(pair["new"])
        ratios.append(session(pair["new"]) / session(pair["old"]))
    middle = sorted(forms, key=session)[len(forms) // 2]
    return middle, max(ratios) < 1 and statistics.median(ratios) < WORTH


def measure_form(spec: ModelSpec, settings: Settings, clock: Clock = time.perf_counter) -> Form:
    """The figures of one form. Raises EdgeserveError."""
    options = {name: value for name, value in settings.items() if name != "threads"}
    threads = int(settings["threads"]) if "threads" in settings else spec.threads
    engine: Any = make_engine(dataclasses.replace(spec, threads=threads, options={**spec.options, **FIXED, **options}))
    engine.open()
    try:
        begun = clock()
        engine.heat()
        climb = clock() - begun
        return Form(settings, climb, *_answer(engine, clock))
    finally:
        engine.close()


def _answer(engine: Any, clock: Clock) -> tuple[float, float]:
    """Tokens a second of the prompt and of the answer, beside another conversation in the context."""
    with contextlib.suppress(ContextOverflow):  # a model trained on a short context has no room for both
        # Flash attention passes over its cells. Without flash attention, each token computes with them.
        collections.deque(engine.chat(_request(7, OTHER, 1), threading.Event()), 0)
    begun, stamps, prompt = clock(), [], 0
    for event in engine.chat(_request(3, PROMPT, ANSWER), threading.Event()):
        if isinstance(event, TokenEvent):
            stamps.append(clock())
        elif isinstance(event, FinishEvent):
            prompt = event.prompt_tokens
    if len(stamps) <= WINDOW:
        raise ValueError(f"an answer of {len(stamps)} pieces is too short to be timed")
    fastest = min(late - early for early, late in zip(stamps, stamps[WINDOW:], strict=False))
    return prompt / (stamps[0] - begun), WINDOW / fastest


def _request(step: int, count: int, tokens: int) -> ChatRequest:
    """A prompt of the first multiples of ``step``, ``count`` of them, answered with so many tokens."""
    text = " ".join(str(step * one) for one in range(1, count + 1))
    return ChatRequest(prompt=text, max_tokens=tokens, ignore_eos=True, sampling=Sampling(temperature=0))


def main(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The forms as they are measured; ``given``: the fields of a ModelSpec."""
    spec = ModelSpec(**{**given, "files": {role: Path(path) for role, path in given["files"].items()}})
    neighbours = Neighbours()
    threads = spec.threads or cores.default_threads(MOST_THREADS)
    for form, best in search(functools.partial(measure_form, spec), threads, cores.usable()):
        yield dataclasses.asdict(form) | {"best": best, "others": neighbours.past()}


def give_way() -> None:
    """Run only on cores that nobody else wants."""
    os.nice(19)
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


if __name__ == "__main__":
    lifeline.end_with(sys.stdin.fileno())  # however the program ends that started this process
    if IDLE in sys.argv[2:]:
        give_way()
    for line in main(json.loads(sys.argv[1])):
        print(json.dumps(line), flush=True)
