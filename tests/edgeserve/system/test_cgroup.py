"""Control groups from recorded trees: both versions, all ancestors, the tightest wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.system.cgroup import read_cpu_quota, read_limit
from edgeserve.system.readings import GroupLimit

MB = 1 << 20
NO_LIMIT_V1 = "9223372036854771712\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2(
    folder: str, limit: str, current: int, *, high: str = "max", inactive: int = 0, active: int = 0
) -> dict[str, str]:
    return {
        f"cg/{folder}memory.max": f"{limit}\n",
        f"cg/{folder}memory.high": f"{high}\n",
        f"cg/{folder}memory.current": f"{current}\n",
        f"cg/{folder}memory.stat": f"anon 4096\nfile 8192\ninactive_file {inactive}\nactive_file {active}\nslab 77\n",
    }


def v1(folder: str, limit: str, usage: int, *, inactive: int = 0, active: int = 0) -> dict[str, str]:
    stat = f"cache 9\ninactive_file 1\nactive_file 1\ntotal_inactive_file {inactive}\ntotal_active_file {active}\n"
    return {
        f"cg/memory/{folder}memory.limit_in_bytes": limit,
        f"cg/memory/{folder}memory.usage_in_bytes": f"{usage}\n",
        f"cg/memory/{folder}memory.stat": stat,
    }


V2_LINE = "0::/system.slice/edgeserve.service\n"
V1_LINES = "11:cpuset:/\n4:memory:/docker/8eaee13e\n1:name=systemd:/docker/8eaee13e\n0::/docker/8eaee13e\n"


@pytest.mark.parametrize(
    ("title", "self_cgroup", "files", "expected"),
    [
        ("version 2 without a limit", V2_LINE, v2("system.slice/edgeserve.service/", "max", 5 * MB), None),
        (
            "version 2, its own limit; file pages are headroom",
            V2_LINE,
            v2("system.slice/edgeserve.service/", f"{100 * MB}", 80 * MB, inactive=20 * MB, active=10 * MB),
            GroupLimit(100 * MB, 50 * MB),
        ),
        (
            "version 2, memory.high is lower than memory.max",
            V2_LINE,
            v2("system.slice/edgeserve.service/", f"{100 * MB}", 30 * MB, high=f"{70 * MB}"),
            GroupLimit(70 * MB, 40 * MB),
        ),
        (
            "version 2, an ancestor is tighter",
            V2_LINE,
            v2("system.slice/edgeserve.service/", f"{100 * MB}", 10 * MB) | v2("system.slice/", f"{60 * MB}", 50 * MB),
            GroupLimit(60 * MB, 10 * MB),
        ),
        (
            "version 2, an ancestor with a larger limit has less headroom",
            V2_LINE,
            v2("system.slice/edgeserve.service/", f"{100 * MB}", 10 * MB)
            | v2("system.slice/", f"{200 * MB}", 195 * MB),
            GroupLimit(100 * MB, 5 * MB),
        ),
        (
            "version 2, over its limit",
            V2_LINE,
            v2("system.slice/edgeserve.service/", f"{10 * MB}", 12 * MB),
            GroupLimit(10 * MB, 0),
        ),
        (
            "version 2 in a container: the mount's root is our group",
            "0::/\n",
            v2("", f"{512 * MB}", MB),
            GroupLimit(512 * MB, 511 * MB),
        ),
        (
            "a path outside of our namespace",
            "0::/../other\n",
            v2("", f"{512 * MB}", MB),
            GroupLimit(512 * MB, 511 * MB),
        ),
        ("version 1 without a limit", V1_LINES, v1("docker/8eaee13e/", NO_LIMIT_V1, 5 * MB), None),
        (
            "version 1 counts children's file pages",
            V1_LINES,
            v1("docker/8eaee13e/", f"{100 * MB}\n", 90 * MB, inactive=30 * MB, active=20 * MB),
            GroupLimit(100 * MB, 60 * MB),
        ),
        (
            "version 1 in a container: the host's path is not in the mount",
            V1_LINES,
            v1("", f"{256 * MB}\n", 56 * MB),
            GroupLimit(256 * MB, 200 * MB),
        ),
        (
            "version 1, an ancestor is tighter",
            V1_LINES,
            v1("docker/8eaee13e/", NO_LIMIT_V1, 5 * MB) | v1("docker/", f"{64 * MB}\n", 4 * MB),
            GroupLimit(64 * MB, 60 * MB),
        ),
        ("no control groups at all", "", {}, None),
    ],
)
def test_recorded_trees(
    tmp_path: Path, title: str, self_cgroup: str, files: dict[str, str], expected: GroupLimit | None
) -> None:
    root = tree(tmp_path, files | {"proc/self/cgroup": self_cgroup})
    assert read_limit(root / "proc", root / "cg") == expected, title


def test_a_hybrid_mount_keeps_version_two_beside(tmp_path: Path) -> None:
    files = {f"{name.replace('cg/', 'cg/unified/')}": text for name, text in v2("a/", f"{9 * MB}", MB).items()}
    root = tree(tmp_path, files | v1("a/", f"{20 * MB}\n", MB) | {"proc/self/cgroup": "4:memory:/a\n0::/a\n"})
    assert read_limit(root / "proc", root / "cg") == GroupLimit(9 * MB, 8 * MB)


def test_a_system_without_proc_has_no_limit(tmp_path: Path) -> None:
    assert read_limit(tmp_path / "proc", tmp_path / "cg") is None


def test_page_cache_counts_as_used_without_statistics(tmp_path: Path) -> None:
    files = v2("", f"{100 * MB}", 90 * MB, inactive=50 * MB)
    del files["cg/memory.stat"]
    root = tree(tmp_path, files | {"proc/self/cgroup": "0::/\n"})
    assert read_limit(root / "proc", root / "cg") == GroupLimit(100 * MB, 10 * MB)


@pytest.mark.parametrize(
    ("title", "self_cgroup", "files", "cores"),
    [
        ("version 2 without a quota", "0::/a\n", {"cg/a/cpu.max": "max 100000\n"}, None),
        ("version 2", "0::/a\n", {"cg/a/cpu.max": "150000 100000\n"}, 1.5),
        ("an ancestor is tighter", "0::/a/b\n", {"cg/a/b/cpu.max": "max 100000", "cg/a/cpu.max": "50000 100000"}, 0.5),
        (
            "version 1",
            "3:cpu,cpuacct:/a\n",
            {"cg/cpu/a/cpu.cfs_quota_us": "200000\n", "cg/cpu/a/cpu.cfs_period_us": "100000\n"},
            2.0,
        ),
        (
            "version 1 without a quota",
            "3:cpu,cpuacct:/a\n",
            {"cg/cpu/a/cpu.cfs_quota_us": "-1\n", "cg/cpu/a/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        ("no control groups at all", "", {}, None),
    ],
)
def test_quotas_of_processor_time(
    tmp_path: Path, title: str, self_cgroup: str, files: dict[str, str], cores: float | None
) -> None:
    root = tree(tmp_path, files | {"proc/self/cgroup": self_cgroup})
    assert read_cpu_quota(root / "proc", root / "cg") == cores, title
