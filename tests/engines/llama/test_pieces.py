"""Pieces of prompts by the measured time of calls."""

from __future__ import annotations

import pytest

from edgeserve.engines.llama.pieces import FIRST, GAP, GAP_AHEAD, KEPT, LEAST, TILE, Pieces


def pieces_of(*rates: float, most: int = 512) -> Pieces:
    """After calls of 100 tokens at these tokens a second."""
    pieces = Pieces(most)
    for rate in rates:
        pieces.note(100, 100 / rate)
    return pieces


def test_before_any_call_a_piece_is_a_guess_that_fits() -> None:
    assert Pieces(512).length == FIRST
    assert Pieces(128).length == 128


@pytest.mark.parametrize(
    ("rate", "length"),
    [(300, int(300 * GAP)), (5000, 512), (1, LEAST)],
    ids=["as many as are read in the gap", "as many as a call takes", "not fewer than pay"],
)
def test_a_piece_takes_as_long_as_answers_may_wait(rate: float, length: int) -> None:
    assert pieces_of(rate).length == pytest.approx(length, abs=1)


def test_a_prompt_that_nobody_waits_for_is_read_in_shorter_pieces() -> None:
    assert pieces_of(1000).room_ahead == pytest.approx(1000 * GAP_AHEAD, abs=TILE)
    assert pieces_of(1).room_ahead == LEAST
    assert pieces_of(50_000).room_ahead == 512
    assert Pieces(512).room_ahead == FIRST


def test_one_slow_call_changes_no_piece() -> None:
    assert pieces_of(*[300] * KEPT, 20).length == pieces_of(300).length


def test_a_machine_that_has_become_slower_gets_shorter_pieces() -> None:
    assert pieces_of(*[300] * KEPT, *[100] * KEPT).length == pieces_of(100).length


def test_small_calls_tell_nothing_and_a_call_without_time_is_no_error() -> None:
    pieces = Pieces(512)
    pieces.note(LEAST - 1, 60.0)
    assert pieces.length == FIRST
    pieces.note(LEAST, 0.0)
    assert pieces.length == 512


@pytest.mark.parametrize("answers", [1, 3, 16, 40])
def test_a_call_has_whole_tiles_and_room_for_a_piece(answers: int) -> None:
    room = pieces_of(1).room(answers)
    assert room % TILE == 0
    assert LEAST + answers - TILE < room <= LEAST + answers
    assert pieces_of(5000, most=256).room(answers) == 256
