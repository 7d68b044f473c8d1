"""Control groups: both versions on recorded files, and a real one where this machine permits it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.control_group import MB, V1, V2, Files, Group, NotPermittedHere, group
from benchmarks.process import serving

RECORDED = {
    V1: {
        "memory.stat": "cache 5\nrss 6\ntotal_cache 10\ntotal_rss 20\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        "memory.usage_in_bytes": "30\n",
        "memory.limit_in_bytes": "0\n",
        "memory.memsw.limit_in_bytes": "0\n",
    },
    V2: {
        "memory.stat": "anon 20\nfile 10\n",
        "memory.events": "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n",
        "memory.current": "30\n",
        "memory.max": "max\n",
        "memory.swap.max": "max\n",
    },
}


@pytest.mark.parametrize(("files", "swap"), [(V1, "1000"), (V2, "0")], ids=["v1", "v2"])
def test_both_versions_are_read_and_set(tmp_path: Path, files: Files, swap: str) -> None:
    for name, text in RECORDED[files].items():
        (tmp_path / name).write_text(text)
    recorded = Group(tmp_path, files)
    assert (recorded.usage(), recorded.parts(), recorded.kills()) == (30, (20, 10), 2)
    recorded.limit(1000)
    assert (tmp_path / files.limit).read_text() == "1000"
    assert (tmp_path / files.swap).read_text() == swap, "version 1 counts memory and swap together"


def test_a_machine_that_hands_no_memory_controller_on_says_so(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/mine\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "cgroup.subtree_control").write_text("cpu pids\n")
    with (
        pytest.raises(NotPermittedHere, match="mine does not hand the memory"),
        group("x", tmp_path, tmp_path),
    ):
        pass


def test_a_machine_without_control_groups_says_so(tmp_path: Path) -> None:
    with (
        pytest.raises(NotPermittedHere, match="there is no memory control group"),
        group("x", tmp_path, tmp_path),
    ):
        pass


@pytest.fixture
def real() -> Iterator[Group]:
    try:
        with group("edgeserve-test") as made:
            yield made
    except NotPermittedHere as error:
        pytest.skip(f"this machine permits no memory control group of our own: {error}")
    assert not made.folder.exists()


def test_a_process_inside_is_killed_at_the_limit_and_counted(real: Group) -> None:
    real.limit(64 * MB)
    greedy = [sys.executable, "-c", f"bytearray({128 * MB})"]
    assert subprocess.run([*real.launcher, *greedy]).returncode == -9
    assert real.kills() == 1
    assert real.usage() <= 64 * MB


def test_what_is_left_inside_ends_with_the_group(real: Group) -> None:
    sleeper = subprocess.Popen([*real.launcher, "sleep", "600"])
    while str(sleeper.pid) not in (real.folder / "cgroup.procs").read_text().split():
        assert sleeper.poll() is None
    real.remove()
    assert sleeper.wait(10) == -9
    real.folder.mkdir()


@pytest.mark.slow
def test_the_server_finds_the_limit_by_itself(real: Group, tmp_path: Path) -> None:
    real.limit(400 * MB)
    config = tmp_path / "models.toml"
    config.write_text("[server]\n")
    with serving(config, launcher=real.launcher) as server:
        server.wait_healthy()
        stats = server.get("/memory/stats")
        assert isinstance(stats, dict)
        assert stats["budget_total_mb"] == 400
        assert stats["budget_usable_mb"] <= 360
