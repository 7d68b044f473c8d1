"""The modules of the code, and the names that each imports."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Module:
    """Full names: ``from a import b`` counts as a.b. ``early``: those imported with the module itself.

    ``lines``: length of the file. ``functions``: length of each function.
    """

    name: str
    imports: tuple[str, ...]
    early: tuple[str, ...]
    lines: int
    functions: tuple[int, ...]


@functools.cache
def modules() -> tuple[Module, ...]:
    """All of them. Several tests read them, and each reading takes most of a second."""
    return tuple(_modules())


def _modules() -> Iterator[Module]:
    for path in sorted([*ROOT.glob("edgeserve/**/*.py"), *ROOT.glob("engines/**/*.py")]):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        name = f"edgeserve.{name}" if name.startswith("engines") else name  # its folder stands beside the package
        text = path.read_text(encoding="utf-8")
        body, lines = ast.parse(text).body, text.count("\n")
        imports = tuple(_imports(body, early=False)), tuple(_imports(body, early=True))
        yield Module(name, *imports, lines, tuple(_lengths(body)))


def _lengths(body: list[ast.stmt]) -> Iterator[int]:
    for one in body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (one.end_lineno or one.lineno) - one.lineno + 1
        for inner in _bodies(one):
            yield from _lengths(inner)


def _imports(body: list[ast.stmt], *, early: bool) -> Iterator[str]:
    """``early``: without the bodies of functions and without what only type checkers read."""
    for one in body:
        if isinstance(one, ast.Import):
            yield from (alias.name for alias in one.names)
        elif isinstance(one, ast.ImportFrom):
            assert one.level == 0, "relative imports hide the arrows"
            yield from (f"{one.module}.{alias.name}" for alias in one.names)
        elif not early or not (isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) or _for_type_checkers(one)):
            for inner in _bodies(one):
                yield from _imports(inner, early=early)


def _for_type_checkers(one: ast.stmt) -> bool:
    return isinstance(one, ast.If) and "TYPE_CHECKING" in ast.dump(one.test)


def _bodies(one: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Statements within a statement; no expression imports."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(one, name, [])
    for inner in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
        yield inner.body
