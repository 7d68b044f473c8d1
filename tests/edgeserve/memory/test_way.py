"""The engines in the way of a request that waits for memory, and what it may do now."""

from __future__ import annotations

import dataclasses
from typing import Any

from support.memory import POLICY

from edgeserve.engine import Rung
from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.occupancy import Need, Occupancy
from edgeserve.memory.plan import Step, Verdict
from edgeserve.memory.way import Claim, Rules, Turn, after, turn

NOW = 1000.0
BUDGET = Budget(1000, 1000, "fraction_of_total", {}, None, 500)
RULES = Rules(BUDGET, POLICY, 0, NOW)


def hot(name: str, size: int, *, idle: float = 60.0, **more: Any) -> Occupancy:
    return Occupancy(name, name, Rung.HOT, Amount(mapped=size), last_used=NOW - idle, **more)


def busy(name: str, size: int, **more: Any) -> Occupancy:
    return hot(name, size, leases=1, busy=True, **more)


def cold(name: str, **more: Any) -> Occupancy:
    return Occupancy(name, name, Rung.COLD, Amount(), **more)


def claim(name: str, size: int, *way: str) -> Claim:
    return Claim(Need(name, name, Amount(mapped=size)), frozenset(way))


def ask(one: Claim, *residents: Occupancy, ahead: tuple[Claim, ...] = ()) -> Turn:
    return turn(one, ahead, residents, RULES)


def test_a_busy_engine_is_in_the_way_and_is_waited_for() -> None:
    found = ask(claim("b", 500), busy("a", 600), cold("b"))
    assert found.decision.verdict is Verdict.WAIT
    assert found.way == (Step("a", Rung.WARM),)
    assert found.until is None


def test_idle_engines_make_way_before_busy_ones() -> None:
    found = ask(claim("c", 500), busy("a", 400, idle=600), hot("b", 400, idle=1), cold("c"))
    assert found.decision.verdict is Verdict.STEP
    assert found.decision.steps == found.way == (Step("b", Rung.WARM),)


def test_the_least_make_way() -> None:
    residents = (busy("a", 300, idle=9), busy("b", 300, idle=5), busy("c", 300, idle=1), cold("d"))
    assert ask(claim("d", 300), *residents).way == (Step("a", Rung.WARM),)
    assert ask(claim("d", 700), *residents).way == (Step("a", Rung.WARM), Step("b", Rung.WARM))


def test_who_makes_way_already_goes_on_doing_so() -> None:
    """Its last answer has just ended, so that it was used later than the other: else each would wait for the other."""
    residents = (busy("a", 500, idle=1), busy("b", 500, idle=9), cold("c"))
    assert ask(claim("c", 400), *residents).way == (Step("b", Rung.WARM),)
    assert ask(claim("c", 400, "a"), *residents).way == (Step("a", Rung.WARM),)


def test_an_engine_that_became_hot_a_moment_ago_stays_while_it_has_work() -> None:
    other = busy("a", 600, hot_until=NOW + 1.5)
    found = ask(claim("b", 500), other, cold("b"))
    assert (found.decision.verdict, found.until) == (Verdict.WAIT, NOW + 1.5)
    leased = dataclasses.replace(other, busy=False)
    assert ask(claim("b", 500), leased, cold("b")).decision.verdict is Verdict.WAIT, "a request is on its way"
    idle = dataclasses.replace(leased, leases=0)
    assert ask(claim("b", 500), idle, cold("b")).decision.verdict is Verdict.STEP, "it has no work"
    past = dataclasses.replace(leased, hot_until=NOW)
    assert ask(claim("b", 500), past, cold("b")).decision.verdict is Verdict.STEP, "its time is over"


def test_an_engine_in_the_way_of_a_request_ahead_admits_nothing_and_steps_down() -> None:
    ahead = (claim("b", 500),)
    found = ask(claim("a", 10), hot("a", 600, leases=1), cold("b", waits=True), ahead=ahead)
    assert found.decision.verdict is Verdict.YIELD
    assert found.decision.steps == (Step("a", Rung.WARM),)
    within = ask(claim("a", 10), hot("a", 600, leases=1, hot_until=NOW + 1), cold("b", waits=True), ahead=ahead)
    assert within.decision.verdict is Verdict.ADMIT, "within its hot time"


def test_an_engine_that_has_made_way_waits_for_the_request_ahead() -> None:
    found = ask(claim("a", 600), cold("a", waits=True), cold("b", waits=True), ahead=(claim("b", 500),))
    assert found.decision.verdict is Verdict.WAIT
    assert found.way == ()


def test_a_request_that_fits_beside_those_ahead_does_not_wait_for_them() -> None:
    ahead = (claim("b", 500),)
    residents = (busy("a", 600), cold("b", waits=True), cold("c"))
    assert ask(claim("c", 300), *residents, ahead=ahead).decision.verdict is Verdict.ADMIT
    larger = ask(claim("c", 450), *residents, ahead=ahead)
    assert larger.decision.verdict is Verdict.WAIT, "it fits once the engine in the way has left"
    too_large = ask(claim("c", 550), *residents, ahead=ahead)
    assert (too_large.decision.verdict, too_large.way) == (Verdict.WAIT, ())


