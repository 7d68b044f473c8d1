"""The page's own files: nothing foreign, nothing inline, every module found, small files, one pair of languages."""

from __future__ import annotations

import hashlib
import posixpath
import re
from pathlib import Path

from support.cases import each

from edgeserve.api.web import lean

FOLDER = Path(__file__).parents[3] / "edgeserve" / "web"
SCRIPTS = {path.relative_to(FOLDER).as_posix(): path.read_text("utf-8") for path in sorted(FOLDER.glob("js/*.js"))}
OWN = {
    **SCRIPTS,
    **{path.relative_to(FOLDER).as_posix(): path.read_text("utf-8") for path in sorted(FOLDER.glob("css/*.css"))},
    "index.html": (FOLDER / "index.html").read_text("utf-8"),
    "icon.svg": (FOLDER / "icon.svg").read_text("utf-8"),
}
VENDORED = {path.relative_to(FOLDER).as_posix(): path for path in sorted(FOLDER.glob("vendor/*"))}
NAMESPACE = "http://www.w3.org/2000/svg"
FOREIGN = re.compile(r"\b(?:https?|wss?|ftp):/{0,2}[\w.]|[\"'(=]//\w|\bdata:text/html", re.IGNORECASE)
LATE = re.compile(r"""(?:import\(|new URL\()["'](\.?/?[\w./]+\.js)["']""")
KEY, TEXT = r'"([a-z]+(?:\.[\w.]+)+)":\s*', r'"((?:[^"\\]|\\.)*)"'
WORD = re.compile(KEY + TEXT)
PAIR = re.compile(rf"{KEY}\[\s*{TEXT},\s*{TEXT},?\s*\]")
USED = re.compile(r'\bt\(\s*"([^"]+)"')
CHOSEN = re.compile(r'\bt\([^"`)]*\?\s*"([^"]+)"\s*:\s*"([^"]+)"')
PREFIXED = re.compile(r"\bt\(`([\w.]+)\$\{")
PLACE = re.compile(r"\{(\w+)\}")


@each("name", OWN)
def test_nothing_names_a_foreign_address(name: str) -> None:
    text = OWN[name].replace(NAMESPACE, "")
    assert FOREIGN.findall(text) == []


@each("name", OWN)
def test_nothing_is_inline_or_written_as_markup(name: str) -> None:
    text = OWN[name]
    assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text) == []
    assert re.findall(r"""\sstyle=["']|\son\w+=["']""", text) == []
    assert "<script>" not in text
    assert "<style" not in text


@each("name", OWN)
def test_a_file_is_short(name: str) -> None:
    assert OWN[name].count("\n") <= 300


def test_every_module_is_found_and_needed() -> None:
    needed = set(lean.graph({**SCRIPTS, **dict.fromkeys(VENDORED, "")}, "js/app.js"))
    waiting = list(needed)
    for name in waiting:
        late = [posixpath.normpath(posixpath.join("js", one)) for one in LATE.findall(SCRIPTS.get(name, ""))]
        for one in late + lean.imports(name, SCRIPTS.get(name, "")):
            assert one in SCRIPTS or one in VENDORED, f"{name} needs {one}"
            if one not in needed:
                needed.add(one)
                waiting.append(one)
    assert needed == set(SCRIPTS) | set(VENDORED)


def test_vendored_files_are_the_published_ones() -> None:
    rows = re.findall(
        r"^\| ([\w.-]+) \|.*\| ([0-9a-f]{64}) \|$", (FOLDER / "VENDOR.md").read_text("utf-8"), re.MULTILINE
    )
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDORED.values()}
    assert dict(rows) == there


def test_each_vendored_package_has_its_licence() -> None:
    licences = {path.stem: path.read_text("utf-8") for path in FOLDER.glob("licences/*")}
    assert set(licences) == {"htm", "preact", "marked", "dompurify"}
    for name, words in {
        "htm": "Apache License",
        "preact": "MIT",
        "marked": "MIT",
        "dompurify": "Apache License",
    }.items():
        assert words in licences[name] or "Permission is hereby granted" in licences[name], name


def words() -> dict[str, list[str]]:
    """The texts of each key, in the order of the sources: English, then German."""
    found: dict[str, list[str]] = {}
    for text in SCRIPTS.values():
        for key, *values in WORD.findall(text) + PAIR.findall(text):
            found.setdefault(key, []).extend(values)
    return found


def test_every_text_is_in_both_languages_with_the_same_places() -> None:
    texts = words()
    assert len(texts) > 100
    assert {key: len(values) for key, values in texts.items() if len(values) != 2} == {}
    places = {key: [sorted(PLACE.findall(one)) for one in values] for key, values in texts.items()}
    assert {key: pair for key, pair in places.items() if pair[0] != pair[1]} == {}


def test_every_text_that_is_asked_for_is_there() -> None:
    there = set(words())
    asked = {key for text in SCRIPTS.values() for key in USED.findall(text)}
    asked |= {key for text in SCRIPTS.values() for pair in CHOSEN.findall(text) for key in pair}
    assert sorted(asked - there) == []
    beginnings = {one for text in SCRIPTS.values() for one in PREFIXED.findall(text)}
    assert [one for one in beginnings if not any(key.startswith(one) for key in there)] == []


def test_no_text_is_left_over() -> None:
    code = "\n".join(PAIR.sub("", WORD.sub("", text)) for text in SCRIPTS.values())
    beginnings = tuple(PREFIXED.findall(code))
    left = [key for key in words() if f'"{key}"' not in code and not key.startswith(beginnings)]
    assert left == []
