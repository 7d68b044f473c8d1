"""The line about billing at the beginning of Claude Code's system text."""

from __future__ import annotations

import tracemalloc

from support.cases import each

from edgeserve.api.anthropic.billing import LONGEST, without

LINE = "x-anthropic-billing-header: cc_version=2.1.29.f1a; cc_entrypoint=cli; cch=0a1b2;"


@each(
    ("text", "left"),
    [
        (LINE, ""),
        (f"{LINE}\n", ""),
        (f"{LINE}\n\nYou are Claude Code.", "You are Claude Code."),
        (f"{LINE} You are Claude Code.", "You are Claude Code."),
        ("x-anthropic-billing-header: cc_version=2.1.29; cch=fffff;", ""),
        ("You are Claude Code.", "You are Claude Code."),
        (f"Say {LINE}", f"Say {LINE}"),
        ("", ""),
    ],
)
def test_only_the_line_goes(text: str, left: str) -> None:
    assert without(text) == left


HEAD = "x-anthropic-billing-header:"


@each("text", [HEAD + one for one in (" a=b" * 250_000, "a=;" * 300_000, "a" * 1_000_000 + "=b;", " " * 1_000_000)])
def test_a_hostile_line_takes_no_memory(text: str) -> None:
    """The search kept 200 bytes for each field of the line: 16 MB of them took 1.2 GB, and the event loop 3 s."""
    tracemalloc.start()
    try:
        left = without(text)
        assert tracemalloc.get_traced_memory()[1] < len(text) + 1_000_000
    finally:
        tracemalloc.stop()
    assert text.endswith(left)
    assert len(text) - LONGEST <= len(left) < len(text)
