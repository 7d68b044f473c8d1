"""Pools of threads: by a made-up library, and by the real one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from edgeserve.engines.llama import threadpool
from edgeserve.engines.llama.threadpool import POLL, NoPool, Parameters, Pool


class Function:
    """A function of a library: what it was called with, and its result."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]], result: Any = None) -> None:
        self.name, self.calls, self.result = name, calls, result
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> Any:
        self.calls.append((self.name, *arguments))
        return self.result(*arguments) if self.result else None


class Library:
    """ggml without OpenMP, and llama.cpp's functions of pools. ``poll``: llama.cpp's default."""

    def __init__(self, poll: int = POLL) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.made: list[tuple[int, int, bool]] = []
        self.alive: set[int] = set()
        self._numbers = itertools.count(1)
        self._poll = poll
        self.ggml_threadpool_params_init = Function("init", [], self._init)
        self.ggml_threadpool_new = Function("new", [], self._new)
        self.ggml_threadpool_free = Function("free", self.calls, self.alive.remove)
        self.ggml_threadpool_pause = Function("pause", self.calls)
        self.llama_attach_threadpool = Function("attach", self.calls)
        self.llama_detach_threadpool = Function("detach", self.calls)

    def _init(self, pointer: Any, count: int) -> None:
        pointer._obj.n_threads, pointer._obj.poll = count, self._poll

    def _new(self, pointer: Any) -> int:
        given: Parameters = pointer._obj
        self.made.append((given.n_threads, given.poll, given.paused))
        number = next(self._numbers)
        self.alive.add(number)
        return number


def test_one_pool_serves_tokens_and_prompts_of_as_many_threads() -> None:
    library = Library()
    pool = Pool(library, library, "context")
    pool.resize(2, 2)
    assert library.made == [(2, POLL, True)]
    assert library.calls == [("attach", "context", 1, 1)]


def test_threads_of_prompts_sleep_where_tokens_have_others() -> None:
    library = Library()
    pool = Pool(library, library, "context")
    pool.resize(2, 4)
    assert library.made == [(2, POLL, True), (4, 0, True)] or library.made == [(4, 0, True), (2, POLL, True)]
    (_, _, single, batch) = library.calls[0]
    assert library.made[single - 1][0] == 2
    assert library.made[batch - 1][0] == 4


def test_threads_that_are_too_many_end_after_the_others_are_attached() -> None:
    library = Library()
    pool = Pool(library, library, "context")
    pool.resize(2, 2)
    pool.resize(1, 1)
    assert library.calls[1:] == [("attach", "context", 2, 2), ("free", 1)]
    pool.resize(1, 1)
    assert len(library.made) == 2, "the same threads again"


def test_all_threads_end_before_the_context() -> None:
    library = Library()
    pool = Pool(library, library, "context")
    pool.resize(2, 4)
    pool.pause()
    assert [call[0] for call in library.calls[-2:]] == ["pause", "pause"]
    pool.free()
    assert library.calls[-3] == ("detach", "context")
    assert not library.alive
    pool.pause()
    assert library.calls[-1][0] == "free", "nothing is left to pause"


def test_a_build_without_openmp_has_pools() -> None:
    library = Library()
    assert threadpool.declared(library, library, "CPU : SSE3 = 1 | LLAMAFILE = 1 |") is library


@pytest.mark.parametrize("missing", ["ggml_threadpool_new", "ggml_threadpool_pause"])
def test_an_older_library_has_none(missing: str) -> None:
    library = Library()
    delattr(library, missing)
    assert threadpool.declared(library, library, "") is None


def test_a_library_with_openmp_has_threads_of_its_own() -> None:
    assert threadpool.declared(None, None, "CPU : SSE3 = 1 | OPENMP = 1 | REPACK = 1 |") is None


def test_parameters_of_another_layout_are_not_used() -> None:
    library = Library(poll=7)
    assert threadpool.declared(library, library, "") is None


def test_no_pool_does_nothing() -> None:
    pool = NoPool()
    pool.resize(1, 2)
    pool.pause()
    pool.free()


def test_the_library_of_this_machine_says_how_it_was_built() -> None:
    library = threadpool._library()
    linked = threadpool.llama().llama_print_system_info().decode()
    assert (library is None) == ("OPENMP = 1" in linked)
