"""The worker's side: what arrives while an answer ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from support.gates import FAKES, fake_spec

from edgeserve.hosts.guest import Guest
from edgeserve.hosts.outgoing import Answer
from edgeserve.hosts.run import Ended
from edgeserve.messages import TextRequest
from edgeserve.processes.frames import Channel, Kind
from edgeserve.residency.work import Admitted, Work
from edgeserve.system import growth


@pytest.fixture
def line() -> Iterator[tuple[Channel, Channel]]:
    """The worker's end and the server's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), Channel(theirs)


def an_answer(number: int) -> Answer:
    return Answer(number, None, "-", "", lambda number, event: None, lambda: None)


class Interrupted(Answer):
    """An answer; while the engine's thread looks at it, another request arrives."""

    answers: ClassVar[dict[int, Answer]] = {}
    """The guest's answers."""

    @property
    def work(self) -> Work:
        self.answers[99] = an_answer(99)
        return self._work

    @work.setter
    def work(self, work: Work) -> None:
        self._work = work


def test_a_request_that_arrives_while_an_answer_ends_disturbs_nobody(
    line: tuple[Channel, Channel], monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = Guest(line[0], FAKES["llm"](fake_spec("llm")), {})
    other = Interrupted(1, None, "-", "", lambda number, event: None, lambda: None)
    ended = an_answer(2)
    guest._answers.update({1: other, 2: ended})
    monkeypatch.setattr(Interrupted, "answers", guest._answers)
    monkeypatch.setattr(guest._loop, "turn", lambda: [Ended(Admitted(ended.work, 0.0))])
    guest._turn()
    assert set(guest._answers) == {1, 99}
    while (frame := line[1].receive()) is not None and frame.kind is not Kind.DONE:
        pass
    assert frame is not None
    assert frame.number == 2


def test_a_preparation_counts_as_work_beside_a_way_up(line: tuple[Channel, Channel]) -> None:
    """Texts read for one client while a model went up raised its learned memory from 217 to 274 MB."""
    engine: Any = FAKES["llm"](fake_spec("llm"))
    engine.prepare = lambda request: growth.others.mark()
    guest = Guest(line[0], engine, {})
    before = growth.others.mark()
    guest._prepare(engine, 7, TextRequest())
    assert guest._prepared[7] == (TextRequest(), None)
    assert growth.others.mark() not in (None, before)
