from __future__ import annotations

import pytest
from support.sound import silence, speech

from edgeserve.api.realtime.buffer import Buffer
from edgeserve.errors import InvalidRequest
from edgeserve.talk.forms import FORMS, PCM
from edgeserve.talk.recorded import MAX_SECONDS
from edgeserve.talk.turns import Rules


def heard(buffer: Buffer, *sounds: bytes) -> list[str]:
    return [mark.kind for sound in sounds for mark in buffer.feed(sound)]


def test_it_finds_turns_and_keeps_their_sound() -> None:
    buffer = Buffer(PCM, Rules())
    assert heard(buffer, silence(2), speech(1)) == ["started"]
    assert buffer.speaking
    assert heard(buffer, silence(1)) == ["lull", "stopped"]
    assert not buffer.speaking
    assert buffer.seconds == buffer.end == 4
    assert len(buffer.look()) == len(buffer.take()) == 4 * 64_000
    assert (buffer.seconds, buffer.end) == (0, 4)


def test_without_rules_it_keeps_all_until_it_is_taken() -> None:
    buffer = Buffer(PCM, None)
    assert heard(buffer, speech(3), silence(3)) == []
    buffer.drop_silence()
    assert buffer.seconds == 6
    assert buffer.cut() == 6
    assert not buffer.full


def test_a_turn_is_full_at_the_bound() -> None:
    buffer = Buffer(PCM, Rules())
    while not buffer.full:
        assert heard(buffer, speech(1)) in ([], ["started"])
        assert buffer.seconds <= MAX_SECONDS
    assert buffer.cut() == pytest.approx(buffer.end, abs=0.1)
    assert not buffer.full


@pytest.mark.parametrize(("milliseconds", "fits"), [(99, False), (100, True)])
def test_a_commit_needs_some_sound(milliseconds: int, fits: bool) -> None:
    buffer = Buffer(PCM, None)
    buffer.feed(bytes(milliseconds * 64))
    if fits:
        buffer.check_commit()
    else:
        with pytest.raises(InvalidRequest, match="holds 99 ms of sound; a commit takes at least 100 ms"):
            buffer.check_commit()


def test_new_rules_forget_the_turn_and_a_new_form_the_half_sample() -> None:
    buffer = Buffer(PCM, Rules())
    heard(buffer, speech(1))
    buffer.change(PCM, Rules())
    assert buffer.speaking
    assert b"".join(buffer.pieces(b"\0")) == b""
    buffer.change(FORMS["audio/pcmu"], Rules(silence=1))
    assert not buffer.speaking
    assert len(b"".join(buffer.pieces(bytes(800)))) == pytest.approx(6_400, abs=128)


def test_words_end_a_turn_only_where_words_decide() -> None:
    for semantic, marks in ((True, ["stopped"]), (False, [])):
        buffer = Buffer(PCM, Rules(silence=4, semantic=semantic))
        assert heard(buffer, speech(1), silence(1)) == ["started", "lull"]
        assert buffer.finish(is_over=False) == []
        assert [mark.kind for mark in buffer.finish(is_over=True)] == marks
