"""The check of plain English: each rule finds its offender, and code, tables and links do not count."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

LONG = "The gate " + "a " * 24 + "refuses."


def complaints(prose: ModuleType, text: str, kind: str) -> list[tuple[int, str]]:
    return sorted(getattr(prose, kind)(text))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The gate refuses the request.", 5),
        ("`GET /v1/models` lists the models (all of them, with their rungs).", 4),
        ("See [the quick start](docs/quickstart.md).", 4),
        ("10 ms, 1.5 s and 80% count as words.", 9),
    ],
)
def test_words(prose: ModuleType, text: str, count: int) -> None:
    assert prose.words(text) == count


def test_sentences_end_at_stops_but_not_inside_of_code_or_abbreviations(prose: ModuleType) -> None:
    text = "A gate, e.g. `gate.py. X`, refuses. It says why!\n\nThe last"
    assert [found[1] for found in prose.sentences(text)] == [
        "A gate, e.g. `gate.py. X`, refuses.",
        "It says why!",
        "The last",
    ]


def test_a_long_sentence_is_found_on_its_line(prose: ModuleType) -> None:
    ((line, text),) = complaints(prose, f"# Gates\n\nShort.\n\n- one\n- {LONG}", "in_page")
    assert line == 6
    assert "27 words" in text or "26 words" in text


@pytest.mark.parametrize(
    "text",
    [
        f"```sh\n{LONG}\n{'x' * 200}\n```",
        f"| a | {LONG} |\n|---|---|",
        f"    {LONG}",
        "[" + "a " * 20 + "](" + "x" * 120 + ")",
        f"A gate ({LONG}) refuses.",
    ],
)
def test_code_tables_links_and_asides_do_not_count(prose: ModuleType, text: str) -> None:
    assert complaints(prose, text, "in_page") == []


def test_pages_have_narrow_lines_and_short_paragraphs(prose: ModuleType) -> None:
    assert [line for line, _ in complaints(prose, "x " * 51, "in_page")] == [1, 1]
    page = "\n".join(["The gate refuses it."] * 25)
    assert [text for _, text in complaints(prose, page, "in_page")] == ["a paragraph of 100 words (at most 80)"]


@pytest.mark.parametrize("opening", ["What the gate knows.", "Of a gate.", "Where it stands.", "Whatever comes."])
def test_docstrings_start_with_the_thing_or_the_action(prose: ModuleType, opening: str) -> None:
    source = f'def gate() -> None:\n    """{opening}"""\n'
    ((line, text),) = complaints(prose, source, "in_python")
    assert line == 2
    assert "start with the thing" in text


def test_comments_and_docstrings_have_short_sentences(prose: ModuleType) -> None:
    source = f'"""Short."""\n\n# {LONG}\nX = 1\n"""{LONG}"""\nY = 2  # noqa: E501\n'
    assert [line for line, _ in complaints(prose, source, "in_python")] == [3, 5]


def test_pictures_in_docstrings_do_not_count(prose: ModuleType) -> None:
    source = f'def f():\n    """Draw.\n\n        {LONG}\n    """\n'
    assert complaints(prose, source, "in_python") == []


def test_the_command_names_file_and_line(prose: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(LONG)
    assert prose.main([str(tmp_path)]) == 1
    assert f"{page}:1: a sentence of" in capsys.readouterr().out
    page.write_text("Short.")
    assert prose.main([str(page)]) == 0
