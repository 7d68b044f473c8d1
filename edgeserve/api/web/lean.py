"""The page's own files without what only their readers need, and the graph of its modules.

Lines keep their numbers, so that a browser's error message names the right line of the file.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

COMMENTS = {
    ".js": re.compile(r"^[ \t]*(?://[^\n]*|/\*\*(?:[^*]|\*(?!/))*\*/)$", re.MULTILINE),
    ".css": re.compile(r"^[ \t]*/\*(?:[^*]|\*(?!/))*\*/$", re.MULTILINE),
}
"""Comments that have their lines to themselves, by the file's suffix."""
INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
IMPORT = re.compile(r"""^(?:import|export)[ {](?:[^;"']*\bfrom )?["'](\.[^"']+)["'];""", re.MULTILINE)
"""An import that a module needs before it runs. ``import()`` is none."""


def lean(name: str, text: str) -> str:
    """The text without comments and indentation. Templates of HTML do not change: htm trims their lines."""
    comments = COMMENTS.get(posixpath.splitext(name)[1])
    if comments is None:
        return text
    return INDENT.sub("", comments.sub(lambda found: "\n" * found[0].count("\n"), text))


def imports(name: str, text: str) -> list[str]:
    """Paths of the modules that a module imports."""
    return [posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in IMPORT.findall(text)]


def graph(texts: Mapping[str, str], entry: str) -> list[str]:
    """Paths of all modules that ``entry`` needs before it runs, itself first.

    Raises KeyError for one that is not there.
    """
    found = [entry]
    for name in found:
        found += [one for one in dict.fromkeys(imports(name, texts[name])) if one not in found]
    return found
