"""The line about billing at the beginning of Claude Code's system text."""

from __future__ import annotations

from support.cases import each

from edgeserve.api.anthropic.billing import without

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


@each(
    ("text", "left"),
    [
        (f"{HEAD}{' a=b' * 250_000}", "a=b" + " a=b" * 249_999),
        (f"{HEAD}{'a=;' * 300_000}", ""),
        (f"{HEAD}{'a' * 1_000_000}=b;", ""),
        (f"{HEAD}{' ' * 1_000_000}", ""),
        (f"{HEAD}{'a-' * 500_000}", "a-" * 500_000),
    ],
)
def test_a_hostile_line_is_read_to_its_end(text: str, left: str) -> None:
    assert without(text) == left
