"""The table of conversions, which imports none of them before it converts."""

from __future__ import annotations

from edgeserve.models.convert import ge2e, whisper, whisper_mlx
from edgeserve.models.convert.conversions import CONVERSIONS
from edgeserve.named import find


def test_every_conversion_is_found() -> None:
    found = {name: find(one.function) for name, one in CONVERSIONS.items()}
    assert found == {"whisper": whisper.convert, "ge2e": ge2e.convert, "whisper_mlx": whisper_mlx.convert}
