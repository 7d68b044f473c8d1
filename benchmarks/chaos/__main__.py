"""Clients of all kinds while workers die, hang and starve: every answer is right, or has a cause.

python -m benchmarks.chaos [--seed 1] [--minutes 10] [--fakes] [--page NAME]
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks import device, report
from benchmarks.chaos import fakes, house, page, real, run


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=1, help="of the events and of the order in which clients ask")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--gap", type=float, default=4.0, help="mean seconds between two events")
    parser.add_argument("--fakes", action="store_true", help="engines without models")
    parser.add_argument("--page", default="chaos", help="name of the page in docs/benchmarks; empty: none")
    parser.add_argument("--rerank", default="", metavar="MODEL", help="a reranking model; none unless named")
    device.add_arguments(parser)
    options = parser.parse_args()
    plan = run.Plan(options.seed, 60 * options.minutes, 15.0, options.gap)
    with tempfile.TemporaryDirectory() as folder:
        form = fakes.prepare(Path(folder)) if options.fakes else _real(Path(folder), options)
        seen = run.live(Path(folder), form, plan)
    if options.page:
        flags = (" --fakes" if options.fakes else "") + (f" --rerank {options.rerank}" if options.rerank else "")
        page.draw(options.page, seen)
        title = "Chaos: workers die, hang and starve while all kinds of clients ask"
        print(report.write(options.page, title, page.text(options.page, seen, form.name, flags)))
    print(summary(seen), *seen.faults, sep="\n")
    return 1 if seen.faults else 0


def _real(folder: Path, options: argparse.Namespace) -> house.Form:
    return real.prepare(folder, device.chosen(options), options.rerank)


def summary(seen: run.Seen) -> str:
    """Answers by verdict and code, and the number of events."""
    answers = Counter(f"{one.verdict} {one.code}".strip() for one in seen.replies)
    told = ", ".join(f"{count} {what}" for what, count in answers.most_common())
    return f"{len(seen.happened)} events; {told}; {len(seen.faults)} violations"


if __name__ == "__main__":
    raise SystemExit(main())
