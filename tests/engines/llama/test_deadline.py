"""Calls of llama.cpp that take far too long: ended, and computed anew with fewer threads."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.cases import each
from support.hot import hot_engines
from support.tiny_gguf import write_model

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.alarm import Alarm
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import NO_ROOM, Context, Item
from edgeserve.engines.llama.deadline import ABORTED, DECODED, FEW, LEAST, TIMES, Deadline
from edgeserve.engines.llama.runtime import error_details, llama, recent_errors
from edgeserve.engines.llama.threads import Threads
from edgeserve.system.load import Neighbours


class Load:
    """Others take nothing. ``known``: the system has counters."""

    python = 0.0

    def __init__(self, *, known: bool = True) -> None:
        self.known = known

    def read(self) -> float:
        return 0.0


class Calls:
    """Calls of llama.cpp with the codes given; each takes ``seconds``. ``alarms``: the time of each call, None without.

    ``most``: threads of one token. ``batch``: those of several.
    """

    def __init__(self, most: int = 2, batch: int = 0, *, known: bool = True) -> None:
        self.now, self.seconds = 0.0, 0.01
        self.codes: list[int] = []
        self.alarms: list[float | None] = []
        self.used: list[int] = []
        self._alarm: float | None = None
        load: Any = Load(known=known)
        self.threads = Threads(most, batch or most, lambda *_: None, load, self)
        self.deadline = Deadline(self, self.threads, self)

    def __call__(self) -> float:
        return self.now

    def set(self, seconds: float) -> None:
        assert self._alarm is None
        self._alarm = seconds

    def clear(self) -> None:
        self._alarm = None

    def _call(self) -> int:
        self.alarms.append(self._alarm)
        self.used.append(self.threads.now[0])
        self.now += self.seconds
        return self.codes.pop(0)

    def keep(self, *codes: int, tokens: int = 1) -> int:
        self.codes, self.alarms, self.used = list(codes), [], []
        return self.deadline.keep(tokens, self._call)


def test_a_call_that_takes_too_long_is_made_again_with_one_thread() -> None:
    calls = Calls()
    calls.keep(DECODED)
    assert calls.keep(ABORTED, DECODED) == DECODED
    assert calls.alarms == [LEAST, None]
    assert calls.used == [2, 1]
    assert calls.codes == []


def test_threads_are_halved_as_long_as_calls_take_too_long() -> None:
    calls = Calls(8)
    calls.seconds = 1.0
    calls.keep(DECODED)
    assert calls.keep(ABORTED, ABORTED, ABORTED, DECODED) == DECODED
    assert calls.used == [8, 4, 2, 1]
    assert calls.alarms == [TIMES * 1.0, TIMES * 2.0, TIMES * 4.0, None]  # fewer threads may take longer


def test_the_threads_come_back_with_the_next_reading() -> None:
    calls = Calls()
    calls.keep(DECODED)
    calls.keep(ABORTED, DECODED)
    calls.threads.look()
    assert calls.threads.now == (1, 1)
    calls.now += 1.0
    calls.threads.look()
    assert calls.threads.now == (2, 2)


def test_the_first_call_has_all_the_time_it_needs() -> None:
    calls = Calls()
    calls.keep(DECODED, tokens=2)
    assert calls.alarms == [None]


def test_a_larger_call_than_any_measured_may_take_as_long_as_calls_of_its_tokens_one_by_one() -> None:
    calls = Calls()
    calls.seconds = 1.0
    calls.keep(DECODED)
    calls.keep(DECODED, tokens=4)
    assert calls.alarms == [TIMES * 4.0]
    calls.keep(DECODED, tokens=4)
    assert calls.alarms == [TIMES * 1.0]  # measured now


def test_several_tokens_have_the_threads_of_prompts() -> None:
    calls = Calls(1, 2)
    for tokens, alarm in ((1, None), (2, LEAST)):
        calls.keep(DECODED, tokens=tokens)
        calls.keep(DECODED, tokens=tokens)
        assert calls.alarms == [alarm]
    calls.keep(ABORTED, DECODED, tokens=2)
    assert calls.alarms == [LEAST, None]
    assert calls.threads.now == (1, 1)


@each(
    ("make", "tokens"),
    [
        (functools.partial(Calls, 2), FEW + 1),  # a prompt
        (functools.partial(Calls, 1), 1),
        (functools.partial(Calls, 2, known=False), 1),  # nothing would bring the threads back
    ],
)
def test_calls_without_a_deadline(make: Callable[[], Calls], tokens: int) -> None:
    calls = make()
    for _ in range(3):
        calls.keep(DECODED, tokens=tokens)
        assert calls.alarms == [None]


def test_a_call_that_found_no_room_is_no_measure() -> None:
    calls = Calls()
    calls.seconds = 9.0
    assert calls.keep(NO_ROOM) == NO_ROOM
    calls.seconds = 0.01
    calls.keep(DECODED)
    calls.keep(DECODED)
    assert calls.alarms == [LEAST]


def test_the_time_of_a_call_that_was_ended_is_no_measure() -> None:
    calls = Calls()
    calls.seconds = 1.0
    calls.keep(DECODED)
    calls.keep(*[ABORTED] * 1, DECODED)
    calls.now += 1.0
    calls.threads.look()
    calls.keep(DECODED)
    assert calls.alarms == [TIMES * 1.0]


def test_the_alarm_is_cleared_when_a_call_fails() -> None:
    calls = Calls()
    calls.keep(DECODED)
    with pytest.raises(IndexError):
        calls.keep()
    calls.keep(DECODED)  # ``set`` would find an alarm
    assert calls.alarms == [LEAST]


def test_no_later_error_shows_what_llama_cpp_logged_of_an_ended_call() -> None:
    calls = Calls()
    calls.keep(DECODED)
    recent_errors.append("failed to compute graph, compute status: 1")
    calls.keep(ABORTED, DECODED)
    assert error_details() == ""


# With the runtime

Make = Callable[..., Context]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Contexts of two threads, which look as if the system were quiet, and whose calls are never too slow."""
    monkeypatch.setattr(Neighbours, "read", lambda self: None)
    monkeypatch.setattr(Alarm, "set", lambda self, seconds: None)

    def build(architecture: str, **options: object) -> LlamaChat:
        path = tmp_path / f"{architecture}.gguf"
        files = {"model": path if path.exists() else write_model(path, architecture)}
        options = {"context": 256, "parallel": 2, "speculation": "off", "prefix_cache_mb": 0, **options}
        return LlamaChat(ModelSpec("llm", "tiny", "", files, "cpu", 2, options))

    with hot_engines(build) as made:

        def context(architecture: str, **options: object) -> Context:
            batch = made(architecture, **options)._batch
            assert batch is not None
            return batch.context

        yield context


