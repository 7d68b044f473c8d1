"""Whether an act leaves descriptors behind."""

from __future__ import annotations

from collections.abc import Callable

import psutil
from support.server import until

TIMES = 8


def leaves_no_descriptor(act: Callable[[], object]) -> None:
    """Acts some times. One descriptor a time would be its own; servers of other tests live and end in this process."""
    before = psutil.Process().num_fds()
    for _ in range(TIMES):
        act()
    until(lambda: psutil.Process().num_fds() - before < TIMES // 2)
