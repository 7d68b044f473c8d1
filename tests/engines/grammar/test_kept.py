"""Kept results: the latest few arguments, and none that is large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engines.grammar import gbnf
from edgeserve.engines.grammar.kept import keeping
from edgeserve.engines.llama.grammar import grammar
from edgeserve.engines.llama.tools import CallForm
from edgeserve.messages import ChatRequest, Tool


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=30))
def test_the_latest_small_results_are_kept_and_no_others(asked: list[tuple[int, int]]) -> None:
    made: list[tuple[int, int]] = []

    @keeping(count=3, most=5, size=lambda result, one, other: result)
    def add(one: int, other: int) -> int:
        made.append((one, other))
        return one + other

    latest: list[tuple[int, int]] = []
    for pair in asked:
        before = len(made)
        assert add(*pair) == sum(pair)
        assert (len(made) == before) is (pair in latest)
        latest = [*(one for one in latest if one != pair), *([pair] if sum(pair) <= 5 else [])][-3:]


def test_a_small_grammar_of_a_client_is_kept_and_a_large_one_is_not() -> None:
    """One of 50,000 elements takes 4 MB: 16 of them stayed in the server for ever."""
    assert gbnf.parsed('root ::= "a"*') is gbnf.parsed('root ::= "a"*')
    wide = "".join(f"\\u{code:04X}" for code in range(0x4E00, 0x9000, 2))
    for large in ("[a-z]{0,9000}", f"[{wide[:60_000]}]", '"a" #' + "x" * 65_000):
        assert gbnf.parsed(f"root ::= {large}") is not gbnf.parsed(f"root ::= {large}")


def test_a_small_grammar_of_a_schema_is_kept_and_a_large_one_is_not() -> None:
    """A schema of 1,300 points becomes a grammar of 160,000 characters."""
    for pattern, kept in (("a", True), ("." * 1300, False)):
        schema = f'{{"type":"object","properties":{{"a":{{"type":"string","pattern":"{pattern}"}}}}}}'
        for request in (ChatRequest(json_schema=schema), ChatRequest(tools=(Tool("t", parameters=schema),))):
            assert (grammar(request, CallForm()) is grammar(request, CallForm())) is kept
