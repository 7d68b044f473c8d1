from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from benchmarks.fuzz import corpus, rooms, run
from benchmarks.fuzz.case import Ask, Case, End, File, dice_of
from benchmarks.fuzz.house import Held, House
from benchmarks.fuzz.mutate import MOST, mutated
from benchmarks.fuzz.rooms import Rooms

from edgeserve.logs import PlainFormatter, add_request
from edgeserve.units import MB


def test_a_case_is_the_same_whatever_ran_before() -> None:
    made = [mutated(b"a" * 300, dice_of(1, "sound", 7), [b"RIFF"]) for _ in range(2)]
    assert made[0] == made[1]
    assert made[0] != mutated(b"a" * 300, dice_of(1, "sound", 8), [b"RIFF"])
    assert all(len(mutated(b"a" * MOST, dice_of(1, "a", number))) <= MOST for number in range(20))


def test_a_plan_has_every_kind_by_its_share() -> None:
    made = run.plan(1000)
    assert {kind: sum(one == kind for one, _ in made) for kind in run.SHARES} == {
        kind: 1000 * share for kind, share in run.SHARES.items()
    }
    assert sorted(run.plan(10, ["json"], 5)) == [("json", number) for number in range(5, 15)]


def test_smaller_cases_lose_a_step_or_a_part_of_a_body() -> None:
    case = Case("json", 1, "a", [Ask("POST", "/a", b"12345678"), Ask("GET", "/b")])
    bodies = [[step.body for step in one.steps] for one in run.smaller(case)]
    assert bodies[:4] == [[b""], [b"12345678"], [b"5678", b""], [b"1234", b""]]
    assert [b"1345678", b""] in bodies


def test_growth_is_a_fault() -> None:
    before = Held(30.0, 9)
    assert list(Held(35.0, 12).faults(before)) == []
    assert len(list(Held(90.0, 99).faults(before))) == 2


def hang(data: bytes, path: Path) -> None:
    time.sleep(60)


def abort(data: bytes, path: Path) -> None:
    os.abort()


def fail(data: bytes, path: Path) -> None:
    raise ValueError("as arranged")


def eat(data: bytes, path: Path) -> None:
    assert len(b"1" * (40 * MB))


def serve(sock: socket.socket, arguments: dict[str, Any]) -> None:
    """The entry of a child whose rooms misbehave."""
    rooms.ROOMS |= {"hang": hang, "header": abort, "template": fail, "loader": eat}
    rooms.serve(sock, arguments)


@pytest.mark.slow
def test_a_room_that_fails_dies_or_eats_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(Rooms(tmp_path)) as well:
        assert well.read(File("template", b"{{ messages[0].role }}")) == End("read")
        assert well.read(File("header", b"no model")) == End("refused", "engine_failure")
        assert well.read(File("loader", corpus.headers()["llama"])) == End("read")
    monkeypatch.setattr(rooms, "ENTRY", "tests.benchmarks.fuzz.test_run:serve")
    monkeypatch.setattr(rooms, "MOST", 20 * MB)
    with contextlib.closing(Rooms(tmp_path)) as ill:
        assert "died" in ill.read(File("header", b"")).faults[0]
        assert "ValueError: as arranged" in ill.read(File("template", b"")).faults[0]
        assert "MB of memory" in ill.read(File("loader", b"")).faults[0]
        monkeypatch.setattr(rooms, "PATIENCE", 1.0)
        assert "no end after 1 s" in ill.read(File("hang", b"")).faults[0]
        assert ill.deaths == 1


class Ended:
    """A server process of the past, on no port."""

    port = 0


def test_errors_in_the_log_are_faults_and_dead_decoders_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one = House(Ended(), log)  # type: ignore[arg-type]
    handler = logging.FileHandler(log)
    handler.setFormatter(PlainFormatter())  # the server's own
    handler.addFilter(add_request)
    logger = logging.getLogger("edgeserve.test_run")
    logger.addHandler(handler)
    try:
        logger.warning("well")
        assert one.said() == []
        try:
            raise ValueError("x")
        except ValueError:
            logger.exception("bad")
        logger.warning("sound decoder (pid 7) ended early: SIGSEGV")
    finally:
        logger.removeHandler(handler)
        handler.close()
    (found,) = one.said()
    first, *more = found.split("\n")
    assert first.endswith(" ERROR   edgeserve.test_run [-] bad")
    assert more[-1] == "  | ValueError: x"
    assert (one.said(), one.decoders) == ([], 1)
