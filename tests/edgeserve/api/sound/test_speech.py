"""Speech on its way: a whole WAV file without a copy of all its sound, and the end of an encoder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.cases import each

from edgeserve.api.sound.speech import SpeechStream, WavBody
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


class Ending:
    """An encoder that is closed or not."""

    def __init__(self) -> None:
        self.closed = False

    def add(self, pcm: bytes) -> bytes:
        if self.closed:
            raise RuntimeError("closed")
        return pcm

    def end(self) -> bytes:
        return b""

    def close(self) -> None:
        self.closed = True


def test_an_answer_that_ends_while_its_encoder_starts_leaves_none() -> None:
    """The client had gone: its encoder stayed, with its place among those of all clients."""
    made = Ending()

    def make(rate: int) -> Ending:
        stream.close()  # on another thread
        return made

    stream = SpeechStream("audio/mpeg", make)
    with pytest.raises(RuntimeError, match="closed"):
        stream.feed(0, AudioEvent(bytes(2), 24_000))
    assert made.closed
