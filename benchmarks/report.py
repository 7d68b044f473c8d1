"""The report of a benchmark: the machine it ran on, a table in Markdown, and a picture beside it."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from edgeserve.system import cores

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"


def machine() -> str:
    """One line: processor, cores, memory, system, and the versions that matter."""
    memory = f"{psutil.virtual_memory().total / 2**30:.0f} GB"
    packages = ("edgeserve", "llama-cpp-python", "onnxruntime")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    system = f"{platform.system()} {platform.release().split('-')[0]} {platform.machine()}"
    return f"{_processor()}, {_cores()}, {memory}, {system}, Python {platform.python_version()}, {versions}"


def _cores() -> str:
    """The cores of the machine, and how many of them the benchmark might use where these are fewer."""
    there = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    usable = cores.usable()
    return f"{usable} of {there} cores" if usable < there else f"{there} cores"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(name: str, title: str, body: str) -> Path:
    """docs/benchmarks/NAME.md with the machine and the day; returns its path."""
    DOCS.mkdir(parents=True, exist_ok=True)
    path = DOCS / f"{name}.md"
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    path.write_text(f"# {title}\n\nMeasured on {today}: {machine()}.\n\n{body}\n", encoding="utf-8")
    return path


def draw_boxes(name: str, drawn: Mapping[str, Sequence[float]], label: str) -> None:
    """docs/benchmarks/NAME.png: a box a row, with whiskers to the extremes. ``label``: of the axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7, 3.2))
    axis.boxplot(list(drawn.values()), orientation="horizontal", whis=(0, 100), widths=0.5)
    axis.set_yticks(range(1, len(drawn) + 1), list(drawn))
    axis.set_xlim(left=0)
    axis.set_xlabel(label)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(picture(name), dpi=120)


def picture(name: str) -> Path:
    DOCS.mkdir(parents=True, exist_ok=True)
    return DOCS / f"{name}.png"
