"""The engine of one command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from support.gates import CountingGovernor, make_gate

from edgeserve.commands import Call
from edgeserve.commands.session import open_session
from edgeserve.config import Config
from edgeserve.jobs import Job
from edgeserve.residency.pool import Pool


@pytest.mark.parametrize(
    ("job", "line", "expected"),
    [
        ("llm", "", {"prefix_cache_disk_mb": 0}),
        ("llm", "prefix_cache_disk_mb = 5", {"prefix_cache_disk_mb": 5}),
        ("llm", 'prefix_cache_disk_mb = "auto"', {"prefix_cache_disk_mb": "auto"}),
        ("tts", "", {}),
    ],
)
def test_a_command_keeps_conversations_on_disk_only_where_the_settings_say_so(
    job: Job, line: str, expected: dict[str, object], tmp_path: Path
) -> None:
    path = tmp_path / "models.toml"
    path.write_text(f'[{job}]\nmodel = "x"\n{line}\n')
    asked: list[Config] = []

    def build(config: Config) -> Pool:
        asked.append(config)
        governor: Any = CountingGovernor()
        return Pool([make_gate(job, governor).host], governor)

    with open_session(Call(argparse.Namespace(config=str(path), log_level=None), {}, build), job):
        assert asked[0].models[job].options == expected
