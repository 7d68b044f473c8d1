from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgeserve.talk.spoken import Spoken


def spoken(*pieces: tuple[str, float], whole: bool = True) -> Spoken:
    one = Spoken()
    for at, (text, seconds) in enumerate(pieces, start=1):
        one.begin(text)
        one.add(seconds)
        if whole or at < len(pieces):
            one.finish()
    return one


def test_the_text_heard_is_cut_behind_a_word() -> None:
    one = spoken(("Hello there, ", 1.0), ("how are you today?", 2.0))
    assert one.until(0) == ""
    assert one.until(1.0) == "Hello there, "
    assert one.until(2.0) == "Hello there, how are "
    assert one.until(99) == one.text
    one.cut(2.0)
    assert (one.text, one.seconds) == ("Hello there, how are ", 2.0)


def test_a_piece_whose_sound_was_cut_counts_by_the_pace_of_speech() -> None:
    one = spoken(("a sentence of which only the beginning was made", 0.5), whole=False)
    assert one.until(0.5) == "a "
    assert one.until(99) == "a "


@given(st.lists(st.tuples(st.text(alphabet="ab ", max_size=12), st.floats(0, 3))), st.floats(0, 9), st.floats(0, 9))
def test_more_time_never_hears_less(pieces: list[tuple[str, float]], early: float, late: float) -> None:
    one = spoken(*pieces)
    first, second = one.until(min(early, late)), one.until(max(early, late))
    assert second.startswith(first)
    assert one.text.startswith(second)
