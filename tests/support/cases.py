"""Many cheap cases as one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """``pytest.mark.parametrize`` as one test. It runs all cases; its failure names each case that failed.

    For cases of milliseconds that share no state: a test of its own costs 2 ms beside its work. The test may have
    fixtures; all cases get the same.
    """
    arguments = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    values = [(one,) if len(arguments) == 1 else tuple(one) for one in cases]
    assert all(len(one) == len(arguments) for one in values), f"each case has {len(arguments)} values"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(*given: Any, **named: Any) -> None:
            failures: list[Exception] = []
            for one in values:
                try:
                    test(*given, **named, **dict(zip(arguments, one, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    failures.append(_failure(error, one))
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(values)} cases failed", failures)

        whole = inspect.signature(test)
        rest = [one for name, one in whole.parameters.items() if name not in arguments]
        run.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined]
        return run

    assert values, "a test without cases cannot fail"
    return decorate


def _failure(error: BaseException, case: tuple[Any, ...]) -> Exception:
    """The error with its case; a failure of pytest is no Exception, and no group would take it."""
    found = error if isinstance(error, Exception) else AssertionError(str(error))
    found.add_note(f"case: {', '.join(map(repr, case))[:500]}")
    return found.with_traceback(error.__traceback__)
