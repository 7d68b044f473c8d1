"""A clip holds the file's bytes, and gives its samples at every request."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest
from support.sounds import Form, encoded, melody

from edgeserve.audio.clip import Clip, check_audio
from edgeserve.errors import UnsupportedMedia

DATA = encoded(melody(25), Form("flac", "flac", 16_000))


def test_pieces_come_from_the_start_each_time_also_elsewhere() -> None:
    clip = check_audio(DATA, 7200, "file")
    assert clip == Clip(DATA, 7200, "file", pytest.approx(25))
    assert pickle.loads(pickle.dumps(clip)) == clip
    first = list(clip.pieces())
    assert [len(piece) // 4 for piece in first] == [160_000, 160_000, 80_000]
    assert list(pickle.loads(pickle.dumps(clip)).pieces()) == first


def test_a_reader_may_leave_early() -> None:
    pieces = Clip(DATA, 7200).pieces()
    assert len(next(pieces)) == 640_000
    pieces.close()  # type: ignore[attr-defined]


def test_nothing_is_empty() -> None:
    with pytest.raises(UnsupportedMedia, match="audio is empty"):
        check_audio(b"", 7200)


def test_nothing_heavy_is_imported_before_sound_comes() -> None:
    code = "import sys, edgeserve.audio.clip, edgeserve.audio.decode; print({'av', 'numpy'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "set()"
