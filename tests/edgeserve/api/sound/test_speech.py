"""Whole speech as one WAV file, without a copy of all its sound."""

from __future__ import annotations

from collections.abc import Iterator

from support.cases import each

from edgeserve.api.sound.speech import WavBody
from edgeserve.audio.wav import wav
from edgeserve.messages import AudioEvent


@each("sizes", [(0,), (2,), (48_000, 2, 0, 6), (2_000_000,) * 25])
def test_a_whole_file_is_made_of_its_pieces_as_they_came(sizes: tuple[int, ...]) -> None:
    """To join 50 MB held the event loop for 20 ms, and took 50 MB more."""
    pieces = [bytes([at]) * size for at, size in enumerate(sizes)]
    body = WavBody()
    for piece in pieces:
        assert body.feed(0, AudioEvent(piece, 24_000)) == b""
    made = body.end()
    assert isinstance(made, Iterator)
    header, *parts = made
    assert len(header) == 44
    assert all(part is piece for part, piece in zip(parts, pieces, strict=True))
    assert b"".join([header, *parts]) == wav(pieces, 24_000)
