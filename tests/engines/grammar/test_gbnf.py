"""Grammars of clients: what is read, what is refused with its line, and that no grammar takes long to read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from support.cases import each
from support.effort import lines_run

from edgeserve.engines.grammar import gbnf
from edgeserve.engines.grammar.matcher import Matcher
from edgeserve.errors import InvalidRequest

LIST = r"""
# a list of points
root ::= item+   # at least one
item ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
"""
ARITHMETIC = r"""root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*"""
JSON = r"""root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws
string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [1-9] [0-9]{0,15})? ws
# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}"""


def matches(grammar: str, text: str) -> bool:
    """Whether the grammar holds the whole text."""
    matcher = Matcher(gbnf.parsed(grammar))
    for char in text:
        if not matcher.allows(char.encode()):
            return False
        matcher.accept(char.encode())
    return matcher.may_end


@each(
    ("grammar", "taken", "refused"),
    [
        (LIST, ["- a\n", "- a\n- é🙂\n"], ["", "a", "- \n", "- a"]),
        (ARITHMETIC, ["a=1\n", "(a+1)*2 = b\n", "x=1\ny=2\n"], ["a=", "a==1\n", "(a=1\n"]),
        (
            JSON,
            ["{}", '{"a": [1, -2.5e7, {"b": null}], "c": "\\u00e9"}'],
            ["[]", '{"a": }', '{"a": 01}', '{"a": "\x01"}'],
        ),
        ('root ::= "a"{2,3} "b"? [c-e]{2}', ["aacd", "aaabee"], ["acd", "aaaacc", "aab", "aac"]),
        ('root ::= ("x" | y){2,}\ny ::= "y" .', ["xx", "xyé", "y.y.x"], ["x", "yx", "yy"]),
        (r'root ::= "\x41\u00e9\U0001F642\t\"\\" [\]\-^]', ['Aé🙂\t"\\]', 'Aé🙂\t"\\-'], ["A", 'Aé🙂\t"\\a']),
        ('root ::= ""', [""], ["a"]),
        ("root ::= [^a-z] | [^]", ["A", "é", "a", "\n"], ["", "AB"]),
        ('root ::= "a" root | ', ["", "aaa"], ["b"]),
        ('root ::= "a"\r\n  # comment\r\n', ["a"], ["aa"]),
    ],
)
def test_a_grammar_means_what_it_says(grammar: str, taken: list[str], refused: list[str]) -> None:
    assert [text for text in taken if not matches(grammar, text)] == []
    assert [text for text in refused if matches(grammar, text)] == []


@each(
    ("grammar", "told"),
    [
        ("", "has no rule named root"),
        ('start ::= "a"', "has no rule named root"),
        ("root ::= gone", "names the rule 'gone', which is not defined"),
        ('root ::= "a"\nroot ::= "b"', "line 2: the rule 'root' is defined twice"),
        ('root = "a"', "line 1: '= "),
        ('root ::= "a', "line 1: "),
        ('root ::= ("a"', "line 1: a group is not closed"),
        ('root ::= "a")', "line 1: expected the end of the rule"),
        ("root ::= *", "line 1: a repeat has nothing to repeat"),
        ('root ::= ""?', "line 1: a repeat has nothing to repeat"),
        ('root ::= "a"{3,2}', "at least 3 and at most 2"),
        ("root ::= [z-a]", "a range that ends before it begins"),
        (r'root ::= "\xg0"', r"\x needs 2 hexadecimal digits"),
        (r'root ::= "\U00110000"', r"\U needs 8 hexadecimal digits of a character"),
        ('::= "a"', "line 1: expected the name of a rule"),
        ('root "a"', "expected ::= after the name 'root'"),
        ("root ::= <[12]>", "line 1: '<[12]>' is not understood"),
        ('root ::= root "a" | "b"', "left recursion"),
        ('root ::= x root\nx ::= "a"? y\ny ::= "b"*', "left recursion"),
        ('root ::= a\na ::= b | "x"\nb ::= a', "left recursion"),
        ("root ::= " + "(" * 65 + '"a"' + ")" * 65, "nested more than 64 levels"),
        ('root ::= "' + "a" * 50_001 + '"', "more than 50000 elements"),
        ('root ::= "ab"{30000}', "more than 50000 elements"),
        ('root ::= "a"{999999}', "more than 50000 elements"),
        ("root ::= " + '"a"{0,1000} ' * 60, "more than 50000 elements"),
    ],
)
def test_a_wrong_grammar_is_refused_with_its_line(grammar: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        gbnf.parsed(grammar)
    assert told in caught.value.message
    assert caught.value.param == "grammar"


@pytest.mark.slow
@pytest.mark.parametrize(
    "grammar",
    [
        lambda size: "root ::= " + "a " * 20 * size + '\na ::= "x"?',
        lambda size: "root ::= " + "| a " * 20 * size + '\na ::= "x"',
        lambda size: (
            "\n".join(f"r{number} ::= r{number + 1} r{number + 1}" for number in range(3 * size))
            + f'\nr{3 * size} ::= ""\nroot ::= r0'
        ),
        lambda size: (
            "\n".join(f"r{number} ::= r{number - 1}?" for number in range(1, 3 * size))
            + f'\nr0 ::= "a"\nroot ::= r{3 * size - 1}'
        ),
        lambda size: "root ::= [" + "a-" * 30 * size + "]",
        lambda size: "#" * 60 * size,
        lambda size: "root ::= " + '("a"|"b")' * 7 * size,
    ],
    ids=["sequence", "alternatives", "doubled rules", "chained rules", "set", "comment", "groups"],
)
def test_no_grammar_takes_long_to_read(grammar: Callable[[int], str]) -> None:
    """A text four times as long takes four times as much work."""

    def work(text: str) -> int:
        with contextlib.suppress(InvalidRequest), lines_run() as lines:
            gbnf.parsed(text)
        return lines.total()

    assert work(grammar(1000)) < 5 * work(grammar(250)) + 1000