def test_a_hot_engine_takes_no_memory_from_those_ahead() -> None:
    """50 bytes are free now, but the request ahead needs all that the engine in its way leaves."""
    residents = (busy("a", 600), cold("b", waits=True), hot("c", 350))
    assert ask(claim("c", 40), *residents).decision.verdict is Verdict.ADMIT
    assert ask(claim("c", 40), *residents, ahead=(claim("b", 600),)).decision.verdict is Verdict.ADMIT
    assert ask(claim("c", 40), *residents, ahead=(claim("b", 650),)).decision.verdict is Verdict.WAIT


def test_an_overdrawn_budget_keeps_no_hot_engine_from_requests_that_take_nothing() -> None:
    overdrawn, ahead = dataclasses.replace(RULES, unbooked=900, passing=900), (claim("b", 500),)
    residents = (busy("a", 300), cold("b"), cold("c"))
    assert turn(claim("a", 0), ahead, residents, overdrawn).decision.verdict is Verdict.ADMIT
    assert turn(claim("c", 10), ahead, residents, overdrawn).decision.verdict is Verdict.WAIT
    in_the_way = turn(claim("a", 0), (claim("b", 800),), residents, RULES)
    assert in_the_way.decision.verdict is Verdict.YIELD


def test_an_engine_that_waits_is_moved_by_its_own_thread() -> None:
    found = ask(claim("b", 500), hot("a", 600, leases=1, waits=True), cold("b"))
    assert found.decision.verdict is Verdict.WAIT
    assert found.way == (Step("a", Rung.WARM),)


def test_an_engine_that_waits_for_files_and_unread_answers_makes_way_for_those_behind() -> None:
    """Else a client whose files take the room keeps all others out by a request that waits for the end of these."""
    rules = dataclasses.replace(RULES, unbooked=600, passing=600)
    waits = hot("a", 100, leases=1, waits=True)
    own, behind = claim("a", 400), claim("b", 350)
    assert turn(own, (), (waits, cold("b")), rules).decision.verdict is Verdict.WAIT
    assert turn(behind, (own,), (waits, cold("b", waits=True)), rules).decision.verdict is Verdict.WAIT
    found = turn(own, (), (waits, cold("b", waits=True)), rules, (behind,))
    assert (found.decision.verdict, found.decision.steps) == (Verdict.YIELD, (Step("a", Rung.WARM),))
    left = (cold("a", waits=True), cold("b", waits=True))
    assert turn(claim("a", 500), (), left, rules, (behind,)).decision.verdict is Verdict.WAIT
    assert turn(behind, (claim("a", 500),), left, rules).decision.verdict is Verdict.ADMIT
    kept = dataclasses.replace(waits, hot_until=NOW + 1)
    assert turn(own, (), (kept, cold("b")), rules, (behind,)).decision.verdict is Verdict.WAIT, "within its hot time"


def test_pinned_engines_never_make_way() -> None:
    assert ask(claim("b", 500), busy("a", 600, pinned=True), cold("b")).decision.verdict is Verdict.REFUSE
    found = ask(claim("c", 500), busy("a", 300, pinned=True), busy("b", 300), cold("c"))
    assert found.way == (Step("b", Rung.WARM),)


def test_requests_of_a_pinned_engine_are_waited_for() -> None:
    """It stays, admits nothing new meanwhile, and what it holds without them counts as before."""
    pinned, cold_one = busy("a", 600, pinned=True, requests=Amount(mapped=200)), cold("b", waits=True)
    found = ask(claim("b", 500), pinned, cold_one)
    assert (found.decision.verdict, found.way) == (Verdict.WAIT, (Step("a", Rung.HOT),))
    assert found.decision.steps == ()
    beside = ask(claim("a", 10), pinned, cold_one, ahead=(claim("b", 500, "a"),))
    assert beside.decision.verdict is Verdict.WAIT
    assert ask(claim("b", 650), pinned, cold_one).decision.verdict is Verdict.REFUSE


def test_engines_that_may_leave_do_so_before_requests_of_a_pinned_one_have_ended() -> None:
    pinned = busy("a", 400, pinned=True, requests=Amount(mapped=200))
    found = ask(claim("c", 700), pinned, hot("b", 300), cold("c"))
    assert (found.decision.verdict, found.decision.steps) == (Verdict.STEP, (Step("b", Rung.WARM),))
    assert found.way == (Step("b", Rung.WARM), Step("a", Rung.HOT))
    assert ask(claim("c", 400), pinned, hot("b", 300), cold("c")).way == (Step("b", Rung.WARM),)


