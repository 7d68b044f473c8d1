"""Small files that state long sound, and packets of hours, take little memory and time."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import pytest
from support import bombs
from support.mp4 import promising
from support.sounds import FORMS, Form, encoded, melody

from edgeserve.audio.bounds import FREE_PACKETS, MAX_EDITS, MAX_FORMS, PACKETS_A_SECOND, Forms, Packets, edits
from edgeserve.audio.decode import check, pieces
from edgeserve.errors import UnsupportedMedia

ALONE = """
import json, resource, sys
from edgeserve.audio.decode import check, pieces
from edgeserve.errors import InvalidRequest
import av, numpy
data, told = sys.stdin.buffer.read(), ""
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = peak()
try:
    check(data, 7200, "file")
    for piece in pieces(data, 7200, "file"):
        pass
except InvalidRequest as error:
    told = error.message
print(json.dumps([peak() - before, told]))
"""


def alone(data: bytes) -> tuple[int, str]:
    """MB that reading the file takes at most, in a process of its own, and what is told of it."""
    done = subprocess.run([sys.executable, "-c", ALONE], input=data, capture_output=True, check=True, timeout=60)
    took, told = json.loads(done.stdout)
    return took, told


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [promising(30_000_000), promising(fragment=30_000_000), promising(400_000, tracks=64)],
    ids=["samples", "fragment", "tracks"],
)
def test_a_small_file_that_promises_much_takes_little_memory(data: bytes) -> None:
    took, told = alone(data)
    assert told
    assert took < 400


@pytest.mark.slow
def test_one_packet_of_hours_takes_little_memory() -> None:
    took, told = alone(in_one_packet(seconds=5000))
    assert "cannot be brought to 16 kHz" in told or "damaged" in told
    assert took < 200


ONE_PACKET = """
import sys
from fractions import Fraction
from io import BytesIO
import av
out, seconds = BytesIO(), int(sys.argv[1])
with av.open(out, "w", format="matroska") as file:
    stream = file.add_stream("pcm_s16le", rate=1000, layout="mono")
    packet = av.Packet(bytes(2000 * seconds))
    packet.stream, packet.pts, packet.dts, packet.time_base = stream, 0, 0, Fraction(1, 1000)
    file.mux(packet)
sys.stdout.buffer.write(out.getvalue())
"""


def in_one_packet(seconds: int) -> bytes:
    """16-bit samples at 1 kHz, written in a process of its own: this one may have the bounds, which forbid it."""
    return subprocess.run([sys.executable, "-c", ONE_PACKET, str(seconds)], capture_output=True, check=True).stdout


def test_a_file_of_many_edits_is_refused_at_once() -> None:
    assert edits(promising(edits=MAX_EDITS)) == MAX_EDITS
    with pytest.raises(UnsupportedMedia, match=f"cut in {MAX_EDITS + 1} places"):
        check(promising(300_000, edits=MAX_EDITS + 1), 7200, "file")


def test_edits_are_found_in_a_track_among_the_sound() -> None:
    whole = promising(edits=300)
    track = whole[whole.index(b"trak") - 4 :]
    hidden = (8 + len(track)).to_bytes(4, "big") + b"mdat" + track
    assert edits(hidden) == 300


@pytest.mark.parametrize("name", FORMS)
def test_sound_is_taken_for_no_edits(name: str) -> None:
    data = encoded(melody(3, FORMS[name].rate), FORMS[name])
    assert edits(data) <= 4
    assert edits(data.replace(b"elst", b"free")) == 0
    noise = (16).to_bytes(4, "big") + b"mdatelst" + b"\xff" * 4
    assert edits(data + noise) == edits(data)


def test_packets_are_counted_against_the_sound_before_them() -> None:
    packets = Packets()
    assert not any(packets.too_many(0.0) for _ in range(FREE_PACKETS))
    assert packets.too_many(0.0)
    assert not any(packets.too_many(2.0) for _ in range(2 * PACKETS_A_SECOND - 1))
    assert packets.too_many(2.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["matroska", "matroska of samples"])
def test_a_megabyte_of_packets_without_a_length_is_refused_after_fifty_thousand(name: str) -> None:
    data = bombs.SOUNDS[name]()
    with pytest.raises(UnsupportedMedia, match=r"file is cut into too many packets: 50001 for 0\.0 s of sound"):
        check(data, 7200, "file")
    with pytest.raises(UnsupportedMedia, match="too many packets"):
        list(pieces(data, 7200, "file"))


@pytest.mark.parametrize("forms", ["ab", "abc", "aab", "aaabbbccc"])
def test_changes_of_the_form_are_counted(forms: str) -> None:
    found, changes = Forms(), 0
    last = forms[0]
    for form in itertools.islice(itertools.cycle(forms), 5 * MAX_FORMS):
        changes += form != last
        last = form
        assert found.too_many(form) == (changes > MAX_FORMS)
    assert changes > MAX_FORMS


def test_a_sound_of_one_form_or_of_some_joined_files_has_few() -> None:
    found = Forms()
    assert not any(found.too_many("a") for _ in range(5 * MAX_FORMS))
    assert not any(found.too_many(at // 100) for at in range(100 * MAX_FORMS))


def test_a_file_whose_form_changes_all_the_time_is_refused() -> None:
    """Each change took FFmpeg 2 ms: half a minute of sound from 40 kB took 4 s, and ten minutes all that is allowed."""
    parts = b"".join(encoded(melody(0.1, rate), Form("adts", "aac", rate)) for rate in (44_100, 48_000))
    data = parts * (MAX_FORMS // 2 + 1)
    seconds = check(data, 7200, "file")
    assert sum(map(len, pieces(parts * 2, 7200, "file"))) > 0.3 * 64_000
    with pytest.raises(UnsupportedMedia, match=f"file changes its form more than {MAX_FORMS} times"):
        list(pieces(data, 7200, "file"))
    assert seconds > 0.2 * MAX_FORMS / 2
