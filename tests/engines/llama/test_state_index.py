"""Shares of clients in a full cache: a client may have any number of salts, and has one share all the same."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as some
from support.cases import each
from support.examples import examples

from edgeserve.engines.llama.cache import SavedState, StateCache
from edgeserve.engines.llama.state_index import client_of, next_victim, scope_of, state_bytes

LIMIT = 1000
NUMBERS = itertools.count()
SIZES = some.lists(some.tuples(some.integers(0, 30), some.integers(1, LIMIT)), max_size=60)


def state(salt: str, size: int) -> SavedState:
    number = next(NUMBERS)
    return SavedState((number, number + 1), bytes(size), salt)


@examples(60)
@given(some.lists(some.integers(1, LIMIT // 2), min_size=1, max_size=6), SIZES, some.booleans())
def test_a_client_with_many_salts_evicts_nobody_elses_states(
    mine: list[int], floods: list[tuple[int, int]], apart: bool
) -> None:
    """A ``prompt_cache_key`` for each request made each a client of its own: the largest conversation went first."""
    cache: StateCache[SavedState] = StateCache(LIMIT)
    kept: list[SavedState] = []
    for number, size in enumerate(mine):
        if sum(map(state_bytes, kept)) + size <= LIMIT // 2:
            kept.append(state(f"mine/{number if apart else 0}", size))
            assert cache.add(kept[-1])
    for name, size in floods:
        cache.add(state(f"floods/{name}", size))
    assert all(cache.touch(one) for one in kept)


@each(
    ("salts", "more", "victim"),
    [
        (["a/1", "b/1"], {}, 0),
        (["b/1", "a/1", "a/2"], {}, 1),
        (["a/1", "b/1", "b/2", "b/3"], {"a/9": 10}, 1),
        (["a/1", "b/1", "a/2", "a/2"], {}, 2),
        (["a/1", "b/1"], {"a/9": 50}, None),
        (["", "/1", "a/1"], {}, 0),
        (["mine", "floods", "floods"], {}, 1),
        ([], {"a": 1}, None),
    ],
)
def test_the_client_with_the_most_gives_of_its_salt_with_the_most(
    salts: list[str], more: dict[str, int], victim: int | None
) -> None:
    ones = [state(one, 10) for one in salts]
    assert next_victim(ones, state_bytes, more) is (None if victim is None else ones[victim])


@each(
    ("salt", "client", "scope"),
    [
        ("", "", ""),
        ("a/", "a", ""),
        ("/random", "", "random"),
        ("mine", "mine", "mine"),
        ("a/a/b", "a", "a/b"),
        ("a/a/b/random", "a", "a/b/random"),
        ("a//random", "a", "/random"),
    ],
)
def test_the_client_and_the_scope_of_a_salt(salt: str, client: str, scope: str) -> None:
    assert (client_of(salt), scope_of(salt)) == (client, scope)
