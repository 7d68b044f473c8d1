"""Plain English, checked: sentence length, openings and line width of docstrings, comments and pages.

    python tools/prose.py [PATH ...]     files or folders; without one, all that the project says

- A sentence has at most 25 words.
- A docstring starts with the thing or the action.
- A page has no line beyond 100 columns and no paragraph of more than 80 words.

Code, tables, links and text in parentheses do not count.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SPOKEN = ("README.md", "CONTRIBUTING.md", "docs", "edgeserve", "engines", "benchmarks", "tests", "tools")
GENERATED = ROOT / "docs" / "benchmarks"

WORDS = 25
PARAGRAPH = 80
COLUMNS = 100
OPENINGS = re.compile(r"(What|Whatever|Of|Where|Whose|Which|Whoever|Wherever|How|That which|Those)\b")

CODE = re.compile(r"``.+?``|`[^`]+`", re.DOTALL)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ASIDE = re.compile(r"\([^()]*\)")
END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[A-Z0-9`\"'(*_\[]|$)|(?<=:)\s*\n|\n\s*\n")
ITEM = re.compile(r"^(?:\s*([-*+]|\d+[.)])\s+|\s*[\w.,`*/…]+(, [\w.`]+)?\s{2,}(?=\S))")
"""The mark of a list item, or the term of a row "term    its meaning"."""
STRING_OR_COMMENT = re.compile(
    r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|"(?:[^"\\\n]|\\.)*"|'''
    r"""'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'(?:[^'\\\n]|\\.)*'|#[^\n]*""",
    re.DOTALL,
)
"""A comment, or a string, in which "#" begins no comment. The module ``tokenize`` is much slower."""
SETTING = re.compile(r"#\s*(noqa|type:|pragma|!)")
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|approx|No|St|Dr)\.", re.IGNORECASE)

Finding = tuple[int, str]
"""Line and complaint."""


def words(sentence: str) -> int:
    """Words of a sentence; code counts as one word each, text in parentheses does not count."""
    plain = CODE.sub("code", LINK.sub(r"\1", sentence))
    while (shorter := ASIDE.sub("", plain)) != plain:
        plain = shorter
    return len(re.findall(r"[\w'’./%-]*\w[\w'’./%-]*", plain))


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence with the line that it begins on, counted from 0."""
    plain = ABBREVIATIONS.sub(lambda found: found[0].replace(".", "\0"), text)
    # A full stop inside of code ends no sentence.
    plain = CODE.sub(lambda found: found[0].replace(".", "\0"), plain)
    start = 0
    for end in [*(found.end() for found in END.finditer(plain)), len(plain)]:
        piece = plain[start:end]
        lead = len(piece) - len(piece.lstrip())
        if piece.strip():
            yield plain.count("\n", 0, start + lead), piece.strip().replace("\0", ".")
        start = end


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items of prose, with their first line, counted from 0. Code and tables are left out."""
    kept: list[str] = []
    at, fenced = 0, False
    for number, line in enumerate([*text.split("\n"), ""]):
        mark = line.strip().startswith(("```", "~~~"))
        skipped = mark or fenced or line.lstrip().startswith(("|", "#", "<")) or not line.strip()
        skipped |= line.startswith("    ") and not kept
        fenced ^= mark
        if kept and (skipped or ITEM.match(line)):
            yield at, "\n".join(kept)
            kept = []
        if not skipped:
            at = at if kept else number
            kept.append(ITEM.sub("", line, count=1) if not kept else line)


def long_sentences(text: str, first: int) -> Iterator[Finding]:
    """Sentences of a block that have too many words; ``first`` is the line that it begins on."""
    for line, sentence in sentences(text):
        if (count := words(sentence)) > WORDS:
            yield first + line, f"a sentence of {count} words (at most {WORDS}): {' '.join(sentence.split())[:60]}…"


def in_docstring(text: str, first: int, margin: int) -> Iterator[Finding]:
    """Findings of one docstring; its indented parts (pictures, code) do not count."""
    if OPENINGS.match(text):
        yield first, f"starts with “{text.split()[0]}”; start with the thing or the action"
    for line, block in blocks(without_pictures(text, margin)):
        yield from long_sentences(block, first + line)


def without_pictures(text: str, margin: int) -> str:
    """The docstring with its indented lines (pictures, code) left empty; ``margin`` in columns."""
    lines = text.split("\n")
    return "\n".join([lines[0], *("" if line.startswith(" " * (margin + 2)) else line.strip() for line in lines[1:])])


def docstrings(body: list[ast.stmt]) -> Iterator[ast.Constant]:
    """Docstrings of modules, classes, functions and attributes: strings that stand as statements."""
    for one in body:
        if isinstance(one, ast.Expr):
            if isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                yield one.value
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from docstrings(getattr(one, name, []))
        for inner in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            yield from docstrings(inner.body)


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments, those on neighbouring lines as one, with their first line; settings of tools are left out."""
    kept: list[str] = []
    at, line, seen = 0, 1, 0
    for token in STRING_OR_COMMENT.finditer(source):
        line, seen = line + source.count("\n", seen, token.start()), token.start()
        if token[0][0] != "#" or SETTING.match(token[0]):
            continue
        text = re.sub(r"\s*(noqa|type: ignore).*", "", token[0].lstrip("# "))
        if kept and line != at + len(kept):
            yield at, "\n".join(kept)
            kept = []
        at = at if kept else line
        kept.append(text)
    if kept:
        yield at, "\n".join(kept)


def in_python(source: str) -> Iterator[Finding]:
    for node in docstrings(ast.parse(source).body):
        yield from in_docstring(str(node.value), node.lineno, node.col_offset)
    for line, text in comments(source):
        yield from long_sentences(text, line)


def in_page(text: str) -> Iterator[Finding]:
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        fenced ^= line.strip().startswith("```")
        free = fenced or line.startswith(("    ", "|")) or "](" in line or "http" in line
        if len(line) > COLUMNS and not free:
            yield number, f"{len(line)} columns (at most {COLUMNS})"
    for first, block in blocks(text):
        if (count := words(block)) > PARAGRAPH:
            yield first + 1, f"a paragraph of {count} words (at most {PARAGRAPH})"
        yield from long_sentences(block, first + 1)


def files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (one for one in found if one.suffix in {".py", ".md"} and GENERATED not in one.parents)


def main(arguments: list[str]) -> int:
    """Print the findings as ``file:line: complaint``; returns 1 when there are any."""
    chosen = [Path(one).resolve() for one in arguments] or [ROOT / one for one in SPOKEN if (ROOT / one).exists()]
    count = 0
    for path in files(chosen):
        text = path.read_text(encoding="utf-8")
        for line, complaint in sorted(in_python(text) if path.suffix == ".py" else in_page(text)):
            print(f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{line}: {complaint}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
