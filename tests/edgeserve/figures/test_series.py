from __future__ import annotations

import threading
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.figures.series import MOST, REST, Counter, Histogram

BOUNDS = (0.1, 1.0, 10.0)


def test_a_counter_sums_by_labels() -> None:
    counter = Counter()
    counter.add(1, "llm", "a")
    counter.add(2.5, "llm", "b")
    counter.add(3, "llm", "a")
    assert dict(counter) == {("llm", "a"): 4, ("llm", "b"): 2.5}
    assert counter.total() == 6.5


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 5))))
def test_buckets_hold_what_is_at_most_their_bound(values: list[tuple[float, int]]) -> None:
    histogram = Histogram(BOUNDS)
    for value, times in values:
        histogram.observe(value, "llm", times=times)
    found = dict(histogram).get(("llm",))
    if not values:
        assert found is None
        return
    assert found is not None
    for bound, count in zip(BOUNDS, accumulate(found.counts), strict=False):
        assert count == sum(times for value, times in values if value <= bound)
    assert found.count == sum(times for _, times in values)
    assert found.sum == pytest.approx(sum(value * times for value, times in values))
    assert histogram.total() == found.sum


def test_a_snapshot_stays_as_it_is() -> None:
    histogram = Histogram(BOUNDS)
    histogram.observe(0.5)
    ((_, before),) = histogram
    histogram.observe(0.5)
    assert before.count == 1


def test_label_sets_are_bounded() -> None:
    counter, histogram = Counter(), Histogram(BOUNDS)
    for number in range(MOST + 50):
        counter.add(1, str(number), "x")
        histogram.observe(1, str(number))
    counter.add(1, "0", "x")  # known ones go on
    assert len(dict(counter)) == len(dict(histogram)) == MOST + 1
    assert dict(counter)[(REST, REST)] == 50
    assert dict(counter)[("0", "x")] == 2
    assert dict(histogram)[(REST,)].count == 50
    assert counter.total() == MOST + 51


def test_no_count_is_lost_among_threads() -> None:
    counter, histogram = Counter(), Histogram(BOUNDS)

    def count() -> None:
        for _ in range(2000):
            counter.add(1, "a")
            histogram.observe(0.5, "a")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert dict(counter)[("a",)] == dict(histogram)[("a",)].count == 8000
