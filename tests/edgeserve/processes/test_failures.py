"""Errors across the border between processes."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from support.cases import each

from edgeserve.errors import Busy, ContextOverflow, EngineFailure, InvalidRequest
from edgeserve.processes import failures


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("text", param="field"),
        Busy("text", retry_after=2.5),
        ContextOverflow("text", figures=(210_118, 200_000)),
    ],
)
def test_an_error_crosses(error: Any) -> None:
    found = failures.read_error(json.loads(json.dumps(failures.write_error(error, "model", "trace"))))
    assert (type(found), found.message, found.param, found.retry_after, found.figures) == (
        type(error),
        error.message,
        error.param,
        error.retry_after,
        error.figures,
    )
    assert found.__notes__ == ["trace"]


def test_a_foreign_error_is_a_failure_of_the_engine() -> None:
    found = failures.read_error(failures.write_error(KeyError("x"), "model"))
    assert isinstance(found, EngineFailure)
    assert found.message == "model failed on this request: 'x'"


def test_a_message_that_repeats_a_long_text_is_cut() -> None:
    long = "text " * failures.LONGEST_TEXT
    written = failures.write_error(InvalidRequest(long, param=long), "model", f"{long}the end")
    assert len(json.dumps(written)) < 3 * failures.LONGEST_TEXT + 100
    assert failures.read_error(written).__notes__[0].endswith("the end")


@each("retry_after", ["2", math.inf, math.nan, -1, 1e9])
def test_an_error_with_a_time_that_is_none_is_refused(retry_after: object) -> None:
    with pytest.raises(ValueError, match="no error of an edgeserve process"):
        failures.read_error(["Busy", "text", None, retry_after, [], ""])


@each("figures", [None, "12", [1.5], [True], [-1], [1 << 60], [1] * 5])
def test_an_error_with_figures_that_are_none_is_refused(figures: object) -> None:
    with pytest.raises(ValueError, match="no error of an edgeserve process"):
        failures.read_error(["ContextOverflow", "text", None, None, figures, ""])
