"""Request heads that two readers may read in two ways."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.protocols.head import MAX_BYTES, MAX_LINES, fault

START = b"POST /v1/chat HTTP/1.1\r\nHost: localhost\r\n"


def status(data: bytes) -> int | None:
    found = fault(data)
    return found[0] if found else None


CASE = st.sampled_from([str.lower, str.upper, str.title])
BLANK = st.text(" \t", max_size=3)


@given(
    CASE, CASE, BLANK, BLANK, st.integers(0, 99), st.booleans(), st.lists(st.sampled_from(["A: 1", "B:"]), max_size=4)
)
def test_a_length_and_a_coding_together_are_refused(
    one: object, other: object, left: str, right: str, length: int, turned: bool, between: list[str]
) -> None:
    lines = [f"{one('content-length')}:{left}{length}", *between, f"{other('transfer-encoding')}:{right}chunked"]  # type: ignore[operator]
    head = START + "\r\n".join(lines[::-1] if turned else lines).encode() + b"\r\n\r\n"
    assert status(head) == 400
    assert status(head + b"0\r\n\r\n") == 400


@given(st.integers(0, 200), st.sampled_from([*range(9), *range(11, 13), *range(14, 32), 127]))
def test_control_characters_are_refused_wherever_they_stand(at: int, code: int) -> None:
    head = START + b"X-Name: " + b"x" * 150 + b"\r\n\r\n"
    at %= len(head) - 4
    if head[at : at + 1] not in b"\r\n" and head[at - 1 : at] != b"\r":
        assert status(head[:at] + bytes([code]) + head[at:]) == 400


@each(
    ("head", "expected"),
    [
        (START + b"\r\n", None),
        (START + b"Content-Length: 5\r\n\r\nTransfer-Encoding: chunked\r\n\r\n", None),
        (START + b"Transfer-Encoding: chunked\r\n\r\n5\r\na\nb\x00c\r\n", None),
        (START + b"X-Name: \xc3\xa9\tn\r\n\r\n", None),
        (START + b"X: a\r\n b\r\n\r\n", 400),
        (START + b"X: a\r\n\tb\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: box\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: box\n\r\n", 400),
        (START + b"X: a\rb\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (START + b"a: b\r\n" * MAX_LINES, 431),
        (START + b"X: " + b"x" * MAX_BYTES, 431),
        (b"GET /" + b"x" * MAX_BYTES, 431),
    ],
)
def test_heads(head: bytes, expected: int | None) -> None:
    assert status(head) == expected


@given(st.data())
def test_a_head_in_pieces_is_judged_as_the_whole(data: st.DataObject) -> None:
    head = START + b"X-A: 1\r\nContent-Length: 3\r\n\r\n"
    assert all(fault(head[:end]) is None for end in range(len(head) + 1))
    bad = START + b"X-A: 1\r\n folded\r\n\r\n"
    assert any(status(bad[:end]) == 400 for end in range(len(bad) + 1))
