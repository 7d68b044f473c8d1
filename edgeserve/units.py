"""Sizes in bytes: binary multiples, as memory is counted."""

from __future__ import annotations

KB = 1 << 10
MB = 1 << 20
GB = 1 << 30
