"""A client that keeps its places leaves some for the others."""

from __future__ import annotations

import pytest

from edgeserve.audio.places import Places
from edgeserve.errors import Busy


def test_one_client_takes_half_of_the_places() -> None:
    places = Places(4, "answers are encoded")
    for _ in range(2):
        places.take("greedy", "wait")
    with pytest.raises(Busy, match="2 answers are encoded now, 2 of them for you, and the limits are 4 and 2; wait"):
        places.take("greedy", "wait")
    for client in ("one", "two"):
        places.take(client, "wait")
    with pytest.raises(Busy, match="4 answers are encoded now, 0 of them for you"):
        places.take("three", "wait")
    places.give_back("greedy")
    places.take("three", "wait")


def test_what_is_given_back_leaves_nothing() -> None:
    places = Places(1, "answers are encoded")
    for _ in range(3):
        places.take("one", "wait")
        places.give_back("one")
    assert not places._taken