def test_only_those_pinned_engines_make_way_whose_requests_are_in_it() -> None:
    """A chat of a pinned model was said to hold the request up, beside which it fits."""
    chat = busy("chat", 100, pinned=True, requests=Amount(mapped=10))
    sound = busy("sound", 300, pinned=True, requests=Amount(mapped=200), rests=True)
    found = ask(claim("c", 650), chat, sound, cold("c"))
    assert (found.decision.verdict, found.way) == (Verdict.WAIT, (Step("sound", Rung.HOT),))
    waiting = (claim("c", 650, "sound"),)
    assert ask(claim("chat", 10), chat, sound, cold("c"), ahead=waiting).decision.verdict is Verdict.ADMIT
    assert ask(claim("sound", 200), chat, sound, cold("c"), ahead=waiting).decision.verdict is Verdict.WAIT
    both = {step.id for step in ask(claim("c", 805), chat, sound, cold("c")).way}
    assert both == {"chat", "sound"}


def test_of_two_pinned_engines_the_one_makes_way_that_does_so_already_or_else_rests() -> None:
    chat = busy("chat", 300, pinned=True, requests=Amount(mapped=200))
    sound = busy("sound", 300, pinned=True, requests=Amount(mapped=200), rests=True)
    for now in ("sound",), ():
        assert ask(claim("c", 500, *now), chat, sound, cold("c")).way == (Step("sound", Rung.HOT),)
    assert ask(claim("c", 500, "chat"), chat, sound, cold("c")).way == (Step("chat", Rung.HOT),)


def test_a_request_that_never_fits_is_refused_whoever_waits() -> None:
    found = ask(claim("c", 1100), busy("a", 600), cold("b", waits=True), cold("c"), ahead=(claim("b", 500),))
    assert found.decision.verdict is Verdict.REFUSE


def test_those_ahead_are_served_in_thought() -> None:
    """The first takes the place of "a"; the second fits beside the first; the third must wait for the end of one."""
    residents = [busy("a", 800), *(cold(name, waits=True) for name in "bcd")]
    assumed, leaving = after([claim("b", 500), claim("c", 400), claim("d", 300)], residents, RULES)
    assert leaving == {"a": Rung.WARM}
    assert [(one.id, one.rung, one.held.host) for one in assumed] == [
        ("a", Rung.WARM, 0),
        ("b", Rung.HOT, 500),
        ("c", Rung.HOT, 400),
        ("d", Rung.COLD, 0),
    ]


def test_an_engine_whose_answers_rest_goes_on_while_an_answer_that_does_not_holds_the_request_ahead_up() -> None:
    ahead = (claim("b", 900, "chat", "voice"),)
    chat, voice, waiting = busy("chat", 400), hot("voice", 200, leases=1, rests=True), cold("b", waits=True)
    assert ask(claim("voice", 10), chat, voice, waiting, ahead=ahead).decision.verdict is Verdict.ADMIT
    left = cold("voice", rests=True)
    assert ask(claim("voice", 200), chat, left, waiting, ahead=ahead).decision.verdict is Verdict.ADMIT, "it goes up"
    done = dataclasses.replace(chat, busy=False)
    assert ask(claim("voice", 10), done, voice, waiting, ahead=ahead).decision.verdict is Verdict.YIELD
    beside = busy("chat", 400, rests=True)
    assert ask(claim("voice", 10), beside, voice, waiting, ahead=ahead).decision.verdict is Verdict.YIELD
    other = dataclasses.replace(voice, rests=False)
    assert ask(claim("voice", 10), chat, other, waiting, ahead=ahead).decision.verdict is Verdict.YIELD


def test_an_engine_that_the_same_answer_holds_up_keeps_its_place() -> None:
    ahead = (claim("b", 700, "chat"),)
    found = ask(claim("voice", 300), busy("chat", 800), cold("voice", rests=True), cold("b", waits=True), ahead=ahead)
    assert (found.decision.verdict, found.way) == (Verdict.WAIT, ()), "its turn is behind that of the request ahead"


def test_engines_whose_answers_rest_take_turns_while_the_request_ahead_is_held_up() -> None:
    ahead = (claim("b", 900, "chat", "voice"),)
    chat, voice = busy("chat", 400), hot("voice", 400, idle=90, rests=True, leases=1)
    vectors = cold("vectors", rests=True, waits=True)
    found = ask(claim("vectors", 300), chat, voice, cold("b", waits=True), vectors, ahead=ahead)
    assert found.way == (Step("voice", Rung.WARM),)
    both = (*ahead, claim("vectors", 300, "voice"))
    voiced = ask(claim("voice", 10), chat, voice, cold("b", waits=True), vectors, ahead=both)
    assert voiced.decision.verdict is Verdict.YIELD


def test_an_idle_engine_whose_answers_rest_stays_until_nothing_holds_the_request_up() -> None:
    asked, chat = claim("b", 950), busy("chat", 400)
    voice, other = hot("voice", 100, rests=True), hot("other", 100)
    found = ask(asked, chat, voice, other, cold("b"))
    assert found.decision.steps == (Step("other", Rung.WARM),)
    assert {step.id for step in found.way} == {"chat", "voice", "other"}
    done = dataclasses.replace(chat, leases=0, busy=False)
    assert len(ask(asked, done, voice, other, cold("b")).decision.steps) == 3
