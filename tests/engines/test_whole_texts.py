"""Rules of models that read whole texts."""

from __future__ import annotations

import math
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from edgeserve.engines.whole_texts import TURN, Room, at_once, half_character, read_documents, read_inputs, unit
from edgeserve.errors import ContextOverflow
from edgeserve.messages import RerankRequest


@pytest.mark.parametrize(
    ("most", "beside", "most_document", "limit"),
    [(100, 20, None, 80), (100, 20, 5, 5), (100, 20, 90, 80), (3, 2, 1, 1)],
)
def test_the_room_of_a_document(most: int, beside: int, most_document: int | None, limit: int) -> None:
    assert Room(most, beside, most_document).limit == limit


@pytest.mark.parametrize("beside", [100, 101, 5000])
def test_a_query_without_room_is_refused(beside: int) -> None:
    with pytest.raises(ContextOverflow, match=f"the query is {beside} tokens long; the model reads 100 ") as caught:
        Room(100, beside, None)
    assert caught.value.param == "query"


def test_a_document_is_cut_to_a_quarter_at_least_unless_the_client_wants_less() -> None:
    Room(100, 75, None).check_cut()
    Room(100, 76, 23).check_cut()
    for wanted in (None, 24, 50):
        with pytest.raises(ContextOverflow, match="shorten the query"):
            Room(100, 76, wanted).check_cut()


def test_a_vector_of_length_one() -> None:
    assert struct.unpack("<2f", unit(np.array([3.0, 4.0]))) == pytest.approx((0.6, 0.8))
    assert math.hypot(*struct.unpack("<2f", unit(np.zeros(2)))) == 0


def test_half_a_character_is_named() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        "a\ud83d".encode()
    assert "\\ud83d alone" in half_character(caught.value).message


def test_nothing_is_read_once_nobody_wants_it() -> None:
    read: list[object] = []

    def pair(document: str) -> SimpleNamespace:
        read.append(document)
        return SimpleNamespace(tokens=[1], cut=False)

    def tokens(number: int) -> list[int]:
        read.append(number)
        return [1]

    def stop() -> bool:
        return len(read) == 2

    assert len(at_once(read_documents(RerankRequest("q", ("a", "b", "c")), pair, 9, stop))) == 2
    read.clear()
    assert at_once(read_inputs("abc", tokens, stop)) == [[1], [1]]


def test_a_reader_of_long_texts_gives_way() -> None:
    """Also where they make few tokens."""
    long = "x" * (TURN // 2)
    assert len(list(read_inputs([long] * 8, lambda number: [1]))) == 4
    assert len(list(read_inputs(["a"] * 8, lambda number: [1]))) == 0
    pair = SimpleNamespace(tokens=[1], cut=False)
    assert len(list(read_documents(RerankRequest("q", (long,) * 8), lambda document: pair, 9))) == 4
