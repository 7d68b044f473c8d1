"""Results of costly work, kept for the next requests: the latest few, and no large one."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

As = TypeVarTuple("As")
T = TypeVar("T")


def keeping(count: int, most: int, size: Callable[[T, *As], int]) -> Callable[[Callable[[*As], T]], Callable[[*As], T]]:
    """Keep the results of a function for its ``count`` latest arguments, but none of a ``size`` above ``most``.

    ``size`` gets the result and the arguments. ``functools.lru_cache`` keeps them whatever their size, as long as the
    process lives. Any thread; two threads may make one result at once.
    """

    def decorate(make: Callable[[*As], T]) -> Callable[[*As], T]:
        found: OrderedDict[tuple[*As], T] = OrderedDict()
        lock = threading.Lock()

        @functools.wraps(make)
        def kept(*arguments: *As) -> T:
            with lock:
                if arguments in found:
                    found.move_to_end(arguments)
                    return found[arguments]
            made = make(*arguments)
            if size(made, *arguments) <= most:
                with lock:
                    found[arguments] = made
                    if len(found) > count:
                        found.popitem(last=False)
            return made

        return kept

    return decorate