def written(context: Context, count: int, sequences: Sequence[int] = (0, 1)) -> list[list[int]]:
    """The likeliest tokens of sequences that are decoded in one call each time."""
    found: list[list[int]] = [[11 + one] for one in sequences]
    for at in range(count):
        assert context.decode(Item(tokens[-1], at, one, True) for one, tokens in zip(sequences, found, strict=True))
        for output, tokens in enumerate(found):
            tokens.append(context.likeliest(output))
    ends = [llama().llama_memory_seq_pos_max(llama().llama_get_memory(context.handle), one) for one in sequences]
    assert ends == [count - 1] * len(sequences)
    for one in sequences:
        context.clear(one)
    return found


@pytest.mark.models
@each("operation", [0, 5, 40, math.inf])
@each(
    ("architecture", "options"),
    [("llama", {}), ("llama", {"repack": "on"}), ("gemma3", {}), ("llama", {"kv_type": "q8_0"})],
)
def test_the_words_of_ended_calls_are_the_same(
    make: Make, monkeypatch: pytest.MonkeyPatch, architecture: str, options: dict[str, object], operation: float
) -> None:
    """Each call ends after an operation (or never), as each one does that begins behind the alarm's time."""
    context = make(architecture, **options)
    alone = written(context, 40)
    left, ended = [math.inf], []

    def look(_: object) -> bool:
        left[0] -= 1
        return left[0] < 0

    def halve(threads: Threads) -> None:
        ended.append(threads)
        left[0] = math.inf

    with monkeypatch.context() as patch:
        patch.setattr(Alarm, "set", lambda self, seconds: left.__setitem__(0, operation))
        patch.setattr(Alarm, "clear", lambda self: None)
        patch.setattr(Threads, "give_up", halve)
        patch.setattr(Deadline, "_once", _every_other(Deadline._once))
        callback = llama().ggml_abort_callback(look)
        llama().llama_set_abort_callback(context.handle, callback, None)
        assert written(context, 40) == alone
    assert len(ended) == (40 if operation < math.inf else 0)


def _every_other(once: Callable[..., int]) -> Callable[..., int]:
    """Tries without a deadline follow those that were ended."""
    codes = [DECODED]

    def tried(self: Deadline, tokens: int, call: Callable[[], int]) -> int:
        codes.append(call() if codes[-1] == ABORTED else once(self, tokens, call))
        return codes[-1]

    return tried


@pytest.mark.models
def test_the_flag_ends_a_call(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    context = make("llama")
    alone = written(context, 20)
    threads: list[int] = []
    give_up = Threads.give_up

    def noted(self: Threads) -> None:
        give_up(self)
        threads.append(self.now[0])

    monkeypatch.setattr(Alarm, "set", lambda self, seconds: setattr(self.flag, "value", b"1"))
    monkeypatch.setattr(Threads, "give_up", noted)
    assert written(context, 20) == alone
    assert threads == [1]


@pytest.mark.models
def test_a_recurrent_state_cannot_be_set_back(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_alarm(self: Alarm, seconds: float) -> None:
        raise AssertionError("llama.cpp cannot remove the tokens of an ended call")

    monkeypatch.setattr(Alarm, "set", no_alarm)
    assert written(make("mamba"), 20)
    with pytest.raises(AssertionError, match="ended call"):
        written(make("llama"), 20)
