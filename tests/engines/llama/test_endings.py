"""Tokens that may not end an answer."""

from __future__ import annotations

from edgeserve.engines.llama.endings import Endings


def test_endings_are_impossible_until_there_are_enough_tokens() -> None:
    endings, logits = Endings([1, 3], 2), [0.5, 1.5, 2.5, 3.5]
    for _ in range(2):
        assert endings.forbidden
        with endings.applied(logits):
            assert logits == [0.5, float("-inf"), 2.5, float("-inf")]
        assert logits == [0.5, 1.5, 2.5, 3.5]
        endings.accept()
    assert not endings.forbidden
    with endings.applied(logits):
        assert logits == [0.5, 1.5, 2.5, 3.5]


def test_endings_may_be_impossible_for_ever() -> None:
    endings = Endings([0], None)
    for _ in range(100):
        endings.accept()
    assert endings.forbidden
    assert not Endings((), None).forbidden
