"""Events with wrong fields, lying lengths and broken bytes: errors of their own connection, foreseen ones alone."""

from __future__ import annotations

import contextlib
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples
from support.wyoming import FORM, Wyoming, written

from edgeserve.api.wyoming.events import MAX_DATA

VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, 1e308, 16_000, "", "Hi. How are you?", "a" * 5000, "\ud800", "\u202e\0\n", "en"),
    *([], [["a"]], {}, {"name": "nobody"}, {"conversation_id": "x"}),
)
GOOD: dict[str, dict[str, Any]] = {
    **{kind: dict(FORM) for kind in ("audio-start", "audio-chunk")},
    **{kind: {"text": "Hi."} for kind in ("synthesize", "synthesize-chunk", "transcript", "ping")},
    **{kind: {} for kind in ("describe", "select-program", "transcribe", "audio-stop", "x", "")},
    **{kind: {"voice": {}} for kind in ("synthesize-start", "synthesize-stop")},
}
FIELDS = ("text", "name", "language", "transcript_names", "rate", "width", "channels", "voice", "context")
LENGTHS: tuple[Any, ...] = (0, -5, "7", 1.5, True, None, [], 2**70, MAX_DATA + 1)


def event(dice: random.Random) -> bytes:
    """An event, most likely with one mistake."""
    kind = dice.choice(list(GOOD))
    data = GOOD[kind] | {dice.choice(FIELDS): dice.choice(VALUES) for _ in range(dice.randrange(2))}
    payload = dice.randbytes(dice.choice((0, 0, 3, 2048)))
    body = json.dumps(data).encode()
    head: dict[str, Any] = {"type": kind if dice.random() < 0.97 else dice.choice(VALUES), "data_length": len(body)}
    head["payload_length"] = len(payload)
    if dice.random() < 0.1:
        head[dice.choice(("data_length", "payload_length"))] = dice.choice((len(body) + 1, *LENGTHS))
    sent = bytearray(json.dumps(head).encode() + b"\n" + body + payload)
    if dice.random() < 0.05:
        sent[dice.randrange(len(sent))] = dice.randrange(256)
    return bytes(sent)


@pytest.mark.slow
@examples(60, derandomize=True)
@given(some.randoms(use_true_random=False))
def test_no_event_is_unforeseen_or_hurts_another_connection(wyoming: Wyoming, dice: random.Random) -> None:
    events, reads = [event(dice) for _ in range(dice.randrange(1, 20))], dice.random() < 0.5
    with wyoming.dialled() as hostile, contextlib.suppress(ConnectionError):  # the server may have closed it
        for one in [*events, written("describe")]:
            hostile.link.sendall(one)
        if reads:
            hostile.read()
    assert wyoming.ask("ping", {"text": "on"}, until="pong")[-1].data == {"text": "on"}
