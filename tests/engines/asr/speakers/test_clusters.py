"""Clusters of voices: which belong together, whatever their number and order."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgeserve.engines.asr.speakers import clusters
from edgeserve.engines.asr.speakers.clusters import BLOCK, centres, in_order, unit
from edgeserve.engines.whole_texts import at_once

WIDTH = 16


def cluster(heard: Any, threshold: float, most: int = clusters.MOST) -> Any:
    return at_once(clusters.cluster(heard, threshold, most))


def voices(speakers: Any, noise: float = 0.1, seed: int = 0) -> Any:
    """A voice near its speaker's own axis for each number; axes are at right angles."""
    random = numpy.random.default_rng(seed)
    made = numpy.eye(WIDTH)[numpy.asarray(speakers, int)] + noise * random.normal(size=(len(speakers), WIDTH))
    return unit(made.astype(numpy.float32))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_speakers_that_are_far_apart_are_found_in_the_order_of_appearance(speakers: list[int], seed: int) -> None:
    found = cluster(voices(speakers, seed=seed), 0.5)
    assert found.tolist() == in_order(numpy.asarray(speakers)).tolist()


@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_voices_changes_only_the_numbers(speakers: list[int], random: Any) -> None:
    heard = voices(speakers, noise=0.15)
    order = list(range(len(speakers)))
    random.shuffle(order)
    straight, shuffled = cluster(heard, 0.5), cluster(heard[order], 0.5)
    assert in_order(straight[order]).tolist() == shuffled.tolist()


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_no_more_clusters_than_asked_for(count: int, most: int, seed: int) -> None:
    heard = unit(numpy.random.default_rng(seed).normal(size=(count, WIDTH)).astype(numpy.float32))
    found = cluster(heard, 2.0, most)  # nothing is so alike
    assert len(set(found.tolist())) == min(count, most)
    assert found[0] == 0
    assert sorted(set(found.tolist())) == list(range(found.max() + 1))


def test_the_mean_cosine_decides_and_not_the_nearest_pair() -> None:
    """A chain of neighbours, 30° apart each: single linkage would join all four."""
    angles = numpy.radians([0, 30, 60, 90])
    chain = numpy.stack([numpy.cos(angles), numpy.sin(angles)], axis=1).astype(numpy.float32)
    assert cluster(chain, 0.8).tolist() == [0, 0, 1, 1]
    between = (numpy.cos(numpy.radians([60, 90, 30, 60]))).mean()
    assert cluster(chain, between - 0.01).tolist() == [0, 0, 0, 0]
    assert cluster(chain, between + 0.01).tolist() == [0, 0, 1, 1]


@pytest.mark.slow
def test_more_voices_than_a_block_find_the_same_speakers() -> None:
    speakers = numpy.random.default_rng(3).integers(0, 5, 3 * BLOCK + 7)
    assert cluster(voices(speakers), 0.5).tolist() == in_order(speakers).tolist()


def test_blocks_of_strangers_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "BLOCK", 8)
    monkeypatch.setattr(clusters, "MOST", 4)
    strangers = unit(numpy.random.default_rng(1).normal(size=(45, WIDTH)).astype(numpy.float32))
    assert len(set(cluster(strangers, 2.0, 3).tolist())) == 3


def test_others_have_their_turn_behind_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "BLOCK", 8)
    assert len(list(clusters.cluster(voices([0] * 45), 0.5))) == 6


@pytest.mark.slow
def test_memory_grows_with_the_voices_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    join = clusters._join

    def watched(sums: Any, *rest: Any) -> Any:
        compared.append(len(sums))
        return join(sums, *rest)

    monkeypatch.setattr(clusters, "_join", watched)
    cluster(voices(numpy.zeros(4 * BLOCK + 1, int)), 0.5)
    assert compared == [BLOCK] * 4 + [1, 5]


def test_the_centre_of_a_cluster_is_its_mean_direction() -> None:
    heard = numpy.asarray([[1, 0], [0, 1], [0, 1]], numpy.float32)
    found = centres(heard, numpy.asarray([0, 0, 1]))
    assert found == pytest.approx(numpy.asarray([[0.5**0.5, 0.5**0.5], [0, 1]]))


def test_a_voice_of_length_zero_is_no_error() -> None:
    assert cluster(numpy.zeros((3, 4), numpy.float32), 0.5).tolist() == [0, 1, 2]
    assert unit(numpy.zeros(4)).tolist() == [0, 0, 0, 0]
