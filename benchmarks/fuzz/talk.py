"""WebSocket frames: RFC 6455 by hand, so that they can be wrong."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

from benchmarks.fuzz import values
from benchmarks.fuzz.case import Case, Talk
from benchmarks.fuzz.mutate import mutated

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
CODES = (CONTINUED, TEXT, TEXT, TEXT, BINARY, BINARY, CLOSE, PING, PONG, 3, 7, 11, 15)
COMMANDS = ('{"type": "flush"}', '{"type": "start", "language": "en"}', '{"type": "close"}', '{"type": "start"}')
QUERIES = (
    *[""] * 40,
    "?language=en",
    "?language=%00",
    "?keep_alive=0",
    "?keep_alive=x",
    "?prompt=" + "a" * 5000,
    "?a=b",
)
WORDS = (
    b"\x81\x80\0\0\0\0",
    b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"\x88\x80\0\0\0\0",
    b"\x89\x80\0\0\0\0",
    b"\xf1",
    b"\xc1",
)
PATH, REALTIME = "/v1/transcribe/live", "/v1/realtime"
SETTINGS: dict[str, Any] = {
    "output_modalities": ["text"],
    "instructions": "short",
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    "audio": {"input": {"format": {"type": "audio/pcmu"}, "turn_detection": None}, "output": {"voice": "alloy"}},
}
SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
HEARD = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "AAAA" * 400}]}
EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "session.update", "session": SETTINGS},
    {"type": "session.update", "session": {"modalities": ["text"], "voice": "alloy", "turn_detection": None}},
    {"type": "input_audio_buffer.append", "audio": "f38A" * 4000},
    {"type": "input_audio_buffer.commit"},
    {"type": "input_audio_buffer.clear"},
    {"type": "conversation.item.create", "item": {"id": "one", **SAID}},
    {"type": "conversation.item.create", "item": HEARD, "previous_item_id": "root"},
    {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "c", "output": "x"}},
    {"type": "conversation.item.retrieve", "item_id": "one"},
    {"type": "conversation.item.truncate", "item_id": "one", "content_index": 0, "audio_end_ms": 5},
    {"type": "conversation.item.delete", "item_id": "one"},
    {"type": "response.create"},
    {"type": "response.create", "response": {"conversation": "none", "input": [SAID, HEARD], **SETTINGS}},
    {"type": "response.cancel"},
)
REALTIME_CODES = (
    "buffer_size_exceeded",
    "conversation_already_has_active_response",
    "input_audio_buffer_commit_empty",
    "invalid_json",
    "response_cancel_not_active",
    "unknown_message_type",
)
"""Codes of OpenAI's Realtime, in events alone (docs/api/realtime.md)."""


WRITTEN = tuple(map(json.dumps, EVENTS))


def frame(code: int, data: bytes, *, last: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    """One frame with the mask 0."""
    first = 0x80 * last | reserved << 4 | code
    mask = 0x80 * masked
    if len(data) < 126:
        head = bytes([first, mask | len(data)])
    elif len(data) < 1 << 16:
        head = bytes([first, mask | 126]) + struct.pack(">H", len(data))
    else:
        head = bytes([first, mask | 127]) + struct.pack(">Q", len(data))
    return head + (bytes(4) if masked else b"") + data


END = frame(CLOSE, struct.pack(">H", 1000))


def make(dice: random.Random, number: int) -> Case:
    path, known = dice.choice(((PATH + dice.choice(QUERIES), COMMANDS), (REALTIME, WRITTEN)))
    frames = [_frame(dice, known) for _ in range(dice.choice((1, 2, 3, 5, 9)))]
    data, name = b"".join(frames), "frames"
    if dice.random() < 0.4:
        data, name = mutated(data, dice, WORDS), "broken frames"
    elif dice.random() < 0.05:
        data, name = frame(PING, b"p") * 200, "two hundred pings"
    data += END if dice.random() < 0.8 else b""
    return Case("frames", number, name, [Talk(path, data)])


def _frame(dice: random.Random, known: Sequence[str]) -> bytes:
    code = dice.choice(CODES) if dice.random() < 0.4 else dice.choice((TEXT, BINARY))
    odd = dice.random()
    last, masked = odd > 0.05, not 0.05 < odd < 0.08
    return frame(
        code, _data(code, dice, known), last=last, masked=masked, reserved=dice.choice((1, 4)) if odd > 0.97 else 0
    )


def _data(code: int, dice: random.Random, known: Sequence[str]) -> bytes:
    if code == TEXT:
        way = dice.random()
        if way < 0.4:
            return dice.choice(known).encode()
        if way < 0.8:
            return values.written(values.spoiled(json.loads(dice.choice(known)), dice), dice)
        return dice.choice((b"\xff\xfe", b"\xed\xa0\x80", b"", b"x" * 70_000, b"[]", b"null"))
    if code == CLOSE:
        return dice.choice(
            (b"", b"\x03", struct.pack(">H", dice.choice((0, 999, 1000, 1005, 1006, 4999, 65535))), b"\x03\xe8\xff")
        )
    if code == BINARY:
        return dice.choice((_samples(dice), dice.randbytes(dice.randrange(64)), b"", b"abc", bytes(640_004)))
    return dice.randbytes(dice.choice((0, 1, 125, 126, 300)))


def _samples(dice: random.Random) -> bytes:
    """float32 samples, at times none that sound could have."""
    odd = (float("nan"), float("inf"), -float("inf"), 3e38, 1e-45)
    one = dice.choice(odd) if dice.random() < 0.4 else dice.uniform(-1, 1)
    return struct.pack("<f", one) * dice.choice((1, 100, 8000, 32_000))
