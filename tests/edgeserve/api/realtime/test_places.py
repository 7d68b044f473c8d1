from __future__ import annotations

import pytest

from edgeserve.api.realtime.places import Places
from edgeserve.clients import Client
from edgeserve.errors import Busy


def test_half_of_all_places_are_for_one_client() -> None:
    places = Places(3)
    with places.one(Client("", "10.0.0.1")):
        with pytest.raises(Busy, match="1 conversations of yours are open"), places.one(Client("", "10.0.0.1")):
            pass
        with places.one(Client("", "10.0.0.2")), places.one(Client("", "10.0.0.3")):
            full = places.one(Client("", "10.0.0.4"))
            with pytest.raises(Busy, match="3 conversations are open"):
                full.__enter__()
        assert len(places) == 1
    assert len(places) == 0
