"""Bytes in data URLs."""

from __future__ import annotations

import pytest

from edgeserve.api.data_url import decoded
from edgeserve.errors import InvalidRequest


@pytest.mark.parametrize("address", ["data:audio/wav;base64,aGVsbG8=", "aGVsbG8="])
def test_with_and_without_a_head(address: str) -> None:
    assert decoded(address, "file") == b"hello"


@pytest.mark.parametrize("address", ["data:audio/wav,aGVsbG8=", "https://a.example/?a,b", "aGVsbG8", "äöü"])
def test_anything_else_names_the_field(address: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^file: ") as caught:
        decoded(address, "file")
    assert caught.value.param == "file"
