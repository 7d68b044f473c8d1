"""The page's modules in one file: what each of them sees, in which order, and what cannot be joined."""

from __future__ import annotations

import pytest
from support.cases import each

from edgeserve.api.web import files, lean
from edgeserve.api.web.bundle import joined

TEXTS = {
    "js/app.js": """import { html } from "../vendor/h.js";
import {
  a,
  b as c,
} from "./a.js";
run(html, a, c);
""",
    "js/a.js": """import "./b.js";
export const a = 1;
export async function b() {}
export class C {}
const kept = 2;
""",
    "js/b.js": 'export function* f() {}\nconst late = () => import("./late.js");\n',
    "js/late.js": "",
    "vendor/h.js": "export { x as html };",
}
JOINED = """\
import * as $vendor_h from "../vendor/h.js";
const $js_b = (() => {function* f() {}
const late = () => import("./late.js");
return { f };
})();
const $js_a = (() => {
const a = 1;
async function b() {}
class C {}
const kept = 2;
return { a, b, C };
})();
const $js_app = (() => {const { html } = $vendor_h;
const {
  a,
  b: c,
} = $js_a;
run(html, a, c);
return {  };
})();
"""


def test_each_module_is_a_function_behind_those_that_it_needs() -> None:
    text, own = joined(TEXTS, "js/app.js")
    assert own == ["js/b.js", "js/a.js", "js/app.js"]
    assert text == JOINED


@each(
    "left",
    [
        'import * as all from "./b.js";',
        'import one from "./b.js";',
        'export { f } from "./b.js";',
        "export default 1;",
        "export let changing = 1;",
    ],
)
def test_a_form_that_cannot_be_joined_is_named(left: str) -> None:
    with pytest.raises(ValueError, match=r"js/app\.js: .*(?:import|export)"):
        joined({"js/app.js": left, "js/b.js": ""}, "js/app.js")


def test_modules_that_need_each_other_are_named() -> None:
    texts = {"js/app.js": 'import { a } from "./a.js";', "js/a.js": 'import { b } from "./app.js";'}
    with pytest.raises(ValueError, match=r"js/app\.js → js/a\.js → js/app\.js"):
        joined(texts, "js/app.js")


def test_no_module_of_the_page_is_loaded_twice() -> None:
    """A module that comes later must not import one that has been joined: it would get another copy, or none."""
    served = files.read().sizes
    texts = {name: (files.FOLDER / name).read_text("utf-8") for name in served if name.startswith("js/")}
    missing = {one for name, text in texts.items() if name != files.ENTRY for one in lean.imports(name, text)} - set(
        served
    )
    assert missing == set()
