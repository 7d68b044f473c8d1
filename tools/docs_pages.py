"""Pages of the docs: their links, and their code blocks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIRST = (ROOT / "README.md", ROOT / "docs/quickstart.md")
"""Pages whose blocks start the server that the blocks of all others ask."""

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
FENCE = re.compile(r"^```(\w*)\s*$")
EXCUSE = re.compile(r"<!-- not run: (.+) -->")
ALONE = "<!-- alone -->"
SERVES = re.compile(r"(^|\s)(make serve|edgeserve serve)\b")
LONG = re.compile(r"^make (test|bench|check|coverage)\b")
"""Targets with a run of their own: make only says what they would do."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: ``line`` is where its code begins; ``excuse`` says why it does not run, or is empty.

    ``alone``: it has a home and a network of its own.
    """

    page: Path
    line: int
    kind: str
    code: str
    excuse: str
    alone: bool = False

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    tops = (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))
    return [*(page for page in tops if page.exists()), *sorted((ROOT / "docs").rglob("*.md"))]


def in_order() -> list[Path]:
    """All pages, in the order in which their blocks run."""
    return [*FIRST, *(page for page in pages() if page not in FIRST)]


def prose(text: str) -> str:
    """The page without its code, with all lines kept."""
    fenced, kept = False, []
    for line in text.split("\n"):
        mark = line.startswith("```")
        kept.append("" if mark or fenced else re.sub(r"`[^`]*`", "code", line))
        fenced ^= mark
    return "\n".join(kept)


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> Iterator[str]:
    """Links of a page to files or headings that are not there; addresses of other sites are not asked."""
    for number, line in enumerate(prose(page.read_text(encoding="utf-8")).split("\n"), 1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path) if path else page
            if not file.exists():
                yield f"{page.relative_to(ROOT)}:{number}: {target} leads to no file"
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                yield f"{page.relative_to(ROOT)}:{number}: {target} leads to no heading"


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    kind: str | None = None
    kept: list[str] = []
    start, excuse, alone = 0, "", False
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        fence = FENCE.match(line)
        if fence and kind is None:
            kind, start, kept = fence[1], number + 1, []
        elif fence and kind is not None:
            yield Block(page, start, kind, "\n".join(kept), excuse, alone)
            kind, excuse = None, ""
        elif kind is not None:
            kept.append(line)
        elif line.strip():
            found = EXCUSE.match(line.strip())
            excuse = found[1] if found else ""
            alone = line.strip() == ALONE


def scripts(code: str) -> Iterator[str]:
    """Each command that serves or has a run of its own, and the lines between them, which one shell runs."""
    kept: list[str] = []
    for line in code.split("\n"):
        command = line.split(" #")[0].strip()
        if not (SERVES.search(command) or LONG.match(command)):
            kept += [line] if line.strip() else []
            continue
        if kept:
            yield "\n".join(kept)
        kept = []
        yield command
    if kept:
        yield "\n".join(kept)


def summary() -> Iterator[str]:
    """The number of blocks that run, and the reasons of the others."""
    found = [block for page in pages() for block in blocks(page)]
    reasons = Counter(block.excuse for block in found if block.excuse)
    yield f"{len(found) - reasons.total()} blocks run, {reasons.total()} do not:"
    yield from (f"  {times} {reason}" for reason, times in reasons.most_common())
