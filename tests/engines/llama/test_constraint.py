"""A grammar beside a sampler: what it lets through and what not, and that no request makes llama.cpp abort."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.contract import ask
from support.hostile_schemas import TAKEN_HOSTILE
from support.schemas import SHAPES

from edgeserve.engine import ModelSpec
from edgeserve.engines.grammar import limits
from edgeserve.engines.grammar.rules import JSON, Unsayable
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.constraint import SHORT, Constraint
from edgeserve.engines.llama.grammar import grammar
from edgeserve.engines.llama.sampler import Sampler
from edgeserve.engines.llama.tools import CallForm
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Sampling

Pulled = Callable[[str], Mapping[str, Path]]
TESTS = Path(__file__).parents[2]

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[LlamaChat]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    engine = LlamaChat(ModelSpec("llm", "smollm2", "x", files, threads=1, options={"context": 64}))
    engine.open()
    yield engine
    engine.close()


@pytest.fixture
def vocabulary(engine: LlamaChat) -> Any:
    assert engine._model is not None
    return engine._model.vocabulary


def hostile(pulled: Pulled, what: str) -> list[list[Any]]:
    model = pulled("smollm2-135m-instruct")["model"]
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    ran = subprocess.run(
        [sys.executable, "-m", "support.hostile_sampling", str(model), what],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_no_named_request_ends_the_process(pulled: Pulled) -> None:
    ends = {name: (end, told) for name, end, told in hostile(pulled, "named")}
    for name, (end, told) in ends.items():
        assert end in ("stop", "length", "InvalidRequest"), name
        if name.startswith(("temperature", "biased", "endless")):
            assert end in ("stop", "length"), name
        elif end == "InvalidRequest":
            assert told == "response_format"
    for temperature in ("1e-40", "5e-324"):  # as greedy as zero
        assert ends[f"temperature {temperature}, free"] == ends["temperature 1e-07, free"]


def test_no_random_request_ends_the_process(pulled: Pulled) -> None:
    assert len(hostile(pulled, "7")) == 20


@pytest.mark.parametrize("name", [*SHAPES, *TAKEN_HOSTILE])
def test_llama_cpp_reads_what_we_write(vocabulary: Any, name: str) -> None:
    schema = SHAPES.get(name, TAKEN_HOSTILE.get(name))
    made = grammar(ask("Hi", json_schema=json.dumps(schema)), CallForm())
    assert made is not None
    Constraint(str(made.rules), vocabulary).free()


@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        ('"a"{0,2000}', True),
        ('"a"{0,2001}', False),
        ('( "," ws value ){0,600}', True),
        ('( "," ws r1 r2 r3 ){0,999}', False),
        ('( ( "a"{0,50} )? ){0,30}', True),
        ('( ( "a"{0,50} )? ){0,60}', False),
        ("r0", False),
        ('"a"? r0', False),
        ('( "x" | "" ) "y"+ [^a-z"]*', True),
        ('""?', False),
    ],
)
def test_our_limits_are_those_of_llama_cpp(vocabulary: Any, rule: str, taken: bool) -> None:
    text = f'root ::= r0\nr0 ::= {rule}\nr1 ::= "1"\nr2 ::= "2"\nr3 ::= "3"{JSON}'
    try:
        limits.check(text)
        assert taken
    except Unsayable:
        assert not taken
    if rule == '"a"{0,2001}':  # of this llama.cpp makes any number
        return
    if taken:
        Constraint(text, vocabulary).free()
    else:
        with pytest.raises(InvalidRequest, match="write it more simply"):
            Constraint(text, vocabulary)


def test_what_the_model_has_no_token_for_is_an_error_before_it_is_accepted(vocabulary: Any) -> None:
    import numpy as np

    constraint = Constraint(r"root ::= [\U00050000]", vocabulary, "tools")
    assert not any(constraint.allows(token) for token in range(constraint.tokens))
    with pytest.raises(InvalidRequest, match="no token of this model") as caught:
        constraint.allowed(np.zeros(constraint.tokens, np.float32))
    assert caught.value.param == "tools"
    constraint.free()


def test_a_refused_grammar_leaves_nothing_behind(vocabulary: Any, engine: LlamaChat, monkeypatch: Any) -> None:
    """A chain made before would never be freed."""
    made: list[Any] = []
    from edgeserve.engines.llama.runtime import llama

    monkeypatch.setattr(llama(), "llama_sampler_chain_init", lambda *given: made.append(given))
    request = ask("Hi", sampling=Sampling(temperature=0.0), json_object=True)
    with pytest.raises(InvalidRequest):
        Sampler(request, engine.options, vocabulary, "root ::= gone")
    assert not made


@pytest.mark.parametrize("ways", [2, 20])
def test_a_long_token_is_allowed_where_its_characters_are(vocabulary: Any, ways: int) -> None:
    """A token is followed character by character, for many places in a grammar at once."""
    text = f'root ::= "\\"" ( ( [ !#-~] ){{1,2}} ){{1,{ways}}} "b\\""'
    spelled, whole = Constraint(text, vocabulary), Constraint(text, vocabulary)
    whole._spelling = lambda token: [token]  # type: ignore[assignment]
    whole._kinds[:] = SHORT
    size = spelled.tokens
    marks = {spelled._spelling._piece(one): one for one in range(size)}
    long = [one for piece, one in marks.items() if set(piece) == {ord("#")} and len(piece) in (1, 2, 4, 16, 32)]
    for constraint in (spelled, whole):
        constraint.accept(marks[b'"'])
        for token in long:
            if constraint.allows(token):
                constraint.accept(token)
    assert [spelled.allows(one) for one in long] == [whole.allows(one) for one in long]
    for constraint in (spelled, whole):
        constraint.free()


@pytest.mark.timeout(60)
def test_a_long_token_costs_no_more_than_its_characters(vocabulary: Any) -> None:
    """A part of two signs can be read in two ways. A token of 80 signs has 2**39 of them, and took days."""
    made = grammar(ask("Hi", pattern="(##|#[#a]){0,39}x"), CallForm())
    assert made is not None
    constraint = Constraint(str(made.rules), vocabulary)
    marks = {constraint._spelling._piece(one): one for one in range(constraint.tokens)}
    logits = np.full(constraint.tokens, -1.0, np.float32)
    logits[[marks[b"#" * 80], marks[b"#" * 64]]] = 100.0
    assert not constraint.allows(marks[b"#" * 80])
    assert constraint.allows(marks[b"#" * 64])
    assert marks[b"#"] in constraint.allowed(logits)["id"]
    constraint.accept(marks[b"#" * 64])
    assert [constraint.allows(marks[b"#" * count]) for count in (8, 16)] == [True, False]
    constraint.free()


def test_every_token_is_spelled_as_it_is_read(vocabulary: Any) -> None:
    from edgeserve.engines.llama.constraint import Spelling

    spelling = Spelling(vocabulary)
    spelled = 0
    for token in range(0, 49_152, 97):
        piece, parts = spelling._piece(token), spelling(token)
        assert b"".join(map(spelling._piece, parts)) == piece
        spelled += len(parts) > 1
    assert spelled > 300
