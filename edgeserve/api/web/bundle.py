"""Modules of the page joined into one file, which compresses to three quarters of them and comes with one request.

Each module becomes a function that is named after its file. Its lines stay as they are, so that a browser's complaint
still leads to them. Modules of other folders stay files of their own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from edgeserve.api.web import lean

NAMED = re.compile(r"""^import \{([^}]*)\} from ["'](\.[^"']+)["'];""", re.MULTILINE)
BARE = re.compile(r"""^import ["'](\.[^"']+)["'];""", re.MULTILINE)
DECLARED = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
OTHER = re.compile(r"""^(?:import|export)[ {"'].*""", re.MULTILINE)
"""Forms that are left after those above. The page does without them: names that change would not follow."""


def joined(texts: Mapping[str, str], entry: str) -> tuple[str, list[str]]:
    """The text of ``entry`` with all modules of its folder that it needs, and the names of these modules.

    Raises ValueError for modules that need each other, and for other forms of import and export.
    """
    inside = [name for name in lean.graph(texts, entry) if posixpath.dirname(name) == posixpath.dirname(entry)]
    order: list[str] = []
    _add(texts, entry, order, ())
    outside = [name for name in order if name not in inside]
    order = [name for name in order if name in inside]
    head = [f'import * as {_variable(one)} from "{_relative(one, entry)}";\n' for one in outside]
    return "".join(head + [_wrapped(name, texts[name]) for name in order]), order


def _add(texts: Mapping[str, str], name: str, order: list[str], way: tuple[str, ...]) -> None:
    """Append a module to ``order`` behind those that it needs. ``way``: the modules that led to it."""
    if name in way:
        raise ValueError(f"modules of the page need each other: {' → '.join((*way, name))}")
    if name in order:
        return
    for one in lean.imports(name, texts[name]):
        _add(texts, one, order, (*way, name))
    order.append(name)


def _wrapped(name: str, text: str) -> str:
    folder = posixpath.dirname(name)

    def taken(found: re.Match[str]) -> str:
        return f"const {{{found[1].replace(' as ', ': ')}}} = {_variable(posixpath.join(folder, found[2]))};"

    names = ", ".join(DECLARED.findall(text))
    text = DECLARED.sub("", BARE.sub("", NAMED.sub(taken, text)))
    if left := OTHER.search(text):
        raise ValueError(f"{name}: the page's modules cannot be joined with {left[0]!r}")
    return f"const {_variable(name)} = (() => {{{text}return {{ {names} }};\n}})();\n"


def _variable(name: str) -> str:
    """A name for a module's exports: ``js/chat_state.js`` is ``$js_chat_state``."""
    return "$" + re.sub(r"\W", "_", posixpath.normpath(name).removesuffix(".js"))


def _relative(name: str, entry: str) -> str:
    found = posixpath.relpath(name, posixpath.dirname(entry))
    return found if found.startswith(".") else f"./{found}"
