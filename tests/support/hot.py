"""Engines that are hot for a test, and closed behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from edgeserve.engine import Engine, Rung

E = TypeVar("E", bound=Engine)
P = ParamSpec("P")


@contextlib.contextmanager
def hot(engine: E) -> Iterator[E]:
    engine.open()
    try:
        engine.heat()
        yield engine
    finally:
        engine.close()
    assert engine.rung is Rung.COLD


@contextlib.contextmanager
def hot_engines(make: Callable[P, E]) -> Iterator[Callable[P, E]]:
    """``make``, with each of its engines hot up to the end of the block."""
    with contextlib.ExitStack() as made:

        def made_hot(*given: P.args, **named: P.kwargs) -> E:
            return made.enter_context(hot(make(*given, **named)))

        yield made_hot
