"""The page's files without comments, and the graph of its modules."""

from __future__ import annotations

import pytest

from edgeserve.api.web.lean import graph, imports, lean

SCRIPT = """\
// The first line.
import { a } from "./a.js";

/** Two
 *  lines. */
export function f() {
  const url = "http://" + a; // behind code it stays
  return `
    <p>${url}</p>`;
}
"""


def test_comments_and_indentation_go_and_lines_stay() -> None:
    text = lean("js/x.js", SCRIPT)
    assert text.count("\n") == SCRIPT.count("\n")
    assert text.split("\n")[:8] == [
        "",
        'import { a } from "./a.js";',
        "",
        "",
        "",
        "export function f() {",
        'const url = "http://" + a; // behind code it stays',
        "return `",
    ]


def test_styles_lose_theirs_and_pages_stay() -> None:
    assert lean("css/x.css", "/* a\n b */\n  a { color: red; } /* c */\n") == "\n\na { color: red; } /* c */\n"
    assert lean("index.html", "  <p>\n") == "  <p>\n"


def test_imports_of_all_forms() -> None:
    text = (
        'import "../vendor/x.js";\nimport {\n  a,\n  b,\n} from "./a.js";\nexport { c } from "./c.js";\n'
        'const late = () => import("./late.js");\nimport * as all from "./all.js";\n'
    )
    assert imports("js/app.js", text) == ["vendor/x.js", "js/a.js", "js/c.js", "js/all.js"]


def test_the_graph_holds_each_module_once() -> None:
    texts = {
        "js/app.js": 'import { a } from "./a.js";\nimport { b } from "./b.js";\n',
        "js/a.js": 'import { b } from "./b.js";\n',
        "js/b.js": 'import { a } from "./a.js";\n',
        "js/late.js": "",
    }
    assert graph(texts, "js/app.js") == ["js/app.js", "js/a.js", "js/b.js"]
    with pytest.raises(KeyError):
        graph({"js/app.js": 'import "./gone.js";\n'}, "js/app.js")
