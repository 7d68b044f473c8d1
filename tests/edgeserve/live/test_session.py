"""A session on an ear that knows the words: the times at which it listens, its memory, and its news."""

from __future__ import annotations

import asyncio

import pytest
from support.ears import FakeEar, SlowEar, quiet, session
from support.sound import SECOND, silence, speech

from edgeserve.errors import Busy, EngineFailure, InvalidRequest, NotFound, TooLarge
from edgeserve.live import session as live
from edgeserve.live.ear import Options
from edgeserve.live.session import PROMPT_CHARS, Session
from edgeserve.live.window import MAX_SECONDS


def test_words_come_when_two_hypotheses_agree_and_the_rest_with_the_pause() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        await one.push(speech(1))
        await quiet(one)
        step = one.step()
        assert (step.text, step.is_final) == ("", False)
        assert step.partial == "w0.30 w0.30"
        await one.push(speech(1))
        await quiet(one)
        step = one.step()
        assert (step.text, step.partial) == ("w0.30 w0.30", " w0.30 w0.30")
        await one.push(silence(1))
        await quiet(one)
        step = one.step()
        assert (step.text, step.is_final, step.partial) == (" w0.30 w0.30", True, "")
        assert step.transcript == "w0.30 w0.30 w0.30 w0.30"
        assert one.step().is_final is False

    asyncio.run(run())


def test_silence_is_not_listened_to() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        for _ in range(20):
            await one.push(silence(2))
        await quiet(one)
        assert ear.requests == []
        assert one.step().transcript == ""
        step = await one.flush()
        assert (step.transcript, step.is_final) == ("", True)

    asyncio.run(run())


def test_a_hypothesis_that_waited_until_speech_stopped_leaves_its_turn_to_the_last_one() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = Session("one", ear, Options(), 60, lambda: 2)  # type: ignore[arg-type]
        ear.free.clear()
        await one.push(speech(1.5))
        await one.push(silence(0.3))
        ear.free.set()
        await quiet(one)
        assert ear.requests == []
        await one.push(silence(0.2))
        await quiet(one)
        assert (len(ear.requests), ear.urgent) == (1, [True])
        await one.push(silence(0.4))
        await quiet(one)
        step = one.step()
        assert (len(ear.requests), step.is_final, step.text.count("w")) == (1, True, 3)

    asyncio.run(run())


@pytest.mark.parametrize(("cost", "speakers", "steps"), [(0.2, 1, 8), (0.5, 2, 4), (0.5, 8, 2), (9.0, 1, 2)])
def test_hypotheses_are_fewer_where_they_cost_much_and_many_speak(cost: float, speakers: int, steps: int) -> None:
    """The first hypothesis still comes after a second."""

    async def run() -> None:
        ear = FakeEar()
        ear.seconds = cost
        one = Session("one", ear, Options(), 60, lambda: speakers)  # type: ignore[arg-type]
        for _ in range(80):
            await one.push(speech(0.1))
            await quiet(one)
        assert len(ear.requests) == pytest.approx(steps, abs=0.5)
        assert len(b"".join(ear.requests[0].audio.pieces())) == pytest.approx(SECOND, rel=0.2)
        assert not any(ear.urgent)

    asyncio.run(run())


def test_the_first_hypothesis_of_an_utterance_waits_for_a_second_of_it() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        await one.push(silence(5))
        await one.push(speech(0.5))
        await quiet(one)
        assert ear.requests == []
        await one.push(speech(0.6))
        await quiet(one)
        assert len(ear.requests) == 1

    asyncio.run(run())


def test_a_flush_makes_the_hypothesis_that_waits_the_last() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        ear.free.clear()
        await one.push(speech(1.5))
        flush = asyncio.create_task(one.flush())
        await asyncio.sleep(0)
        ear.free.set()
        step = await flush
        assert (step.is_final, step.transcript.count("w")) == (True, 3)
        assert ear.urgent == [True]

    asyncio.run(run())


def test_a_flush_hears_what_came_after_the_hypothesis_that_runs() -> None:
    async def run() -> None:
        ear = SlowEar()
        one = session(ear)
        await one.push(speech(1.5))
        await ear.asked.wait()
        await one.push(speech(0.5))
        flush = asyncio.create_task(one.flush())
        await asyncio.sleep(0)
        ear.answer.set()
        step = await flush
        assert (step.is_final, step.transcript.count("w")) == (True, 4)
        assert ear.urgent == [False, True]

    asyncio.run(run())


@pytest.mark.slow
def test_an_hour_of_speech_without_a_pause_stays_within_the_window() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        for _ in range(40):
            await one.push(speech(9.5))
        step = await one.flush()
        longest = max(len(b"".join(request.audio.pieces())) for request in ear.requests)
        assert longest <= MAX_SECONDS * SECOND
        assert step.transcript.count("w") == pytest.approx(2 * 9.5 * 40, rel=0.05)
        assert all(len(request.prompt or "") <= PROMPT_CHARS for request in ear.requests)
        assert ear.requests[-1].prompt

    asyncio.run(run())


def test_an_error_of_listening_is_raised_once_and_no_sound_is_lost() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        ear.fail = EngineFailure("as arranged")
        await one.push(speech(2))
        await quiet(one)
        with pytest.raises(EngineFailure, match="as arranged"):
            await one.push(speech(1))
        assert one.duration == pytest.approx(2)
        ear.fail = Busy("no place")
        with pytest.raises(Busy):
            await one.flush()
        step = await one.flush()
        assert step.transcript.count("w") == 4

    asyncio.run(run())


def test_a_flush_is_not_kept_from_what_was_pushed_a_moment_ago() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear)
        await one.push(speech(3))
        await quiet(one)
        await one.push(speech(0.5))
        step = await one.flush()
        assert step.transcript.count("w") == 7
        assert step.is_final
        assert (await one.flush()).text == ""

    asyncio.run(run())


def test_the_clients_prompt_stands_before_what_was_said() -> None:
    async def run() -> None:
        ear = FakeEar()
        one = session(ear, Options(language="en", prompt="Glossary: edgeserve."))
        await one.push(speech(1))
        await one.flush()
        assert ear.requests[0].prompt == "Glossary: edgeserve."
        assert ear.requests[0].language == "en"
        assert ear.requests[0].word_timestamps

    asyncio.run(run())


def test_limits_and_ends() -> None:
    async def run() -> None:
        one = session(FakeEar(), max_seconds=3)
        await one.push(speech(2))
        with pytest.raises(TooLarge, match="the limit is 3 s"):
            await one.push(speech(2))
        with pytest.raises(InvalidRequest, match="3 bytes"):
            await one.push(bytes(3))
        one.close()
        for gone in (one.push(speech(0.5)), one.flush()):
            with pytest.raises(NotFound):
                await gone

    asyncio.run(run())


@pytest.mark.slow
def test_many_pushes_at_once_work_on_little_sound_in_a_turn_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each push under way works on a piece in each turn."""
    looked: list[int] = []
    turn = 0

    def look(data: bytes) -> None:
        looked.append(len(data))

    monkeypatch.setattr(live, "check_samples", look)

    async def main() -> None:
        nonlocal turn
        pushes = [session(FakeEar()).push(silence(10)) for _ in range(50)]
        done = asyncio.gather(*pushes)
        while not done.done():
            before = sum(looked)
            await asyncio.sleep(0)
            turn = max(turn, sum(looked) - before)
        await done

    asyncio.run(main())
    assert sum(looked) == 50 * 10 * SECOND
    assert turn <= 50 * SECOND // 10
