"""The fake that tells speakers apart."""

from __future__ import annotations

import struct

import pytest
from support.diarizer import DiarizerContract
from support.gates import fake_spec

from edgeserve.engine import ModelSpec
from edgeserve.engines.fake.speakers import FakeDiarizer


class TestFakeDiarizer(DiarizerContract):
    make = FakeDiarizer
    first, second = (struct.pack("<f", voice) * 16_000 for voice in (0.25, 0.5))

    @pytest.fixture
    def spec(self) -> ModelSpec:
        return fake_spec("speaker")
