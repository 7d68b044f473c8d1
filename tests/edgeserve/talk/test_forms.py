from __future__ import annotations

import array
import math

import pytest

from edgeserve.messages import AudioEvent
from edgeserve.talk.forms import FORMS, Incoming, Outgoing


def tone(rate: int, seconds: float = 0.3) -> array.array[int]:
    return array.array("h", (int(9000 * math.sin(2 * math.pi * 440 * at / rate)) for at in range(int(rate * seconds))))


@pytest.mark.parametrize("name", FORMS)
def test_sound_comes_to_engines_at_their_rate(name: str) -> None:
    form = FORMS[name]
    data = form.write(tone(form.rate))
    whole = array.array("f", b"".join(Incoming(form).feed(data)))
    assert len(whole) == pytest.approx(16_000 * 0.3, abs=40)
    middle = whole[1_000:4_000]
    assert math.sqrt(sum(one * one for one in middle) / len(middle)) == pytest.approx(9000 / 32_768 / 2**0.5, rel=0.03)


def test_bytes_may_cut_a_sample_anywhere() -> None:
    data = FORMS["audio/pcm"].write(tone(24_000))
    whole = b"".join(Incoming(FORMS["audio/pcm"]).feed(data))
    one = Incoming(FORMS["audio/pcm"])
    assert b"".join(piece for at in range(0, len(data), 333) for piece in one.feed(data[at : at + 333])) == whole


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("rate", [16_000, 22_050, 24_000])
def test_speech_goes_to_clients_in_their_form(name: str, rate: int) -> None:
    form, out = FORMS[name], Outgoing(FORMS[name])
    data = b"".join(out.feed(AudioEvent(tone(rate).tobytes(), rate))) + out.end()
    assert form.seconds(len(data)) == pytest.approx(0.3, abs=0.002)


def test_the_form_of_the_engine_passes_as_it_is() -> None:
    data = tone(24_000).tobytes()
    out = Outgoing(FORMS["audio/pcm"])
    assert b"".join(out.feed(AudioEvent(data, 24_000))) == data
    assert (out.end(), Outgoing(FORMS["audio/pcm"]).end()) == (b"", b"")
