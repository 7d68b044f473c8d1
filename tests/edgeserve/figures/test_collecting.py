from __future__ import annotations

import builtins
import logging
from typing import Any

import pytest

from edgeserve.figures.collecting import collecting
from edgeserve.figures.spans import NoTraces

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize("environ", [{}, {ENDPOINT: ""}, {ENDPOINT: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}])
def test_without_a_collector_there_are_no_spans(environ: dict[str, str]) -> None:
    traces = collecting(environ)
    assert isinstance(traces, NoTraces)
    assert traces.begin("GET", None) is None
    traces.close()


@pytest.mark.parametrize("name", [ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
def test_a_collector_without_the_extra_is_told_of(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    load = builtins.__import__

    def without(module: str, *values: Any, **named: Any) -> Any:
        if module.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return load(module, *values, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(__import__("sys").modules, "edgeserve.figures.otel", raising=False)
    with caplog.at_level(logging.WARNING):
        assert isinstance(collecting({name: "http://user:secret@box:4318"}), NoTraces)
    assert "pip install 'edgeserve[otel]'" in caplog.text
    assert "secret" not in caplog.text
