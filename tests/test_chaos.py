"""Some seconds of chaos on engines without models: the form of benchmarks/chaos that runs with the tests."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.chaos import fakes, replies, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # waits alone: a hang and the pauses after deaths

SLOW_BOX = 15.0
"""Seconds for an answer about the health: how fast it comes is measured by the benchmark, on a quiet box."""
HANG = 15.0
"""Seconds without a sign of life after which a worker is killed, where the product waits for 30."""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="looks into processes through Linux's /proc")
def test_no_violation_in_a_short_chaos(tmp_path: Path) -> None:
    seed = int(os.environ.get("EDGESERVE_STRESS_SEED", 0)) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"EDGESERVE_STRESS_SEED={seed} repeats this schedule")
    plan = run.Plan(seed, seconds=20.0, calm=4.0, gap=1.0, patience=SLOW_BOX, alone=False)
    seen = run.live(tmp_path, fakes.prepare(tmp_path, HANG), plan)
    counts = Counter(one.verdict for one in seen.replies)
    print(counts, Counter(one.kind for one in seen.happened), f"left out: {seen.lacking or 'nothing'}")
    assert seen.faults == [], "\n".join([*seen.faults, seen.log[-20_000:]])
    assert len(seen.happened) >= 8
    assert counts[replies.RIGHT] > 100
