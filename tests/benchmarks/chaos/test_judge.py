"""The judge knows which failures have a cause, and finds all that is left over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.chaos import events, judge
from benchmarks.chaos.hands import Happening
from benchmarks.chaos.pulse import Look
from benchmarks.chaos.replies import BROKEN, CUT, FAILED, HUNG, LEFT, REFUSED, RIGHT, WRONG, Reply, told_in
from benchmarks.chaos.watch import Rest
from support.cases import each

from edgeserve.api.failures import STATUS

KILL = Happening(events.KILL, ("llm",), 10.0, 10.1, "SIGKILL to pid 5")
SQUEEZE = Happening(events.LIMIT, ("llm", "tts"), 10.0, 14.0, "held to 90 MB")
REST = Rest(40.0, {"server": 8}, {"server": 12}, 0, ("server",), 0, 0, ("/tmp/model",))


def reply(verdict: str = REFUSED, code: str = "engine_failure", **changes: Any) -> Reply:
    return replace(Reply("chat", "llm", 9.0, 11.0, 500, verdict, code, "told"), **changes)


def faults(one: Reply, *happened: Happening) -> list[str]:
    return list(judge.of_replies([one], happened, judge.codes()))


def test_the_page_of_errors_has_every_code_of_the_server() -> None:
    known = judge.codes()
    unlisted = {"cancelled", "config_error"}  # never an answer to a request
    assert set(STATUS) - set(known) == unlisted
    assert {code: known[code] for code in known if STATUS[code] >= 500} == {
        code: STATUS[code] for code in known if STATUS[code] >= 500
    }


@each(
    ("one", "happened"),
    [
        (reply(RIGHT, ""), []),
        (reply(LEFT, ""), []),
        (reply(), [KILL]),
        (reply(FAILED, status=200), [KILL]),
        (reply(began=18.0, ended=19.0), [KILL]),
        (reply(code="engine_restarting", began=100.0, ended=101.0), [KILL]),
        (reply(code="memory_pressure"), [SQUEEZE]),
        (reply(code="queue_full"), []),
        (reply(FAILED, CUT, kind="speech pcm", job="tts", status=200), [SQUEEZE]),
        (reply(code="slow_reader", status=408, kind="speech pcm"), []),
        (reply(code="unsupported_media", status=415, kind="bad"), []),
    ],
)
def test_no_fault(one: Reply, happened: list[Happening]) -> None:
    assert faults(one, *happened) == []


@each(
    ("one", "happened", "why"),
    [
        (reply(WRONG, ""), [KILL], "no excuse"),
        (reply(HUNG, "", status=BROKEN), [KILL], "no excuse"),
        (reply(), [], "without a cause"),
        (reply(job="tts"), [KILL], "without a cause"),
        (reply(began=1.0, ended=9.9), [KILL], "without a cause"),
        (reply(began=21.0, ended=22.0), [KILL], "without a cause"),
        (reply(code="memory_pressure"), [KILL], "without a cause"),
        (reply(code="internal_error"), [KILL, SQUEEZE], "without a cause"),
        (reply(code="shutting_down", status=503), [KILL, SQUEEZE], "without a cause"),
        (reply(code="surprise"), [KILL], "unknown code"),
        (reply(FAILED, CUT, status=200), [KILL], "without a word"),
        (reply(FAILED, CUT, status=BROKEN, kind="speech pcm"), [KILL], "without a word"),
        (reply(code="slow_reader", status=408), [], "reads fast"),
        (reply(FAILED, CUT, kind="speech pcm", job="tts", status=200), [KILL], "cut without a cause"),
    ],
)
def test_a_fault(one: Reply, happened: list[Happening], why: str) -> None:
    (line,) = faults(one, *happened)
    assert why in line


def test_the_health_must_be_well_and_quick() -> None:
    looks = [
        Look(0.5, 1.5, 200, late=0.6),
        Look(1.0, 0.1, 200),
        Look(2.0, 1.5, 200),
        Look(3.0, 0.1, 503),
        Look(4.0, 0.0, 0),
    ]
    assert [line.strip()[:5] for line in judge.of_health(looks, 1.0)] == ["2.0 s", "3.0 s", "4.0 s"]
    assert list(judge.of_health([], 1.0)) == ["nobody asked for the health"]


@each(
    ("after", "told"),
    [
        (replace(REST, memory=53.0), []),
        (replace(REST, memory=55.0), ["15.0 MB more (55.0; allowed 14.0)"]),
        (replace(REST, descriptors={"server": 9}), ["1 more descriptors of server (9)"]),
        (replace(REST, threads={"server": 18}), []),
        (replace(REST, threads={"server": 19}), ["7 more threads of server (19)"]),
        (replace(REST, memfds=2), ["2 memfds"]),
        (replace(REST, zombies=1), ["1 zombies"]),
        (replace(REST, strangers=1), ["1 strangers"]),
        (replace(REST, files=("/tmp/model", "/tmp/new")), ["files ['/tmp/new']"]),
        (replace(REST, processes=("llm", "server")), ["processes ('llm', 'server') instead of ('server',)"]),
        (replace(REST, forks=3), []),
        (replace(REST, forks=4), ["4 fork servers; 3 may be there"]),
    ],
)
def test_all_that_is_left_over_is_found(after: Rest, told: list[str]) -> None:
    assert list(judge.of_rest(REST, after)) == [f"at rest: {line}" for line in told]


def test_the_end_of_the_server() -> None:
    assert list(judge.of_end(judge.Ended(0, 0, True))) == []
    assert len(list(judge.of_end(judge.Ended(1, 2, False)))) == 3


def test_tracebacks_of_the_log() -> None:
    log = (
        'INFO well\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: no\nINFO on\n'
    )
    assert list(judge.of_log(log)) == ["an unforeseen exception: ValueError: no"]
    assert list(judge.of_log("INFO well\n")) == []


def test_the_error_in_a_body_is_found() -> None:
    whole = b'{"error":{"message":"full","code":"queue_full"}}'
    assert told_in(whole) == ("queue_full", "full")
    assert told_in(b'data: {"token":"a"}\n\ndata: ' + whole + b"\n\ndata: [DONE]\n\n") == ("queue_full", "full")
    assert told_in(b'data: {"token":"\\"error\\""}\n\n') is None
    assert told_in('{"error":{"message":"no field \x85","code":"invalid_request"}}'.encode()) == (
        "invalid_request",
        "no field \x85",
    )
