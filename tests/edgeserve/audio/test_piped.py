"""Samples from a decoder that takes its time: an engine that waits for them gives others their turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.audio.piped import LOOK_SECONDS, pieces
from edgeserve.errors import EdgeserveError, EngineFailure
from edgeserve.media.task import PATIENCE_SECONDS
from edgeserve.processes.frames import Frame, Kind

PIECE = bytes(4000)


class Decoder:
    """A line whose frames come after so many seconds each. It is the clock, too: it waits by moving on."""

    def __init__(self, pauses: list[float]) -> None:
        self.now = self._came = 0.0
        self.waited = 0.0
        self._pauses = [*pauses, 0.0]

    def __call__(self) -> float:
        return self.now

    def comes(self, seconds: float) -> bool:
        before, at = self.now, self._came + self._pauses[0]
        self.now = max(self.now, min(at, self.now + seconds))
        self.waited += self.now - before
        return self.now >= at

    def receive(self) -> Frame:
        assert self.now >= self._came + self._pauses.pop(0)
        self._came = self.now
        kind, body = (Kind.EVENTS, PIECE) if self._pauses else (Kind.DONE, b"")
        return Frame(kind, 0, {"result": None}, memoryview(body))

    def nonsense(self) -> EdgeserveError:
        return EngineFailure("nonsense")

    def silent(self) -> EdgeserveError:
        return EngineFailure("silent")


def read(decoder: Decoder, others: float = 0.0) -> Iterator[bytes]:
    """The pieces. Others take so many seconds for their turn."""
    for piece in pieces(decoder, 7200.0, decoder):
        yield piece
        decoder.now += others


@given(
    st.lists(st.floats(0, PATIENCE_SECONDS / 2), max_size=5),
    st.floats(0, 0.3),
)
def test_all_samples_come_and_no_wait_is_longer_than_a_look(pauses: list[float], others: float) -> None:
    decoder = Decoder(pauses)
    last, found = 0.0, []
    for piece in read(decoder, others):
        assert decoder.waited - last <= LOOK_SECONDS + 1e-9
        last, found = decoder.waited, [*found, piece]
    assert [one for one in found if one] == [PIECE] * len(pauses)


@pytest.mark.parametrize(("others", "waited"), [(0.0, 10.0), (LOOK_SECONDS / 2, 5.0), (2 * LOOK_SECONDS, 0.0)])
def test_no_time_is_lost_while_others_have_their_turn(others: float, waited: float) -> None:
    decoder = Decoder([10.0])
    looks = sum(not piece for piece in read(decoder, others))
    assert decoder.waited == pytest.approx(waited, abs=2 * LOOK_SECONDS)
    assert looks <= 10.0 / LOOK_SECONDS + 1, "it looks again and again without a pause"


@pytest.mark.parametrize("others", [0.0, 0.001, 1.0])
def test_a_decoder_that_says_nothing_is_given_up(others: float) -> None:
    decoder = Decoder([1.0, PATIENCE_SECONDS + 5, 1.0])
    found = []
    with pytest.raises(EngineFailure, match="silent"):
        found += list(filter(None, read(decoder, others)))
    assert decoder.now == pytest.approx(PATIENCE_SECONDS + 1, abs=1.5)


def test_a_decoder_that_keeps_up_is_never_waited_for() -> None:
    assert list(read(Decoder([0.0] * 5))) == [PIECE] * 5
