"""Costs of the web page: memory of the server until the page is opened and afterwards, first paint, and its bytes.

    python -m benchmarks.page [--pairs 10]

A pair: a server without models as it is, and one whose table of routes lacks the page. Then Chromium opens the page of
the first one with an empty cache. Needs Chromium and Playwright.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.process import ServerProcess, free_port, running

from edgeserve.api.web import files

ROOT = Path(__file__).parent.parent
TARGET_MB, TARGET_SECONDS, TARGET_BYTES = 1.0, 1.0, 80_000
START = """
import sys
from edgeserve import cli
from edgeserve.api import routes
from edgeserve.api.web import public
left_out = ("/", public.PATH) if sys.argv.pop(1) == "without" else ()
routes.ENTRIES = tuple(one for one in routes.ENTRIES if one.path not in left_out)
sys.exit(cli.main(sys.argv[1:]))
"""
"""The command. Its first argument: "with" or "without" the routes of the page."""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


@dataclass(frozen=True, slots=True)
class Pair:
    """Anonymous memory of the server in MB: ``without`` the routes, ``before`` and ``after`` the page was opened.

    ``pss``: MB of all memory that came with the opening. ``paint``: seconds from the address to the first paint.
    """

    without: float
    before: float
    after: float
    pss: float
    paint: float


@contextlib.contextmanager
def served(folder: Path, page: str) -> Iterator[ServerProcess]:
    """A server without models. ``page``: "with" or "without" it."""
    config, port = folder / "models.toml", free_port()
    config.write_text('[server]\nserve = "stored"\n', encoding="utf-8")
    command = [sys.executable, "-c", START, page, "serve", "--config", str(config), "--port", str(port)]
    environ = {"EDGESERVE_MODELS_DIR": str(folder / "models"), "PYTHONPATH": os.pathsep.join(sys.path)}
    with running([*command, "--log-level", "warning"], port, environ) as server:
        server.wait_healthy()
        yield server


def painted(browser: Any, url: str) -> float:
    """Seconds to the first paint of the page in a window with an empty cache."""
    with contextlib.closing(browser.new_context()) as window:
        page = window.new_page()
        page.goto(url)
        page.get_by_role("img", name="The server answers").wait_for()
        while (milliseconds := page.evaluate(PAINT)) is None:
            page.wait_for_timeout(20)
    return float(milliseconds) / 1000


def measure(browser: Any, folder: Path) -> Pair:
    with served(folder, "without") as server:
        without = server.memory()
    with served(folder, "with") as server:
        before = server.memory()
        paint = painted(browser, f"{server.url}/")
        after = server.memory()
    return Pair(without.anonymous, before.anonymous, after.anonymous, after.pss - before.pss, paint)


def rows(pairs: Sequence[Pair], size: int) -> list[tuple[str, list[str], bool | None]]:
    """The name, figures and verdict of each cost: median, least and most of the pairs, and the target."""
    idle = [one.before - one.without for one in pairs]
    opened = [one.after - one.before for one in pairs]
    paints = [one.paint for one in pairs]
    return [
        ("memory until the page is opened, MB", [*_spread(idle), f"{TARGET_MB:.0f}"], _median(idle) <= TARGET_MB),
        ("anonymous memory that its opening takes, MB", [*_spread(opened), ""], None),
        ("the same with shared pages (Pss), MB", [*_spread([one.pss for one in pairs]), ""], None),
        ("first paint, s", [*_spread(paints), f"{TARGET_SECONDS:.0f}"], max(paints) <= TARGET_SECONDS),
        ("all files, compressed bytes", [f"{size:,}", "", "", f"{TARGET_BYTES:,}"], size <= TARGET_BYTES),
    ]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _spread(values: Sequence[float]) -> list[str]:
    return [f"{one:.2f}" for one in (_median(values), min(values), max(values))]


def draw(pairs: Sequence[Pair]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.2))
    left.boxplot(
        [[one.before - one.without for one in pairs], [one.after - one.without for one in pairs]],
        whis=(0, 100),
        widths=0.4,
    )
    left.set_xticks([1, 2], ["page not opened", "page opened"])
    left.axhline(TARGET_MB, color="tab:red", linestyle="--", label="target until opened")
    left.axhline(0, color="tab:gray", linewidth=0.8)
    left.set_title("anonymous memory beyond a server without it (MB)")
    right.boxplot([[one.paint for one in pairs]], whis=(0, 100), widths=0.3)
    right.set_xticks([1], ["first paint"])
    right.axhline(TARGET_SECONDS, color="tab:red", linestyle="--", label="target")
    right.set_title("seconds")
    right.set_ylim(bottom=0)
    for axis in (left, right):
        axis.legend(loc="center left", frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(report.picture("page"), dpi=120)


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    count = parser.parse_args().pairs
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from support.browser import chromium

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        painted_once = [measure(browser, Path(folder)) for _ in range(count + 1)][1:]  # the first one warms the disk
    found = rows(painted_once, sum(files.read().sizes.values()))
    body = report.table(["cost", "median", "least", "most", "target"], [[name, *figures] for name, figures, _ in found])
    draw(painted_once)
    text = (
        f"{count} pairs of servers without models, one as it is and one without the routes of the page. Then Chromium "
        f"opens the page over loopback, with an empty cache. The target of the first paint is for the slowest one.\n\n"
        f"{body}\n\n![memory and first paint](page.png)"
    )
    print(report.write("page", "The page", text))
    print(body)
    met = all(verdict is not False for _, _, verdict in found)
    print("target met" if met else "TARGET MISSED")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
