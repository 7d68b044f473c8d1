"""Thousands of broken requests and files: each gets an answer that is meant, and nobody else notices.

python -m benchmarks.fuzz --seed N [--cases 10000] [--kind KIND] [--case NUMBER]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from benchmarks import report
from benchmarks.fuzz import page, run


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0, help="number of the first case of each kind")
    parser.add_argument("--kind", choices=run.SHARES, action="append", help="only this kind; may be repeated")
    parser.add_argument("--case", type=int, help="only the case of this number; needs --kind")
    found = Path(tempfile.gettempdir()) / "edgeserve-fuzz"
    parser.add_argument("--out", type=Path, default=found, help=f"folder of reproductions ({found})")
    parser.add_argument("--page", default="", help="name of a page in docs/benchmarks")
    options = parser.parse_args()
    kinds = options.kind or list(run.SHARES)
    made = run.plan(options.cases, kinds, options.start)
    if options.case is not None:
        made = [(kind, options.case) for kind in kinds]
    began = time.monotonic()
    seen = run.fuzz(options.seed, made, options.out)
    seconds = time.monotonic() - began
    cpu = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    text = page.text(seen, seconds, cpu)
    if options.page:
        print(report.write(options.page, "Fuzz: broken requests and files", text))
    print(text)
    return 1 if seen.found or seen.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
