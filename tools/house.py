"""The house in figures: folders, rooms, arrows, lengths of files and functions. Decision 14 has the table.

    python tools/house.py [TREE]     TREE: another checkout to count; without one, this one

- A room is a folder that holds code, or a file of ``edgeserve/`` or ``engines/`` itself.
- An arrow is a pair of rooms of which one imports the other, anywhere in its code: also in a function and for type
  checkers.
- A function's length is that of its lines from ``def`` to its end, docstring included, decorators not.
- ``__init__.py`` does not count: it says what its folder is for.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from statistics import median, quantiles

ROOT = Path(__file__).parent.parent
TOPS = ("edgeserve", "engines")
FILE_LINES = 300


@dataclass(frozen=True, slots=True)
class File:
    """``imports``: full names; ``from a import b`` counts as a.b. ``functions``: the length of each, in lines."""

    path: PurePosixPath
    lines: int
    functions: tuple[int, ...]
    imports: frozenset[str]

    @property
    def room(self) -> str:
        return room(self.path)


def room(path: PurePosixPath) -> str:
    """The folder of a file, or the file itself where it lies in a top folder."""
    return path.parent.as_posix() if len(path.parts) > 2 else path.as_posix()


def files(tree: Path) -> Iterator[File]:
    for top in TOPS:
        for path in sorted((tree / top).glob("**/*.py")):
            if path.name != "__init__.py":
                text = path.read_text(encoding="utf-8")
                nodes = list(ast.walk(ast.parse(text)))
                functions = (one for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
                lengths = tuple((one.end_lineno or one.lineno) - one.lineno + 1 for one in functions)
                relative = PurePosixPath(path.relative_to(tree).as_posix())
                yield File(relative, len(text.splitlines()), lengths, frozenset(imported(nodes)))


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for one in nodes:
        if isinstance(one, ast.Import):
            yield from (alias.name for alias in one.names)
        elif isinstance(one, ast.ImportFrom):
            yield from (f"{one.module}.{alias.name}" for alias in one.names)


def arrows(house: Sequence[File]) -> set[tuple[str, str]]:
    """Pairs of rooms: the one that imports, the one that is imported."""
    modules = {".".join(one.path.with_suffix("").parts): one.room for one in house}
    found = set()
    for one in house:
        for name in one.imports:
            name = name.removeprefix("edgeserve.") if name.startswith("edgeserve.engines") else name
            there = next((modules[part] for part in (name, name.rpartition(".")[0]) if part in modules), None)
            if there not in {None, one.room}:
                found.add((one.room, str(there)))
    return found


def table(house: Sequence[File]) -> Iterator[tuple[str, str]]:
    """Rows of the table: the thing counted, and its figures."""
    pairs = arrows(house)
    within = sum(one.startswith("engines/") and other.startswith("engines/") for one, other in pairs)
    lines = [one.lines for one in house]
    functions = [length for one in house for length in one.functions]
    rooms = {one.room for one in house}
    yield "folders with code; rooms", f"{len({one.path.parent for one in house})}; {len(rooms)}"
    yield "arrows between rooms; of them in `engines/`", f"{len(pairs)}; {within}"
    yield "files, median lines", f"{len(house)}, {median(lines):.0f}"
    beyond = sum(one > FILE_LINES for one in lines)
    yield f"longest file; files beyond {FILE_LINES} lines", f"{max(lines)}; {beyond}"
    figures = median(functions), quantiles(functions, n=20)[-1], max(functions)
    yield "functions: median, 95th percentile, longest, in lines", ", ".join(f"{one:.0f}" for one in figures)


def main(arguments: Sequence[str]) -> None:
    for name, figures in table(list(files(Path(arguments[0]) if arguments else ROOT))):
        print(f"| {name} | {figures} |")


if __name__ == "__main__":
    main(sys.argv[1:])
