"""Examples of https://www.w3.org/TR/trace-context/, and forms that it forbids."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.figures.trace import Trace, read

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


def one(value: str | bytes) -> Trace | None:
    return read([(b"host", b"x"), (b"traceparent", value if isinstance(value, bytes) else value.encode())])


@each(
    ("value", "flags"),
    [
        (GOOD, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-03", 3),
        (f"  {GOOD}\t", 1),
        (f"cc-{TRACE}-{SPAN}-01", 1),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-brings", 1),
    ],
)
def test_good_ones(value: str, flags: int) -> None:
    assert one(value) == Trace(TRACE, SPAN, flags)


@each(
    "value",
    [
        "",
        "00",
        GOOD.upper(),
        f"{GOOD}-more",
        f"{GOOD}.",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0g",
        f"cc-{TRACE}-{SPAN}-01.x",
        f"00_{TRACE}_{SPAN}_01",
        f"0x-{TRACE}-{SPAN}-01",
        f"{GOOD}, {GOOD}",
        f"cc-{TRACE}-{SPAN}-01-{'x' * 600}",
        f"00-{TRACE[:-1]}\u0665-{SPAN}-01",
    ],
)
def test_bad_ones_are_ignored(value: str) -> None:
    assert one(value) is None


def test_none_and_two_are_ignored() -> None:
    assert read([]) is None
    assert read([(b"traceparent", GOOD.encode())] * 2) is None


@given(st.binary(max_size=80))
def test_any_bytes_are_read_without_an_error(value: bytes) -> None:
    found = one(value)
    assert found is None or str(found).encode()[3:52] == value.strip(b" \t")[3:52]


@given(st.text("0123456789abcdef-", min_size=55, max_size=55))
def test_what_is_read_is_written_again(value: str) -> None:
    if (found := one(value)) is not None and value.startswith("00"):
        assert str(found) == value


def test_a_span_below_belongs_to_the_same_trace() -> None:
    above = Trace(TRACE, SPAN, 3)
    below = above.below()
    assert (below.trace, below.flags, below.sampled) == (TRACE, 1, True)
    assert below.span != above.below().span != SPAN
    assert one(str(below)) == below
