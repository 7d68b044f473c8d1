"""/openapi.json against the server: schemathesis makes requests from the document, alone and along its links.

python -m benchmarks.fuzz.schema [--seed N] [--examples N] [--phases fuzzing,stateful] [--page NAME]
"""

from __future__ import annotations

import argparse

from benchmarks import report
from benchmarks.fuzz import conformance, schema_page


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=60, help="requests of the phase fuzzing an operation; rows")
    parser.add_argument(
        "--phases", default=",".join(conformance.PHASES), help=f"some of {', '.join(conformance.PHASES)}"
    )
    parser.add_argument("--page", default="", help="name of a page in docs/benchmarks")
    options = parser.parse_args()
    if conformance.program() is None:
        parser.error(conformance.MISSING)
    seen = conformance.check(options.seed, options.examples, options.phases.split(","))
    text = schema_page.text(seen)
    if options.page:
        print(report.write(options.page, "Fuzz: requests from /openapi.json", text))
    print(*seen.words, text, sep="\n")
    return 1 if seen.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
