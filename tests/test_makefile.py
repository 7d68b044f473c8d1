"""tools/install.sh, which ``make serve`` and ``make test`` begin with: its checks, its stamp, its failures.

A stub stands in for the Python of .venv and writes down how it was called; nothing is installed here.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "tools" / "install.sh"
TOOLS = ("sh", "cat", "cksum", "cut", "grep", "mv", "rm", "sleep", "tail", "uname")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the messages of macOS need a Mac without its tools"),
]


class Place:
    """A directory with a pyproject.toml, and a PATH that holds nothing but what a test puts there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.bin = root / "bin"
        self.calls = root / "calls"
        self.bin.mkdir()
        (root / "pyproject.toml").write_text("[project]\n")
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, f"{tool} is needed"
            (self.bin / tool).symlink_to(found)

    def stub(self, path: Path, body: str = "") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "$@" >>{self.calls}\n{body}\n')
        path.chmod(0o755)

    def commands(self, *names: str) -> None:
        for name in names:
            self.stub(self.bin / name)

    def venv(self, body: str = "") -> None:
        self.stub(self.root / ".venv/bin/python", body)

    def run(self, extra: str = "starter", **environ: str) -> subprocess.CompletedProcess[str]:
        self.calls.write_text("")
        return subprocess.run(
            ["/bin/sh", str(SCRIPT), extra],
            cwd=self.root,
            env={"PATH": str(self.bin), "HOME": str(self.root), **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )

    @property
    def stamp(self) -> Path:
        return self.root / ".venv" / "installed-starter"

    def installs(self) -> list[str]:
        return [line for line in self.calls.read_text().splitlines() if " pip install" in f" {line}"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def ready(place: Place) -> Place:
    """With compilers, and with a .venv that can install."""
    place.commands("cc", "c++", "apt-get")
    place.venv()
    return place


def test_no_python_names_the_command(place: Place) -> None:
    place.commands("apt-get")
    ended = place.run()
    assert ended.returncode == 1
    assert ended.stderr.startswith("[ERROR] edgeserve needs Python 3.11 or newer; no python3 was found.")
    assert "sudo apt-get install python3 python3-venv" in ended.stderr


def test_an_old_python_is_told_with_its_version(place: Place) -> None:
    place.stub(place.bin / "python3", 'case "$1" in --version) echo Python 3.9.2;; *) exit 1;; esac')
    place.commands("dnf")
    ended = place.run()
    assert "python3 is Python 3.9.2" in ended.stderr
    assert "sudo dnf install python3.12" in ended.stderr


def test_a_python_that_was_asked_for_is_not_replaced_by_another(place: Place) -> None:
    place.commands("python3")
    place.stub(place.bin / "python3.10", 'case "$1" in --version) echo Python 3.10.4;; *) exit 1;; esac')
    assert "PYTHON=python3.10 is Python 3.10.4" in place.run(PYTHON="python3.10").stderr
    assert "PYTHON=none: no such command" in place.run(PYTHON="none").stderr


def test_debians_python_without_venv(place: Place) -> None:
    place.stub(place.bin / "python3", 'case "$2" in *ensurepip*) exit 1;; *print*) echo 3.11;; esac')
    place.commands("apt-get", "cc", "c++")
    ended = place.run()
    assert ended.returncode == 1
    assert "sudo apt-get install python3.11-venv" in ended.stderr
    assert not (place.root / ".venv").exists()


@pytest.mark.parametrize(
    ("there", "missing"), [(("c++",), "no C compiler"), (("cc",), "no C++ compiler"), ((), "no C compiler")]
)
def test_a_missing_compiler_is_told_before_anything_is_made(place: Place, there: tuple[str, ...], missing: str) -> None:
    place.commands("python3", "apt-get", *there)
    ended = place.run()
    assert ended.returncode == 1
    assert missing in ended.stderr
    assert "sudo apt-get install build-essential" in ended.stderr
    assert not (place.root / ".venv").exists()


def test_a_link_that_was_unpacked_as_a_file_is_told(ready: Place) -> None:
    (ready.root / "edgeserve").mkdir()
    (ready.root / "engines").mkdir()
    link = ready.root / "edgeserve" / "engines"
    link.write_text("../engines")
    ended = ready.run()
    assert ended.returncode == 1
    assert ended.stderr.endswith("mend it with: ln -sf ../engines edgeserve/engines\n")
    assert not ready.stamp.exists()
    link.unlink()
    link.symlink_to("../engines")
    assert ready.run().returncode == 0


def test_the_second_run_calls_nothing(ready: Place) -> None:
    first = ready.run()
    assert first.returncode == 0, first.stderr
    assert ready.installs() == ["-m pip install --progress-bar off --editable .[starter]"]
    second = ready.run()
    assert (second.returncode, second.stderr, ready.calls.read_text()) == (0, "", "")


@pytest.mark.parametrize(("flags", "left_out"), [("fpu avx512f amx_tile amx_int8", True), ("fpu avx512f", False)])
def test_a_processor_with_amx_is_built_for_without_it(ready: Place, flags: str, left_out: bool) -> None:
    """GCC 12 builds tiles without sizes, and the first product of reordered weights ends the process."""
    told = ready.root / "environment"
    ready.venv(f'case "$*" in *"pip install"*) echo "$CMAKE_ARGS|$PIP_CACHE_DIR" >>{told};; esac')
    (ready.root / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    ready.run(CPUINFO=str(ready.root / "cpuinfo"), CMAKE_ARGS="-DGGML_CUDA=ON")
    arguments, cache = told.read_text().strip().split("|")
    assert arguments.endswith("-DGGML_CUDA=ON")
    assert ("-DCMAKE_CXX_FLAGS=-mno-amx-int8" in arguments) is left_out
    assert (cache == f"{ready.root}/.venv/cache") is left_out


def test_the_build_is_announced(ready: Place) -> None:
    ready.venv('case "$*" in *"pip show"*) exit 1;; esac')
    assert "about 4 minutes on 2 cores" in ready.run().stderr


@pytest.fixture
def builds(ready: Place) -> Place:
    """A place where llama.cpp has to be built; the build writes down how many compilers may run."""
    told = ready.root / "level"
    ready.venv(
        f'case "$*" in *"pip show"*) exit 1;; *"pip install"*) echo "$CMAKE_BUILD_PARALLEL_LEVEL" >{told};; esac'
    )
    (ready.root / "cpuinfo").write_text("processor : 0\nprocessor : 1\nprocessor : 2\nprocessor : 3\n")
    return ready


@pytest.mark.parametrize(
    ("available", "limit", "level"),
    [(16_000, "max", ""), (2_000, "max", "2"), (300, "max", "1"), (16_000, str(1 << 31), "2"), (16_000, "none", "")],
)
def test_fewer_compilers_run_where_memory_is_short(builds: Place, available: int, limit: str, level: str) -> None:
    (builds.root / "meminfo").write_text(f"MemTotal: 9999999 kB\nMemAvailable:  {available * 1024} kB\n")
    group = builds.root / "memory.max"
    if limit != "none":
        group.write_text(f"{limit}\n")
    files = {name.upper().replace(".", "_"): str(builds.root / name) for name in ("cpuinfo", "meminfo", "memory.max")}
    ended = builds.run(**files)
    assert ended.returncode == 0, ended.stderr
    assert (builds.root / "level").read_text() == f"{level}\n"
    assert ("compilers at a time, not 4" in ended.stderr) is bool(level)
    assert ("add swap" in ended.stderr) is (available < 800)


def test_the_users_own_number_of_compilers_stays(builds: Place) -> None:
    (builds.root / "meminfo").write_text("MemAvailable: 1000 kB\n")
    places = {"CPUINFO": str(builds.root / "cpuinfo"), "MEMINFO": str(builds.root / "meminfo")}
    ended = builds.run(CMAKE_BUILD_PARALLEL_LEVEL="3", **places)
    assert (builds.root / "level").read_text() == "3\n"
    assert "at a time" not in ended.stderr


def test_the_way_to_a_built_llama_cpp_is_told(builds: Place) -> None:
    told = builds.run().stderr
    assert (
        "PIP_EXTRA_INDEX_URL=https://abetlen.github.io/llama-cpp-python/whl/cpu PIP_ONLY_BINARY=llama-cpp-python"
        in told
    )


@pytest.mark.parametrize("named", ["llama-cpp-python", ":all:", "numpy,llama-cpp-python"])
def test_a_built_llama_cpp_needs_no_compiler(place: Place, named: str) -> None:
    place.venv('case "$*" in *"pip show"*) exit 1;; esac')
    ended = place.run(PIP_ONLY_BINARY=named)
    assert ended.returncode == 0, ended.stderr
    assert "llama-cpp-python is not compiled: pip takes a built one" in ended.stderr
    assert "built from source" not in ended.stderr


def test_a_built_package_of_another_name_is_no_llama_cpp(place: Place) -> None:
    place.venv()
    ended = place.run(PIP_ONLY_BINARY="numpy")
    assert ended.returncode == 1
    assert "no C compiler is installed" in ended.stderr


def test_changed_dependencies_are_installed(ready: Place) -> None:
    ready.run()
    (ready.root / "pyproject.toml").write_text("[project]\ndependencies = []\n")
    ready.run()
    assert len(ready.installs()) == 1


def test_what_tests_need_covers_what_serving_needs(ready: Place) -> None:
    ready.run("dev")
    ready.run("starter")
    assert ready.installs() == []
    ready.run("dev")
    assert ready.installs() == []


def test_rpc_is_built_only_for_those_who_ask_also_later(ready: Place) -> None:
    ready.stub(ready.root / "tools/rpc.sh")
    assert ready.run().returncode == 0
    assert ".venv" not in ready.calls.read_text().splitlines()
    assert ready.run(EDGESERVE_RPC="1").returncode == 0
    assert ready.calls.read_text() == ".venv\n"
    ready.stub(ready.root / "tools/rpc.sh", "exit 1")
    failed = ready.run(EDGESERVE_RPC="1")
    assert failed.returncode == 1
    assert "RPC backend cannot be built" in failed.stderr


def test_mlx_is_installed_for_the_tests_without_torch(ready: Place) -> None:
    ready.run("dev")
    _, libraries, whisper = ready.installs()
    assert libraries.endswith("--only-binary :all: --editable .[mlx]")
    project = tomllib.loads((SCRIPT.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"]["apple"][0].partition(";")[0]
    assert whisper.endswith(f"--no-deps {wanted}")


def test_a_machine_without_wheels_of_mlx_tests_the_rest(ready: Place) -> None:
    ready.venv('case "$*" in *"[mlx]"*) echo "ERROR: No matching distribution found for mlx"; exit 1;; esac')
    ended = ready.run("dev")
    assert ended.returncode == 0
    assert "its tests are skipped. pip said: ERROR: No matching distribution found for mlx" in ended.stderr
    assert len(ready.installs()) == 2
    assert ready.run("dev").stderr == ""


def test_a_failed_install_shows_its_end_and_leaves_no_stamp(ready: Place) -> None:
    ready.run()
    (ready.root / "pyproject.toml").write_text("[project]\nchanged = 1\n")
    ready.venv('case "$*" in *"pip install"*) echo "No space left on device"; exit 7;; esac')
    ended = ready.run()
    assert ended.returncode == 1
    assert "No space left on device" in ended.stderr
    assert "pip ended with code 7" in ended.stderr
    assert not ready.stamp.exists()


def test_an_install_that_is_ended_leaves_no_stamp(ready: Place) -> None:
    ready.venv('case "$*" in *"pip install"*) kill -TERM $PPID;; esac')
    ended = ready.run()
    assert ended.returncode == 143
    assert not ready.stamp.exists()


def test_ctrl_c_ends_the_install_with_all_that_it_started(ready: Place) -> None:
    going = ready.root / "going"
    os.mkfifo(going)
    ready.venv(f'case "$*" in *"pip install"*) echo >{going}; exec sleep 60;; esac')
    process = subprocess.Popen(
        ["/bin/sh", str(SCRIPT), "starter"],
        cwd=ready.root,
        env={"PATH": str(ready.bin)},
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    going.read_text()  # waits until pip runs
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=20)  # ends when the last of them has closed stderr
    assert process.returncode == 130
    assert not ready.stamp.exists()


def test_make_starts_nothing_by_itself() -> None:
    told = subprocess.run(["make"], cwd=SCRIPT.parent.parent, capture_output=True, text=True, check=True)
    assert "make serve" in told.stdout
