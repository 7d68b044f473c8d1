from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from edgeserve.engines.llama.cache import COPY_PAUSE, LONGEST_PAUSE, WORTH_SAVING, PrefixCache, SavedState
from edgeserve.engines.llama.state_index import shared


def state(tokens: tuple[int, ...], size: int = 10) -> SavedState:
    return SavedState(tokens, bytes(size))


def test_shared() -> None:
    assert shared([1, 2, 3], (1, 2, 4, 5)) == 2
    assert shared([], [1]) == 0
    assert shared([1, 2], [1, 2, 3]) == 2


def test_the_longest_prefix_is_found() -> None:
    cache = PrefixCache(100)
    cache.put(state((1, 2, 3)))
    cache.put(state((1, 2, 9, 9)))
    found, length = cache.best([1, 2, 9, 4])
    assert found is not None
    assert (found.tokens, length) == ((1, 2, 9, 9), 3)
    assert cache.best([7]) == (None, 0)


def test_a_state_that_cannot_be_cut_serves_only_prompts_that_begin_with_all_of_it() -> None:
    cache = PrefixCache(100, whole=True)
    cache.put(state((1, 2, 3)))
    assert cache.best([1, 2, 4]) == (None, 0)
    assert cache.best([1, 2, 3, 4])[1] == 3


def test_a_longer_state_covers_its_prefix_unless_it_cannot_be_cut() -> None:
    for whole, kept in ((False, 1), (True, 2)):
        cache = PrefixCache(100, whole=whole)
        cache.put(state((1, 2)))
        cache.put(state((1, 2, 3)))
        assert len(cache) == kept
        assert cache.size == 10 * kept


def test_the_least_recently_used_state_is_evicted_first() -> None:
    cache = PrefixCache(20)
    first, second = state((1,)), state((2,))
    cache.put(first)
    cache.put(second)
    cache.touch(first)
    cache.put(state((3,)))
    assert cache.best([2])[0] is None
    assert cache.best([1])[0] is first


def test_a_state_larger_than_the_limit_is_not_kept() -> None:
    cache = PrefixCache(9)
    assert not cache.put(state((1,)))
    assert (len(cache), cache.size) == (0, 0)


@given(
    some.lists(some.tuples(some.lists(some.integers(0, 2), min_size=1, max_size=6), some.integers(1, 40)), max_size=30),
    some.booleans(),
)
def test_the_cache_never_holds_more_than_its_limit_and_its_size_is_the_sum(
    puts: list[tuple[list[int], int]], whole: bool
) -> None:
    cache = PrefixCache(60, whole=whole)
    for tokens, size in puts:
        kept = cache.put(state(tuple(tokens), size))
        assert kept == (size <= 60)
        assert cache.size == sum(one.size for one in cache._states) <= 60
        if kept:
            assert cache.best(tokens)[1] == len(tokens)
    cache.shrink(0)
    assert (len(cache), cache.size) == (0, 0)


@given(
    some.lists(some.tuples(some.integers(0, 5), some.integers(1, 40), some.integers(0, 90)), min_size=1, max_size=30)
)
def test_the_cache_takes_no_more_memory_than_there_is_room(puts: list[tuple[int, int, int]]) -> None:
    """Kept conversations took the budget beyond CRITICAL, and the answers of another model ended for them."""
    cache = PrefixCache(60)
    for token, size, room in puts:
        cache.room = room
        before = cache.held
        kept = cache.put(state((token, size), size))
        assert kept == (size <= min(60, room))
        assert cache.held <= max(before, room)
        cache.fit()
        assert cache.held <= room
    with cache.settled():
        assert cache.most == 60, "the context goes, and its memory comes back"


def long(number: int) -> tuple[int, ...]:
    return (number,) * WORTH_SAVING


def test_a_state_replaces_the_states_that_it_covers() -> None:
    cache = PrefixCache(30)
    cache.put(state((1, 2), 20))
    assert cache.fits((1, 2, 3), 30)
    assert not cache.fits((1, 3), 11)
    cache.discard((1,))
    assert cache.size == 20
    cache.discard((1, 2))
    assert cache.size == 0


def test_a_copy_evicts_other_states_until_one_of_them_is_asked_for() -> None:
    cache = PrefixCache(20)
    cache.put(state(long(1)))
    cache.put(state(long(2)))
    assert cache.admits_copy(long(3), 10)
    assert not cache.admits_copy(long(4), 21)
    cache.put(state(long(3)))
    cache.note_prompt(long(2), WORTH_SAVING)
    assert cache.admits_copy(long(4), 10)
    cache.note_prompt(long(1), 0)  # which went for the third
    assert not cache.admits_copy(long(4), 10)
    for _ in range(COPY_PAUSE):
        assert not cache.admits_copy(long(4), 10)
        cache.note_prompt(long(9), 0)
    assert cache.admits_copy(long(4), 10)


def test_prompts_of_one_client_do_not_end_the_copies_of_all_for_ever() -> None:
    cache = PrefixCache(20)
    cache.put(state(long(1)))
    cache.put(state(long(2)))
    for _ in range(20):
        cache.copy_pause = 0
        assert cache.admits_copy(long(3), 10), "evicts the first"
        cache.note_prompt(long(1), 0)
    assert cache.copy_pause == LONGEST_PAUSE


def test_no_copies_are_made_for_a_while_after_the_governor_took_them_back() -> None:
    cache = PrefixCache(20)
    assert cache.admits_copy(long(2), 10)
    cache.stop_copies()
    for _ in range(COPY_PAUSE):
        assert not cache.admits_copy(long(2), 10)
        cache.note_prompt(long(9), 0)
    assert cache.admits_copy(long(2), 10)


def test_with_states_on_disk_copies_take_only_free_room() -> None:
    cache = PrefixCache(20, disk=Written())
    cache.put(state(long(1), 15))
    assert cache.admits_copy(long(2), 5)
    assert not cache.admits_copy(long(2), 6)


def test_a_disk_that_is_spared_anyway_changes_nothing_about_copies() -> None:
    cache = PrefixCache(20, disk=Written(limits_writes=True))
    cache.put(state(long(1), 15))
    assert cache.admits_copy(long(2), 6)


class Written:
    """A disk that takes all."""

    limit = 100

    def __init__(self, *, limits_writes: bool = False) -> None:
        self.limits_writes = limits_writes

    def longest(self, tokens: object) -> tuple[None, int]:
        return None, 0

    def read(self, state: object) -> None:
        return None

    def write(self, state: SavedState) -> bool:
        return True
