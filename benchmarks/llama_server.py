"""llama.cpp's own server, built once from the source in llama-cpp-python's source distribution.

Both sides of a comparison then compute with the same version of the same code, compiled with the same options.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import ServerProcess, free_port, running

from edgeserve.system import cpu

OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "LLAMA_CURL": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF",
    "LLAMA_BUILD_APP": "OFF",
}
"""All other options are as in the wheel: shared libraries, GGML_NATIVE, OpenMP."""
WITHOUT_AMX = {"CMAKE_C_FLAGS": "-mno-amx-int8", "CMAKE_CXX_FLAGS": "-mno-amx-int8"}
"""GCC 12 drops most of the tile sizes that AMX is given, as tools/install.sh says, and llama-server then crashes."""


class CannotBuild(Exception):
    """Why, in words for whoever runs the benchmark."""


def version() -> str:
    return importlib.metadata.version("llama-cpp-python")


def binary() -> Path:
    """The server for the version of llama-cpp-python that is installed, built when it is missing: some minutes.

    Raises CannotBuild when a tool is missing or the build fails.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "edgeserve" / f"llama-server-{version()}"
    built = folder / "build" / "bin" / "llama-server"
    if not built.is_file():
        _build(folder)
    return built


def _build(folder: Path) -> None:
    cmake = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
    if cmake is None:
        raise CannotBuild("there is no cmake to build llama-server with: pip install 'edgeserve[bench]'")
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        raise CannotBuild("there is no C++ compiler to build llama-server with")
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source"
    if not source.is_dir():
        _fetch(source)
    print(f"building llama-server into {folder} (once; some minutes)", file=sys.stderr, flush=True)
    build, jobs = str(folder / "build"), str(os.cpu_count() or 1)
    options = OPTIONS | (WITHOUT_AMX if "amx_int8" in cpu.features() else {})
    _run([cmake, "-S", str(source), "-B", build, *(f"-D{name}={value}" for name, value in options.items())])
    _run(["nice", cmake, "--build", build, "--target", "llama-server", "--config", "Release", "-j", jobs])


def _fetch(source: Path) -> None:
    """llama.cpp alone, out of the source distribution."""
    print(f"fetching the source of llama-cpp-python {version()}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--dest", folder]
        _run([*pip, f"llama-cpp-python=={version()}"])
        (archive,) = Path(folder).glob("*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
        (vendored,) = Path(folder).glob("*/vendor/llama.cpp")
        vendored.rename(source)


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        raise CannotBuild(f"`{' '.join(command[:4])} …` ended with exit code {error.returncode}") from error


@contextlib.contextmanager
def serving(model: Path, threads: int, context: int) -> Iterator[ServerProcess]:
    """As it is by default (4 slots over one unified cache), but for threads and context in tokens."""
    port = free_port()
    settings = ["--threads", str(threads), "--ctx-size", str(context)]
    command = [str(binary()), "--model", str(model), "--host", "127.0.0.1", "--port", str(port), *settings]
    with running(command, port) as server:
        yield server
