"""Clients of all kinds while workers die, hang and starve: every answer is right, or has a cause.

    python -m benchmarks.chaos --seed N [--minutes 10] [--fakes] [--page NAME]
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import device
from benchmarks.chaos import fakes, run


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--gap", type=float, default=4.0, help="mean seconds between two events")
    parser.add_argument("--fakes", action="store_true", help="engines without models")
    parser.add_argument("--page", default="chaos", help="name of the page in docs/benchmarks; empty: none")
    device.add_arguments(parser)
    options = parser.parse_args()
    plan = run.Plan(options.seed, 60 * options.minutes, 15.0, options.gap)
    with tempfile.TemporaryDirectory() as folder:
        form = fakes.prepare(Path(folder))
        seen = run.live(Path(folder), form, plan)
    print(Counter((one.kind, one.verdict) for one in seen.replies))
    print(Counter((one.verdict, one.status, one.code) for one in seen.replies))
    print(Counter(one.kind for one in seen.happened), seen.passed_over, seen.lacking)
    print(*seen.rests, sep="\n")
    print(max(one.seconds for one in seen.looks), len(seen.looks))
    print(*seen.faults[:60], len(seen.faults), sep="\n")
    Path("/tmp/chaos_log.txt").write_text(seen.log)
    return 1 if seen.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
