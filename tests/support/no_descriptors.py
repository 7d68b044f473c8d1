"""A module that a fork server may preload: no further descriptor opens there."""

from __future__ import annotations

import os
import resource

WAKE_UP = 2
"""Descriptors that the fork server opens after its imports."""

# Imports and the listing of threads want one too, and close it.
LAST = 64
while os.dup(0) < LAST:
    pass
resource.setrlimit(resource.RLIMIT_NOFILE, (LAST + 1 + WAKE_UP, LAST + 1 + WAKE_UP))
