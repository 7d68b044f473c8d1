"""Chat templates end: whatever they do, in bounded time and memory, as the error of the request that they render."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.cases import each
from support.examples import examples
from support.turns import calls_in_json

from edgeserve.engines.llama.template import ChatTemplate
from edgeserve.engines.llama.template_budget import STEPS, Budget, OverBudget
from edgeserve.engines.llama.template_environment import environment
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Message, TextPart, ToolCall

TALK = tuple(
    Message("user" if at % 2 == 0 else "assistant", (TextPart("Hello, how are you? " * 9),)) for at in range(8)
)

ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in messages[0].content * 9 %}{% for b in messages[0].content * 9 %}{% for c in messages[0].content %}"
    "{% endfor %}{% endfor %}{% endfor %}",
    "{% for x in (messages[0].content * 999)|map('upper') %}{% for y in range(999) %}{% endfor %}{% endfor %}",
]
HUGE = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * [0] }}",
    "{{ 10**(10**9) }}",
    "{% set ns = namespace(s='aaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "{% set ns = namespace(s='aaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "{% set ns = namespace(n=9) %}{% for i in range(99) %}{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}",
    "{% for i in range(999999) %}{{ ['a' * 999999] }}{% endfor %}",
    "{% set x %}{% for i in range(99999) %}{{ messages[0].content * 99 }}{% endfor %}{% endset %}{{ x }}",
    "{{ 'x'|center(10**9) }}",
    "{{ ['x']|map('center', 10**9)|list }}",
    "{{ 'x'.ljust(10**9) }}{{ 'x'.zfill(10**9) }}",
    "{{ '\t'.expandtabs(10**9) }}",
    "{{ ('a\n' * 99999)|indent(9999) }}",
    "{{ messages|tojson(indent=99999) }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:>{w}}'.format(1, w=10**9) }}",
    "{{ '{0:{1}}'.format_map({'0': 1}) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (10**9, 1) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ ('a' * 999999).replace('a', 'b' * 999999) }}",
    "{{ ('a' * 999999)|replace('a', 'b' * 999999) }}",
    "{{ ('a' * 999999).replace('', 'b' * 999999) }}",
    "{{ ('b' * 999999).join('a' * 999999) }}",
    "{{ ('a' * 999999)|join('b' * 999999) }}",
    "{{ ('a' * 999999).translate({97: 'b' * 999999}) }}",
    "{{ range(10**9)|list }}",
    "{{ range(10**9)|sum }}",
    "{{ (1).to_bytes(10**9, 'big') }}",
    "{{ 1.5|round(10**9, 'ceil') }}",
]
BROKEN = [
    "{{ 1 / 0 }}",
    "{{ none.x.y }}",
    "{{ [1][9] + 1 }}",
    "{{ raise_exception('no') }}",
    "{% macro f(x) %}{% for i in range(9) %}{{ f(x) }}{% endfor %}{% endmacro %}{{ f(1) }}",
    "{{ 'a' + 1 }}",
    "{{ ''.__class__.__mro__ }}",
    "{% for",
    "{% break %}",
    "{% for m in messages %}{% macro f() %}{% continue %}{% endmacro %}{% endfor %}",
]


def refused(source: str, steps: int = STEPS) -> str:
    with pytest.raises(InvalidRequest) as caught:
        ChatTemplate(source, "", "").render(TALK, steps=steps)
    assert caught.value.param == "messages"
    return caught.value.message


@pytest.mark.parametrize("source", ENDLESS)
def test_a_template_without_end_is_refused_with_the_number_of_its_steps(source: str) -> None:
    assert "it takes more than 20000 steps" in refused(source, 20_000)


def test_the_usual_budget_ends_a_template_without_end() -> None:
    assert f"it takes more than {STEPS} steps" in refused(ENDLESS[0])


@pytest.mark.parametrize("source", HUGE)
def test_a_template_that_does_too_much_is_refused_with_numbers(source: str) -> None:
    tracemalloc.start()
    try:
        told = refused(source)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()
    assert any(letter.isdigit() for letter in told) or "translates" in told


@each("source", BROKEN)
def test_a_template_that_fails_is_the_error_of_the_request(source: str) -> None:
    assert "chat template" in refused(source)


def test_other_threads_run_while_the_arguments_of_calls_are_read() -> None:
    call = ToolCall("look", json.dumps({"a": [2.5e-7] * 2_000}), "1")
    template = ChatTemplate("{{ messages|length }}{{ tools }}", "", "")
    assert calls_in_json(lambda: template.render([Message("assistant", (), (call,))])) >= 2_000


def test_what_templates_do_is_allowed() -> None:
    source = (
        "{{ 5 % 3 }}{{ 'a' + 'b' }}{{ 'a' ~ 1 }}{{ '%s %5d' % ('x', 3) }}{{ '{}{{}}{:>5}'.format(1, 2) }}"
        "{{ [1, 2]|join(', ') }}{{ 'abc'|replace('b', 'x') }}{{ 'a\nb'|indent(2) }}{{ [1] + [2] }}{{ 2 * 3 ** 2 }}"
        "{% for i in range(3) %}{{ loop.index }}{% endfor %}{{ {'b': 1}|tojson(indent=2) }}{{ ' x '.strip() }}"
    )
    assert ChatTemplate(source, "", "").render(TALK) == ('2aba1x     31{}    21, 2axca\n  b[1, 2]18123{\n  "b": 1\n}x')


def test_steps_are_counted_and_the_tracer_of_before_comes_back() -> None:
    sandbox = environment()
    template = sandbox.from_string("{% for i in range(5) %}{{ i }}\n{% endfor %}")
    seen: list[str] = []

    def tracer(frame: object, event: str, argument: object) -> None:
        seen.append(event)

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with pytest.raises(OverBudget, match="more than 6 steps"):
            sandbox.render(template, {}, Budget(0, steps=6))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)
    assert sandbox.render(template, {}, Budget(0, steps=600)) == "0\n1\n2\n3\n4\n"


def test_a_render_ends_at_its_deadline() -> None:
    clock = iter(range(10_000))
    sandbox = environment()
    template = sandbox.from_string("{% for i in range(99999) %}{{ i }}{% endfor %}")
    with pytest.raises(OverBudget, match="longer than 3 seconds"):
        sandbox.render(template, {}, Budget(0, seconds=3, clock=lambda: float(next(clock))))


def test_threads_have_budgets_of_their_own() -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content * 99 }}{% endfor %}", "", "")
    told: list[str] = []
    threads = [threading.Thread(target=lambda: told.append(template.render(TALK))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == ["".join(message.text * 99 for message in TALK)] * 8


TEXTS = some.sampled_from(["'ab'", "m.content", "ns.s", "'%9d'", "messages|tojson"])
DEEDS = some.sampled_from(
    [
        "ns.s ~ {0}",
        "{0} * 99",
        "({0} + ns.s)",
        "{0}|replace('a', ns.s)",
        "{0}.join(ns.s)",
        "{0}.center(9999)",
        "{0}|upper",
        "{0} % 3",
        "[{0}, ns.s]|join(ns.s)",
        "{0}.split('a')|join(ns.s)",
    ]
)


@pytest.mark.slow
@examples(60)
@given(some.lists(some.tuples(DEEDS, TEXTS), min_size=1, max_size=4), some.integers(1, 200))
def test_any_program_ends_within_its_bounds(program: list[tuple[str, str]], times: int) -> None:
    body = "".join(f"{{% set ns.s = {deed.format(text)} %}}" for deed, text in program)
    source = (
        f"{{% set ns = namespace(s='a') %}}{{% for i in range({times}) %}}{{% for m in messages %}}{body}"
        "{% endfor %}{% endfor %}{{ ns.s }}"
    )
    with contextlib.suppress(InvalidRequest):
        assert len(ChatTemplate(source, "", "").render(TALK)) < 16 << 20
